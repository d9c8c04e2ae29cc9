// @ts-check
// Drawing on a canvas, or on what records the same calls as SVG. Everything is drawn anew each frame.

const FONT = "11px system-ui, sans-serif";
const CHARACTER = 6.1;  // pixels of the font, on the average
const MOST_LABELS = 250;
const LEAST_LABEL = 26;

/**
 * @typedef {object} Scene
 * @property {number} start @property {number} end @property {number} width @property {number} height
 * @property {number} scroll @property {Row[]} rows @property {number} pinned @property {Theme} theme
 * @property {any} store @property {any} setup
 */

/** The first bar of a lane that ends at or after a moment. @param {Answer} answer @param {number} lane @param {number} moment */
function firstBar(answer, lane, moment) {
    let [low, high] = answer.lanes.get(lane) ?? [0, 0];
    const begin = low;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (answer.begin[middle] > moment) high = middle;
        else low = middle + 1;
    }
    return Math.max(low - 1, begin);
}

/** Where a row is drawn, or null where it cannot be seen. @param {Scene} scene @param {Row} row */
function topOf(scene, row) {
    if (row.pinned) return row.y;
    const y = row.y - scene.scroll;
    return y + row.height < scene.pinned || y > scene.height ? null : y;
}

/**
 * @param {any} ctx @param {Scene} scene @param {Answer} answer @param {Row} row @param {number} y
 * @param {{left: number}} labels
 */
function drawBars(ctx, scene, answer, row, y, labels) {
    const span = answer.lanes.get(row.lane);
    if (!span) return;
    const { start, end, width, theme } = scene;
    const scale = width / (end - start);
    const { begin, length, count, colour, tone, family, label } = answer;
    const height = row.height - 1;
    let last = -2, drawn = -1, previous = "", latest = "";
    for (let at = firstBar(answer, row.lane, start); at < span[1] && begin[at] <= end; at += 1) {
        let left = (begin[at] - start) * scale;
        let right = left + length[at] * scale;
        if (right < 0) continue;
        if (right - left < 1) {
            left = Math.floor(left);
            if (left === last && tone[at] !== TONES - 1) continue;  // a pixel is drawn once, but what was found shows
            last = left;
            right = left + 1;
        } else {
            left = Math.max(left, -2);
            right = Math.min(right, width + 2);
        }
        const look = colour[at] * TONES + tone[at];
        if (look !== drawn) {
            ctx.fillStyle = theme.fill(colour[at], tone[at]);
            drawn = look;
        }
        const wide = right - left;
        ctx.fillRect(left, y, wide > 3 ? wide - 0.7 : wide, height);
        if (wide < LEAST_LABEL || count[at] > 1 || labels.left <= 0 || height < 10) continue;
        const name = answer.names.get(label[at])?.[0] ?? "";
        const shown = Math.min(right, width) - Math.max(left, 0);
        if (name !== latest) [previous, latest] = [latest, name];
        const text = cut(name, Math.floor((shown - 6) / CHARACTER), previous);
        if (!text) continue;
        labels.left -= 1;
        ctx.fillStyle = theme.ink(family[at], tone[at]);
        drawn = -1;
        ctx.fillText(text, Math.max(left, 0) + 3, y + height / 2 + 0.5, shown - 5);
    }
}

/** Shade every second step, across all lanes. @param {any} ctx @param {Scene} scene @param {Answer} answer */
function drawSteps(ctx, scene, answer) {
    const steps = scene.setup.groups.find((/** @type {any} */ group) => group.title === "Steps");
    if (!steps || scene.theme.forced) return;
    const { start, end, width, height } = scene;
    const scale = width / (end - start);
    ctx.fillStyle = scene.theme.text;
    ctx.globalAlpha = 0.05;
    for (const [lane] of steps.lanes.slice(0, 1)) {
        const span = answer.lanes.get(lane);
        for (let at = firstBar(answer, lane, start); span && at < span[1] && answer.begin[at] <= end; at += 1) {
            const left = (answer.begin[at] - start) * scale, wide = answer.length[at] * scale;
            if (answer.count[at] === 1 && answer.slice[at] % 2 && wide > 3) ctx.fillRect(left, 0, wide, height);
        }
    }
    ctx.globalAlpha = 1;
}

