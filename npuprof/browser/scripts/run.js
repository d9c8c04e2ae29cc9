// @ts-check
// A run that a page holds whole, as `npuprof/browser/saved_run.py` writes it: its slices, and any window of them as bars.

/**
 * @typedef {object} Table
 * @property {string} name @property {number} first number of its first slice @property {number} count rows that are here
 * @property {number} all rows of the run @property {number} at position of its first row among those of all tables
 * @property {Float64Array | null} rows the numbers of the rows that are here, where some are left out
 * @property {any[]} details its other columns @property {any} line
 * @property {Record<string, any>} values columns that were asked for @property {any} described what a grid shows of it
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
 * @property {any[]} levels bars: single slices, and those of each coarser level that was asked for
 * @property {(column: number) => Promise<Float64Array>} column
 * @property {Uint8Array} body all columns, packed
 * @property {Promise<void> | null} related see the function of this name
 * @property {number} packed bytes of all columns
 * @property {boolean} isAway whether only what does not grow with the slices is here
 * @property {boolean} isSeen whether it is in sight
 * @property {() => Promise<void>} here brings the rest back
 */

const RUN_MAGIC = "npuprof\0";
const RUN_VERSION = 2;
const FINEST_LEVEL = 64;  // nanoseconds, the intervals of the finest level whose bars several slices share
const LEVEL_STEP = 4;  // each level of detail has intervals so many times as long as the one below
const FEW_BARS = 20_000;  // so few are drawn without a coarser level
const HARDLY_FEWER = 0.8;
const LATE_LEVEL_MS = 2_000;  // after which a level is made, whatever else there is to do

/** What is said of the columns of a run, and all columns, packed. @param {Uint8Array} bytes @returns {Promise<{header: any, body: Uint8Array}>} */
async function headerOf(bytes) {
    if ([...RUN_MAGIC].some((one, at) => bytes[at] !== one.charCodeAt(0))) throw new Error("this is no saved run");
    const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(RUN_MAGIC.length, true), begin = RUN_MAGIC.length + 4;
    const header = JSON.parse(new TextDecoder().decode(await inflated(bytes.subarray(begin, begin + size))));
    if (header.version !== RUN_VERSION) throw new Error("this run was saved by another version of npuprof");
    return { header, body: bytes.subarray(begin + size) };
}

/** The call tree of a run whose slices are not here. @param {Uint8Array} bytes @param {any} setup @returns {Promise<any>} */
async function openTree(bytes, setup) {
    const { header, body } = await headerOf(bytes);
    return { header, setup, texts: header.texts, looks: header.looks, paths: await pathsOf({ header }, body) };
}

/** @param {Uint8Array} bytes @returns {Promise<Run>} */
async function openRun(bytes) {
    const { header, body } = await headerOf(bytes);
    let at = 0;
    const tables = header.tables.map((/** @type {any} */ table) => ({ ...table, rows: null, values: {}, at: (at += table.count) - table.count }));
    /** @type {Run} */
    const run = {
        header, setup: header.setup, texts: header.texts, looks: header.looks, tables, count: at, ...nothingHeld(), counters: [], shares: new Float32Array(0), coarsest: 0,
        names: new Map(header.looks.map((/** @type {number[]} */ [text, , shade], /** @type {number} */ look) => [look, [header.texts[text], shade]])),
        packed: body.length, column: (number) => unpacked(run.body, header.columns[number]), here: async () => {}, isAway: false, isSeen: true,
    };
    await unpack(run, body);
    for (const [times, values] of header.counters) run.counters.push([await run.column(times), Float64Array.from(floatsOf(await run.column(values)))]);
    for (const length of run.bars.length) run.coarsest = Math.max(run.coarsest, length);
    run.shares = Float32Array.from(await run.column(header.overview.shares), (one) => one / 255);
    for (const finding of header.findings) {
        finding.slices = Array.from(await run.column(finding.slices));
        finding.drawn = await spansOf(run, finding.drawn);
    }
    header.path = header.path && await spansOf(run, header.path);
    header.gaps = await spansOf(run, header.gaps);
    return run;
}

