// The width of the box around it, as often as it changes; nothing is told of a box that cannot be seen.
function render({ model, el }) {
    el.style.display = "none";
    let observer = null;
    function attach() {
        const box = el.parentElement?.closest(".npuprof-measured");
        if (!box) { frame = requestAnimationFrame(attach); return; }
        observer = new ResizeObserver(() => {
            const width = Math.round(box.clientWidth);
            if (width > 0 && width !== model.get("width")) {
                model.set("width", width);
                model.save_changes();
            }
        });
        observer.observe(box);
    }
    let frame = requestAnimationFrame(attach);
    return () => {
        cancelAnimationFrame(frame);
        observer?.disconnect();
    };
}
export default { render };