/** Draw all lanes in view. @param {any} ctx @param {Scene} scene */
function drawLanes(ctx, scene) {
    const { start, end, width, height, theme } = scene;
    ctx.fillStyle = theme.paper;
    ctx.fillRect(0, 0, width, height);
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const answers = scene.store.covering(start, end);
    const scale = width / (end - start);
    answers.forEach((/** @type {Answer} */ answer, /** @type {number} */ at) => {
        ctx.save();
        if (at) {  // what is here of a better answer covers what is below
            ctx.beginPath();
            const left = (answer.start - start) * scale;
            ctx.rect(left, 0, (answer.end - answer.start) * scale, height);
            ctx.clip();
            ctx.fillStyle = theme.paper;
            ctx.fillRect(0, 0, width, height);
        }
        drawSteps(ctx, scene, answer);
        const labels = { left: MOST_LABELS };
        for (const pinned of [false, true]) {
            if (pinned && scene.pinned) {
                ctx.fillStyle = theme.paper;
                ctx.fillRect(0, 0, width, scene.pinned);
            }
            for (const row of scene.rows) {
                const y = row.pinned === pinned ? topOf(scene, row) : null;
                if (y === null) continue;
                if (row.lines.length) drawCounter(ctx, scene, answer, row, y);
                else drawBars(ctx, scene, answer, row, y, labels);
            }
        }
        ctx.restore();
    });
    if (scene.pinned) {
        ctx.fillStyle = theme.line;
        ctx.fillRect(0, scene.pinned - 2, width, 1);
    }
}

/** Draw the moments along the top. @param {any} ctx @param {Scene} scene @param {number} height */
function drawAxis(ctx, scene, height) {
    const { start, end, width, theme } = scene;
    ctx.fillStyle = theme.paper;
    ctx.fillRect(0, 0, width, height);
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    for (const [moment, text] of ticks(start, end, width / 110)) {
        const x = ((moment - start) / (end - start)) * width;
        ctx.fillStyle = theme.line;
        ctx.fillRect(x, height - 6, 1, 6);
        ctx.fillStyle = theme.faint;
        ctx.textAlign = x < 30 ? "left" : x > width - 40 ? "right" : "center";
        ctx.fillText(text, x, height / 2 - 2);
    }
    ctx.textAlign = "left";
    const kept = scene.store.cursor;
    if (kept === null || kept < start || kept > end) return;
    const x = ((kept - start) / (end - start)) * width, text = duration(kept), wide = text.length * CHARACTER + 8;
    const left = Math.min(Math.max(x - wide / 2, 0), width - wide);
    ctx.fillStyle = theme.accent;
    ctx.fillRect(left, 1, wide, height - 8);
    ctx.fillRect(x - 0.75, height - 8, 1.5, 8);
    ctx.fillStyle = theme.paper;
    ctx.fillText(text, left + 4, height / 2 - 3);
}

/** Draw what the devices did over the whole run, and the window in it. @param {any} ctx @param {Scene} scene @param {number} height */
function drawOverview(ctx, scene, height) {
    const { width, theme, setup, store } = scene;
    ctx.fillStyle = theme.paper;
    ctx.fillRect(0, 0, width, height);
    const strip = store.overview;
    const { start: first, end: last } = store.bounds;
    const x = (/** @type {number} */ moment) => ((moment - first) / (last - first)) * width;
    if (strip?.devices) {
        for (let at = 0; at < strip.columns; at += 1) {
            let y = height;
            setup.parts.forEach((/** @type {[string, string]} */ [, colour], /** @type {number} */ part) => {
                const tall = strip.shares[part * strip.columns + at] * height;
                if (tall <= 0) return;
                ctx.fillStyle = theme.forced ? theme.text : colour;
                const column = (setup.end - setup.start) / strip.columns, left = x(setup.start + at * column);
                ctx.fillRect(left, y - tall, x(setup.start + (at + 1) * column) - left + 0.5, tall);
                y -= tall;
            });
        }
    } else {
        ctx.fillStyle = theme.faint;
        ctx.font = FONT;
        ctx.textBaseline = "middle";
        ctx.fillText(strip ? "no work of a device was recorded" : "working …", 6, height / 2);
    }
    const left = x(scene.start), right = x(scene.end);
    ctx.fillStyle = theme.paper;
    ctx.globalAlpha = 0.6;
    ctx.fillRect(0, 0, Math.max(left, 0), height);
    ctx.fillRect(Math.min(right, width), 0, width, height);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 2;
    ctx.strokeRect(Math.max(left, 1), 1, Math.max(Math.min(right, width - 1) - Math.max(left, 1), 3), height - 2);
}

/**
 * Draw what changes with the pointer and the selection: the range, outlines, arrows, the cursor.
 * @param {any} ctx @param {Scene} scene @param {{x: number | null, bar: any, range: [number, number] | null}} hand
 */
