// @ts-check
// Keys pressed in what npuprof draws do not reach the notebook: one set of listeners for the whole page.
//
// JupyterLab and Notebook look a key up at the document: while it bubbles (from JupyterLab 4.1 and Notebook 7.1 on), or
// before any element has heard it. They skip elements below data-lm-suppress-shortcuts, and hear nothing that was
// stopped on its way. Both is done here, for static HTML too: a notebook that is not trusted keeps its classes, but no
// other attribute. Keys with Ctrl, Cmd or Alt are the notebook's. Links to cells (cells.js) are made here too,
// and the names of bars (labels.js) kept in view.

const BOX = ".npuprof-keys";
const SUPPRESS = "data-lm-suppress-shortcuts";
const FIELDS = "button, input, select, textarea, summary, a[href], [tabindex='0']";
const VIEWS = ".npuprof-timeline, .npuprof-grid tbody tr[tabindex='0']";  // what has keys of its own
const LONGEST_MS = 60_000;
const TYPED_MS = 300;  // after what was typed has been sent to the kernel, which happens at once unless it is busy

// In a row of this class, Enter does what the first button does, and Escape what the one that cancels does.
const ASKS = ".npuprof-asks";
const CANCELS = ".npuprof-cancel";
const QUESTION = ".npuprof-question";  // a row that takes the focus when it appears
const STOPPING = ".widget-inline-hbox input";  // fields of ipywidgets, which let no key out
const SWITCHES = "button.jupyter-widgets.widget-toggle-button, .widget-toggle-buttons button";

/** The outermost box around an element. @param {EventTarget | null} target @returns {any} */
function boxOf(target) {
    let found = null;
    /** @type {any} */
    let at = target instanceof Element ? target : null;
    for (; at; at = at.parentElement) {
        if (at.matches(BOX) || at.layout?.meta?.npuprof) found = at;  // plotly.js keeps the layout of a figure there
    }
    return found;
}

/** @param {KeyboardEvent} event */
const isForNotebook = (event) => event.ctrlKey || event.metaKey || event.altKey;

/** @param {Element} element */
const isUsable = (element) => !(/** @type {any} */ (element).disabled) && element.checkVisibility({ visibilityProperty: true });

/** @param {any} element */
function focus(element) {
    if (!element.matches(FIELDS)) element.tabIndex = -1;
    element.focus({ preventScroll: true });
}

/** What a tab shows: a view with keys of its own, as soon as it is there, else the whole. @param {any} tabs */
function focusShown(tabs) {
    const place = [...(tabs.querySelector(":scope > .widget-tab-contents")?.children ?? [])].find(isUsable);
    if (!place) return;
    focus(place);
    const look = () => {
        const view = [...place.querySelectorAll(VIEWS)].find(isUsable);
        if (document.activeElement !== place) watch.disconnect();
        else if (view) { watch.disconnect(); focus(view); }
    };
    const watch = new MutationObserver(look);
    watch.observe(place, { childList: true, subtree: true });
    setTimeout(() => watch.disconnect(), LONGEST_MS);
    look();
}

/** Tell the state of buttons that stay pressed to screen readers. @param {Element} around */
function tellPressed(around) {
    for (const one of around.matches(SWITCHES) ? [around] : around.querySelectorAll(SWITCHES)) {
        const name = one.matches(".npuprof-expands") ? "aria-expanded" : "aria-pressed";
        one.setAttribute(name, String(one.classList.contains("mod-active")));
    }
}

/** Give each control of an option the text that describes it, which stands beside the controls. @param {Element} box */
function describe(box) {
    box.querySelectorAll("[data-npuprof-describes]").forEach((text, at) => {
        text.id ||= `npuprof-description-${at}-${Math.random().toString(36).slice(2)}`;
        const control = box.querySelector(`.${/** @type {any} */ (text).dataset.npuprofDescribes} :is(input, select)`);
        if (!control) return;
        control.setAttribute("aria-describedby", text.id);
        control.setAttribute("title", text.textContent ?? "");
    });
}

/** What a row of a question does with a key; whether it has one for it. @param {any} event */
function answer(event) {
    const row = event.target.closest(ASKS);
    if (!row) return false;
    const cancel = row.querySelector(CANCELS);
    if (event.key === "Enter" && event.target.matches("input")) {
        event.target.dispatchEvent(new Event("change", { bubbles: true }));
        setTimeout(() => row.querySelector("button:not([disabled])")?.click(), TYPED_MS);
    } else if (event.key === "Escape" && cancel) cancel.click();
    else return false;
    return true;
}

/** @param {Element} box */
function giveBack(box) {
    const cell = /** @type {any} */ (box.closest(".jp-Cell"));
    if (cell) cell.focus({ preventScroll: true });
    else /** @type {any} */ (document.activeElement)?.blur();
}