/** Rows that end with a start, saved as how long it is after the end of the row before, and an end, saved as a length. @param {Run} run @param {number[]} numbers @returns {Promise<number[][]>} */
async function spansOf(run, numbers) {
    const columns = await Promise.all(numbers.map(run.column));
    let end = 0;
    return Array.from(columns[0], (_, row) => {
        const span = columns.map((column) => column[row]), last = span.length - 1;
        span[last - 1] += end;
        span[last] += span[last - 1];
        end = span[last];
        return span;
    });
}

/** What of a run grows with its slices, as long as it is not here. */
const nothingHeld = () => ({
    body: new Uint8Array(0), start: new Float64Array(0), duration: new Float64Array(0), look: new Int32Array(0), place: new Int32Array(0),
    path: new Int32Array(0), caller: new Int32Array(0), bars: {}, paths: {}, links: {}, levels: /** @type {any[]} */ ([]), related: null,
});

/** Unpack what the first picture needs. @param {Run} run @param {Uint8Array} body all columns */
async function unpack(run, body) {
    const { count } = run;
    Object.assign(run, {
        body, start: new Float64Array(count), duration: new Float64Array(count), look: new Int32Array(count), place: new Int32Array(count),
        bars: await columnsOf(run, run.header.bars, body),
    });
    for (const [number, table] of run.tables.entries()) {
        const saved = run.header.tables[number];
        table.rows = "rows" in saved ? await run.column(saved.rows) : null;
        for (const name of /** @type {("start" | "duration" | "look" | "place")[]} */ (["start", "duration", "look", "place"])) run[name].set(await run.column(saved[name]), table.at);
    }
    run.levels = [singleBars(run)];
    run.isAway = false;
}

/** All columns, packed, of what was saved. @param {Run} run @param {Uint8Array} bytes */
const bodyOf = (run, bytes) => bytes.subarray(bytes.length - run.packed);

/** Let go of what grows with the slices, until it is unpacked again. @param {Run} run */
function letGo(run) {
    Object.assign(run, nothingHeld(), { isAway: true });
    for (const table of run.tables) Object.assign(table, { rows: null, values: {} });
    run.levels = [answerOf(run, emptyBars(0))];
}

/** @param {{header: any}} run @param {Record<string, number>} columns @param {Uint8Array} body @returns {Promise<Record<string, Float64Array>>} */
const columnsOf = async (run, columns, body) => Object.fromEntries(await Promise.all(
    Object.entries(columns).map(async ([name, number]) => [name, await unpacked(body, run.header.columns[number])])));

/** The merged call tree. @param {{header: any}} run @param {Uint8Array} body */
async function pathsOf(run, body) {
    const paths = await columnsOf(run, run.header.paths, body);
    for (let at = 0; at < paths.parent.length; at += 1) paths.parent[at] = at - paths.parent[at];
    return paths;
}

/**
 * Unpack what connects slices, which no first picture needs: paths of the call tree, callers, links.
 * @param {Run} run @returns {Promise<void>}
 */
