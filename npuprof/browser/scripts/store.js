// @ts-check
// What a page has of a run: answers of the kernel, the names in them, and what is asked for next.

/**
 * Bars of a window: columns of equal length, in the order of lane and start. Times are nanoseconds since the origin.
 * @typedef {object} Answer
 * @property {number} start @property {number} end @property {boolean} exact @property {boolean} stale
 * @property {Uint16Array} lane @property {Float64Array} begin @property {Float64Array} length
 * @property {Uint32Array} count @property {Float32Array} busy @property {Float32Array} longest
 * @property {Uint32Array} slice @property {Uint32Array} label @property {Uint8Array} family @property {Uint8Array} lit
 * @property {Uint16Array} colour family and shade @property {Uint8Array} tone
 * @property {Map<number, [number, number]>} lanes first and last bar of each lane
 * @property {[Float64Array, Float64Array][]} lines times and values of each counter
 * @property {Set<number> | null} asked the lanes that were asked for; null for all
 * @property {Map<number, [string, number]>} names text and shade of each label
 */

/** @type {Record<string, any>} */
const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };
const KEPT = 8;  // answers; the first one, of the whole run, is always kept
const LATE_MS = 8000;
const SEEN_PIXELS = 2;  // a bar that slices share, and that is no wider, shows no less than these
const OF_THE_RUN = ["select", "mark", "search", "match", "step", "cause", "effect", "jump", "clear"];  // told from a run that is here whole

/** The bytes of a view, aligned. @param {any} view @param {string} type */
function typed(view, type) {
    const bytes = view.buffer ? view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength) : view;
    return new ARRAYS[type](bytes);
}

/**
 * The timelines of a page that hold their run, by explorer: its other views answer from them. Each widget has a scope of
 * its own, so that they know each other by what is global.
 * @type {{of: Map<string, WeakRef<any>>, listeners: Set<(explorer: string) => void>}}
 */
const stores_ = (/** @type {any} */ (globalThis).npuprofStores ??= { of: new Map(), listeners: new Set() });

/** The store of an explorer's timeline, if it holds the run. @param {string} explorer */
const storeOf = (explorer) => stores_.of.get(explorer)?.deref() ?? null;

/** Hear when an explorer's run is there, and when another part of it is selected. @param {(explorer: string) => void} listener */
function listenToStores(listener) {
    stores_.listeners.add(listener);
    return () => { stores_.listeners.delete(listener); };
}

/**
 * @param {any} content @param {any[]} buffers @param {Map<number, [string, number]>} names
 * @param {Set<number> | null} asked
 * @returns {Answer}
 */
function decode(content, buffers, names, asked) {
    for (const [label, text, shade] of content.names) names.set(label, [text, shade]);
    /** @type {any} */
    const answer = { exact: content.exact, end: content.end, begin: null, asked, names, stale: false, lines: [] };
    content.columns.forEach((/** @type {[string, string]} */ [name, type], /** @type {number} */ at) => {
        answer[name === "start" ? "begin" : name] = typed(buffers[at], type);
    });
    answer.start = content.start;
    for (let at = content.columns.length; at + 1 < buffers.length; at += 2) {
        answer.lines.push([typed(buffers[at], "f8"), typed(buffers[at + 1], "f8")]);
    }
    paint(answer, (label) => names.get(label)?.[1] ?? 0);
    return answer;
}

/** Find how bars are drawn, and where each lane begins. @param {any} answer @param {(label: number) => number} shadeOf */
function paint(answer, shadeOf) {
    const { lane, family, label } = answer, size = lane.length, colour = answer.colour = new Uint16Array(size);
    answer.lanes = new Map();
    for (let at = 0, first = 0; at < size; at += 1) {
        colour[at] = family[at] * SHADES + shadeOf(label[at]);
        if (at + 1 === size || lane[at + 1] !== lane[at]) {
            answer.lanes.set(lane[at], [first, at + 1]);
            first = at + 1;
        }
    }
    paintTones(answer);
}

/** Find how pale bars are: as busy as they are, or faded. @param {any} answer */
function paintTones(answer) {
    const { count, busy, length, lit } = answer, size = count.length, tone = answer.tone = new Uint8Array(size);
    for (let at = 0; at < size; at += 1) {
        if (!lit[at]) continue;
        tone[at] = count[at] > 1 ? Math.max(1, Math.round(Math.min(busy[at] / Math.max(length[at], 1), 1) * (TONES - 1))) : TONES - 1;
    }
}

/**
 * What all views of one widget share.
 * @param {any} model @param {Run | null} [saved] the run, where no kernel can be asked
 */
