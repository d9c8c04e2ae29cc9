// Keys and the width of a flame graph's place: plotly alone would follow the window only. Keys pressed in a control, or held with Ctrl, Alt or Meta, belong to the control
// and the browser. The front end's own shortcuts are kept out of the box with the attribute that Lumino looks for.
const KEYS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Enter", "Backspace", "Escape",
    "u", "0", "n", "p"]);

const LABEL = "Flame graph. Arrow keys move from frame to frame, Enter zooms into one, U or Backspace goes up, "
    + "0 shows all, N and P go to the next and the previous match.";

const CONTROLS = "input, textarea, select, button, a[href], [contenteditable=true], [role=radiogroup]";

function render({ model, el }) {
    el.style.display = "none";
    let box = null, place = null, observer = null;

    function onKey(event) {
        if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest(CONTROLS)) return;
        const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
        if (!KEYS.has(key)) return;
        event.preventDefault();
        event.stopPropagation();
        model.send({ kind: "key", key: key });
    }
    // Plotly keeps a click in its plot from moving the focus: the keys would be the notebook's still.
    function onPointer(event) { if (!event.target.closest(CONTROLS)) box.focus({ preventScroll: true }); }
    function measure() {
        const width = place.clientWidth;
        if (width > 0 && width !== model.get("width")) {
            model.set("width", width);
            model.save_changes();
        }
    }
    function scroll() {
        setTimeout(() => { if (place) place.scrollTop = model.get("at_bottom") ? place.scrollHeight : 0; }, 150);
    }
    function attach() {
        box = el.closest(".npuprof-flame");
        place = box?.querySelector(".npuprof-flame-scrolled");
        if (!place) { frame = requestAnimationFrame(attach); return; }
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", LABEL);
        box.setAttribute("data-lm-suppress-shortcuts", "true");
        box.addEventListener("keydown", onKey);
        box.addEventListener("pointerdown", onPointer, { capture: true });
        observer = new ResizeObserver(measure);
        observer.observe(place);
        model.on("change:pictures", scroll);
    }
    let frame = requestAnimationFrame(attach);
    return () => {
        cancelAnimationFrame(frame);
        model.off("change:pictures", scroll);
        if (!observer) return;
        observer.disconnect();
        box.removeEventListener("keydown", onKey);
        box.removeEventListener("pointerdown", onPointer, { capture: true });
    };
}
export default { render };