function drawOver(ctx, scene, hand) {
    const { start, end, width, height, theme, store } = scene;
    const scale = width / (end - start);
    const at = (/** @type {number} */ moment) => (moment - start) * scale;
    const range = hand.range ?? store.range.marked;
    if (range) {
        ctx.fillStyle = theme.accent;
        ctx.globalAlpha = 0.16;
        ctx.fillRect(at(range[0]), 0, (range[1] - range[0]) * scale, height);
        ctx.globalAlpha = 1;
        ctx.fillRect(at(range[0]), 0, 1, height);
        ctx.fillRect(at(range[1]), 0, 1, height);
    }
    const rows = new Map(scene.rows.filter((row) => row.lane >= 0).map((row) => [row.lane, row]));
    /** @param {number} lane */
    const middle = (lane) => {
        const row = rows.get(lane);
        const y = row ? topOf(scene, row) : null;
        return row && y !== null ? [y, row.height - 1] : null;
    };
    const ends = new Map((store.selected.ends ?? []).map((/** @type {number[]} */ one) => [one[0], one]));
    ctx.strokeStyle = theme.text;
    ctx.lineWidth = 1.2;
    for (const [cause, effect] of store.selected.arrows ?? []) {
        const from = ends.get(cause), to = ends.get(effect);
        const begin = from && middle(from[3]), stop = to && middle(to[3]);
        if (!begin || !stop) continue;
        const x = at(Math.max(from[1], Math.min(from[2], to[1]))), y = begin[0] + begin[1] / 2;
        const x2 = at(to[1]), y2 = stop[0] + stop[1] / 2;
        if (Math.max(x, x2) < -500 || Math.min(x, x2) > width + 500) continue;
        ctx.beginPath();
        ctx.moveTo(x, y);
        const bend = Math.max(Math.abs(x2 - x) / 2, 14);
        ctx.bezierCurveTo(x + bend, y, x2 - bend, y2, x2, y2);
        ctx.stroke();
        ctx.fillStyle = theme.text;
        ctx.fillRect(x2 - 2.5, y2 - 2.5, 5, 5);
    }
    const chosen = ends.get(store.selected.slice);
    const place = chosen && middle(chosen[3]);
    if (place) outline(ctx, at(chosen[1]), place[0], (chosen[2] - chosen[1]) * scale, place[1], theme.forced ? theme.accent : "#d010b8", 2.5, width);
    if (hand.bar) {
        const under = middle(hand.bar.lane);
        if (under) outline(ctx, at(hand.bar.begin), under[0], hand.bar.length * scale, under[1], theme.text, 1, width);
    }
    drawFindings(ctx, scene, middle, at);
    drawNotes(ctx, scene, at);
    drawMeasured(ctx, scene, at);
    drawCursor(ctx, scene, hand.x);
}

/** The user's notes: a line along the top of the range, and the text. @param {any} ctx @param {Scene} scene @param {(moment: number) => number} at */
function drawNotes(ctx, scene, at) {
    const { theme, width, store } = scene;
    ctx.font = FONT;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    for (const [start, end, text] of store.notes) {
        const left = at(start), right = Math.max(at(end), left + 2);
        if (right < 0 || left > width) continue;
        const x = Math.max(left, 0), shown = cut(text.replace(/\s+/g, " "), Math.max(Math.floor((right - x) / CHARACTER), 24), "");
        ctx.fillStyle = theme.accent;
        ctx.fillRect(left, 0, right - left, 2);
        ctx.fillRect(left, 0, 1.5, 16);
        ctx.fillStyle = theme.paper;
        ctx.fillRect(x + 3, 3, shown.length * CHARACTER + 6, 14);
        ctx.fillStyle = theme.accent;
        ctx.fillText(shown, x + 6, 10);
    }
}

/** The two cursors, and the time between them. @param {any} ctx @param {Scene} scene @param {(moment: number) => number} at */
function drawMeasured(ctx, scene, at) {
    const { height, theme, store } = scene, [from, to] = store.measured.map(at);
    if (from === undefined) return;
    ctx.fillStyle = theme.text;
    for (const x of [from, to]) if (x !== undefined) ctx.fillRect(x - 0.75, 0, 1.5, height);
    if (to === undefined) return;
    const text = duration(Math.abs(store.measured[1] - store.measured[0])), wide = text.length * CHARACTER + 8;
    const left = (from + to) / 2 - wide / 2, y = scene.pinned + 4;
    ctx.fillRect(Math.min(from, to), y + 8, Math.abs(to - from), 1);
    ctx.fillStyle = theme.paper;
    ctx.fillRect(left, y, wide, 17);
    ctx.fillStyle = theme.text;
    ctx.font = FONT;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.fillText(text, left + 4, y + 9);
}


/**
 * Draw findings where they happened: the one that is shown with all its rows, the others as numbers at their costliest row.
 * @param {any} ctx @param {Scene} scene @param {(lane: number) => number[] | null} middle @param {(moment: number) => number} at
 */
