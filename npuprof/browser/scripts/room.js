// @ts-check
// More room: a tab of its own in JupyterLab, or the whole screen in any front end.

const NEW_VIEW = "notebook:create-output-view";

/** Whether a view is in a notebook of JupyterLab, which can show it in a tab, too. @param {HTMLElement} root */
const canHaveTab = (root) => Boolean(root.closest(".jp-LabShell .jp-Notebook"));

/**
 * Show the output of a view in a tab, as JupyterLab's menu does: it hands its commands to no page. Both views are of one
 * widget, and share all of its state. Return whether it could.
 * @param {HTMLElement} root
 */
function openTab(root) {
    const output = root.closest(".jp-OutputArea-output") ?? root, where = output.getBoundingClientRect();
    const press = (/** @type {Element} */ place, /** @type {string[]} */ kinds, /** @type {number} */ x, /** @type {number} */ y, button = 0) => {
        for (const kind of kinds) place.dispatchEvent(new PointerEvent(kind, { bubbles: true, cancelable: true, clientX: x, clientY: y, button, view: window }));
    };
    press(output, ["contextmenu"], where.left + 5, Math.max(where.top, 0) + 5, 2);
    const item = document.querySelector(`.lm-Menu-item[data-command="${NEW_VIEW}"]:not(.lm-mod-disabled)`), at = item?.getBoundingClientRect();
    if (item && at) press(item, ["pointermove", "pointerup"], at.left + 5, at.top + 5);
    else press(document.body, ["pointerdown"], 0, 0);  // closes the menu
    return Boolean(item);
}

/** Fill the screen with all views of a run, or give it back. @param {HTMLElement} root @param {(text: string) => void} say */
function fillScreen(root, say) {
    if (document.fullscreenElement) document.exitFullscreen();
    else (root.closest(".npuprof-explorer, .npuprof-saved-views") ?? root).requestFullscreen?.().catch(() => say("The browser does not let a page fill the screen."));
}
