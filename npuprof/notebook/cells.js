// @ts-check
// "In [3], line 14" in what npuprof draws is a link to that line of the cell that ran with that number. Which cell that
// was is told by a class of what is drawn: after a restart of the kernel, another cell may have the number. Only a page
// that runs this has the links, and only where the id of the cell is known: elsewhere the words are words.

const NAMED = /In \[(\d{1,9})\](?:, line (\d{1,9}))?/g;
const LINK = "npuprof-to-cell";
const CELL = /^npuprof-cell-(\d{1,9})-([\w-]{1,64})$/;
const NO_LINKS = `.${LINK}, script, style, svg, canvas, button, input, select, textarea, summary, a, [role='button']`;
const LOOK = ";text-decoration:underline dotted;text-underline-offset:2px;cursor:pointer;outline-offset:3px";

/** The id of the cell that ran with a number, where what is drawn around an element tells one. @param {Element} around @param {string} number */
function idOf(around, number) {
    const told = [...around.closest("[class*='npuprof-cell-']")?.classList ?? []].map((name) => CELL.exec(name));
    const ids = new Set(told.filter((found) => found?.[1] === number).map((found) => found?.[2]));
    return ids.size === 1 ? [...ids][0] : undefined;
}

/** Make an element a link to a place. @param {HTMLElement} element @param {string} named @param {boolean} isStop */
function makeLink(element, named, isStop) {
    element.classList.add(LINK);
    element.setAttribute("role", "link");
    element.title = `Go to ${named} in this notebook`;
    element.tabIndex = isStop ? 0 : -1;
    element.style.cssText += LOOK;
    element.dataset.npuprofPlace = named;
}

/** Make links of the cells that are named below an element. @param {Node} around */
function linkCells(around) {
    const at = around instanceof Element ? around : around.parentElement;
    if (!at || at.closest(NO_LINKS)) return;
    for (const number of /** @type {Element} */ (around).querySelectorAll?.("pre span[title^='In [']") ?? []) {
        const named = number.getAttribute("title") ?? "";
        // Tab would stop at each of them.
        if (idOf(number, [...named.matchAll(NAMED)][0]?.[1])) makeLink(/** @type {HTMLElement} */ (number), named, false);
    }
    const walker = document.createTreeWalker(around, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, (node) => {
        if (node instanceof Element) return node.matches(NO_LINKS) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP;
        return node.nodeValue?.includes("In [") ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP;
    });
    /** @type {any[]} */
    const texts = around.nodeType === Node.TEXT_NODE ? [around] : [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) {
        const parts = [];
        let done = 0;
        for (const found of text.nodeValue.matchAll(NAMED)) {
            if (!idOf(at, found[1])) continue;
            const link = document.createElement("span");
            link.textContent = found[0];
            makeLink(link, found[0], true);
            parts.push(text.nodeValue.slice(done, found.index), link);
            done = found.index + found[0].length;
        }
        if (parts.length) text.replaceWith(...parts, text.nodeValue.slice(done));
    }
}

/** The editor of a cell. @param {Element} cell @returns {any} */
function editorOf(cell) {
    const content = /** @type {any} */ (cell.querySelector(".cm-content"));
    const inner = content?.cmTile ?? content?.cmView;  // as CodeMirror finds its view, by its versions
    return (inner?.root ?? inner?.rootView)?.view;
}

/** The cell of an id in the notebook around a link: its editor's text is a part of the cell's model. @param {Element} link @param {string | undefined} id */
function cellOf(link, id) {
    const shown = [...document.querySelectorAll(".jp-Notebook")].filter((one) => one.checkVisibility());
    const notebook = link.closest(".jp-Notebook") ?? (shown.length === 1 ? shown[0] : null);  // an output in a view of its own
    const isWanted = (/** @type {Element} */ cell) =>
        editorOf(cell)?.state.config?.staticValues?.some((/** @type {any} */ value) => value?.ytext?.parent?.get?.("id") === id);
    return /** @type {HTMLElement | undefined} */ ([...notebook?.querySelectorAll(".jp-CodeCell") ?? []].find(isWanted));
}

/** Go to the cell of a link, as JupyterLab's table of contents does, and mark the line. @param {any} link */
function goToCell(link) {
    const [, number, line] = [...link.dataset.npuprofPlace.matchAll(NAMED)][0];
    const cell = cellOf(link, idOf(link, number));
    if (!cell) {
        link.title = `This notebook has no longer the cell that ran as [${number}]`;
        link.style.textDecoration = "line-through";
        return;
    }
    cell.focus({ preventScroll: true });
    cell.scrollIntoView({ block: "nearest" });
    const view = editorOf(cell);
    if (!line || !view || Number(line) > view.state.doc.lines) return;
    const { from, to } = view.state.doc.line(Number(line));
    view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
}

/** The link to a cell at an event. @param {Event} event @returns {any} */
const linkAt = (event) => event.target instanceof Element && event.target.closest(`.${LINK}`);