function listen() {
    const page = /** @type {any} */ (globalThis);
    page.npuprofKeys?.abort();  // those of a kernel before
    const { signal } = (page.npuprofKeys = new AbortController());
    const known = new WeakSet();
    /** The element with the focus, and those around it up to its box. @type {Element[]} */
    let held = [];
    let isChecked = false;

    /** Where the focus goes when what has it is removed, hidden or disabled: to what is next to it. */
    function keep() {
        isChecked = false;
        const box = held.at(-1);
        if (!box?.isConnected || (document.activeElement ?? document.body) !== document.body) return;
        for (const around of held.slice(1)) {
            if (!around.isConnected || !isUsable(around)) continue;
            if (around.matches(".widget-tab")) { focusShown(around); return; }
            const near = around === box ? box : [...around.querySelectorAll(FIELDS)].find(isUsable);
            if (near) { focus(near); return; }
        }
    }
    /** @param {Element} box */
    function hold(box) {
        if (known.has(box)) return;
        known.add(box);
        box.addEventListener("keydown", (/** @type {any} */ event) => {
            if (isForNotebook(event)) return;
            if (event.key === "Escape" && !event.defaultPrevented) {
                event.preventDefault();
                giveBack(box);
            }
            event.stopPropagation();
        }, { signal });
        tellPressed(box);
        describe(box);
        linkCells(box);
        const watch = new MutationObserver((records) => {
            if (records.some((record) => record.type === "childList" || record.attributeName === "class")) describe(box);
            for (const { target, attributeName, addedNodes } of /** @type {any[]} */ (records)) {
                for (const added of addedNodes) linkCells(added);
                if (attributeName === "class") tellPressed(target);
                else if (attributeName === "style" && target.matches(QUESTION) && held.at(-1) === box && isUsable(target)) {
                    const field = [...target.querySelectorAll("input"), ...target.querySelectorAll("button")].find(isUsable);
                    if (field && !target.contains(document.activeElement)) focus(field);
                }
            }
            if (isChecked || held.at(-1) !== box) return;
            isChecked = true;
            requestAnimationFrame(() => requestAnimationFrame(keep));  // after the browser has taken the focus away
        });
        watch.observe(box, { childList: true, subtree: true, attributes: true, attributeFilter: ["class", "disabled", "hidden", "style"] });
        signal.addEventListener("abort", () => watch.disconnect());
    }

    addEventListener("keydown", (event) => {
        if (event.key === "Tab") document.querySelectorAll(BOX).forEach((one) => hold(boxOf(one)));
        const box = boxOf(event.target);
        if (!box) return;
        hold(box);
        // Shortcuts may be looked up at the element with the focus before one around it: it is marked itself.
        const marked = /** @type {Element[]} */ ([box, event.target, ...box.querySelectorAll(`[${SUPPRESS}]`)]);
        for (const one of marked) one.toggleAttribute(SUPPRESS, !isForNotebook(event));
        if (isForNotebook(event)) return;
        const link = event.key === "Enter" && linkAt(event);
        if (link) goToCell(link);
        if (link || answer(event)) event.preventDefault();
        else if (event.key === "Escape" && /** @type {Element} */ (event.target).matches(STOPPING)) giveBack(box);
        const tab = /** @type {Element} */ (event.target).closest(".lm-TabBar-tab");
        if (tab && (event.key === "Enter" || event.key === " ")) setTimeout(() => focusShown(tab.closest(".widget-tab")));
    }, { capture: true, signal });
    addEventListener("pointerover", (event) => {
        const box = boxOf(event.target);
        if (!box) return;
        hold(box);
        const figure = /** @type {any} */ (event.target).closest(".js-plotly-plot");
        if (figure?.layout?.meta?.npuprof) keepLabels(figure);
    }, { capture: true, signal, passive: true });
    addEventListener("pointerdown", (event) => {
        if (!boxOf(event.target)) held = [];
    }, { capture: true, signal });
    addEventListener("click", (event) => {
        const box = boxOf(event.target);
        if (!box) return;
        hold(box);
        const link = linkAt(event);
        if (link && !getSelection()?.toString()) {
            event.stopPropagation();  // what is around it chooses a row
            goToCell(link);
            return;
        }
        const tab = /** @type {Element} */ (event.target).closest(".lm-TabBar-tab");
        if (tab) setTimeout(() => focusShown(tab.closest(".widget-tab")));
        else if (!box.contains(document.activeElement)) focus(box);
    }, { capture: true, signal });
    addEventListener("focusin", (event) => {
        const box = boxOf(event.target);
        held = [];
        if (!box) return;
        hold(box);
        for (let at = /** @type {Element | null} */ (event.target); at; at = at === box ? null : at.parentElement) held.push(at);
    }, { capture: true, signal });
}

export default { initialize: listen };
