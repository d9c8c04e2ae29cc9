// @ts-check
// Counters: lines below the lanes, each with unit, scale, least and greatest value, and its value at the cursor.

const LINES = "Counters";
const LINE_HEIGHT = 46;
const LINE_COLOURS = ["#3088d0", "#d07800", "#50a040", "#c870b0", "#08a0b8", "#c04050", "#909058"];  // after the theme's own
const LINE_DASHES = [[], [6, 2], [2, 2], [8, 2, 2, 2]];
const SNAP_PIXELS = 5;

/** @typedef {"overlay" | "sum" | "each"} Joined how counters that are alike are shown */

/** @type {[Joined, string][]} */
const JOINED = [["overlay", "alike on one lane"], ["sum", "alike summed"], ["each", "each on its own"]];

/**
 * The counters as lanes: numbers of their lines, and a title.
 * @param {any[]} lines @param {Joined} joined
 * @returns {[number[], string][]}
 */
function counterLanes(lines, joined) {
    /** @type {Map<string, {each: number[], total: number}>} */
    const kinds = new Map();
    lines.forEach((line, at) => {
        const key = `${line.kind}\0${line.unit}`;
        const kind = kinds.get(key) ?? { each: [], total: -1 };
        kinds.set(key, kind);
        if (line.total) kind.total = at;
        else kind.each.push(at);
    });
    return [...kinds.values()].flatMap(({ each, total }) => {
        if (joined === "each" || total < 0) return each.map((at) => /** @type {[number[], string]} */ ([[at], lines[at].title]));
        if (joined === "sum") return [/** @type {[number[], string]} */ ([[total], lines[total].title])];
        return [/** @type {[number[], string]} */ ([each, lines[each[0]].kind])];
    });
}

/** The position of the sample that holds at a moment, -1 before the first. @param {ArrayLike<number>} times @param {number} moment */
function sampleAt(times, moment) {
    let low = 0, high = times.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (times[middle] <= moment) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}

/**
 * What a line does in a window, and its value at a moment; null where it has no sample.
 * @param {Answer | undefined} answer @param {number} line @param {number} start @param {number} end @param {number} moment
 */
function lineFacts(answer, line, start, end, moment) {
    const [times, values] = answer?.lines[line] ?? [[], []];
    let least = Infinity, most = -Infinity;
    for (let at = Math.max(sampleAt(times, start), 0); at < times.length && times[at] <= end; at += 1) {
        least = Math.min(least, values[at]);
        most = Math.max(most, values[at]);
    }
    const here = sampleAt(times, moment);
    return { least: least <= most ? least : null, most: least <= most ? most : null, value: here >= 0 ? values[here] : null };
}

/** What of a title differs from those of its kind. @param {any} line */
const owner = (line) => line.title.replace(line.kind, "").trim();

/** Titles without the words that all of them begin or end with. @param {string[]} titles */
function told(titles) {
    const words = titles.map((title) => title.split(" "));
    const alike = (/** @type {number} */ at) => words.every((each) => each.length > 1 && each.at(at) === words[0].at(at));
    while (alike(-1)) for (const each of words) each.pop();
    while (alike(0)) for (const each of words) each.shift();
    return words.map((each) => each.join(" "));
}

/** @param {Theme} theme @param {number} place of the line in its lane */
const lineColour = (theme, place) => (place && !theme.forced ? LINE_COLOURS[(place - 1) % LINE_COLOURS.length] : theme.accent);

/** @param {Scene} scene @param {Row} row @param {number} y */
function lineScale(scene, row, y) {
    const top = Math.max(...row.lines.map((line) => scene.setup.lines[line].top));
    const bottom = y + row.height - 4, room = row.height - 18;
    return { top, bottom, heightOf: (/** @type {number} */ value) => bottom - room * Math.min(Math.max(value / top, 0), 1) };
}

