// Keys, the wheel and the width of a timeline. Keys typed into a text field, or held with Ctrl, Alt or Meta, belong to
// the field and the browser. The front end's own shortcuts, by which D, D deletes a cell, are kept out of the box with
// the attribute that Lumino looks for.
const KEYS = new Set(["w", "a", "s", "d", "f", "n", "p", "0",
    "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Escape"]);

const LABEL = "Timeline. W and S zoom, A and D move, F shows the selection, 0 shows all, left and right select "
    + "neighbours, up and down cause and effect, N and P matches, Escape clears.";

function isTyping(target) {
    return target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable=true]");
}

function render({ model, el }) {
    el.style.display = "none";
    let box = null, pointer = null, observer = null;

    function place(clientX) {
        const plot = box.querySelector(".nsewdrag");
        if (!plot) return null;
        const area = plot.getBoundingClientRect();
        const part = (clientX - area.left) / area.width;
        return part >= 0 && part <= 1 ? part : null;
    }
    function onKey(event) {
        if (event.ctrlKey || event.altKey || event.metaKey || isTyping(event.target)) return;
        const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
        if (!KEYS.has(key)) return;
        if (key.startsWith("Arrow") && event.target.closest("[role=radiogroup], .widget-toggle-buttons")) return;
        event.preventDefault();
        event.stopPropagation();
        model.send({ kind: "key", key: key, at: pointer });
    }
    let turned = 0, waiting = false;
    function onWheel(event) {
        if (!event.ctrlKey || place(event.clientX) === null) return;
        event.preventDefault();
        event.stopPropagation();
        turned += event.deltaY;
        const at = place(event.clientX);
        if (waiting) return;
        waiting = true;
        setTimeout(() => {
            model.send({ kind: "wheel", turned: turned, at: at });
            turned = 0;
            waiting = false;
        }, 60);
    }
    function onMove(event) { pointer = event.target.closest(".nsewdrag, .js-plotly-plot") ? place(event.clientX) : null; }
    function onLeave() { pointer = null; }
    function measure() {
        const plot = box.querySelector(".nsewdrag");
        const width = Math.round(plot ? plot.getBoundingClientRect().width : box.clientWidth);
        if (width > 0 && width !== model.get("width")) {
            model.set("width", width);
            model.save_changes();
        }
    }
    function attach() {
        box = el.closest(".npuprof-timeline");
        if (!box) { frame = requestAnimationFrame(attach); return; }
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", LABEL);
        box.setAttribute("data-lm-suppress-shortcuts", "true");
        box.addEventListener("keydown", onKey);
        box.addEventListener("wheel", onWheel, { passive: false, capture: true });
        box.addEventListener("pointermove", onMove);
        box.addEventListener("pointerleave", onLeave);
        observer = new ResizeObserver(() => {
            window.dispatchEvent(new Event("resize"));  // plotly draws anew at another width
            setTimeout(measure, 300);
        });
        observer.observe(box);
    }
    let frame = requestAnimationFrame(attach);
    return () => {
        cancelAnimationFrame(frame);
        if (!box) return;
        observer.disconnect();
        box.removeEventListener("keydown", onKey);
        box.removeEventListener("wheel", onWheel, { capture: true });
        box.removeEventListener("pointermove", onMove);
        box.removeEventListener("pointerleave", onLeave);
    };
}
export default { render };
