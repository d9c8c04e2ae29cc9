// @ts-check
// A run that a page holds whole, as `npuprof/browser/saved_run.py` writes it: its slices, and any window of them as bars.

/**
 * @typedef {object} Table
 * @property {string} name @property {number} first number of its first slice @property {number} count rows that are here
 * @property {number} all rows of the run @property {number} at position of its first row among those of all tables
 * @property {Float64Array | null} rows the numbers of the rows that are here, where some are left out
 * @property {any[]} details its other columns @property {any} line
 */
/**
 * Everything of a run; a position counts the rows of all tables that are here.
 * @typedef {object} Run
 * @property {any} header @property {any} setup @property {string[]} texts
 * @property {Map<number, [string, number]>} names text and shade of each look
 * @property {number} coarsest length of the longest bar that slices share
 * @property {[number, number, number][]} looks text, family and shade
 * @property {Table[]} tables @property {number} count
 * @property {Float64Array} start @property {Float64Array} duration @property {Int32Array} look
 * @property {Int32Array} place twice the lane, and one more if it shares a bar @property {Int32Array} path
 * @property {Int32Array} caller position of the caller, -1 for none
 * @property {Record<string, Float64Array>} bars those that several slices share
 * @property {Record<string, Float64Array>} paths the merged call tree
 * @property {Record<string, Float64Array>} links
 * @property {[Float64Array, Float64Array][]} counters @property {Float32Array} shares
 * @property {Answer[]} levels bars, from single slices to the coarsest @property {number[]} sizes of intervals of the levels
 * @property {(column: number) => Promise<Float64Array>} column
 */

const RUN_MAGIC = "npuprof\0";
const RUN_VERSION = 1;
const LEVEL_STEP = 4;  // each level of detail has intervals so many times as long as the one below
const FEW_BARS = 20_000;  // so few are drawn without a coarser level

/** @param {Uint8Array} bytes @returns {Promise<Run>} */
async function openRun(bytes) {
    if ([...RUN_MAGIC].some((one, at) => bytes[at] !== one.charCodeAt(0))) throw new Error("this is no saved run");
    const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(RUN_MAGIC.length, true), begin = RUN_MAGIC.length + 4;
    const header = JSON.parse(new TextDecoder().decode(await inflated(bytes.subarray(begin, begin + size))));
    if (header.version !== RUN_VERSION) throw new Error("this run was saved by another version of npuprof");
    const body = bytes.subarray(begin + size);
    const column = (/** @type {number} */ number) => unpacked(body, header.columns[number]);
    const all = async (/** @type {Record<string, number>} */ columns) => Object.fromEntries(await Promise.all(
        Object.entries(columns).map(async ([name, number]) => [name, await column(number)])));
    const count = header.tables.reduce((/** @type {number} */ sum, /** @type {any} */ table) => sum + table.count, 0);
    /** @type {Run} */
    const run = {
        header, setup: header.setup, texts: header.texts, looks: header.looks, tables: [], count, column,
        start: new Float64Array(count), duration: new Float64Array(count), look: new Int32Array(count), place: new Int32Array(count),
        path: new Int32Array(count).fill(-1), caller: new Int32Array(count).fill(-1), bars: {}, paths: {}, links: {}, counters: [],
        shares: new Float32Array(0), levels: [], sizes: [], coarsest: 0,
        names: new Map(header.looks.map((/** @type {number[]} */ [text, , shade], /** @type {number} */ look) => [look, [header.texts[text], shade]])),
    };
    let at = 0;
    for (const table of header.tables) {
        const rows = "rows" in table ? await column(table.rows) : null;
        run.tables.push({ ...table, at, rows });
        run.start.set(await column(table.start), at);
        run.duration.set(await column(table.duration), at);
        run.look.set(await column(table.look), at);
        run.place.set(await column(table.place), at);
        if ("path" in table) run.path.set(await column(table.path), at);
        at += table.count;
    }
    for (const table of run.tables) {
        if (!("caller" in table)) continue;
        const back = await column(/** @type {any} */ (table).caller);
        for (let row = 0; row < table.count; row += 1) {
            if (back[row]) run.caller[table.at + row] = positionOf(run, numberOf(run, table.at + row) - back[row]);
        }
    }
    [run.bars, run.paths, run.links] = await Promise.all([all(header.bars), all(header.paths), all(header.links)]);
    for (let path = 0; path < run.paths.parent.length; path += 1) run.paths.parent[path] = path - run.paths.parent[path];
    for (const [times, values] of header.counters) run.counters.push([await column(times), Float64Array.from(floatsOf(await column(values)))]);
    for (const length of run.bars.length) run.coarsest = Math.max(run.coarsest, length);
    run.shares = Float32Array.from(await column(header.overview.shares), (one) => one / 255);
    light(run, null);
    return run;
}

