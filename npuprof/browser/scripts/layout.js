// @ts-check
// Where each lane is: groups that fold, pin, move, hide, and are taller or shorter.

/**
 * @typedef {object} Row
 * @property {number} lane -1 for a counter
 * @property {number[]} lines of a lane of counters; none for slices
 * @property {string} title @property {string} group @property {string} groupName as the user calls it
 * @property {string} key of its name among those that the user gave @property {boolean} first of its group
 * @property {number} y @property {number} height @property {boolean} pinned
 */
/** @typedef {{order: string[], hidden: string[], opened: string[], folded: string[], pinned: string[], sizes: Record<string, number>, names: Record<string, string>, height: number, joined: Joined}} Layout */

const FOLDED_ROWS = 4;
const SIZES = [12, 18, 28];
const GAP = 5;

/** @param {any} given @returns {Layout} */
function layoutOf(given) {
    const list = (/** @type {any} */ value) => (Array.isArray(value) ? value.map(String) : []);
    return {
        order: list(given.order), hidden: list(given.hidden), opened: list(given.opened), folded: list(given.folded),
        pinned: list(given.pinned), sizes: given.sizes ?? {}, names: given.names ?? {}, height: Number(given.height) || 420,
        joined: JOINED.some(([joined]) => joined === given.joined) ? given.joined : JOINED[0][0],
    };
}

const ARRANGEMENT = "npuprof arrangement";

/** What the user made of the lanes before: in this kernel, or else in this browser. @param {any} given @returns {Layout} */
function arrangement(given) {
    if (given && Object.keys(given).length) return layoutOf(given);
    try { return layoutOf(JSON.parse(localStorage.getItem(ARRANGEMENT) ?? "{}")); } catch { return layoutOf({}); }
}

/** Keep it for the next run of the notebook, where the page may keep something. @param {Layout} layout */
function keepArrangement(layout) {
    try { localStorage.setItem(ARRANGEMENT, JSON.stringify(layout)); } catch { /* a page of its own, without a place */ }
}

/** The groups of a run in the user's order. @param {any} setup @param {Layout} layout @returns {any[]} */
function ordered(setup, layout) {
    const groups = [...setup.groups];
    if (setup.lines.length) {
        const lanes = counterLanes(setup.lines, layout.joined);
        groups.push({ title: LINES, lanes, folded: false, lines: true });
    }
    const known = groups.map((group) => group.title);
    const place = (/** @type {any} */ group) => {
        const at = layout.order.indexOf(group.title);
        return at < 0 ? known.indexOf(group.title) : at;
    };
    const pinned = (/** @type {any} */ group) => (layout.pinned.includes(group.title) ? 0 : 1);
    return groups.sort((one, other) => pinned(one) - pinned(other) || place(one) - place(other));
}

/** @param {any} group @param {Layout} layout */
function isFolded(group, layout) {
    if (group.lanes.length <= FOLDED_ROWS) return false;
    return group.folded ? !layout.opened.includes(group.title) : layout.folded.includes(group.title);
}

/** The lanes of a folded group: the top ones of its tracks in turn. @param {any} group @returns {any[]} */
function someLanes(group) {
    /** @type {any[][]} */
    const tracks = [];
    for (const lane of group.lanes) {
        if (lane[1] || !tracks.length) tracks.push([]);
        tracks[tracks.length - 1].push(lane);
    }
    const chosen = new Set();
    for (let depth = 0; chosen.size < FOLDED_ROWS && depth < group.lanes.length; depth += 1) {
        for (const track of tracks) if (track[depth] && chosen.size < FOLDED_ROWS) chosen.add(track[depth]);
    }
    return group.lanes.filter((/** @type {any} */ lane) => chosen.has(lane));
}

/**
 * A title without its beginning, where that is all of it that there is room for and a row beside begins alike.
 * @param {string} title @param {(string | undefined)[]} beside @param {number} room in characters
 */
function titleEnd(title, beside, room) {
    const alike = beside.some((other) => other && other !== title && other.slice(0, room - 1) === title.slice(0, room - 1));
    return alike && title.length > room ? `…${title.slice(title.length - room + 1)}` : title;
}

/**
 * All rows that are shown, from top to bottom.
 * @param {any} setup @param {Layout} layout
 * @returns {{rows: Row[], height: number, pinned: number}}
 */
function rowsOf(setup, layout) {
    /** @type {Row[]} */
    const rows = [];
    let y = 0, pinnedHeight = 0;
    const named = (/** @type {string} */ key, /** @type {string} */ title) => String(layout.names[key] ?? title);
    for (const group of ordered(setup, layout)) {
        const groupName = named(group.title, group.title), isOne = group.lanes.length === 1 && layout.names[group.title];
        if (layout.hidden.includes(group.title)) continue;
        const pinned = layout.pinned.includes(group.title);
        const folded = isFolded(group, layout);
        const lanes = folded ? someLanes(group) : group.lanes;
        const height = group.lines ? LINE_HEIGHT : SIZES.includes(layout.sizes[group.title]) ? layout.sizes[group.title] : SIZES[1];
        lanes.forEach((/** @type {any} */ [lane, title], /** @type {number} */ at) => {
            const key = title ? `${group.title}\n${title}` : group.title;
            rows.push({
                lane: group.lines ? -1 : lane, lines: group.lines ? lane : [], title: isOne ? groupName : title && named(key, title),
                group: group.title, groupName, key, first: at === 0, y, height, pinned,
            });
            y += height;
        });
        y += GAP;
        if (pinned) pinnedHeight = y;
    }
    return { rows, height: y, pinned: pinnedHeight };
}