function drawFindings(ctx, scene, middle, at) {
    const { width, theme, store } = scene, colour = theme.accent;
    if (store.showsPath) drawPath(ctx, scene, middle, at);
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    (store.findings ?? []).forEach((/** @type {any} */ finding, /** @type {number} */ number) => {
        const isShown = number === store.finding;
        ctx.strokeStyle = ctx.fillStyle = colour;
        ctx.lineWidth = 1.5;
        for (const [, lane, start, end] of isShown ? finding.drawn : []) {
            const place = middle(lane), left = Math.max(at(start), -3), right = Math.min(Math.max(at(end), left + 2), width + 3);
            if (place && right > 0 && left < width) bracket(ctx, left, right, place[0] - 1, place[1]);
        }
        for (const [lane, moment, toLane, toMoment, idleSince] of isShown ? finding.late : []) {
            const from = middle(lane), to = middle(toLane);
            if (to) bracket(ctx, at(idleSince), at(toMoment), to[0] - 1, to[1]);
            if (!from || !to) continue;
            ctx.beginPath();
            ctx.moveTo(at(moment), from[0] + from[1] / 2);
            ctx.lineTo(at(toMoment), to[0] + to[1] / 2);
            ctx.stroke();
        }
        const [, lane, start] = finding.drawn[0] ?? [0, -1, 0], place = lane >= 0 ? middle(lane) : null, x = at(start);
        if (place && x >= 0 && x <= width) badge(ctx, theme, String(number + 1), x, place[0] - 2, colour, isShown);
    });
}

/** @param {any} ctx @param {number} left @param {number} right @param {number} top @param {number} height */
function bracket(ctx, left, right, top, height) {
    ctx.beginPath();
    ctx.moveTo(left, top + Math.min(height, 6));
    ctx.lineTo(left, top);
    ctx.lineTo(right, top);
    ctx.lineTo(right, top + Math.min(height, 6));
    ctx.stroke();
}

/** @param {any} ctx @param {Theme} theme @param {string} text @param {number} x @param {number} y @param {string} colour @param {boolean} isShown */
function badge(ctx, theme, text, x, y, colour, isShown) {
    const wide = text.length * CHARACTER + 6;
    ctx.fillStyle = isShown ? colour : theme.paper;
    ctx.fillRect(x, y, wide, 13);
    ctx.strokeRect(x, y, wide, 13);
    ctx.fillStyle = isShown ? theme.paper : colour;
    ctx.fillText(text, x + 3, y + 7);
}

/** The critical path as a thread through the lanes. @param {any} ctx @param {Scene} scene @param {(lane: number) => number[] | null} middle @param {(moment: number) => number} at */
function drawPath(ctx, scene, middle, at) {
    ctx.strokeStyle = scene.theme.text;
    ctx.lineWidth = 2;
    ctx.beginPath();
    let isBegun = false;
    for (const [lane, start, end] of scene.store.path) {
        const place = middle(lane);
        if (!place || end < scene.start || start > scene.end) { isBegun &&= Boolean(place) || end >= scene.start; continue; }
        const y = place[0] + place[1] / 2, left = Math.max(at(start), -5), right = Math.min(at(end), scene.width + 5);
        if (isBegun) ctx.lineTo(left, y);
        else ctx.moveTo(left, y);
        ctx.lineTo(right, y);
        isBegun = true;
    }
    ctx.stroke();
}

/** Draw the pointer's moment and the one that was clicked, and what counters are then. @param {any} ctx @param {Scene} scene @param {number | null} x */
function drawCursor(ctx, scene, x) {
    const { start, end, width, height, theme, store } = scene;
    const kept = store.cursor;
    const moment = x === null ? kept : start + (x / width) * (end - start);
    if (moment === null) return;
    ctx.fillStyle = theme.faint;
    if (x !== null) ctx.fillRect(x, 0, 1, height);
    if (kept !== null) {
        ctx.fillStyle = theme.accent;
        ctx.fillRect(((kept - start) / (end - start)) * width - 0.75, 0, 1.5, height);
    }
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const answer = store.covering(start, end).at(-1);
    for (const row of scene.rows) {
        const y = row.lines.length ? topOf(scene, row) : null;
        if (y !== null) drawValues(ctx, scene, answer, row, y, moment);
    }
}

/** @param {any} ctx @param {number} x @param {number} y @param {number} wide @param {number} tall @param {string} colour @param {number} line @param {number} width */
function outline(ctx, x, y, wide, tall, colour, line, width) {
    const left = Math.max(x, -4), right = Math.min(x + Math.max(wide, 2), width + 4);
    if (right < left) return;
    ctx.strokeStyle = colour;
    ctx.lineWidth = line;
    ctx.strokeRect(left, y, right - left, tall);
}
