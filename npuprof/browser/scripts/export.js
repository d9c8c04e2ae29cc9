// @ts-check
// The picture as a file: drawn once more, on a larger canvas or as SVG, with names of lanes and a legend.

const LEGEND_HEIGHT = 20;

/** What records the calls of a canvas that the views make, as SVG. */
class SvgPen {
    /** @param {number} width @param {number} height */
    constructor(width, height) {
        this.size = [width, height];
        /** @type {string[]} */ this.parts = [];
        /** @type {string[]} */ this.clips = [];
        /** @type {any[]} */ this.kept = [];
        /** @type {string[]} */ this.path = [];
        /** @type {number[]} */ this.box = [0, 0, 0, 0];
        this.fillStyle = this.strokeStyle = "#000000";
        this.lineWidth = this.globalAlpha = 1;
        this.font = FONT;
        this.textAlign = "left";
        this.textBaseline = "middle";
        this.x = this.y = 0;
        this.clipped = "";
        /** @type {number[]} */ this.dash = [];
    }
    /** @param {number[]} dash */
    setLineDash(dash) { this.dash = dash; }
    save() { this.kept.push([this.x, this.y, this.clipped, this.fillStyle, this.strokeStyle, this.globalAlpha]); }
    restore() { [this.x, this.y, this.clipped, this.fillStyle, this.strokeStyle, this.globalAlpha] = this.kept.pop(); }
    /** @param {number} x @param {number} y */
    translate(x, y) { this.x += x; this.y += y; }
    clearRect() {}
    /** @param {string} tag @param {Record<string, string | number>} given @param {string} [text] */
    put(tag, given, text = "") {
        const all = { ...given, ...(this.clipped ? { "clip-path": `url(#${this.clipped})` } : {}), ...(this.globalAlpha < 1 ? { opacity: this.globalAlpha } : {}) };
        const listed = Object.entries(all).map(([name, value]) => ` ${name}="${escaped(typeof value === "number" ? String(Math.round(value * 100) / 100) : value)}"`);
        this.parts.push(`<${tag}${listed.join("")}${text ? `>${escaped(text)}</${tag}>` : "/>"}`);
    }
    /** @param {number} x @param {number} y @param {number} width @param {number} height */
    fillRect(x, y, width, height) {
        if (width > 0 && height > 0) this.put("rect", { x: x + this.x, y: y + this.y, width, height, fill: this.fillStyle });
    }
    /** @param {number} x @param {number} y @param {number} width @param {number} height */
    strokeRect(x, y, width, height) {
        this.put("rect", { x: x + this.x, y: y + this.y, width, height, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth });
    }
    /** @param {string} text @param {number} x @param {number} y @param {number} [most] */
    fillText(text, x, y, most) {
        const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign] ?? "start";
        /** @type {Record<string, string | number>} */
        const long = most && text.length * CHARACTER > most ? { textLength: most, lengthAdjust: "spacingAndGlyphs" } : {};
        this.put("text", { x: x + this.x, y: y + this.y, fill: this.fillStyle, "text-anchor": anchor, "dominant-baseline": "central", ...long }, text);
    }
    beginPath() { this.path = []; }
    /** @param {string} what @param {number[]} numbers */
    add(what, numbers) { this.path.push(what + numbers.map((one, at) => (one + (at % 2 ? this.y : this.x)).toFixed(2)).join(" ")); }
    /** @param {number} x @param {number} y */
    moveTo(x, y) { this.add("M", [x, y]); }
    /** @param {number} x @param {number} y */
    lineTo(x, y) { this.add("L", [x, y]); }
    /** @param {...number} numbers */
    bezierCurveTo(...numbers) { this.add("C", numbers); }
    /** @param {number} x @param {number} y @param {number} width @param {number} height */
    rect(x, y, width, height) { this.box = [x + this.x, y + this.y, width, height]; }
    clip() {
        const name = `c${this.clips.length}`, [x, y, width, height] = this.box;
        const outer = this.clipped ? ` clip-path="url(#${this.clipped})"` : "";
        this.clips.push(`<clipPath id="${name}"${outer}><rect x="${x}" y="${y}" width="${Math.max(width, 0)}" height="${Math.max(height, 0)}"/></clipPath>`);
        this.clipped = name;
    }
    stroke() { this.put("path", { d: this.path.join(""), fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-dasharray": this.dash.join(" ") || "none" }); }
    /** @param {string} title */
    text(title) {
        const [width, height] = this.size;
        return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="11">`
            + `<title>${escaped(title)}</title><defs>${this.clips.join("")}</defs>${this.parts.join("\n")}</svg>`;
    }
}

/** @param {string} text */
const escaped = (text) => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
    .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");

/**
 * Draw what the view shows: names of lanes, strip, times, lanes and legend.
 * @param {any} ctx @param {Scene} scene @param {{text: string, y: number, height: number, pinned: boolean}[]} labels @param {any} hand
 */
function drawView(ctx, scene, labels, hand) {
    const { width, height, theme, setup } = scene;
    const top = STRIP_HEIGHT + AXIS_HEIGHT;
    /** @param {number} x @param {number} y @param {number} wide @param {number} tall @param {() => void} draw */
    const within = (x, y, wide, tall, draw) => {
        ctx.save();
        ctx.translate(x, y);
        ctx.beginPath();
        ctx.rect(0, 0, wide, tall);
        ctx.clip();
        draw();
        ctx.restore();
    };
    ctx.fillStyle = theme.paper;
    ctx.fillRect(0, 0, GUTTER + width, top + height + LEGEND_HEIGHT);
    within(GUTTER, 0, width, STRIP_HEIGHT, () => drawOverview(ctx, scene, STRIP_HEIGHT));
    within(GUTTER, STRIP_HEIGHT, width, AXIS_HEIGHT, () => drawAxis(ctx, scene, AXIS_HEIGHT));
    within(GUTTER, top, width, height, () => drawLanes(ctx, scene));
    within(GUTTER, top, width, height, () => drawOver(ctx, scene, hand));
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const pinned of [false, true]) {
        within(0, top + (pinned ? 0 : scene.pinned), GUTTER, height - (pinned ? 0 : scene.pinned), () => {
            ctx.fillStyle = theme.text;
            for (const label of labels) {
                if (label.pinned === pinned) ctx.fillText(cut(label.text, Math.floor((GUTTER - 8) / CHARACTER), ""), 3, label.y + label.height / 2 - (pinned ? 0 : scene.pinned), GUTTER - 6);
            }
        });
    }
    ctx.fillStyle = theme.faint;
    ctx.fillText(cut(`0 = ${setup.origin}`, Math.floor((GUTTER - 8) / CHARACTER), "0 = "), 3, STRIP_HEIGHT + AXIS_HEIGHT / 2, GUTTER - 6);
    let x = 4;
    for (const { label, shades } of setup.families) {
        ctx.fillStyle = shades[0];
        ctx.fillRect(x, top + height + 6, 9, 9);
        ctx.fillStyle = theme.text;
        ctx.fillText(label, x + 13, top + height + 11);
        x += 25 + label.length * CHARACTER;
    }
}

/** Hand a file to the user. @param {string} name @param {Blob} blob */
function download(name, blob) {
    const url = URL.createObjectURL(blob);
    const link = make("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
