// @ts-check
// What is told below the picture: the selected slice, the marked range, and what is visible as a table.

/** @param {string[]} heads @param {(string | number)[][]} rows @param {number} texts how many columns hold texts */
function tableOf(heads, rows, texts) {
    const head = make("tr", {}, ...heads.map((text, at) => make("th", { scope: "col", text, class: at < texts ? null : "number" })));
    return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows.map((row) =>
        make("tr", {}, ...row.map((text, at) => make("td", { text, class: at < texts ? null : "number", title: at < texts ? text : null }))))));
}

/** What was found of a slice, and what to do about it. @param {[string, string][]} findings */
const mentioned = (findings) => (findings.length
    ? [make("section", {}, make("h4", { text: "findings" }), ...findings.map(([title, action]) =>
        make("p", { class: "finding" }, make("b", { text: title }), ` ${action}`)))]
    : []);

/**
 * All that is known of the selected slice: its columns as the reports write them, or as they were recorded.
 * @param {any} told @param {(slice: number) => void} select @param {boolean} raw @param {() => void} toggleRaw
 */
function selectionBox(told, select, raw, toggleRaw) {
    const related = (/** @type {string} */ title, /** @type {[number, string, string][]} */ some) => (some.length
        ? [make("section", {}, make("h4", { text: title }), ...some.map(([slice, name, table]) =>
            make("button", { type: "button", class: "link", title: `${table}: ${name}`, text: name, onclick: () => select(slice) })))]
        : []);
    const groups = told.groups.map((/** @type {any} */ group) => make("section", {}, make("h4", { text: group.title }),
        make("dl", {}, ...group.facts.flatMap((/** @type {string[]} */ [key, value, column, recorded]) =>
            [make("dt", { text: raw ? column ?? key : key, title: column }), make("dd", { text: raw ? recorded ?? value : value, title: recorded })])),
        ...(group.zeros ? [make("p", { class: "faint", text: `${group.zeros} more are zero` })] : [])));
    const switch_ = make("button", {
        type: "button", text: "Raw values", title: "columns and values as they were recorded", "aria-pressed": String(raw), onclick: toggleRaw,
    });
    return [switch_, make("h3", { text: told.name || "(unnamed)", title: told.name }), make("div", { class: "facts" },
        ...mentioned(told.findings), ...related("caused by", told.causes), ...related("causes", told.effects),
        ...(told.more ? [make("p", { class: "faint", text: "There are more effects than arrows." })] : []), ...groups)];
}

const SUMS = ["count", "sum", "mean", "p95", "max"];

/**
 * The sums of the marked range.
 * @param {any} told @param {{view: string}} state @param {Record<string, (given?: any) => void>} act
 */
function rangeBox(told, state, act) {
    const [low, high] = told.marked;
    const title = make("h3", { text: `Range of ${duration(high - low)}, from ${duration(low)}` });
    const buttons = make("div", { class: "row" },
        ...(/** @type {[string, string][]} */ ([["names", "By name"], ["lanes", "By lane"], ["parts", "Time of the device"]]).map(([view, text]) =>
            make("button", { type: "button", text, "aria-pressed": String(state.view === view), onclick: () => act.view(view) }))),
        make("button", { type: "button", text: "Show", title: "F: show the range", onclick: () => act.fit() }),
        make("button", { type: "button", text: "Bookmark", title: "B: keep the range", onclick: () => act.bookmark() }),
        make("button", { type: "button", text: "Note", title: "write a note on the range", onclick: () => act.note(told.marked) }),
        ...(told.summary?.code ? [make("button", { type: "button", text: "Copy as DataFrame code", onclick: () => act.copy(told.summary.code) })] : []));
    if (!told.summary) return [title, make("p", { class: "faint", text: "working …" })];
    const sums = (/** @type {any[]} */ row) => [counted(row[0]), ...row.slice(1).map(duration)];
    if (state.view === "parts") {
        const rows = told.summary.parts.map((/** @type {any[]} */ [part, cause, time]) =>
            [part.replace("_", " "), cause, duration(time), share(time, told.summary.parts.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one[2], 0))]);
        const none = make("p", { class: "faint", text: "No device worked here, or its times have no place." });
        return [title, buttons, rows.length ? tableOf(["part", "cause", "time", "share"], rows, 2) : none];
    }
    const rows = told.summary[state.view].map((/** @type {any[]} */ [where, name, ...rest]) => [where, name || "(unnamed)", ...sums(rest)]);
    const more = state.view === "names" && told.summary.left ? [make("p", { class: "faint", text: `${counted(told.summary.left)} more names` })] : [];
    return [title, buttons, tableOf([state.view === "names" ? "table" : "group", state.view === "names" ? "name" : "lane", ...SUMS], rows, 2), ...more];
}

