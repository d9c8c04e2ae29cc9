// @ts-check
// The view of a flame graph, live and saved: controls, frames, and callers and callees of a frame below.

/**
 * Where a flame graph comes from: a run that is here, or the kernel for what is not.
 * @typedef {object} FlameSource
 * @property {any} setup
 * @property {(byModule: boolean) => Promise<any>} open a run, or its call tree
 * @property {() => Promise<void>} here brings back what was let go of
 * @property {(run: any, asked: Asked) => Part | Promise<Part>} part what is selected of it
 * @property {(paths: number[], name: string, asked: Asked) => void} select selects the slices at and below paths
 * @typedef {{step: number | null, thread: number | null, byModule: boolean}} Asked
 */

const FLAME_LEGEND = ["python", "operator", "api", "matrix", "vector", "movement", "wait"];
const MOST_CRUMBS = 12, LONGEST_CRUMB = 40, LONGEST_FRAME = 400;
const MOST_KEPT = 10_000;  // paths of the root, in what is kept
const MOST_OFFERED = 5000;  // steps or threads in a list
const FLAME_HINT = "A click on a frame zooms into it, and shows its callers and callees below; on the one at the root it goes up.";

/** Names from the outermost call; a long path has its middle left out. @param {string[]} names */
function crumbs(names) {
    const all = ["everything", ...names.map((name) => cut(name, LONGEST_CRUMB, ""))];
    return (all.length > MOST_CRUMBS ? [...all.slice(0, 2), "…", ...all.slice(3 - MOST_CRUMBS)] : all).join(" › ");
}

/**
 * A flame graph as the user sees it: one for all views of a widget.
 * @param {FlameSource} source @param {any} [kept] what `state.made` returned
 */
function flameState(source, kept = {}) {
    /** @type {Asked} */
    const asked = { step: null, thread: null, byModule: false, ...kept.asked };
    let turn = 0, newest = Promise.resolve();
    /** @type {Set<() => void>} */
    const listeners = new Set();
    const state = {
        source, asked, listeners,
        /** @type {any} */ tree: null,
        /** whose callers and callees are shown */ name: kept.name ?? "",
        text: kept.text ?? "", regex: Boolean(kept.regex), problem: "",
        /** What the user made of it, for when the page is loaded again. */
        made() {
            const { weight, upwards, root } = state.tree, { name, text, regex } = state;
            return { asked, name, text, regex, tree: { weight, upwards, root: (root?.paths.length ?? 0) < MOST_KEPT ? root : null } };
        },
        /** Change the tree, and draw it. @param {() => void} act @param {boolean} [isSame] whether its frames are the same as before */
        change(act, isSame = false) {
            act();
            whole.changed(isSame);
            for (const half of state.isSandwich() ? halves : []) half.changed();
            state.tell();
        },
        tell() { for (const listener of listeners) listener(); },
        isSandwich: () => Boolean(state.name) && state.tree.named(state.name).some((/** @type {number} */ one) => state.tree.amounts().total[one]),
        /** @param {string} text @param {boolean} regex */
        search(text, regex) {
            Object.assign(state, { text, regex, problem: "" });
            state.change(state.find, true);
        },
        find() {
            state.tree.searched = null;
            try {
                if (state.text) state.tree.searched = looksNamed(state.tree.run, state.text, state.regex);
            } catch (error) { state.problem = `the regular expression cannot be read: ${error instanceof Error ? error.message : error}`; }
        },
        /** Take over what is selected; done when the newest call is. @returns {Promise<void>} */
        follow: () => (newest = state.take()),
        /** @returns {Promise<void>} */
        async take() {
            const mine = (turn += 1), run = await source.open(asked.byModule), part = await source.part(run, asked);
            if (mine !== turn) return newest;
            if (state.tree?.run !== run) {
                const before = state.tree ?? kept.tree, many = run.paths.parent.length, tree = state.tree = makeTree(run);
                if (before) {
                    if (tree.weights.includes(before.weight)) tree.weight = before.weight;
                    tree.upwards = before.upwards;
                    if (before.run ? many === before.run.paths.parent.length : before.root?.paths.every((/** @type {number} */ path) => path < many)) tree.root = before.root;  // the same tree, from elsewhere
                    state.find();
                }
            }
            state.change(() => state.tree.show(part));
        },
        /** Keep only what the user made of it. */
        letGo() { state.tree?.forget(); },
    };
    const whole = frameModel(source, () => state.tree.picture(), (node, at) => state.change(() => {
        if (at === 0) { state.tree.up(); return; }
        state.tree.root = { paths: node.paths, isFolded: node.look < 0 };
        if (node.look >= 0) state.name = node.name;
    }), () => state.tell(), () => state.change(() => { state.tree.root = null; }));
    const lead = (/** @type {CallNode} */ node) => { if (node.look >= 0) state.change(() => { state.name = node.name; }); };
    const halves = [frameModel(source, () => state.tree.sandwich(state.name).callers, lead), frameModel(source, () => state.tree.sandwich(state.name).callees, lead)];
    return { state, whole, halves };
}