function related(run) {
    return (run.related ??= (async () => {
        const { body, count, header } = run, path = new Int32Array(count).fill(-1), caller = new Int32Array(count).fill(-1);
        const [paths, links] = await Promise.all([pathsOf(run, body), columnsOf(run, header.links, body)]);
        for (const [number, table] of run.tables.entries()) {
            const saved = header.tables[number];
            if ("path" in saved) path.set(await unpacked(body, header.columns[saved.path]), table.at);
            if (!("caller" in saved)) continue;
            const back = await unpacked(body, header.columns[saved.caller]);
            for (let row = 0; row < table.count; row += 1) {
                if (back[row]) caller[table.at + row] = positionOf(run, table.first + (table.rows ? table.rows[row] : row) - back[row]);
            }
        }
        if (run.body === body) Object.assign(run, { path, caller, paths, links });  // else it was let go of meanwhile
    })());
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

/** The size of the intervals of a level. @param {number} at */
const levelSize = (at) => FINEST_LEVEL * LEVEL_STEP ** (at - 1);

/** A level of bars, made of the coarsest finer one that is here. @param {Run} run @param {number} at */
function levelAt(run, at) {
    if (run.levels[at]) return run.levels[at];
    let below = at - 1;
    while (!run.levels[below]) below -= 1;
    const finer = run.levels[below];
    return (run.levels[at] = finer.lane.length > FEW_BARS ? coarser(run, finer, levelSize(at)) : finer);
}

/** The coarsest level whose bars are no coarser than what is seen. @param {Run} run @param {number} span @param {number} pixels */
function levelFor(run, span, pixels) {
    let at = 0;
    while (levelSize(at + 1) <= span / Math.max(pixels, 1)) at += 1;
    return levelAt(run, at);
}

/** Make the levels that nobody has asked for yet, one after the other, while the page has nothing else to do. @param {Run} run */
function makeLevels(run) {
    const later = (/** @type {number} */ at) => {
        if ("requestIdleCallback" in globalThis) requestIdleCallback(() => next(at), { timeout: LATE_LEVEL_MS });
        else setTimeout(next, LATE_LEVEL_MS / 10, at);
    };
    const next = (/** @type {number} */ at) => {
        if (levelAt(run, at).lane.length > FEW_BARS && levelSize(at) < run.setup.end - run.setup.start) later(at + 1);
    };
    later(1);
}

/** Light up all slices in the bars that are here, or those of a mask. @param {Run} run @param {Uint8Array | null} lit for each position */
function light(run, lit) {
    const shared = lit && litShared(run, lit);
    for (const level of new Set(run.levels.filter(Boolean))) {
        if (level.finer) {
            level.lit.fill(0);
            for (let bar = 0; bar < level.into.length; bar += 1) level.lit[level.into[bar]] |= level.finer.lit[bar];
        } else {
            for (let bar = 0; bar < level.from.length; bar += 1) {
                const from = level.from[bar];
                level.lit[bar] = !lit || !shared ? 1 : from >= 0 ? lit[from] : shared[-1 - from];
            }
        }
        paintTones(level);
    }
}

/** @param {number} size @returns {any} */
const emptyBars = (size) => ({
    lane: new Uint16Array(size), begin: new Float64Array(size), length: new Float64Array(size), count: new Uint32Array(size),
    busy: new Float32Array(size), longest: new Float32Array(size), slice: new Uint32Array(size), label: new Uint32Array(size), lit: new Uint8Array(size),
});

/** Complete bars to what is drawn. @param {Run} run @param {any} bars @returns {Answer} */
function answerOf(run, bars) {
    const size = bars.lane.length;
    const families = Uint8Array.from(run.looks, (look) => look[1]), shades = Uint8Array.from(run.looks, (look) => look[2]);
    const family = bars.family = new Uint8Array(size), { label } = bars;
    for (let at = 0; at < size; at += 1) family[at] = families[label[at]];
    const answer = {
        ...bars, start: run.setup.start, end: run.setup.end, exact: true, stale: false, asked: null, lines: run.counters, names: run.names,
    };
    paint(answer, (look) => shades[look]);
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
        let isSorted = true;
        for (let place = 1; isSorted && place < part.length; place += 1) isSorted = begin[part[place - 1]] <= begin[part[place]];
        if (!isSorted) part.sort((a, b) => begin[a] - begin[b] || a - b);
    }
    return order;
}

