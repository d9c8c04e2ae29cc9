// @ts-check
// The keys of the timeline: one list, from which help and listeners are made.

/** @type {[string[], string][]} */
const KEYS = [
    [["w", "s"], "zoom in, zoom out, around the pointer"],
    [["a", "d"], "move to the left, to the right"],
    [["0"], "show the whole run"],
    [["f"], "show the marked range or the selected slice"],
    [["ArrowLeft", "ArrowRight"], "the slice before, after, on the same lane"],
    [["ArrowUp", "ArrowDown"], "the cause, the first effect"],
    [["[", "]"], "the step before, after"],
    [["n", "p"], "the next, the previous match of the search"],
    [["m", "M"], "the next, the previous slice of the same name"],
    [["l"], "the longest kernel; again: the next shorter one"],
    [["i"], "the longest gap of the device; again: the next shorter one"],
    [["g", "G"], "the next, the previous finding"],
    [["x"], "put a cursor at the edge near the pointer; two of them show the time between; again: remove both"],
    [["r"], "mark what is visible, for its sums"],
    [["b"], "keep the marked range as a bookmark"],
    [["t"], "what is visible as a table"],
    [["PageUp", "PageDown"], "scroll the lanes"],
    [["/"], "search"],
    [["c"], "clear selection, range and search"],
    [["?"], "show these keys"],
    [["Escape"], "give the keys back to the notebook"],
];

const GESTURES = [
    ["drag", "move what is shown"],
    ["Shift + drag", "mark a range; also by dragging along the times"],
    ["Ctrl + wheel, pinch", "zoom"],
    ["Shift + wheel", "move"],
    ["drag in the strip on top", "show that part of the run"],
    ["click, double click", "select a slice; show it"],
];

const NAMES_OF_KEYS = /** @type {Record<string, string>} */ ({
    ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", PageUp: "Page up", PageDown: "Page down", Escape: "Esc",
});

const KNOWN_KEYS = new Set(KEYS.flatMap(([keys]) => keys));

/** The key of an event, as the list has it; null for one that belongs to a field or the browser. @param {KeyboardEvent} event */
function keyOf(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return null;
    const target = /** @type {HTMLElement} */ (event.target);
    const typing = target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable=true]");
    if (typing) return null;
    if (target.closest("button, summary, a") && ["Enter", " "].includes(event.key)) return null;
    const key = event.key.length === 1 && event.key !== "M" && event.key !== "G" ? event.key.toLowerCase() : event.key;
    return KNOWN_KEYS.has(key) ? key : null;
}

/** What the box of keys holds. @param {() => void} close @returns {HTMLElement[]} */
function helpOf(close) {
    const rows = KEYS.map(([keys, text]) => make("tr", {},
        make("th", { scope: "row" }, ...keys.map((key) => make("kbd", { text: NAMES_OF_KEYS[key] ?? key }))), make("td", { text })));
    const hands = GESTURES.map(([hand, text]) => make("tr", {}, make("th", { scope: "row", text: hand }), make("td", { text })));
    return [
        make("button", { type: "button", class: "close", text: "Close", onclick: close }),
        make("table", {}, ...rows, ...hands)];
}
