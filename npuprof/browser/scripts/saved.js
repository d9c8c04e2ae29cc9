// @ts-check
// A saved explorer: all views of a run that the page holds, without a kernel.

/**
 * Show all views of a run.
 * @param {Run} run @param {HTMLElement} el
 * @returns {{letGo: () => void, again: () => Promise<void>}} what lets go of what is derived from the run's slices, and shows them again
 */
function savedView(run, el) {
    const model = {
        get: (/** @type {string} */ name) => /** @type {any} */ ({ setup: run.setup })[name],
        on() {}, off() {},
        send: () => store.tell("said", { text: "A saved page cannot tell this: open the run in a notebook." }),
    };
    /** @type {any} */
    const store = makeStore(model, run), answers = store.local;
    const lightUp = (/** @type {string} */ text, /** @type {number[] | null} */ positions) => {
        open("Timeline");
        answers.light({ text, positions });
    };

    // Tabs

    const bar = make("div", { class: "tabs", role: "tablist", "aria-label": "Views" }), places = make("div", { class: "places" });
    /**
     * What a tab shows: `follow` takes over what is selected, `letGo` keeps only what the user made of it.
     * @typedef {{follow: () => any, letGo: () => void}} View
     */
    /** @type {Record<string, {tab: any, place: any, build: ((place: HTMLElement) => Promise<View | void>) | null, view: View | void, isStale: boolean}>} */
    const tabs = {};
    /** @param {string} title @param {(place: HTMLElement) => Promise<View | void>} build */
    function addTab(title, build) {
        const tab = make("button", { type: "button", role: "tab", text: title, "aria-selected": "false", onclick: () => open(title) });
        const place = make("div", { role: "tabpanel", "aria-label": title, hidden: true });
        tabs[title] = { tab, place, build, view: undefined, isStale: false };
        bar.append(tab);
        places.append(place);
    }
    /** @param {string} title */
    function open(title) {
        for (const [name, { tab, place }] of Object.entries(tabs)) {
            tab.setAttribute("aria-selected", String(name === title));
            place.hidden = name !== title;
        }
        const one = tabs[title], { place, build } = one;
        const catchUp = () => {
            if (one.isStale) one.view?.follow();
            one.isStale = false;
        };
        one.build = null;
        if (!build) { run.here().then(catchUp); return; }
        one.isStale = false;
        run.here().then(() => build(place)).then((view) => { one.view = view; catchUp(); });
    }

    // What is selected is selected in all views; those that are not visible follow when they are opened

    const chosen = make("div", { class: "chosen", role: "status" });
    /** @type {Uint8Array | null} */
    let lit = null;
    /** @param {number[] | null} positions */
    function selected(positions) {
        lit = positions?.length ? new Uint8Array(run.count) : null;
        if (lit) for (const at of positions ?? []) lit[at] = 1;
        follow();
    }
    function follow() {
        const of = [lit ? store.matches.text : "", store.range.marked ? `range of ${duration(store.range.marked[1] - store.range.marked[0])}` : ""].filter(Boolean);
        chosen.replaceChildren(...(of.length ? [`Selected in all views: ${of.join(", ")} `, make("button", { type: "button", text: "Clear", onclick: () => answers.clear({}) })] : []));
        const views = Object.values(tabs);
        for (const one of views) one.isStale = true;
        return Promise.all(views.filter((one) => one.view && !one.place.hidden).map((one) => { one.isStale = false; return one.view?.follow(); }));
    }
    store.listen((/** @type {string} */ what, /** @type {any} */ told) => {
        if (what === "range" && !told.summary) follow();  // told once more with its sums
        else if (what === "matches") selected(told.positions);
    });

    addTab("Timeline", async (place) => { timelineView(store, model, place); });
    if (["device_ns", "host_ns", "slices"].some((sum) => isAny(run, run.header.paths[sum]))) {
        addTab("Flame graph", async (place) => {
            const flame = flameState({
                setup: run.setup,
                here: () => run.here(),
                async open() { await related(run); return run; },
                part: () => ({ ...WHOLE, range: store.range.marked, lit, isChosen: lit !== null }),
                select(paths, name) { lightUp(name, positionsBelow(run, paths)); },
            });
            await flame.state.follow();
            flameTab(flame, place);
            return flame.state;
        });
    }
    for (const table of run.tables) {
        if (!table.described) continue;
        addTab(table.described.title, async (place) => {
            const rows = savedTable(run, table, () => lit, lightUp);
            await rows.follow();
            gridRender({ model: rows.model, el: place });
            return rows;
        });
    }
    const merged = run.header.merged ? [make("p", { class: "faint", text: `${counted(run.header.merged)} of ${counted(run.header.slices)} slices, the shortest, share bars: the whole run would not fit in what is saved.` })] : [];
    const views = make("div", { class: "npuprof-saved-views npuprof-keys" }, ...merged, bar, chosen, places);
    bar.append(make("button", {
        type: "button", class: "fill", text: "Fill the screen", title: "all views, as wide and high as the screen; again: back",
        onclick: () => fillScreen(views, (text) => store.tell("said", { text })),
    }));
    el.replaceChildren(views);
    open("Timeline");
    answers.findings({});
    // The report on the same page lists the findings: a click on one goes where it happened.
    (el.closest(".npuprof-page")?.querySelectorAll(".npuprof-problems .npuprof-first") ?? []).forEach((item, number) => {
        item.addEventListener("click", () => {
            if (getSelection()?.toString()) return;
            open("Timeline");
            store.tell("finding", { number });
            el.scrollIntoView({ block: "nearest" });
        });
        /** @type {HTMLElement} */ (item).style.cursor = "pointer";
    });
    return {
        letGo() {
            answers.forget({});
            for (const one of Object.values(tabs)) one.view?.letGo();
        },
        async again() {
            await answers.again({});
            await follow();
            store.tell("again", null);
        },
    };
}

