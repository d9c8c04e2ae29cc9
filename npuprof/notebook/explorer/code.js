// Shows the code that the kernel sent; a click on a line, or Enter, tells the kernel which it was.
function render({ model, el }) {
    el.classList.add("npuprof-code");
    const lineOf = (event) => event.target.closest?.("[data-row]");
    const choose = (line) => line && model.send({ row: Number(line.dataset.row) });
    const light = () => {
        for (const line of el.querySelectorAll("[data-row]")) {
            const isChosen = Number(line.dataset.row) === model.get("row");
            line.style.background = isChosen ? "rgba(86,180,233,.35)" : "";
            line.setAttribute("aria-pressed", String(isChosen));
            if (!isChosen) continue;
            const folded = line.closest("details");
            if (folded) folded.open = true;
            line.scrollIntoView({ block: "nearest" });
        }
    };
    const draw = () => {
        el.innerHTML = model.get("html"); // escaped by the kernel
        for (const line of el.querySelectorAll("[data-row]")) {
            line.style.cursor = "pointer";
            line.tabIndex = 0;
            line.setAttribute("role", "button");
        }
        light();
    };
    el.addEventListener("click", (event) => choose(lineOf(event)));
    el.addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        choose(lineOf(event));
    });
    model.on("change:html", draw);
    model.on("change:row", light);
    draw();
    return () => {
        model.off("change:html", draw);
        model.off("change:row", light);
    };
}
export default { render };
