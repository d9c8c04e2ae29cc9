// @ts-check
// Names of lying bars stay in view while a figure is zoomed: plotly.js centres a name on the whole bar, and has none for
// a bar that was narrow at first.

const LEAST_PIXELS = 24, CHARACTER_PIXELS = 6.8, PADDING = 8;
const ESCAPES = new Map([["&lt;", "<"], ["&gt;", ">"], ["&#36;", "$"], ["&amp;", "&"]]);
const NAMED_BY_HOVER = "hover";  // the bars of a timeline: timeline/figure.py

/** The name of a bar; a bar for several slices has none. @param {any} trace @param {number} at @returns {string} */
function barName(trace, at) {
    const hover = String(trace.hovertext?.[at] ?? "");
    const ofHover = trace.meta === NAMED_BY_HOVER && !hover.includes("<br>longest: ") && hover.match(/^<b>(.*?)<\/b>/)?.[1];
    return String(trace.text?.[at] || ofHover || "").replace(/&(lt|gt|amp|#36);/g, (one) => ESCAPES.get(one) ?? one);
}

/** Write a name in the visible part of each bar. @param {any} figure */
function labelBars(figure) {
    figure.querySelectorAll(".npuprof-labels").forEach((/** @type {Element} */ one) => one.remove());
    for (const bars of figure.querySelectorAll(".barlayer .trace.bars")) {
        const trace = bars.__data__?.[0]?.trace;
        if (trace?.orientation !== "h" || !trace.text || trace.textposition === "outside") continue;
        const length = figure._fullLayout[(trace.xaxis ?? "x").replace("x", "xaxis")]._length;
        const labels = document.createElementNS("http://www.w3.org/2000/svg", "g");
        labels.setAttribute("class", "npuprof-labels");
        for (const point of bars.querySelectorAll(".point")) {
            point.querySelector("text")?.setAttribute("visibility", "hidden");
            const box = point.querySelector("path")?.getBBox();
            const left = Math.max(box?.x ?? 0, 0), right = Math.min((box?.x ?? 0) + (box?.width ?? 0), length);
            if (right - left < LEAST_PIXELS) continue;
            const name = barName(trace, point.__data__.i), room = Math.floor((right - left - PADDING) / CHARACTER_PIXELS);
            if (!name || (name.length > room && room < 4)) continue;
            const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
            text.textContent = name.length > room ? `${name.slice(0, room - 1)}…` : name;
            text.setAttribute("x", String((left + right) / 2));
            text.setAttribute("y", String(box.y + box.height / 2));
            labels.append(text);
        }
        const font = trace.insidetextfont ?? {};
        labels.setAttribute("style", `pointer-events:none;text-anchor:middle;dominant-baseline:central;font-size:11px;fill:${font.color}`);
        labels.style.fontFamily = figure._fullLayout.font.family;
        bars.closest(".barlayer").append(labels);
    }
}

/** Keep the names of a figure's bars in view. @param {any} figure */
function keepLabels(figure) {
    if (figure.npuprofKeepsLabels || !figure.on) return;
    figure.npuprofKeepsLabels = true;
    figure.on("plotly_afterplot", () => labelBars(figure));
    labelBars(figure);
}
