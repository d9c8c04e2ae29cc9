// @ts-check
// What a kernel answers about a run, told from a run that the page holds.

const MOST_ARROWS = 60;
const MOST_VISITED = 20_000;
const MOST_JUMPS = 100;
const MOST_NAMES = 200;
const ZOOM_OUT = 20;  // width of the window around a slice that was too narrow to see, as a multiple of its duration
const TOO_SHORT = 100;
const SEARCHED = new Set(["marks", "python", "operators", "api", "kernels", "tasks", "communication", "communication_tasks"]);
const SUMMED = ["kernels", "communication", "tasks", "communication_tasks", "marks", "operators", "api", "python"];
const ABSENT_TEXT = "–";

/** A moment since the origin, with all nanoseconds. @param {number} ns */
function exactMoment(ns) {
    const whole = Math.floor(Math.abs(ns) / 1e9), digits = String(Math.abs(ns) % 1e9).padStart(9, "0");
    return `${ns < 0 ? "-" : ""}${counted(whole)}.${digits.slice(0, 3)} ${digits.slice(3, 6)} ${digits.slice(6)} s`;
}

const SIZE_UNITS = /** @type {[number, string][]} */ ([[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]);

/** A number of a column as text. @param {string} name @param {number} value */
function columnText(name, value) {
    if (name === "start_ns" || name === "device_start_ns") return exactMoment(value);
    if (name.endsWith("_ns")) return duration(value);
    if (name.endsWith("_bytes")) return inUnits(value, SIZE_UNITS, "B");
    if (name.endsWith("_ratio")) return share(value, 1);
    if (Number.isInteger(value)) return name.endsWith("id") ? String(value) : counted(value);
    return String(Number(value.toPrecision(6)));
}

/**
 * The values of a column of details, one for each row that is here.
 * @param {Run} run @param {Table} table @param {any} detail
 * @returns {Promise<{value: (row: number) => number | string | null, isText: boolean}>}
 */
async function detailOf(run, table, detail) {
    const numbers = await run.column(detail.column);
    const at = (/** @type {number} */ row) => numbers[detail.by_look ? run.look[table.at + row] : row];
    if (detail.kind === "text") return { value: (row) => detail.values[at(row)], isText: true };
    if (detail.kind === "int") return { value: (row) => (at(row) === detail.absent ? null : at(row)), isText: false };
    const floats = floatsOf(numbers);
    return { value: (row) => (Number.isNaN(floats[row]) ? null : floats[row]), isText: false };
}

/** @param {string} column */
function detailTitle(column) {
    const known = ["table", "name", "op_name", "op_type", "task_type", "kind", "level", "core", "step", "message", "group", "line"];
    if (known.includes(column) || column.endsWith("_id")) return "identity";
    if (/^ai[cv]_/.test(column)) return "pipes";
    if (/^(input_|output_|size_bytes|count|data_type)/.test(column)) return "shapes";
    return column.endsWith("_ns") ? "time" : "other";
}

/** All that is known of a slice, in groups. @param {Run} run @param {number} position */
async function groupsOf(run, position) {
    const table = tableAt(run, position), row = position - table.at;
    /** @type {Record<string, any>} */
    const groups = Object.fromEntries(["identity", "time", "shapes", "pipes", "other"].map((title) => [title, { title, facts: [], zeros: 0 }]));
    const add = (/** @type {string} */ column, /** @type {string} */ text, /** @type {any} */ recorded = text) => {
        const group = groups[detailTitle(column)];
        if (group.title === "pipes" && /^(0|0 ns|0 B|0\.0 %|–)$/.test(text)) group.zeros += 1;
        else group.facts.push([column.replace(/_(ns|bytes)$/, "").replaceAll("_", " "), text, column, String(recorded)]);
    };
    add("table", `${table.name}, row ${counted(numberOf(run, position) - table.first)}`);
    add("name", nameAt(run, position));
    add("start_ns", exactMoment(run.start[position]));
    add("duration_ns", duration(run.duration[position]), run.duration[position]);
    for (const detail of table.details) {
        const value = (await detailOf(run, table, detail)).value(row);
        if (value !== null) add(detail.name, typeof value === "string" ? value : columnText(detail.name, value), value);
    }
    return Object.values(groups).filter((group) => group.facts.length);
}

/** For each position what it called: a position's first callee, and the next callee of the same caller. @param {Run} run */
function calleesOf(run) {
    const first = new Int32Array(run.count).fill(-1), next = new Int32Array(run.count).fill(-1);
    for (let at = run.count - 1; at >= 0; at -= 1) {
        const caller = run.caller[at];
        if (caller < 0) continue;
        next[at] = first[caller];
        first[caller] = at;
    }
    return { first, next };
}

/** The chain of causes of a slice, on each table its innermost one, beginning with the slice. @param {Run} run @param {number} position @param {number} [top] */
function causesOf(run, position, top = -1) {
    const chain = [position], seen = new Set([tableAt(run, position).name]);
    for (let at = run.caller[position]; at >= 0; at = run.caller[at]) {
        const name = tableAt(run, at).name;
        if (at !== top && seen.has(name)) continue;
        seen.add(name);
        chain.push(at);
        if (at === top) break;
    }
    return chain;
}

/**
 * The arrows of a slice: pairs of positions, cause and effect.
 * @param {Run} run @param {{first: Int32Array, next: Int32Array}} callees @param {number} position
 */
function arrowsOf(run, callees, position) {
    /** @type {Map<string, [number, number]>} */
    const arrows = new Map();
    const add = (/** @type {number} */ cause, /** @type {number} */ effect) => arrows.set(`${cause} ${effect}`, [cause, effect]);
    const above = causesOf(run, position);
    for (let at = 0; at + 1 < above.length; at += 1) add(above[at + 1], above[at]);
    const visited = [position], own = tableAt(run, position).name;
    const kernels = [], others = [];
    for (let at = 0; at < visited.length && visited.length < MOST_VISITED; at += 1) {
        for (let callee = callees.first[visited[at]]; callee >= 0; callee = callees.next[callee]) {
            const name = tableAt(run, callee).name;
            if (name === "kernels") kernels.push(callee);
            else if (name !== own) others.push(callee);
            visited.push(callee);
        }
    }
    kernels.sort((one, other) => run.start[one] - run.start[other]);
    let more = visited.length >= MOST_VISITED;
    for (const effect of kernels.length ? kernels : others) {
        if (arrows.size >= MOST_ARROWS) { more = true; break; }
        const chain = causesOf(run, effect, position);
        for (let at = 0; at + 1 < chain.length; at += 1) add(chain[at + 1], chain[at]);
    }
    const number = numberOf(run, position), { source, target } = run.links;
    for (let at = 0; at < source.length && arrows.size < MOST_ARROWS; at += 1) {
        if (source[at] === number || target[at] === number) add(positionOf(run, source[at]), positionOf(run, target[at]));
    }
    return { arrows: [...arrows.values()].filter(([cause, effect]) => cause >= 0 && effect >= 0), more };
}

/** Count, sum, mean, 95th percentile and maximum. @param {number[]} times */
function sumsOf(times) {
    times.sort((one, other) => one - other);
    const sum = times.reduce((all, one) => all + one, 0);
    return [times.length, sum, Math.floor(sum / times.length), times[Math.ceil((95 * (times.length - 1)) / 100)], times[times.length - 1]];
}

/** The sums of a range, by name and by lane, and what the devices did. @param {Run} run @param {number} low @param {number} high */
function rangeSums(run, low, high) {
    /** @type {Map<string, number[]>} */
    const byName = new Map(), byLane = new Map(), parts = new Map();
    const titles = laneTitles(run.setup);
    const put = (/** @type {Map<string, number[]>} */ into, /** @type {string} */ key, /** @type {number} */ time) => {
        const times = into.get(key);
        if (times) times.push(time);
        else into.set(key, [time]);
    };
    const hasKernels = run.tables.some((table) => table.name === "kernels");
    for (const table of run.tables) {
        const isSummed = SUMMED.includes(table.name) && !(table.name === "tasks" && hasKernels);
        for (let at = table.at; at < table.at + table.count; at += 1) {
            const inside = Math.min(run.start[at] + run.duration[at], high) - Math.max(run.start[at], low);
            if (inside < 0 || (inside === 0 && run.duration[at] > 0)) continue;
            if (isSummed) put(byName, `${table.name}\0${nameAt(run, at)}`, inside);
            if (table.name === "overlap") put(parts, nameAt(run, at), inside);
            const title = titles.get(run.place[at] >> 1);
            if (run.place[at] >= 0 && title) put(byLane, title, inside);
        }
    }
    const rows = (/** @type {Map<string, number[]>} */ sums) => [...sums].map(([key, times]) => [...key.split("\0"), ...sumsOf(times)]);
    const names = rows(byName).sort((one, other) => SUMMED.indexOf(String(one[0])) - SUMMED.indexOf(String(other[0])) || Number(other[3]) - Number(one[3]));
    return {
        names: names.slice(0, MOST_NAMES), lanes: rows(byLane), left: Math.max(names.length - MOST_NAMES, 0), code: "",
        parts: [...parts].map(([part, times]) => [part, "", times.reduce((/** @type {number} */ all, /** @type {number} */ one) => all + one, 0)]),
    };
}

/** Group and title of the track of each lane. @param {any} setup @returns {Map<number, string>} */
function laneTitles(setup) {
    const titles = new Map();
    for (const group of setup.groups) {
        let title = "";
        for (const [lane, text] of group.lanes) {
            title = text || title;
            titles.set(lane, `${group.title}\0${title}`);
        }
    }
    return titles;
}

/**
 * Which looks a search means; an invalid regular expression is an error.
 * @param {Run} run @param {string} text @param {boolean} isRegex
 */
function looksNamed(run, text, isRegex) {
    const pattern = isRegex ? new RegExp(text, "iu") : null, wanted = text.toLowerCase();
    const found = run.texts.map((one) => (pattern ? pattern.test(one) : one.toLowerCase().includes(wanted)));
    return Uint8Array.from(run.looks, ([one]) => Number(found[one]));
}

/**
 * The answers to a view's questions, by kind, and what takes over what a kernel tells.
 * @param {Run} run @param {any} store what the views share @param {(kind: string, content: any) => void} tell
 * @param {((message: any) => void) | null} ask asks the kernel for what the run does not hold
 * @returns {{answers: Record<string, (asked: any) => void>, hear: (told: any) => void}}
 */
function answersOf(run, store, tell, ask) {
    let selected = -1, version = 0, place = -1;
    /** @type {[number, number] | null} */
    let marked = null;
    /** @type {{text: string, positions: number[], total: number} | null} */
    let matches = null;
    let asked_ = { text: "", regex: false };
    /** @type {[number, number, string][]} */
    let notes = run.header.notes;
    /** @type {any} */
    let callees = null;
    const callees_ = () => (callees ??= calleesOf(run));
    const say = (/** @type {string} */ text, failed = false) => tell("said", { text, failed });
    const end = (/** @type {number} */ at) => run.start[at] + run.duration[at];
    const laneOf = (/** @type {number} */ at) => (run.place[at] < 0 ? -1 : run.place[at] >> 1);
    const listed = (/** @type {number[]} */ some) => some.slice(0, 12).map((at) => [numberOf(run, at), nameAt(run, at) || "(unnamed)", tableAt(run, at).name]);

    /** @param {number} at */
    function select(at) {
        selected = at;
        marked = null;
        tell("range", { marked: null });
        tellSelected();
    }
    /** Tell first what is at hand, then all that is known of the slice. */
    async function tellSelected() {
        const at = selected;
        if (at < 0) { tell("selected", { slice: null }); return; }
        await related(run);
        if (selected !== at) return;
        if (run.isAway) { comeBack(); return; }
        const { arrows, more } = arrowsOf(run, callees_(), at), number = numberOf(run, at);
        const ends = [...new Set([at, ...arrows.flat()])];
        const isPart = ask !== null && run.header.left_out.includes(tableAt(run, at).name);
        const content = {
            isPart, slice: number, name: nameAt(run, at), more, ends: ends.map((one) => [numberOf(run, one), run.start[one], end(one), laneOf(one)]),
            arrows: arrows.map(([cause, effect]) => [numberOf(run, cause), numberOf(run, effect)]),
            causes: listed(arrows.filter(([, effect]) => effect === at).map(([cause]) => cause)),
            effects: listed(arrows.filter(([cause]) => cause === at).map(([, effect]) => effect)),
            findings: run.header.findings.filter((/** @type {any} */ one) => one.slices.includes(number)).map((/** @type {any} */ one) => [one.title, one.action]),
            groups: [],
        };
        tell("selected", content);
        const groups = await groupsOf(run, at).catch((error) => { if (!run.isAway) throw error; });
        if (selected !== at) return;
        if (groups) tell("selected", { ...content, groups });
        else comeBack();
    }
    /** Have a run again that others let go of while it was asked: it tells anew what is selected. */
    async function comeBack() {
        if (ask === null) await run.here();
    }
    /** What connects slices, also where others let go of the run meanwhile. */
    async function connected() {
        await related(run);
        if (!run.isAway) return true;
        await comeBack();
        if (!run.isAway) await related(run);
        return !run.isAway;
    }
    /** Select a slice, and show it where it can be seen. @param {number} at */
    function reveal(at) {
        let length = store.window.end - store.window.start;
        if (run.duration[at] * TOO_SHORT < length) length = Math.max(run.duration[at] * ZOOM_OUT, LEAST_NS);
        const middle = run.start[at] + Math.min(run.duration[at], length) / 2;
        const isSeen = run.start[at] >= store.window.start && end(at) <= store.window.end && length === store.window.end - store.window.start;
        if (!isSeen) tell("show", { start: middle - length / 2, end: middle + length / 2 });
        select(at);
    }
    /** @param {number} low @param {number} high */
    function mark(low, high) {
        marked = [low, high];
        tell("range", { marked, summary: null });
        if (ask) ask({ kind: "mark", start: low, end: high });  // which knows causes of idle time, too
        else setTimeout(() => { if (marked?.[0] === low && marked[1] === high) tell("range", { marked, summary: rangeSums(run, low, high) }); });
    }
    /** Light up slices as the matches of a search. @param {string} text @param {number[] | null} positions @param {boolean} [regex] */
    function lightUp(text, positions, regex = false) {
        version += 1;
        show(text, positions, regex);
        tellMatches();
    }
    /** @param {string} text @param {number[] | null} positions @param {boolean} [regex] */
    function show(text, positions, regex = false) {
        place = -1;
        asked_ = { text, regex };
        const wasLit = matches !== null;
        matches = null;
        if (positions) {
            positions.sort((one, other) => run.start[one] - run.start[other]);
            matches = { text, positions, total: positions.reduce((sum, at) => sum + run.duration[at], 0) };
            light(run, maskOf(positions));
        } else if (wasLit) light(run, null);
    }
    /** @param {number[]} positions */
    function maskOf(positions) {
        const lit = new Uint8Array(run.count);
        for (const at of positions) lit[at] = 1;
        return lit;
    }
    function tellMatches() {
        const some = matches;
        const where = some && place >= 0 ? `${counted(place + 1)} of ` : "";
        const text = some ? (some.positions.length ? `${where}${counted(some.positions.length)} matches, ${duration(some.total)}` : "no match") : "";
        tell("matches", { version, text, searching: some !== null, positions: some?.positions ?? null, asked: asked_ });
    }
    /** @param {number} by */
    function walk(by) {
        if (!matches?.positions.length) return;
        const from = selected >= 0 ? run.start[selected] : store.window.start, many = matches.positions.length;
        if (place < 0) {
            const next = matches.positions.findIndex((at) => run.start[at] >= from);
            place = by > 0 ? (next < 0 ? 0 : next) : (next < 0 ? many : next) - 1;
        } else place += by;
        place = (place + many) % many;
        reveal(matches.positions[place]);
        tellMatches();
    }
    /** The neighbour of the selected slice on its lane. @param {number} by */
    function beside(by) {
        if (selected < 0) return;
        const bars = run.levels[0], span = bars.lanes.get(laneOf(selected));
        if (!span) return;
        const at = firstBar(bars, laneOf(selected), run.start[selected]) + by;
        if (at < span[0] || at >= span[1]) return;
        const to = positionOf(run, bars.slice[at]);
        if (to >= 0) reveal(to);
    }
    /** @type {number[] | undefined} */
    let longest;
    /** @type {Record<string, () => string | void>} */
    const jumps = {
        kernel() {
            const table = run.tables.find((one) => one.name === "kernels");
            if (!table) return "the run has no kernels";
            longest ??= Array.from({ length: table.count }, (_, row) => table.at + row)
                .sort((one, other) => run.duration[other] - run.duration[one] || one - other).slice(0, MOST_JUMPS);
            reveal(longest[(longest.indexOf(selected) + 1) % longest.length]);
        },
        gap() {
            const gaps = run.header.gaps;
            if (!gaps.length) return "the device has no gap between two of its tasks";
            const at = gaps.findIndex((/** @type {number[]} */ one) => one[0] === marked?.[0] && one[1] === marked?.[1]);
            const [low, high] = gaps[(at + 1) % gaps.length], margin = Math.max((high - low) / 2, LEAST_NS);
            tell("selected", { slice: null });
            mark(low, high);
            tell("show", { start: low - margin, end: high + margin });
        },
        "step": () => step(1), "step before": () => step(-1), "same": () => same(1), "same before": () => same(-1),
    };
    /** @param {number} by */
    function step(by) {
        const table = run.tables.find((one) => one.name === "steps"), middle = (store.window.start + store.window.end) / 2;
        const steps = table ? Array.from({ length: table.count }, (_, row) => table.at + row).sort((one, other) => run.start[one] - run.start[other]) : [];
        const to = by > 0 ? steps.find((at) => run.start[at] > middle) : steps.filter((at) => end(at) < middle).at(-1);
        if (to === undefined) return "there is no further step";
        tell("show", { start: run.start[to], end: end(to) });
    }
    /** @param {number} by */
    function same(by) {
        if (selected < 0) return "select a slice first";
        const table = tableAt(run, selected), alike = [];
        for (let at = table.at; at < table.at + table.count; at += 1) if (run.looks[run.look[at]][0] === run.looks[run.look[selected]][0]) alike.push(at);
        const to = alike.sort((one, other) => run.start[one] - run.start[other])[alike.indexOf(selected) + by];
        if (to === undefined) return "there is no further slice of that name";
        reveal(to);
    }
    /** @param {any} asked */
    function search({ text, regex }) {
        if (!text) { lightUp("", null); return; }
        let looks;
        try { looks = looksNamed(run, text, regex); } catch (error) { say(`the regular expression is invalid: ${error}`, true); return; }
        const found = [];
        for (const table of run.tables) {
            if (!SEARCHED.has(table.name)) continue;
            for (let at = table.at; at < table.at + table.count; at += 1) if (looks[run.look[at]]) found.push(at);
        }
        lightUp(text, found, regex);
        walk(1);
    }
    /** Take over what a kernel tells of its own accord. @param {any} told */
    function hear(told) {
        if (told.kind === "selected") selected = told.slice === null ? -1 : positionOf(run, told.slice);
        else if (told.kind === "range") marked = told.marked;
        else if (told.slices) show(told.text, Array.from(told.slices, (/** @type {number} */ slice) => positionOf(run, slice)).filter((at) => at >= 0));
        else if (!told.searching) show("", null);
    }
    /** @type {Record<string, (asked: any) => void>} */
    const answers = {
        hello() { tellMatches(); tell("notes", { notes }); },
        note({ start, end: to, text }) {  // lasts as long as the page is open
            notes = notes.filter(([low, high]) => text || low !== start || high !== to);
            if (text) notes = [...notes, [start, to, text]];
            tell("notes", { notes });
        },
        overview: () => tell("overview", { devices: run.header.overview.devices, columns: run.header.overview.columns, shares: run.shares }),
        select: ({ slice }) => { select(slice === null ? -1 : positionOf(run, slice)); },
        mark: ({ start, end: to }) => mark(Math.min(start, to), Math.max(start, to)),
        search, match: ({ by }) => walk(by), step: ({ by }) => beside(by), cursor() {}, layout() {},
        async cause() { if (await connected() && run.caller[selected] >= 0) reveal(run.caller[selected]); },
        async effect() { if (await connected() && selected >= 0 && callees_().first[selected] >= 0) reveal(callees_().first[selected]); },
        jump: ({ to }) => { const reason = jumps[to]?.(); if (reason) say(reason); },
        clear() {
            lightUp("", null);
            select(-1);
            tell("cursor", { at: null });
            ask?.({ kind: "cursor", at: null });
        },
        findings: () => tell("findings", { findings: run.header.findings, path: run.header.path }),
        light: ({ text, positions }) => { lightUp(text, positions); if (positions?.length) walk(1); },
        forget() { callees = null; },
        async again() {
            if (matches) light(run, maskOf(matches.positions));
            if (selected >= 0) await tellSelected();  // before others may let go of it
        },
    };
    return { answers, hear };
}
