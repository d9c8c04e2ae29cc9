// @ts-check
// The views of a live explorer beside its timeline: from the run where the page holds it, else from the kernel.

/**
 * The kernel of a live view that asks it for what the page does not hold.
 * @param {any} model @param {(content: any) => void} hear called with what it says of its own accord, or of what failed
 */
function kernelOf(model, hear) {
    const page = Math.random().toString(36).slice(2);
    /** @type {Map<number, (told: {content: any, buffers: any[]}) => void>} */
    const waiting = new Map();
    let last = 0;
    model.on("msg:custom", (/** @type {any} */ content, /** @type {any[]} */ buffers) => {
        if ("page" in content && content.page !== page) return;
        if (content.kind === "said" || !("page" in content)) hear(content);
        else waiting.get(content.id)?.({ content, buffers });
        waiting.delete(content.id);
    });
    const tell = (/** @type {any} */ message) => model.send({ ...message, page });
    return {
        tell,
        ask: (/** @type {any} */ message) => new Promise((/** @type {(told: {content: any, buffers: any[]}) => void} */ done) => {
            waiting.set((last += 1), done);
            tell({ ...message, id: last });
        }),
    };
}

/**
 * The places of a live view, which takes over what changes while it is seen, else when it is seen again.
 * @param {() => Promise<any>} follow @param {(el: HTMLElement) => () => void} open shows it, once it has taken over what is told
 */
function placesOf(follow, open) {
    /** @type {Set<HTMLElement>} */
    const all = new Set();
    /** @type {Promise<any> | null} */
    let first = null;
    let isStale = false;
    function changed() {
        isStale = ![...all].some((one) => one.clientWidth);
        if (!isStale) follow();
    }
    return {
        changed,
        /** @param {string} text */
        fail(text) { for (const place of all) place.append(make("div", { class: "failed", role: "alert", text })); },
        /** @param {HTMLElement} el */
        show(el) {
            let close = () => {};
            const sizes = new ResizeObserver(() => { if (isStale) changed(); });
            all.add(el);
            (first ??= follow()).then(() => {
                if (all.has(el)) close = open(el);
                sizes.observe(el);
            });
            return () => {
                all.delete(el);
                sizes.disconnect();
                close();
            };
        },
    };
}

/**
 * The flame graph of a live explorer, from the run where the page holds it, else from the kernel.
 * @param {any} model
 * @returns {(el: HTMLElement) => () => void} what shows it
 */
function liveFlame(model) {
    const setup = model.get("setup");
    /** @type {Record<string, Promise<any>>} */
    const trees = {};
    let isSelected = setup.selected;
    /** The timeline's, which holds the run of the explorer that both are in, or not yet. @returns {any} */
    const store = () => storeOf(setup.explorer);
    const { ask, tell } = kernelOf(model, (content) => {
        if (content.kind === "said") places.fail(content.text);
        else if (content.kind === "selected") { isSelected = content.selected; places.changed(); }
    });
    const flame = flameState({
        setup,
        here: async () => {},
        async open(byModule) {
            const run = byModule ? null : store()?.run;
            if (run) { await related(run); return run; }
            return (trees[String(byModule)] ??= ask({ kind: "tree", byModule }).then(({ buffers }) => openTree(typed(buffers[0], "u1"), setup)));
        },
        async part(run, asked) {
            const all = store(), of = [asked.step === null ? "" : `step ${asked.step}`, asked.thread === null ? "" : `thread ${asked.thread}`].filter(Boolean).join(", ");
            if (!of && all?.run === run && !run.header.merged) return all.part();
            if (!of && !isSelected) return WHOLE;
            const { content, buffers } = await ask({ kind: "sums", ...asked });
            const [host, device, count] = buffers.map((one) => typed(one, "f8"));
            return { range: content.range, lit: null, isChosen: content.isChosen, of, own: { host, device, count } };
        },
        select(paths, name, { byModule }) { tell({ kind: "choose", paths, name, byModule }); },
    }, model.get("kept"));
    flame.state.listeners.add(() => { model.set("kept", flame.state.made()); model.save_changes(); });
    const places = placesOf(flame.state.follow, (el) => flameTab(flame, el));
    listenToStores((explorer) => {
        if (explorer !== setup.explorer) return;
        const run = flame.state.tree?.run;
        if (run?.count && run !== store()?.run) {  // its slices were let go of: they shall not be held here
            const { header, texts, looks, paths } = run;
            trees.false = Promise.resolve({ header, setup, texts, looks, paths });
            flame.state.follow();
        } else places.changed();
    });
    return places.show;
}

/**
 * A table of a live explorer, from the run where the page holds it, else from the kernel.
 * @param {any} model
 * @returns {(el: HTMLElement) => () => void} what shows it
 */
function liveTable(model) {
    const setup = model.get("setup"), table = /** @type {Described} */ (setup.table);
    /** @type {ReturnType<typeof heldRows> | null} */
    let held = null;
    /** @type {Uint8Array | null | undefined} what is selected, once it was looked up */
    let lit;
    const { ask, tell } = kernelOf(model, (content) => {
        if (content.kind === "said") places.fail(content.text);
        else if (content.kind === "selected") changed();
    });
    /** What the page holds of the table, if it tells a view. @param {TableView} view */
    function heldFor(view) {
        const run = storeOf(setup.explorer)?.run, own = run?.tables.find((/** @type {Table} */ one) => one.name === table.table);
        if (held?.run !== run) held = own && !run.header.merged && (!setup.part || setup.rows) ? heldRows(run, own, table) : null;
        return held?.holds(view) ? held : null;
    }
    function litNow() {
        if (lit !== undefined) return lit;
        const store = storeOf(setup.explorer), { run } = store;
        if (!setup.rows) return (lit = store.part().lit);
        lit = new Uint8Array(run.count);
        const { first } = run.tables.find((/** @type {Table} */ one) => one.name === table.table);
        for (const row of setup.rows) lit[positionOf(run, first + row)] = 1;
        return lit;
    }
    /** What tells the kernel which rows are meant: their numbers, or their places where it told them. @param {TableView} view @param {number[]} places */
    async function meant(view, places) {
        const here = heldFor(view), isHere = here && !Object.keys((await here.answer(view, litNow())).errors).length;
        return isHere ? { numbers: await here.members(view, litNow(), places) } : { ...view, places };
    }
    const rows = rowsModel(table, {
        async rows(view, first, count) {
            const here = heldFor(view);
            if (here) {
                const found = await here.page(view, litNow(), first, count);
                if (!Object.keys(found.errors).length) return found;
            }
            return (await ask({ kind: "rows", ...view, first, count })).content;
        },
        show: setup.shows ? async (view, places) => (await ask({ kind: "show", ...await meant(view, places) })).content.text : null,
        choose: setup.tells ? async (view, places) => tell({ kind: "choice", ...await meant(view, places) }) : null,
        code: setup.part ? null : async (view) => (await ask({ kind: "code", ...view })).content.text,
    }, model.get("kept"), (made) => { model.set("kept", made); model.save_changes(); });
    const places = placesOf(rows.update, (el) => gridRender({ model: rows.model, el }));
    function changed() {
        lit = undefined;
        held?.forget();
        if (held?.run !== storeOf(setup.explorer)?.run) held = null;  // what others let go of is not held here
        places.changed();
    }
    listenToStores((explorer) => { if (explorer === setup.explorer) changed(); });
    return places.show;
}
