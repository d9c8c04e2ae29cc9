// @ts-check
// The frames of a flame graph on a canvas. A zoom is drawn at once from the picture that is here; the next one has what was folded.

const LEVEL_HEIGHT = 19;
const FLAME_KEYS = /** @type {Record<string, string>} */ ({
    "← →": "the frame beside", "↑ ↓": "the caller, the widest callee", "Enter": "zoom into the frame",
    "U, Backspace": "go up", "0": "show everything", "N, P": "the next, the previous match", T: "what is shown as a table", "Esc": "give the keys back to the notebook",
});
const FLAME_KNOWN = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Enter", "Backspace", "u", "0", "n", "p"]);

/** @param {any} model @param {HTMLElement} el */
function flameView(model, el) {
    const picture = make("canvas", { "aria-hidden": "true" });
    const tip = make("div", { class: "tip", "aria-hidden": "true", hidden: true });
    const box = make("div", { class: "flamebox" }, picture, tip);
    const help = make("p", { class: "faint", text: Object.entries(FLAME_KEYS).map(([key, text]) => `${key}: ${text}`).join(" · "), hidden: true });
    const said = make("div", { class: "said", role: "status" });
    const table = make("div", { class: "panel visible", hidden: true });
    const root = make("div", {
        class: "npuprof-timeline npuprof-flame-canvas npuprof-keys", tabindex: "0", role: "application", "data-lm-suppress-shortcuts": "true",
        "aria-label": "Flame graph. Arrow keys move from frame to frame, Enter zooms into one, U goes up, 0 shows everything, the question mark shows all keys, Escape gives the keys back.",
    }, make("div", { class: "bar" }, make("button", { type: "button", text: "Table", title: "T: what is shown as a table", onclick: toggleTable }),
        make("button", { type: "button", text: "?", title: "the keys", onclick: () => { help.hidden = !help.hidden; } })), box, said, help, table);
    el.append(root);

    /** @type {any} */
    let frames = null;
    /** @type {Theme} */
    let theme;
    let hovered = -1, waiting = 0;
    let view = { left: 0, width: 1, level: 0 };  // of what is here, what is shown
    let width = 0;

    /** Take over a picture. */
    function take() {
        frames = model.get("picture");
        view = { left: 0, width: 1, level: 0 };
        hovered = -1;
        tip.hidden = true;
        said.textContent = frames.title;
        tellTable();
        fit();
        box.scrollTop = frames.upwards ? box.scrollHeight : 0;
    }
    function toggleTable() {
        table.hidden = !table.hidden;
        tellTable();
    }
    /** The frames as rows of text, the widest first, callers before their callees. */
    function tellTable() {
        if (table.hidden || !frames) return;
        const order = [...frames.width.keys()].sort((one, other) => frames.width[other] - frames.width[one] || frames.level[one] - frames.level[other]);
        const rows = order.slice(0, MOST_TOLD).map((at) =>
            [frames.names[at], frames.facts(at).join(" · "), frames.level[at], share(frames.width[at], 1)]);
        const more = `${rows.length < order.length ? `The widest ${rows.length} of ` : ""}${counted(order.length)} frames. ${frames.title}`;
        table.replaceChildren(make("h3", { text: "What is shown" }), make("p", { class: "faint", text: more }),
            tableOf(["name", "what", "level", "share"], rows, 2));
    }
    const levels = () => Math.max(frames.levels - view.level, 4);
    /** @param {number} at */
    const top = (at) => {
        const level = frames.level[at] - view.level;
        return (frames.upwards ? levels() - 1 - level : level) * LEVEL_HEIGHT;
    };
    /** Left and right edge of a frame. @param {number} at */
    const edges = (at) => [((frames.left[at] - view.left) / view.width) * width, ((frames.left[at] + frames.width[at] - view.left) / view.width) * width];

    function fit() {
        width = Math.max(box.clientWidth - 2, 0);
        if (!waiting) waiting = requestAnimationFrame(draw);
    }
    function draw() {
        waiting = 0;
        if (!frames || width < 50) return;
        theme ??= themeOf(root, []);
        const ratio = globalThis.devicePixelRatio || 1, tall = levels() * LEVEL_HEIGHT + 2;
        picture.width = Math.round(width * ratio);
        picture.height = Math.round(tall * ratio);
        picture.style.width = `${width}px`;
        picture.style.height = `${tall}px`;
        const ctx = /** @type {any} */ (picture.getContext("2d"));
        ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
        ctx.font = FONT;
        ctx.textBaseline = "middle";
        if (frames.nothing) {
            ctx.fillStyle = theme.faint;
            ctx.fillText(frames.nothing, 8, 24);
        } else {
            let labels = 400;
            for (let at = 0; at < frames.level.length; at += 1) labels -= drawFrame(ctx, at, labels > 0);
        }
        root.dataset.drawn = String(Number(root.dataset.drawn ?? 0) + 1);
        root.dataset.frames = String(frames.level.length);
    }
    /** @param {any} ctx @param {number} at @param {boolean} named @returns {number} how many names it took */
    function drawFrame(ctx, at, named) {
        if (frames.level[at] < view.level) return 0;
        const [from, to] = edges(at);
        if (to < 0 || from > width || to - from < 0.2) return 0;
        const left = Math.max(from, 0), wide = Math.max(Math.min(to, width) - left - (to - from > 3 ? 0.8 : 0), 0.4);
        const y = top(at), [colour, ink] = frames.looks[frames.look[at]];
        ctx.globalAlpha = frames.lit[at] ? 1 : 0.28;
        ctx.fillStyle = theme.forced ? theme.faint : colour;
        ctx.fillRect(left, y, wide, LEVEL_HEIGHT - 1);
        ctx.globalAlpha = 1;
        if (at && at === model.get("cursor")) outline(ctx, from, y + 1, to - from, LEVEL_HEIGHT - 3, theme.accent, 2.5, width);
        else if (at === hovered) outline(ctx, from, y + 0.5, to - from, LEVEL_HEIGHT - 2, theme.text, 1, width);
        else if (frames.searching && frames.lit[at] && wide > 4) outline(ctx, from, y + 1, to - from, LEVEL_HEIGHT - 3, "#d010b8", 1.5, width);
        if (!named || wide < LEAST_LABEL) return 0;
        const text = cut(frames.names[at], Math.floor((wide - 6) / CHARACTER), "");
        if (!text || (frames.folded[at] && text !== frames.names[at])) return 0;
        ctx.fillStyle = theme.forced ? theme.paper : frames.lit[at] && !frames.folded[at] ? ink : theme.text;
        ctx.fillText(text, left + 4, y + LEVEL_HEIGHT / 2, wide - 6);
        return 1;
    }
    /** The frame under the pointer. @param {PointerEvent} event */
    function frameAt(event) {
        const place = picture.getBoundingClientRect();
        const x = event.clientX - place.left, y = event.clientY - place.top;
        for (let at = 0; frames && at < frames.level.length; at += 1) {
            const [from, to] = edges(at), above = top(at);
            if (frames.level[at] >= view.level && y >= above && y < above + LEVEL_HEIGHT && x >= from && x <= Math.max(to, from + 1)) return at;
        }
        return -1;
    }
    /** @param {PointerEvent} event */
    function onMove(event) {
        const at = frameAt(event);
        picture.style.cursor = at >= 0 ? "pointer" : "";
        if (at === hovered) return;
        hovered = at;
        tip.hidden = at < 0;
        if (at >= 0) {
            tip.replaceChildren(make("b", { text: frames.names[at] }), ...frames.facts(at).map((/** @type {string} */ text) => make("div", { text })));
            const x = event.clientX - picture.getBoundingClientRect().left, y = top(at);
            const under = y + LEVEL_HEIGHT + 4;
            const above = under + tip.offsetHeight > box.scrollTop + box.clientHeight && y - tip.offsetHeight - 4 >= 0;
            tip.style.top = `${above ? y - tip.offsetHeight - 4 : under}px`;
            tip.style.left = `${Math.max(Math.min(x + 12, width - tip.offsetWidth - 4), 0)}px`;
        }
        fit();
    }
    /** Show a frame at once from the picture that is here, until there is one of what is below it. @param {number} at */
    function zoom(at) {
        if (at > 0 && frames.width[at] > 0 && !frames.folded[at]) {
            view = { left: frames.left[at], width: frames.width[at], level: frames.level[at] };
            hovered = -1;
            tip.hidden = true;
            fit();
        }
        model.send({ kind: "frame", frame: at });
    }
    /** @param {KeyboardEvent} event */
    function onKey(event) {
        if (event.ctrlKey || event.altKey || event.metaKey) return;
        const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
        if (key === "?") help.hidden = !help.hidden;
        else if (key === "t") toggleTable();
        else if (key === "Escape") {
            root.blur();
            /** @type {any} */ (root.closest(".jp-Cell"))?.focus?.({ preventScroll: true });
        } else if (FLAME_KNOWN.has(key)) model.send({ kind: "key", key });
        else if (key !== "d") return;  // d, d would delete a cell of the notebook
        event.preventDefault();
        event.stopPropagation();
    }
    const onCursor = () => {
        const at = model.get("cursor");
        if (frames && at) {
            const y = top(at);
            if (y < box.scrollTop) box.scrollTop = y;
            else if (y + LEVEL_HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = y + LEVEL_HEIGHT - box.clientHeight;
        }
        fit();
    };
    root.addEventListener("pointerdown", () => root.focus({ preventScroll: true }), { capture: true });
    root.addEventListener("keydown", onKey);
    picture.addEventListener("pointermove", onMove);
    picture.addEventListener("pointerleave", () => { hovered = -1; tip.hidden = true; fit(); });
    picture.addEventListener("click", (/** @type {any} */ event) => { const at = frameAt(event); if (at >= 0) zoom(at); });
    model.on("change:picture", take);
    model.on("change:cursor", onCursor);
    const sizes = new ResizeObserver(fit);
    sizes.observe(box);
    const themes = new MutationObserver(() => { theme = themeOf(root, []); fit(); });
    themes.observe(document.body, { attributes: true });
    take();
    return () => {
        model.off("change:picture", take);
        model.off("change:cursor", onCursor);
        sizes.disconnect();
        themes.disconnect();
        cancelAnimationFrame(waiting);
    };
}
