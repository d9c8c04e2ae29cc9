// Tells the kernel where a figure of its box was clicked. plotly.js draws it whenever it has loaded.
function render({ model, el }) {
    el.style.display = "none";
    let box = null, figure = null, frame = 0;
    const told = (event) => {
        const [point] = event.points ?? [];
        if (typeof point?.x === "number") model.send({ x: point.x });
    };
    const attach = () => {
        const drawn = box.querySelector(".js-plotly-plot");
        if (drawn === figure || !drawn?.on) return;
        figure = drawn;
        figure.on("plotly_click", told);
        box.dataset.npuprofClicks = "heard";
    };
    const watch = new MutationObserver(attach);
    const find = () => {
        box = el.parentElement?.closest(".npuprof-clicked");
        if (!box) { frame = requestAnimationFrame(find); return; }
        watch.observe(box, { childList: true, subtree: true });
        attach();
    };
    frame = requestAnimationFrame(find);
    return () => {
        cancelAnimationFrame(frame);
        watch.disconnect();
        figure?.removeListener?.("plotly_click", told);
    };
}
export default { render };
