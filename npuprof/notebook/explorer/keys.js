// Keys, the wheel and the width of a timeline, and its time axis while that is scrolled out of sight. Keys typed into a text field, or held with Ctrl, Alt or Meta, belong to
// the field and the browser. The front end's own shortcuts, by which D, D deletes a cell, are kept out of the box with
// the attribute that Lumino looks for.
const KEYS = new Set(["w", "a", "s", "d", "f", "n", "p", "0",
    "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Escape"]);

const LABEL = "Timeline. W and S zoom, A and D move, F shows the selection, 0 shows all, left and right select "
    + "neighbours, up and down cause and effect, N and P matches, Escape clears.";

const REDRAWN = ["plotly_afterplot", "plotly_relayout", "plotly_relayouting"];

const SETTLED_MS = 1000;

const CONTROLS = "input, textarea, select, button, a[href], [contenteditable=true], [role=radiogroup]";

function isTyping(target) {
    return target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable=true]");
}

function render({ model, el }) {
    let box = null, pointer = null, observer = null, scrolled = null, plot = null;

    function place(clientX) {
        const plot = scrolled.querySelector(".nsewdrag");
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
    // Plotly keeps a click in its plot from moving the focus: the keys would be the notebook's still.
    function onPointer(event) { if (!event.target.closest(CONTROLS)) box.focus({ preventScroll: true }); }
    let turned = 0, waiting = false;
    function onWheel(event) {
        if (!event.ctrlKey || !scrolled.contains(event.target) || place(event.clientX) === null) return;
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
    function onMove(event) { pointer = scrolled.contains(event.target) ? place(event.clientX) : null; }
    function onLeave() { pointer = null; }
    function measure() {
        const plot = scrolled.querySelector(".nsewdrag");
        const width = Math.round(plot ? plot.getBoundingClientRect().width : box.clientWidth);
        if (width > 0 && width !== model.get("width")) {
            model.set("width", width);
            model.save_changes();
        }
    }
    // The axis is the figure's own, copied as often as plotly draws it: what is above stays where the lanes move on.
    function copyAxis() {
        const needed = scrolled.scrollTop > 0;
        strip.classList.toggle("npuprof-needed", needed);
        const axis = needed && plot && plot.querySelector(".xaxislayer-above");
        if (!axis) return;
        const from = axis.ownerSVGElement;
        const copy = from.cloneNode(false);
        const moved = document.createElementNS(copy.namespaceURI, "g");
        // The lower edge of the margin, where the lanes begin, is the lower edge of the strip.
        moved.setAttribute("transform", `translate(0,${strip.clientHeight - plot._fullLayout._size.t})`);
        moved.append(axis.cloneNode(true));
        copy.append(moved);
        strip.replaceChildren(copy);
    }
    function attachAxis() {
        plot = scrolled.querySelector(".js-plotly-plot");
        if (!plot || !plot.on || !plot._fullLayout) { frame = requestAnimationFrame(attachAxis); return; }
        for (const event of REDRAWN) plot.on(event, redrawn);
        settling = setTimeout(redrawn, SETTLED_MS);  // it may have been drawn before this was here
    }
    function redrawn() {
        drawn = true;
        copyAxis();
        fit();
    }
    // Plotly draws anew at another width when the window tells of one. It is told only where the figure's is another
    // than its box's, and never while it is drawn for the first time: a figure that is told then ends up blank.
    function fit() {
        const wide = plot ? plot.clientWidth : 0;
        if (!drawn || !wide || !plot._fullLayout) return;
        if (wide !== asked) { asked = wide; tries = 0; }
        if (Math.abs(plot._fullLayout.width - wide) > 1 && tries < 5) {
            tries += 1;
            window.dispatchEvent(new Event("resize"));
        }
        clearTimeout(measuring);
        measuring = setTimeout(measure, 300);
    }
    function attach() {
        box = el.closest(".npuprof-timeline");
        if (!box) { frame = requestAnimationFrame(attach); return; }
        scrolled = el.closest(".npuprof-scrolled");
        strip = el.closest(".npuprof-axis");
        strip.setAttribute("aria-hidden", "true");  // the figure has it already
        scrolled.addEventListener("scroll", copyAxis, { passive: true });
        attachAxis();
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", LABEL);
        box.setAttribute("data-lm-suppress-shortcuts", "true");
        box.addEventListener("keydown", onKey);
        box.addEventListener("pointerdown", onPointer, { capture: true });
        box.addEventListener("wheel", onWheel, { passive: false, capture: true });
        box.addEventListener("pointermove", onMove);
        box.addEventListener("pointerleave", onLeave);
        observer = new ResizeObserver(fit);
        observer.observe(box);
    }
    let strip = null, asked = 0, tries = 0, measuring = 0, settling = 0, drawn = false, frame = requestAnimationFrame(attach);
    return () => {
        cancelAnimationFrame(frame);
        if (!box) return;
        observer.disconnect();
        clearTimeout(measuring);
        clearTimeout(settling);
        scrolled.removeEventListener("scroll", copyAxis);
        if (plot?.removeListener) {
            for (const event of REDRAWN) plot.removeListener(event, redrawn);
        }
        box.removeEventListener("keydown", onKey);
        box.removeEventListener("pointerdown", onPointer, { capture: true });
        box.removeEventListener("wheel", onWheel, { capture: true });
        box.removeEventListener("pointermove", onMove);
        box.removeEventListener("pointerleave", onLeave);
    };
}
export default { render };
