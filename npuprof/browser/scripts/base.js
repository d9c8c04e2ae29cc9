// @ts-check
// What every view needs: elements, quantities as the reports write them, and the colours of the page's theme.

/**
 * An element; text is always set as text, so that nothing of a recording is ever read as HTML.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `text`, `on…` listeners, or attributes; null and false are left out
 * @param {...(Node | string)} children
 * @returns {any}
 */
function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (name === "text") element.textContent = value;
        else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else if (value === true) element.setAttribute(name, "");
        else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
    }
    element.append(...children);
    return element;
}

/** @type {[number, string][]} */
const TIME_UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];

// A formatter is much slower to make than to use.
const DIGITS = [0, 1, 2].map((digits) => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
const FIGURES = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

/** A quantity in the largest of its units that it reaches, with a few digits. @param {number} amount @param {[number, string][]} units @param {string} least */
function inUnits(amount, units, least) {
    const [size, unit] = units.find(([one]) => Math.abs(amount) >= one) ?? [0, ""];
    if (!size) return `${Math.round(amount)} ${least}`;
    const value = amount / size, digits = Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
    return `${DIGITS[digits].format(value)} ${unit}`;
}

/** A duration as text, such as `12.3 ms`. @param {number} ns */
const duration = (ns) => inUnits(ns, TIME_UNITS, "ns");

/** @param {number} number */
const counted = (number) => DIGITS[0].format(number);

/** A share as text. @param {number} part @param {number} whole */
const share = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–");

/** A value of a counter as text. @param {number} value */
const figure = (value) => FIGURES.format(Number(value.toPrecision(4)));

/**
 * Moments for an axis, with texts as precise as their distance.
 * @param {number} start @param {number} end @param {number} most
 * @returns {[number, string][]}
 */
function ticks(start, end, most) {
    const rough = Math.max((end - start) / Math.max(most, 1), 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough;
    const [size, unit] = TIME_UNITS.find(([one]) => Math.max(Math.abs(start), Math.abs(end)) >= one) ?? [1, "ns"];
    const decimals = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
    /** @type {[number, string][]} */
    const found = [];
    for (let at = Math.ceil(start / step) * step; at <= end; at += step) {
        found.push([at, `${(at / size).toFixed(decimals)} ${unit}`]);
    }
    return found;
}

/**
 * A name in at most so many characters: its end is cut, unless what is left would be the same as of another.
 * @param {string} name @param {number} room @param {string} other
 */
function cut(name, room, other) {
    if (name.length <= room) return name;
    if (room < 3) return "";
    const same = name.startsWith(other.slice(0, room - 1)) && other.length >= room;
    return same ? `…${name.slice(name.length - room + 1)}` : `${name.slice(0, room - 1)}…`;
}

/**
 * @typedef {object} Theme
 * @property {string} paper @property {string} text @property {string} faint @property {string} line
 * @property {string} accent @property {boolean} forced
 * @property {(colour: number, tone: number) => string} fill
 * @property {(family: number, tone: number) => string} ink
 */

const TONES = 8;  // how pale a bar is: 0 where a search fades it, 7 for a slice or a busy bar
const SHADES = 3;

const MIXER = document.createElement("canvas").getContext("2d");  // knows all ways to write a colour

/** @param {string} text @returns {[number, number, number]} */
function channels(text) {
    const canvas = MIXER;
    if (!canvas) return [128, 128, 128];
    canvas.fillStyle = text;
    const hex = canvas.fillStyle;
    const [red, green, blue] = hex.startsWith("#") ? [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16))
        : (hex.match(/[\d.]+/g) ?? ["128", "128", "128"]).map(Number);
    return [red, green, blue];
}

/**
 * The colours in which a page draws: those of its theme, or the system's where the user forces them.
 * @param {HTMLElement} root @param {{ink: string, shades: string[]}[]} families
 * @returns {Theme}
 */
function themeOf(root, families) {
    const style = getComputedStyle(root);
    const forced = matchMedia("(forced-colors: active)").matches;
    const read = (/** @type {string} */ name, /** @type {string} */ other) => style.getPropertyValue(name).trim() || other;
    const probe = make("span", { style: "display:none" });
    root.append(probe);
    const resolved = (/** @type {string} */ colour) => {
        probe.style.color = colour;
        return getComputedStyle(probe).color;
    };
    const paper = resolved(forced ? "Canvas" : read("--npuprof-paper", "#ffffff"));
    const text = resolved(forced ? "CanvasText" : read("--npuprof-text", "#222222"));
    const faint = resolved(forced ? "CanvasText" : read("--npuprof-faint", "#666666"));
    const line = resolved(forced ? "GrayText" : read("--npuprof-line", "#bbbbbb"));
    const accent = resolved(forced ? "Highlight" : read("--npuprof-accent", "#3088d0"));
    probe.remove();
    const under = channels(paper);
    /** @type {string[]} */
    const fills = [];
    return {
        paper, text, faint, line, accent, forced,
        fill(colour, tone) {
            const at = colour * TONES + tone;
            if (fills[at]) return fills[at];
            const family = families[Math.floor(colour / SHADES)];
            const over = channels(forced ? (tone ? faint : line) : family?.shades[colour % SHADES] ?? faint);
            const part = tone === 0 ? 0.18 : 0.3 + (0.7 * tone) / (TONES - 1);
            const mixed = over.map((value, place) => Math.round(value * part + under[place] * (1 - part)));
            return (fills[at] = `rgb(${mixed.join(",")})`);
        },
        ink: (family, tone) => (forced ? paper : tone === TONES - 1 ? families[family]?.ink ?? text : text),
    };
}