/**
 * A table of a saved page.
 * @param {Run} run @param {Table} held @param {() => Uint8Array | null} lit what is selected
 * @param {(text: string, positions: number[] | null) => void} lightUp
 */
function savedTable(run, held, lit, lightUp) {
    const { described } = held, isText = (/** @type {string} */ name) => held.details.some((one) => one.name === name && one.kind === "text");
    const line = isText("line") ? [{ name: "line", kind: "text", meaning: "", exact: true }] : [];
    // A number that no page can hold is saved as a text.
    const table = { ...described, columns: [...described.columns.map((/** @type {Column} */ one) => (one.kind === "int" && isText(one.name) ? { ...one, kind: "text" } : one)), ...line] };
    const all = heldRows(run, held, table);
    table.columns = table.columns.filter((/** @type {Column} */ one) => all.has(one.name));
    const names = table.columns.map((/** @type {Column} */ one) => one.name);
    table.groups = described.groups.filter((/** @type {string[]} */ group) => group.every((name) => names.includes(name)));
    const left = held.all - held.count, missing = described.columns.filter((/** @type {Column} */ one) => !names.includes(one.name)).map((/** @type {Column} */ one) => one.name);
    const note = [
        left ? `${counted(left)} of ${counted(held.all)} rows are not in this page` : "",
        missing.length ? `columns that are not in this page: ${missing.join(", ")}` : "",
    ].filter(Boolean).join("; ");
    const source = heldRows(run, held, table);
    const rows = rowsModel(table, {
        async rows(view, first, count) {
            if (run.isAway) await run.here();  // which has its views follow before it ends
            const page = await source.page(view, lit(), first, count).catch((error) => { if (!run.isAway) throw error; });
            if (page && !run.isAway) return { ...page, note };
            source.forget();  // others let go of it meanwhile: it is shown when it is back
            run.here();
            return null;
        },
        async show(view, places) {
            if (run.isAway) await run.here();
            const numbers = await source.members(view, lit(), places);
            lightUp(`rows of ${held.name}`, numbers.map((row) => positionOf(run, held.first + row)));
            return "";
        },
        choose: null, code: null,
    });
    return { model: rows.model, follow: rows.update, letGo: source.forget };
}

/** The positions of the slices at and below paths. @param {Run} run @param {number[]} tops */
function positionsBelow(run, tops) {
    const { parent } = run.paths, isBelow = new Uint8Array(parent.length), positions = [];
    for (const path of tops) isBelow[path] = 1;
    for (let path = 0; path < parent.length; path += 1) if (parent[path] >= 0 && isBelow[parent[path]]) isBelow[path] = 1;
    for (let at = 0; at < run.count; at += 1) if (run.path[at] >= 0 && isBelow[run.path[at]]) positions.push(at);
    return positions;
}

/** Whether a column has any number but zero. @param {Run} run @param {number} column */
function isAny(run, column) {
    const [, , count, width, , low] = run.header.columns[column];
    return count > 0 && (width > 0 || low !== 0);
}

const CHARACTERS = 4;  // of a slice that is packed, at least

/** Do something after all that others do, and give it the time to be drawn. @param {() => Promise<void>} work @returns {Promise<void>} */
function inTurn(work) {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const done = held_.turn.then(work);
    held_.turn = done.catch(() => {}).then(frame).then(frame);
    return done;
}

{
    const place = /** @type {HTMLElement} */ (document.currentScript?.parentElement);
    const view = /** @type {HTMLElement} */ (place.querySelector(".npuprof-saved-place"));
    const data = () => place.querySelector(".npuprof-saved-data")?.textContent ?? "";
    /** @type {Holder | null} */
    let mine = null;
    /** @type {Promise<void> | null} */
    let opened = null;
    let isSeen = false;
    const open = () => (opened ??= inTurn(async () => {
        try {
            const run = await openRun(bytesOf(data()));
            const shown = savedView(run, view);
            /** @type {Promise<void> | null} */
            let here = Promise.resolve();
            const holder = mine = { slices: run.count, run, letGo() { here = null; letGo(run); shown.letGo(); } };
            run.isSeen = isSeen;
            run.here = () => (here ??= inTurn(async () => {
                makeRoom(holder);
                await unpack(run, bodyOf(run, bytesOf(data())));
                makeLevels(run);
                await shown.again();
            }));
            makeRoom(holder);
        } catch (error) {
            view.append(make("div", { class: "failed", role: "alert", text: `npuprof: the saved views could not be opened: ${error}` }));
        }
    }));
    // Not while it is hidden, as below a live view, or far away; and of many large ones only those in sight.
    const near = new IntersectionObserver((entries) => {
        if (!entries.some((entry) => entry.isIntersecting) || heldSlices() + data().length / CHARACTERS > MOST_HELD) return;
        near.disconnect();
        open();
    }, { rootMargin: "2000px" });
    const seen = new IntersectionObserver((entries) => {
        isSeen = /** @type {IntersectionObserverEntry} */ (entries.at(-1)).isIntersecting;
        if (mine) mine.run.isSeen = isSeen;
        if (isSeen && mine?.run.isAway) mine.run.here();
        else if (isSeen) open();
        else if (mine && !place.isConnected) leave(mine);
    }, { rootMargin: "200px" });
    near.observe(view);
    seen.observe(view);
}
