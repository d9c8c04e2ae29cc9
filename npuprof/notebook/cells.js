// @ts-check
// "In [3], line 14" in what npuprof draws is a link to that line, as long as the notebook has a cell of that number.
// Only a page that runs this has the links: elsewhere the words are words.

const NAMED = /In \[(\d{1,9})\](?:, line (\d{1,9}))?/g;
const LINK = "npuprof-to-cell";
const NO_LINKS = `.${LINK}, script, style, svg, canvas, button, input, select, textarea, summary, a, [role='button']`;
const LOOK = ";text-decoration:underline dotted;text-underline-offset:2px;cursor:pointer";

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
        makeLink(/** @type {HTMLElement} */ (number), number.getAttribute("title") ?? "", false);  // Tab would stop at each of them
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
            const link = document.createElement("span");
            link.textContent = found[0];
            makeLink(link, found[0], true);
            parts.push(text.nodeValue.slice(done, found.index), link);
            done = found.index + found[0].length;
        }
        if (parts.length) text.replaceWith(...parts, text.nodeValue.slice(done));
    }
}

/** The cell of a number in the notebook around a link: the nearest, where several have it. @param {Element} link @param {string} number */
function cellOf(link, number) {
    const own = link.closest(".jp-Cell"), shown = [...document.querySelectorAll(".jp-Notebook")].filter((one) => one.checkVisibility());
    const notebook = link.closest(".jp-Notebook") ?? (shown.length === 1 ? shown[0] : null);  // an output in a view of its own
    const cells = [...notebook?.querySelectorAll(".jp-CodeCell") ?? []];
    const place = own ? cells.indexOf(own) : cells.length;
    const named = cells.filter((cell) => cell.querySelector(".jp-InputPrompt")?.textContent?.trim() === `[${number}]:`);
    const far = (/** @type {Element} */ cell) => Math.abs(cells.indexOf(cell) - place);
    return /** @type {HTMLElement | undefined} */ (named.sort((one, other) => far(one) - far(other))[0]);
}

/** Go to the cell of a link, as JupyterLab's table of contents does, and mark the line. @param {any} link */
function goToCell(link) {
    const [, number, line] = [...link.dataset.npuprofPlace.matchAll(NAMED)][0];
    const cell = cellOf(link, number);
    if (!cell) {
        link.title = `This notebook has no cell [${number}] any more`;
        link.style.textDecoration = "line-through";
        return;
    }
    cell.focus({ preventScroll: true });
    cell.scrollIntoView({ block: "nearest" });
    const content = /** @type {any} */ (cell.querySelector(".cm-content"));
    const inner = content?.cmTile ?? content?.cmView;  // as CodeMirror finds its view, by its versions
    const view = (inner?.root ?? inner?.rootView)?.view;
    if (!line || !view || Number(line) > view.state.doc.lines) return;
    const { from, to } = view.state.doc.line(Number(line));
    view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
}

/** The link to a cell at an event. @param {Event} event @returns {any} */
const linkAt = (event) => event.target instanceof Element && event.target.closest(`.${LINK}`);