/** @param {any} ctx @param {Scene} scene @param {Answer} answer @param {Row} row @param {number} y */
function drawCounter(ctx, scene, answer, row, y) {
    const { start, end, width, theme, setup } = scene;
    const scale = width / (end - start);
    const { top, bottom, heightOf } = lineScale(scene, row, y);
    ctx.strokeStyle = theme.line;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(0, bottom + 0.5);
    ctx.lineTo(width, bottom + 0.5);
    ctx.stroke();
    let least = Infinity, most = -Infinity;
    row.lines.forEach((line, place) => {
        const [times, values] = answer.lines[line] ?? [[], []];
        const facts = lineFacts(answer, line, start, end, start);
        least = Math.min(least, facts.least ?? Infinity);
        most = Math.max(most, facts.most ?? -Infinity);
        ctx.strokeStyle = lineColour(theme, place);
        ctx.setLineDash(LINE_DASHES[place % LINE_DASHES.length]);
        ctx.beginPath();
        let height = bottom;
        for (let at = 0; at < times.length; at += 1) {  // a sample holds until the next one
            const x = Math.min(Math.max((times[at] - start) * scale, -5), width + 5);
            if (at) ctx.lineTo(x, height);
            height = heightOf(values[at]);
            if (at) ctx.lineTo(x, height);
            else ctx.moveTo(x, height);
        }
        if (times.length) ctx.lineTo(width, height);
        ctx.stroke();
    });
    ctx.setLineDash([]);
    const unit = setup.lines[row.lines[0]].unit;
    const range = least <= most ? `   here ${figure(least)} to ${figure(most)}` : "";
    const whole = row.lines.map((line) => owner(setup.lines[line])), short = told(whole);
    const needed = (/** @type {string[]} */ texts) => (texts.length > 1 ? texts.reduce((sum, text) => sum + text.length * CHARACTER + 10, 10) : 0);
    const scaled = `0 to ${figure(top)} ${unit}`;
    /** @type {[string, string[]][]} from all to the least that is told */
    const ways = [[scaled + range, whole], [scaled + range, short], [scaled, short]];
    const [text, owners] = ways.find(([one, owned]) => one.length * CHARACTER + needed(owned) <= width) ?? [scaled, []];
    ctx.fillStyle = theme.faint;
    ctx.fillText(text, 3, y + 6);
    if (owners.length < 2) return;
    let x = width - 6;
    ctx.textAlign = "right";
    for (let place = owners.length - 1; place >= 0; place -= 1) {
        ctx.fillStyle = lineColour(theme, place);
        ctx.fillText(owners[place], x, y + 6);
        x -= owners[place].length * CHARACTER + 10;
    }
    ctx.textAlign = "left";
}

/** Draw the values of a lane where the cursor is. @param {any} ctx @param {Scene} scene @param {Answer} answer @param {Row} row @param {number} y @param {number} moment */
function drawValues(ctx, scene, answer, row, y, moment) {
    const { start, end, width, theme, setup } = scene;
    const x = ((moment - start) / (end - start)) * width;
    const { heightOf } = lineScale(scene, row, y);
    const texts = row.lines.flatMap((line, place) => {
        const { value } = lineFacts(answer, line, start, end, moment);
        if (value === null) return [];
        ctx.fillStyle = lineColour(theme, place);
        ctx.fillRect(x - 2.5, heightOf(value) - 2.5, 5, 5);
        return [`${row.lines.length > 1 ? `${owner(setup.lines[line])} ` : ""}${figure(value)}`];
    });
    if (!texts.length) return;
    const text = `${texts.join(" · ")} ${setup.lines[row.lines[0]].unit}`, wide = text.length * CHARACTER + 6;
    const left = x + 8 + wide > width ? Math.max(x - 8 - wide, 0) : x + 8;
    ctx.fillStyle = theme.paper;
    ctx.fillRect(left, y + 13, wide, 15);
    ctx.fillStyle = theme.text;
    ctx.fillText(text, left + 3, y + 21);
}

/**
 * The moment that a click in a lane means: the highest sample within a few pixels.
 * @param {Scene} scene @param {Answer | undefined} answer @param {Row} row @param {number} x
 */
function peakNear(scene, answer, row, x) {
    const perPixel = (scene.end - scene.start) / Math.max(scene.width, 1);
    const moment = scene.start + x * perPixel;
    let best = -Infinity, at = moment;
    for (const line of row.lines) {
        const [times, values] = answer?.lines[line] ?? [[], []];
        for (let place = Math.max(sampleAt(times, moment - SNAP_PIXELS * perPixel), 0); place < times.length; place += 1) {
            if (times[place] > moment + SNAP_PIXELS * perPixel) break;
            const ends = times[place + 1] ?? Infinity;
            if (ends < moment - SNAP_PIXELS * perPixel || values[place] <= best) continue;
            best = values[place];
            at = times[place] < moment - SNAP_PIXELS * perPixel ? moment : times[place];
        }
    }
    return Math.round(at);
}