/** A bar for each slice, or for those that cannot have one each. @param {Run} run */
function singleBars(run) {
    const { place, start, duration, look, bars: shared } = run;
    let many = 0;
    for (let at = 0; at < place.length; at += 1) if (place[at] >= 0 && place[at] % 2 === 0) many += 1;
    const own = new Int32Array(many), numbers = new Uint32Array(many), size = many + shared.lane.length;
    const lane = new Uint16Array(size), begin = new Float64Array(size);
    many = 0;
    for (const table of run.tables) {
        for (let at = table.at; at < table.at + table.count; at += 1) {
            if (place[at] < 0 || place[at] % 2) continue;
            own[many] = at;
            numbers[many] = table.first + (table.rows ? table.rows[at - table.at] : at - table.at);
            lane[many] = place[at] >> 1;
            begin[many++] = start[at];
        }
    }
    lane.set(shared.lane, many);
    begin.set(shared.start, many);
    const bars = emptyBars(size), order = byLane(lane, begin), from = new Int32Array(size);
    const { lane: lanes, begin: begins, length, busy, longest, slice, label } = bars;
    bars.from = from;  // the position of a slice, or minus one minus the number of a shared bar
    bars.count.fill(1);
    bars.lit.fill(1);
    for (let at = 0; at < size; at += 1) {
        const one = order[at];
        lanes[at] = lane[one];
        begins[at] = begin[one];
        if (one < many) {
            const position = own[one];
            from[at] = position;
            length[at] = busy[at] = longest[at] = duration[position];
            slice[at] = numbers[one];
            label[at] = look[position];
        } else {
            const bar = one - many;
            from[at] = -1 - bar;
            length[at] = shared.length[bar];
            busy[at] = shared.busy[bar];
            longest[at] = shared.longest[bar];
            bars.count[at] = shared.count[bar];
            slice[at] = shared.slice[bar];
            label[at] = shared.look[bar];
        }
    }
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

/** Bars of which short neighbours within an interval are one; the finer ones, where these are hardly fewer. @param {Run} run @param {any} finer @param {number} size of the intervals */
function coarser(run, finer, size) {
    const { lane, begin, length, count, busy, longest, slice, label, lit } = finer, many = lane.length, into = new Uint32Array(many);
    let last = -1;
    for (let at = 0, before = -1, until = -Infinity; at < many; at += 1) {
        const isShort = length[at] < size;
        if (!isShort || begin[at] >= until || lane[at] !== before) {
            last += 1;
            before = lane[at];
            until = isShort ? (Math.floor(begin[at] / size) + 1) * size : -Infinity;
        }
        into[at] = last;
    }
    if (last + 1 > HARDLY_FEWER * many) return finer;
    const bars = emptyBars(last + 1), { begin: begins, length: lengths, count: counts, busy: busies, longest: most, lit: lits } = bars;
    for (let at = 0, before = -1; at < many; at += 1) {
        const bar = into[at];
        if (bar !== before) {
            before = bar;
            bars.lane[bar] = lane[at];
            begins[bar] = begin[at];
        }
        const reach = begin[at] + length[at] - begins[bar];
        if (reach > lengths[bar]) lengths[bar] = reach;
        if (!counts[bar] || longest[at] > most[bar]) {
            most[bar] = longest[at];
            bars.slice[bar] = slice[at];
            bars.label[bar] = label[at];
        }
        busies[bar] += busy[at];
        lits[bar] |= lit[at];
        counts[bar] += count[at];
    }
    bars.into = into;
    bars.finer = finer;
    return answerOf(run, bars);
}

const MOST_HELD = 1_200_000;  // slices that the explorers of a page hold unpacked, all together

/**
 * An explorer of the page, which holds its run. Each has a scope of its own, so that they know each other by what is global.
 * @typedef {{slices: number, run: Run, letGo: () => void}} Holder
 */
/** @type {{all: Holder[], turn: Promise<any>}} those that hold a run, the newest at the end, and when the next one may */
const held_ = (/** @type {any} */ (globalThis).npuprofHeld ??= { all: [], turn: Promise.resolve() });
const heldSlices = () => held_.all.reduce((sum, one) => sum + one.slices, 0);

/** Let others go, so that not too much is held: first those out of sight; the picture of one that is seen stays. @param {Holder} mine */
function makeRoom(mine) {
    const others = held_.all.filter((one) => one !== mine);
    held_.all.splice(0, held_.all.length, ...others, mine);
    const canGo = others.filter((one) => !(one.run.isSeen && one.run.setup.link));  // these move together
    canGo.sort((one, other) => Number(one.run.isSeen) - Number(other.run.isSeen));
    for (const one of canGo) if (heldSlices() > MOST_HELD) leave(one);
}

/** @param {Holder} one */
function leave(one) {
    const at = held_.all.indexOf(one);
    if (at < 0) return;
    held_.all.splice(at, 1);
    one.letGo();
}
