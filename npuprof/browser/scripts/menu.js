// @ts-check
// Menus in the browser's top layer, where no frame around them cuts them off.

/** Show the menu in a details element, its last child, as a whole. A click elsewhere or Escape closes it. @param {any} details */
function keepMenuWhole(details) {
    const summary = details.firstElementChild, menu = details.lastElementChild;
    if (!menu.showPopover) return;  // an old browser has it where it stands
    menu.popover = "manual";
    const place = () => {
        const at = summary.getBoundingClientRect(), above = at.top - 8, below = innerHeight - at.bottom - 8;
        const isAbove = below < Math.min(menu.scrollHeight, 240) && above > below;
        menu.style.maxHeight = `${Math.max(isAbove ? above : below, 80)}px`;
        menu.style.left = `${Math.max(Math.min(at.left, document.documentElement.clientWidth - menu.offsetWidth - 8), 8)}px`;
        const top = isAbove ? at.top - menu.offsetHeight : at.bottom;
        menu.style.top = `${Math.max(Math.min(top, innerHeight - menu.offsetHeight - 8), 8)}px`;
    };
    /** @type {AbortController | null} */
    let opened = null;
    details.addEventListener("toggle", () => {
        opened?.abort();
        if (!details.open || !details.isConnected) return;
        opened = new AbortController();
        const always = { capture: true, signal: opened.signal };
        opened.signal.addEventListener("abort", () => { if (menu.isConnected) menu.hidePopover(); });
        addEventListener("scroll", place, always);
        addEventListener("resize", place, always);
        addEventListener("pointerdown", (event) => { if (!details.contains(event.target)) details.open = false; }, always);
        if (!menu.matches(":popover-open")) menu.showPopover();
        place();
    });
    details.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Escape" || !details.open) return;
        event.preventDefault();
        event.stopPropagation();
        details.open = false;
        summary.focus();
    });
}