/** The table of a position. @param {Run} run @param {number} position */
function tableAt(run, position) {
    return /** @type {Table} */ (run.tables.find((table) => position < table.at + table.count));
}

/** The number that a slice has in the kernel. @param {Run} run @param {number} position */
function numberOf(run, position) {
    const table = tableAt(run, position), row = position - table.at;
    return table.first + (table.rows ? table.rows[row] : row);
}

/** The position of a slice, -1 if it is not here. @param {Run} run @param {number} number */
function positionOf(run, number) {
    const table = run.tables.find((one) => number >= one.first && number < one.first + one.all);
    if (!table) return -1;
    const wanted = number - table.first;
    if (!table.rows) return table.at + wanted;
    const row = sampleAt(table.rows, wanted);
    return row >= 0 && table.rows[row] === wanted ? table.at + row : -1;
}

/** @param {Run} run @param {number} position */
const nameAt = (run, position) => run.texts[run.looks[run.look[position]][0]];

/**
 * Make the bars of all levels, in which all slices are lit, or those of a mask.
 * @param {Run} run @param {Uint8Array | null} lit for each position
 */
function light(run, lit) {
    if (run.levels.length) { relight(run, lit); return; }
    run.levels = [singleBars(run, lit)];
    run.sizes = [1];
    for (let size = 64; run.levels[run.levels.length - 1].lane.length > FEW_BARS && size < run.setup.end - run.setup.start; size *= LEVEL_STEP) {
        const finer = run.levels[run.levels.length - 1], coarse = coarser(run, finer, size);
        if (coarse.lane.length > 0.8 * finer.lane.length) continue;
        run.levels.push(coarse);
        run.sizes.push(size);
    }
}

/** Light up other slices in the bars that are here. @param {Run} run @param {Uint8Array | null} lit */
function relight(run, lit) {
    const shared = lit && litShared(run, lit);
    run.levels.forEach((/** @type {any} */ level, at) => {
        if (at === 0) {
            for (let bar = 0; bar < level.from.length; bar += 1) {
                const from = level.from[bar];
                level.lit[bar] = !lit || !shared ? 1 : from >= 0 ? lit[from] : shared[-1 - from];
            }
        } else {
            const finer = /** @type {any} */ (run.levels[at - 1]);
            level.lit.fill(0);
            for (let bar = 0; bar < level.into.length; bar += 1) level.lit[level.into[bar]] |= finer.lit[bar];
        }
        paintTones(level);
    });
}

/** The finest level whose bars are no finer than what is seen. @param {Run} run @param {number} span @param {number} pixels */
function levelFor(run, span, pixels) {
    let at = 0;
    while (at + 1 < run.sizes.length && run.sizes[at + 1] <= span / Math.max(pixels, 1)) at += 1;
    return run.levels[at];
}

/** @param {number} size @returns {any} */
const emptyBars = (size) => ({
    lane: new Uint16Array(size), begin: new Float64Array(size), length: new Float64Array(size), count: new Uint32Array(size),
    busy: new Float32Array(size), longest: new Float32Array(size), slice: new Uint32Array(size), label: new Uint32Array(size), lit: new Uint8Array(size),
});

/** Complete bars to what is drawn. @param {Run} run @param {any} bars @returns {Answer} */
function answerOf(run, bars) {
    const size = bars.lane.length;
    const looks = run.looks;
    bars.family = Uint8Array.from(bars.label, (/** @type {number} */ look) => looks[look][1]);
    const answer = {
        ...bars, start: run.setup.start, end: run.setup.end, exact: true, stale: false, asked: null, lines: run.counters, names: run.names,
    };
    paint(answer, (look) => looks[look][2]);
    return answer;
}

/** The order of rows by lane, then by start. @param {ArrayLike<number>} lane @param {ArrayLike<number>} begin */
function byLane(lane, begin) {
    const size = lane.length;
    let lanes = 0;
    for (let at = 0; at < size; at += 1) lanes = Math.max(lanes, lane[at] + 1);
    const next = new Uint32Array(lanes + 1), order = new Uint32Array(size);
    for (let at = 0; at < size; at += 1) next[lane[at] + 1] += 1;
    for (let at = 0; at < lanes; at += 1) next[at + 1] += next[at];
    const bounds = next.slice();
    for (let at = 0; at < size; at += 1) order[next[lane[at]]++] = at;
    for (let one = 0; one < lanes; one += 1) {
        const part = order.subarray(bounds[one], bounds[one + 1]);
        if (part.some((at, place) => place > 0 && begin[at] < begin[part[place - 1]])) part.sort((a, b) => begin[a] - begin[b] || a - b);
    }
    return order;
}