const MOST_TOLD = 200;

/**
 * What is visible, as rows of text: the longest first.
 * @param {Scene} scene @param {(slice: number) => void} select
 */
function visibleTable(scene, select) {
    const found = [];
    const answer = scene.store.covering(scene.start, scene.end).at(-1);
    let track = "";
    for (const row of scene.rows) {
        if (row.title || row.first) track = row.title || row.group;
        const span = answer?.lanes.get(row.lane);
        if (!span) continue;
        for (let at = firstBar(answer, row.lane, scene.start); at < span[1] && answer.begin[at] <= scene.end; at += 1) {
            if (answer.begin[at] + answer.length[at] >= scene.start) found.push({ track, at });
        }
    }
    found.sort((one, other) => answer.longest[other.at] - answer.longest[one.at]);
    const rows = found.slice(0, MOST_TOLD).map(({ track: lane, at }) => {
        const name = answer.names.get(answer.label[at])?.[0] || "(unnamed)";
        return make("tr", {}, make("td", { text: lane }),
            make("td", {}, make("button", { type: "button", class: "link", text: name, onclick: () => select(answer.slice[at]) })),
            make("td", { class: "number", text: counted(answer.count[at]) }), make("td", { class: "number", text: duration(answer.begin[at]) }),
            make("td", { class: "number", text: duration(answer.busy[at]) }), make("td", { class: "number", text: duration(answer.longest[at]) }));
    });
    const more = found.length > MOST_TOLD ? `The longest ${MOST_TOLD} of ${counted(found.length)} bars.` : `${counted(found.length)} bars.`;
    const counters = scene.rows.flatMap((row) => row.lines).map((line) => {
        const { title, unit } = scene.setup.lines[line];
        const facts = lineFacts(answer, line, scene.start, scene.end, scene.store.cursor ?? scene.end);
        return [title, unit, ...[facts.least, facts.most, facts.value].map((value) => (value === null ? "–" : figure(value)))];
    });
    const kept = scene.store.cursor === null ? "at the end" : `at ${duration(scene.store.cursor)}`;
    const heads = ["lane", "name", "slices", "at", "time", "longest"].map((text, at) => make("th", { scope: "col", text, class: at < 2 ? null : "number" }));
    return [make("h3", { text: "What is visible" }), make("p", { class: "faint", text: more }),
        make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)),
        ...(counters.length ? [make("h3", { text: "Counters" }), tableOf(["counter", "unit", "least", "greatest", kept], counters, 2)] : [])];
}

/** Copy a text, or select it where the browser does not let a page copy. @param {string} text @param {HTMLElement} place @param {(text: string) => void} say */
async function copyText(text, place, say) {
    const code = make("code", { class: "code", tabindex: "0", text, "aria-label": "copied code" });
    place.replaceChildren(code);
    try {
        await navigator.clipboard.writeText(text);
        say("Copied.");
    } catch {
        const range = document.createRange();
        range.selectNodeContents(code);
        getSelection()?.removeAllRanges();
        getSelection()?.addRange(range);
        say("The browser does not let a page copy: the lines are selected.");
    }
}