/**
 * Show a flame graph whose tree is here.
 * @param {ReturnType<typeof flameState>} given @param {HTMLElement} place
 * @returns {() => void} what closes the view
 */
function flameTab(given, place) {
    const { state, whole, halves } = given, { source, asked } = state, { setup } = source, change = state.change;
    const press = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ onclick) => make("button", { type: "button", text, title, onclick });
    /**
     * Buttons of which one is pressed.
     * @param {string} label @param {[any, string, string][]} options value, text and hint @param {() => any} get @param {(value: any) => void} set
     */
    const choice = (label, options, get, set) => {
        const buttons = options.map(([value, text, title]) => press(text, title, () => set(value)));
        const show = () => buttons.forEach((one, at) => one.setAttribute("aria-pressed", String(options[at][0] === get())));
        return { element: make("span", { class: "row", role: "group", "aria-label": label }, `${label} `, ...buttons), show };
    };
    /** @param {string} label @param {number[]} numbers @param {"step" | "thread"} what */
    const list = (label, numbers, what) => {
        const select = make("select", { "aria-label": label, onchange: () => { asked[what] = select.value === "" ? null : Number(select.value); state.follow(); } },
            make("option", { value: "", text: "all" }), ...numbers.slice(0, MOST_OFFERED).map((one) => make("option", { value: one, text: String(one) })));
        return { element: make("label", {}, `${label} `, select), show() { select.value = String(asked[what] ?? ""); } };
    };
    /** @type {[any, string, string][]} */
    const weights = state.tree.weights.map((/** @type {Weight} */ one) => [one, WEIGHT_TITLES[one], `a frame is as wide as its ${WEIGHT_TITLES[one]}`]);
    const choices = [
        choice("Width by", weights, () => state.tree.weight, (one) => change(() => state.tree.weigh(one))),
        ...(setup.modules ? [choice("Frames", [[false, "all calls", "every Python call has a frame"], [true, "modules", "only Python calls of modules have frames"]],
            () => asked.byModule, (one) => { asked.byModule = one; state.follow(); })] : []),
        choice("Shape", [[false, "icicle", "callers above their callees"], [true, "flame", "callers below their callees"]],
            () => state.tree.upwards, (one) => change(() => { state.tree.upwards = one; }, true)),
        ...(setup.steps?.length ? [list("Step", setup.steps, "step")] : []),
        ...(setup.threads?.length > 1 ? [list("Thread", setup.threads, "thread")] : []),  // a single one leaves nothing to choose
    ];
    const up = press("Up", "U: show the caller of the frame at the top", () => change(() => state.tree.up()));
    const all = press("All", "0: show everything again", () => change(() => { state.tree.root = null; }));
    const select = press("Select its slices", "select the slices of the frame at the top in all views", () => {
        if (state.tree.root) source.select(state.tree.root.paths, state.tree.path().at(-1), asked);
    });
    const search = () => state.search(text.value, regex.checked);
    const text = make("input", { type: "search", placeholder: "part of a name", "aria-label": "Search frames", spellcheck: "false", maxlength: 1000, oninput: search });
    const regex = make("input", { type: "checkbox", onchange: search });
    const found = make("span", { role: "status" }), path = make("div", { class: "long" }), frame = make("div", { class: "long", role: "status" });
    const main = make("div"), beside = make("div", { class: "sandwich", hidden: true });
    const legend = make("div", { class: "legend" }, ...setup.families.filter((/** @type {any} */ one) => FLAME_LEGEND.includes(one.key))
        .map((/** @type {any} */ one) => make("span", {}, make("i", { style: `background:${one.shades[0]}` }), one.label)));
    const root = make("div", { class: "npuprof-timeline npuprof-flame npuprof-keys", "data-lm-suppress-shortcuts": "true" },
        make("div", { class: "bar" }, up, all, select, ...choices.map((one) => one.element)),
        make("div", { class: "bar" }, make("label", { class: "search" }, "Search ", text), make("label", {}, regex, " regular expression"),
            press("Previous", "P: the match before", () => whole.press("p")), press("Next", "N: the next match", () => whole.press("n")), found),
        path, main, frame, make("div", { class: "faint", text: FLAME_HINT }), beside, legend);
    place.append(root);
    const closes = [flameView(whole, main)];

    function show() {
        const { tree, name } = state;
        for (const one of choices) one.show();
        up.disabled = all.disabled = select.disabled = !tree.root;
        path.textContent = crumbs(tree.path());
        if (document.activeElement !== text) text.value = state.text;
        regex.checked = state.regex;
        found.textContent = state.problem || tree.found().text;
        const { names, facts } = whole.get("picture"), at = whole.get("cursor");
        frame.replaceChildren(make("b", { text: names[at].slice(0, LONGEST_FRAME) }), ` · ${facts(at).join(" · ")}`);
        beside.hidden = !state.isSandwich();
        if (beside.hidden) return;
        if (!beside.firstChild) {
            const places = halves.map(() => make("div"));
            beside.append(make("h4"), ...places);
            halves.forEach((half, side) => closes.push(flameView(half, places[side])));
        }
        beside.firstChild.textContent = `Callers above and callees below of ${name.slice(0, LONGEST_FRAME)}, wherever it was called`;
    }
    state.listeners.add(show);
    show();
    return () => {
        state.listeners.delete(show);
        for (const close of closes) close();
        root.remove();
    };
}

