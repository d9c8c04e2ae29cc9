// @ts-check
// Opens a saved explorer when it comes into sight: unpacks its style and its script, and runs them.

{
    const around = /** @type {HTMLElement} */ (document.currentScript?.parentElement);
    const view = /** @type {HTMLElement} */ (around.querySelector(".npuprof-saved-place:not([data-opened])"));
    const place = /** @type {HTMLElement} */ (view.parentElement);
    view.dataset.opened = "";
    const open = async () => {
        try {
            const packed = place.querySelector(".npuprof-saved-program")?.textContent ?? "";
            const stream = new Blob([/** @type {any} */ (bytesOf(packed))]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
            const [style, script] = (await new Response(stream).text()).split("\0");
            const put = (/** @type {string} */ tag, /** @type {string} */ text) => place.append(Object.assign(document.createElement(tag), { textContent: text }));
            put("style", style);
            put("script", script);  // runs now
        } catch (error) {
            view.append(Object.assign(document.createElement("div"), { role: "alert", textContent: `npuprof: the saved views could not be opened: ${error}` }));
        }
    };
    // Not while it is folded or far away.
    const near = new IntersectionObserver((entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        near.disconnect();
        open();
    }, { rootMargin: "2000px" });
    near.observe(view);
}