function makeStore(model, saved = null) {
    /** @type {Run | null} what the page holds of the run; a kernel sends it after the first picture */
    let run = saved;
    /** @type {Record<string, (asked: any) => void>} what is answered from it */
    let local = {};
    const page = Math.random().toString(36).slice(2);
    /** @type {Map<number, [string, number]>} */
    const names = new Map();
    /** @type {Answer[]} */
    let answers = [];
    /** @type {Set<(what: string, message: any) => void>} */
    const listeners = new Set();
    /** @type {any} */
    let wanted = null;
    /** @type {any} */
    let flying = null;
    /** @type {any} */
    let late = 0;
    let last = 0;
    const tell = (/** @type {string} */ what, /** @type {any} */ message) => {
        for (const listener of listeners) listener(what, message);
        const isOther = ["held", "left", "matches"].includes(what) || (what === "range" && !message.summary);
        if (isOther && !saved) for (const listener of stores_.listeners) listener(setup.explorer);
    };
    const setup = model.get("setup");
    const store = {
        setup, tell,
        version: 0,
        pixels: 1000,
        alone: saved !== null,
        get run() { return run; },
        get local() { return local; },
        /** @type {any} */ selected: { slice: null },
        /** @type {any} */ range: { marked: null },
        /** @type {any} */ matches: { text: "" },
        /** @type {any} */ overview: null,
        /** @type {any[] | null} */ findings: null,
        /** @type {number[][]} lane, start and end of the segments of the critical path */ path: [],
        /** @type {[number, number, string][]} start, end and text of the user's notes */ notes: [],
        /** Which finding is shown, and whether the critical path is. */
        finding: -1,
        showsPath: false,
        /** What the user makes of the lanes. */
        layout: arrangement(setup.layout),
        /** @type {number | null} */ cursor: null,
        /** @type {number[]} up to two moments, between which time is measured */ measured: [],
        /** What there is to see: of all runs that are above each other. */
        bounds: { start: setup.link?.start ?? setup.start, end: setup.link?.end ?? setup.end },
        window: { start: setup.link?.start ?? setup.window[0], end: setup.link?.end ?? setup.window[1] },
        /** Ask what is here, or else the kernel, which learns each time what is visible. @param {any} message */
        send(message) {
            const answer = local[message.kind];
            if (isLeft && OF_THE_RUN.includes(message.kind)) {  // it is used again
                isLeft = false;
                model.send({ kind: "run", page });
            }
            if (answer) setTimeout(() => run?.here().then(() => answer(message)));
            else model.send({ ...message, page, seen: [store.window.start, store.window.end] });
        },
        /** Whether what is here of the run shows a window as well as the kernel would. @param {number} start @param {number} end */
        holds(start, end) {
            if (!run || saved) return run !== null;
            if (run.header.thinned && end - start < (setup.end - setup.start) / 2) return false;
            return !run.header.merged || (!store.matches.searching && run.coarsest * store.pixels <= SEEN_PIXELS * (end - start));
        },
        /** What of the run is selected; for a run that is here whole. @returns {Part} */
        part() {
            const { searching, positions, slices } = store.matches, { count } = /** @type {Run} */ (run);
            const lit = searching ? new Uint8Array(count) : null;
            if (lit) for (const at of positions ?? Array.from(slices ?? [], (/** @type {number} */ one) => positionOf(/** @type {Run} */ (run), one))) if (at >= 0) lit[at] = 1;
            return { ...WHOLE, range: store.range.marked, lit, isChosen: lit !== null };
        },
        listen(/** @type {(what: string, message: any) => void} */ listener) {
            listeners.add(listener);
            return () => listeners.delete(listener);
        },
        get answers() { return answers; },
        /**
         * The answers to draw a window from, each over those before it.
         * @param {number} start @param {number} end @returns {Answer[]}
         */
        covering(start, end) {
            const here = run ? [levelFor(run, end - start, store.pixels)] : [];
            if (store.holds(start, end)) return here;
            const whole = answers.filter((one) => one.start <= Math.max(start, setup.start) && one.end >= Math.min(end, setup.end));
            const narrow = (/** @type {Answer[]} */ some) =>
                some.reduce((best, one) => (one.end - one.start <= best.end - best.start ? one : best));
            const fresh = whole.filter((one) => !one.stale);
            if (fresh.length) return [narrow(fresh)];
            if (whole.length) return [narrow(whole)];
            return (here.length && !store.matches.searching ? here : answers.slice(0, 1)).concat(answers.slice(1).slice(-1));
        },
        /**
         * Ask for what a window needs, unless it is here; only the newest question waits.
         * @param {number} start @param {number} end @param {number} pixels @param {number[]} lanes
         */
        want(start, end, pixels, lanes) {
            store.pixels = pixels;
            if (store.holds(start, end)) { wanted = null; return; }
            const span = end - start;
            const has = answers.some((one) => !one.stale
                && one.start <= Math.max(start - span / 4, setup.start) && one.end >= Math.min(end + span / 4, setup.end)
                && (one.exact || (one.end - one.start) <= 4.2 * span)
                && lanes.every((lane) => !one.asked || one.asked.has(lane)));
            if (has) { wanted = null; return; }
            wanted = { start: start - span, end: end + span, pixels: Math.round(pixels * 6), lanes };
            if (!flying) ask();
        },
        retry() { flying = null; if (wanted) ask(); else tell("again", null); },
        lost: false,
        greeted: false,
        /** Ask once for what a page needs after its first picture, which does not wait for it. */
        greet() {
            if (store.greeted) return;
            store.greeted = true;
            store.send({ kind: "hello" });
            store.send({ kind: "overview" });
            if (saved) makeLevels(saved);
        },
    };
    function ask() {
        flying = wanted;
        wanted = null;
        flying.id = ++last;
        store.send({
            kind: "window", id: flying.id, pixels: flying.pixels, lanes: flying.lanes,
            start: Math.floor(flying.start), end: Math.ceil(flying.end),
        });
        clearTimeout(late);
        late = setTimeout(() => { store.lost = true; wanted ??= flying; tell("late", null); }, LATE_MS);
    }
    /** @param {any} content @param {any[]} buffers */
    function receive(content, buffers) {
        if (store.lost) { store.lost = false; tell("back", null); }
        if (content.kind === "window") {
            if (content.page !== page || content.id !== flying?.id) return;
            clearTimeout(late);
            const answer = decode(content, buffers, names, new Set(flying.lanes));
            answer.stale = content.version !== store.version;
            answers = [answers[0], ...answers.slice(1).filter((one) => !one.stale).slice(2 - KEPT), answer];
            flying = null;
            tell("window", answer);
            if (wanted) ask();
            return;
        }
        if (content.kind === "export" && content.page !== page) return;
        if (content.kind === "overview") {
            content.shares ??= typed(buffers[0], "f4");
            store.overview = content;
        }
        if (content.kind === "matches" && content.version !== store.version) {
            store.version = content.version;
            for (const answer of answers) answer.stale = true;
        }
        if (content.kind === "notes") store.notes = content.notes;
        if (content.kind === "findings") {
            store.findings = content.findings;
            store.path = content.path ?? [];
        }
        if (content.kind === "run") {
            openRun(new Uint8Array(buffers[0].buffer, buffers[0].byteOffset, buffers[0].byteLength)).then(hold, () => {});  // else the kernel is asked
            return;
        }
        if (content.kind === "selected" && content.details && content.slice !== store.selected.slice) return;
        if (content.kind === "matches") content.slices ??= buffers.length ? typed(buffers[0], "u4") : null;
        if (content.kind === "cursor") store.cursor = content.at;
        if (content.kind === "show") store.window = { start: content.start, end: content.end };
        if (["selected", "range", "matches"].includes(content.kind)) {
            /** @type {any} */ (store)[content.kind] = content;
            if (run) hear(content);
        }
        tell(content.kind, content);
    }
    /** @type {(told: any) => void} */
    let hear = () => {};
    /** Take a run over, whole or merged, and answer from it what it can tell. @param {Run} held */
    function hold(held) {
        run = held;
        const all = answersOf(held, store, (kind, content) => {
            receive({ kind, ...content }, []);
            if (!saved && ["selected", "matches"].includes(kind)) chosen();
        }, saved ? null : (message) => model.send({ ...message, page, seen: [store.window.start, store.window.end] }));
        hear = all.hear;
        local = saved ? all.answers : Object.fromEntries(Object.entries(all.answers).filter(([kind]) =>
            kind === "overview" || (kind === "findings" && held.header.path) || (!held.header.merged && OF_THE_RUN.includes(kind))));
        if (saved) return;
        if (!held.header.merged) for (const kind of ["selected", "range", "matches"]) hear({ kind, ...(/** @type {any} */ (store))[kind] });
        makeLevels(held);
        if (setup.explorer) stores_.of.set(setup.explorer, new WeakRef(store));
        makeRoom({ slices: held.count, run: held, letGo: () => leaveTo(held) });
        tell("held", null);
    }
    /** Let go of the run, as others need the room: the kernel answers again. @param {Run} held */
    function leaveTo(held) {
        if (run !== held) return;
        run = null;
        local = {};
        hear = () => {};
        isLeft = true;
        model.send({ kind: "matches", page });  // as it counts them
        tell("left", null);
        tell("again", null);
    }
    let isLeft = false;
    let isTold = true;
    /** Let the kernel know what was chosen here, once for all that is chosen at once. */
    function chosen() {
        if (!isTold) return;
        isTold = false;
        setTimeout(() => {
            isTold = true;
            const { text, regex } = store.matches.asked ?? {};
            model.send({ kind: "chosen", page, seen: [store.window.start, store.window.end], slice: store.selected.slice, search: text ?? "", regex: Boolean(regex), details: Boolean(store.selected.isPart) });
        });
    }
    if (saved) hold(saved);
    else {
        const first = model.get("first");
        answers = [decode(first.content, first.buffers, names, null)];
        store.version = first.content.version;
    }
    model.on("msg:custom", receive);
    return store;
}