/** A bar for each slice, or for those that cannot have one each. @param {Run} run @param {Uint8Array | null} lit */
function singleBars(run, lit) {
    /** @type {number[]} */
    const own = [];
    for (let at = 0; at < run.count; at += 1) if (run.place[at] >= 0 && run.place[at] % 2 === 0) own.push(at);
    const shared = run.bars.lane.length, size = own.length + shared;
    const lane = new Uint16Array(size), begin = new Float64Array(size);
    own.forEach((position, at) => { lane[at] = run.place[position] >> 1; begin[at] = run.start[position]; });
    lane.set(run.bars.lane, own.length);
    begin.set(run.bars.start, own.length);
    const litBars = lit && litShared(run, lit);
    const bars = emptyBars(size);
    bars.from = new Int32Array(size);  // the position of a slice, or minus one minus the number of a shared bar
    byLane(lane, begin).forEach((from, at) => {
        bars.lane[at] = lane[from];
        bars.from[at] = from < own.length ? own[from] : -1 - (from - own.length);
        bars.begin[at] = begin[from];
        if (from < own.length) {
            const position = own[from];
            bars.length[at] = bars.busy[at] = bars.longest[at] = run.duration[position];
            bars.count[at] = 1;
            bars.slice[at] = numberOf(run, position);
            bars.label[at] = run.look[position];
            bars.lit[at] = lit ? lit[position] : 1;
        } else {
            const bar = from - own.length;
            bars.length[at] = run.bars.length[bar];
            bars.busy[at] = run.bars.busy[bar];
            bars.longest[at] = run.bars.longest[bar];
            bars.count[at] = run.bars.count[bar];
            bars.slice[at] = run.bars.slice[bar];
            bars.label[at] = run.bars.look[bar];
            bars.lit[at] = litBars ? litBars[bar] : 1;
        }
    });
    return answerOf(run, bars);
}

/** Which of the shared bars have a slice that is lit. @param {Run} run @param {Uint8Array} lit */
function litShared(run, lit) {
    const found = new Uint8Array(run.bars.lane.length);
    for (let at = 0; at < run.count; at += 1) {
        if (!lit[at] || run.place[at] < 0 || run.place[at] % 2 === 0) continue;
        const bar = sharedBar(run, at);
        if (bar >= 0) found[bar] = 1;
    }
    return found;
}

/** The shared bar of a slice. @param {Run} run @param {number} position */
function sharedBar(run, position) {
    const lane = run.place[position] >> 1, { lane: lanes, start, length } = run.bars;
    let low = 0, high = lanes.length;
    while (low < high) {  // bars are ordered by lane and start
        const middle = (low + high) >> 1;
        if (lanes[middle] < lane || (lanes[middle] === lane && start[middle] <= run.start[position])) low = middle + 1;
        else high = middle;
    }
    return low > 0 && lanes[low - 1] === lane && start[low - 1] + length[low - 1] >= run.start[position] ? low - 1 : -1;
}

/** Bars of which short neighbours within an interval are one. @param {Run} run @param {any} finer @param {number} size of the intervals */
function coarser(run, finer, size) {
    const many = finer.lane.length, bars = emptyBars(many), into = new Uint32Array(many);
    let last = -1, interval = -1;
    for (let at = 0; at < many; at += 1) {
        const isShort = finer.length[at] < size, mine = isShort ? Math.floor(finer.begin[at] / size) : -1;
        if (last >= 0 && isShort && mine === interval && bars.lane[last] === finer.lane[at]) {
            into[at] = last;
            bars.length[last] = Math.max(bars.length[last], finer.begin[at] + finer.length[at] - bars.begin[last]);
            bars.count[last] += finer.count[at];
            bars.busy[last] += finer.busy[at];
            bars.lit[last] |= finer.lit[at];
            if (finer.longest[at] > bars.longest[last]) {
                bars.longest[last] = finer.longest[at];
                bars.slice[last] = finer.slice[at];
                bars.label[last] = finer.label[at];
            }
            continue;
        }
        last += 1;
        into[at] = last;
        for (const name of ["lane", "begin", "length", "count", "busy", "longest", "slice", "label", "lit"]) bars[name][last] = finer[name][at];
        interval = mine;
    }
    for (const name of Object.keys(bars)) bars[name] = bars[name].slice(0, last + 1);
    bars.into = into;
    return answerOf(run, bars);
}