/**
 * What the view of frames shows.
 * @param {FlameSource} source @param {() => any} picture @param {(node: CallNode, at: number) => void} click
 * @param {() => void} [moved] called when the cursor has moved @param {() => void} [showAll]
 */
function frameModel(source, picture, click, moved = () => {}, showAll = () => {}) {
    /** @type {any} */
    let drawn = null;
    let cursor = 0;
    /** @type {Record<string, (() => void)[]>} */
    const listeners = {};
    const told = (/** @type {string} */ name) => { for (const one of listeners[name] ?? []) one(); };
    const model = {
        get: (/** @type {string} */ name) => (name === "cursor" ? cursor : (drawn ??= picture())),
        on(/** @type {string} */ name, /** @type {() => void} */ listener) { (listeners[name] ??= []).push(listener); },
        off(/** @type {string} */ name, /** @type {() => void} */ listener) { listeners[name] = (listeners[name] ?? []).filter((one) => one !== listener); },
        async send(/** @type {any} */ asked) {
            await source.here();
            if (asked.kind === "frame") click(model.get("picture").nodes[asked.frame], asked.frame);
            else if (asked.kind === "key") model.press(asked.key);
        },
        /** @param {boolean} [isSame] */
        changed(isSame = false) { drawn = null; cursor = isSame ? cursor : 0; told("change:picture"); },
        /** @param {string} key */
        press(key) {
            const { above, level, left, upwards, searching, lit, nodes } = model.get("picture"), order = [...level.keys()];
            const inwards = key === (upwards ? "ArrowUp" : "ArrowDown"), outwards = key === (upwards ? "ArrowDown" : "ArrowUp");
            const beside = order.filter((at) => level[at] === level[cursor]).sort((one, other) => left[one] - left[other]);
            let to = cursor;
            if (inwards) to = above.indexOf(cursor);
            else if (outwards) to = above[cursor];
            else if (key === "ArrowLeft" || key === "ArrowRight") to = beside[beside.indexOf(cursor) + (key === "ArrowLeft" ? -1 : 1)] ?? cursor;
            else if (key === "n" || key === "p") {  // level by level; after the last comes the first
                const all = order.sort((one, other) => level[one] - level[other] || left[one] - left[other]), by = key === "n" ? 1 : all.length - 1;
                let at = all.indexOf(cursor);
                if (searching && lit.some((/** @type {number} */ one) => one)) do at = (at + by) % all.length; while (!lit[all[at]]);
                to = all[at];
            } else if (key === "Enter") { if (cursor) click(nodes[cursor], cursor); return; }
            else if (key === "u" || key === "Backspace") { click(nodes[0], 0); return; }
            else if (key === "0") { showAll(); return; }
            if (to >= 0) { cursor = to; told("change:cursor"); moved(); }
        },
    };
    return model;
}
