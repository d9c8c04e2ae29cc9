// @ts-check
// The flame graph of a run that the page holds: whole, of a range, of lit slices; and callers and callees of a name.

/** @typedef {"device" | "host" | "count"} Weight */
/**
 * @typedef {object} CallNode a frame: paths of one name below one caller
 * @property {number[]} paths @property {number} look @property {string} name @property {number} total @property {number} own
 */

const LEAST_FRAME = 0.0007;  // of the view's width: narrower frames are folded
const MOST_FRAMES = 2000, MOST_LEVELS = 60;
const WEIGHT_TITLES = /** @type {Record<Weight, string>} */ ({ device: "device time", host: "host time", count: "slices" });

/** An amount as text. @param {number} amount @param {Weight} weight */
const amountText = (amount, weight) => (weight === "count" ? counted(amount) : duration(amount));

/**
 * What each path has by itself: in a range, of the slices that are lit.
 * @param {Run} run @param {Weight} weight @param {[number, number] | null} range @param {Uint8Array | null} lit
 */
function ownSums(run, weight, range, lit) {
    if (!range && !lit) return run.paths[{ device: "device_ns", host: "host_ns", count: "slices" }[weight]];
    const own = new Float64Array(run.paths.parent.length);
    const [low, high] = range ?? [-Infinity, Infinity];
    const inside = (/** @type {number} */ at) => Math.max(Math.min(run.start[at] + run.duration[at], high) - Math.max(run.start[at], low), 0);
    const touches = (/** @type {number} */ at) => run.start[at] < high && run.start[at] + run.duration[at] > low;
    /** @type {Map<number, number>} */
    const holders = new Map();
    run.paths.held.forEach((number, at) => holders.set(positionOf(run, number), run.paths.holder[at] < 0 ? -1 : positionOf(run, run.paths.holder[at])));
    for (const table of run.tables) {
        if (!("path" in table) || (weight === "host" && table.name === "kernels") || (weight === "device" && table.name !== "kernels")) continue;
        for (let at = table.at; at < table.at + table.count; at += 1) {
            const isLit = !lit || lit[at];
            if (weight === "count") { if (isLit && touches(at)) own[run.path[at]] += 1; continue; }
            const time = inside(at);
            if (!time) continue;
            if (isLit) own[run.path[at]] += time;
            if (weight === "device") continue;
            const holder = holders.get(at) ?? run.caller[at];
            if (holder >= 0 && (!lit || lit[holder])) own[run.path[holder]] -= time;
        }
    }
    for (let path = 0; path < own.length; path += 1) own[path] = Math.max(own[path], 0);
    return own;
}

/** With what is called: callers come directly before their callees. @param {Run} run @param {Float64Array} own */
function totalsOf(run, own) {
    const totals = Float64Array.from(own), { parent } = run.paths;
    for (let path = totals.length - 1; path >= 0; path -= 1) if (parent[path] >= 0) totals[parent[path]] += totals[path];
    return totals;
}

/** Group paths by name. @param {Run} run @param {Iterable<number>} paths @param {(path: number) => [number, number]} amounts total and own @returns {CallNode[]} */
function grouped(run, paths, amounts) {
    /** @type {Map<number, CallNode>} */
    const nodes = new Map();
    for (const path of paths) {
        const [total, own] = amounts(path);
        if (total <= 0) continue;
        const look = run.paths.look[path], node = nodes.get(look);
        if (node) {
            node.paths.push(path);
            node.total += total;
            node.own += own;
        } else nodes.set(look, { paths: [path], look, name: run.texts[run.looks[look][0]], total, own });
    }
    return [...nodes.values()].sort((one, other) => other.total - one.total);
}

/** The callees of each path. @param {Run} run @returns {number[][]} the last ones are those at the top */
function calleePaths(run) {
    const { parent } = run.paths, below = Array.from({ length: parent.length + 1 }, () => /** @type {number[]} */ ([]));
    for (let path = 0; path < parent.length; path += 1) below[parent[path] < 0 ? parent.length : parent[path]].push(path);
    return below;
}

/**
 * The frames of a tree as a view draws them.
 * @param {Run} run @param {CallNode} root @param {(node: CallNode) => CallNode[]} callees @param {Weight} weight
 * @param {{whole: number, searched: Uint8Array | null, upwards?: boolean, title: string, cursor?: number}} about
 */
function pictureOf(run, root, callees, weight, about) {
    const families = run.setup.families, styles = /** @type {string[]} */ ([]), looks = /** @type {[string, string][]} */ ([]);
    const style = (/** @type {number} */ look) => {
        const [, family, shade] = run.looks[look] ?? [0, 0, 0];
        const pair = look < 0 ? /** @type {[string, string]} */ (["#8f959c", "#000000"]) : /** @type {[string, string]} */ ([families[family].shades[shade], families[family].ink]);
        const at = styles.indexOf(pair.join());
        if (at >= 0) return at;
        styles.push(pair.join());
        return looks.push(pair) - 1;
    };
    /** @type {{node: CallNode, level: number, left: number, folded: number, above: number}[]} */
    const frames = [{ node: root, level: 0, left: 0, folded: 0, above: -1 }];
    const whole = Math.max(root.total, 1);
    for (let at = 0; at < frames.length; at += 1) {
        const { node, level, left, folded } = frames[at];
        if (folded || level >= MOST_LEVELS || frames.length >= MOST_FRAMES) continue;
        const some = callees(node), wide = some.filter((one) => one.total >= whole * LEAST_FRAME);
        let x = left;
        for (const one of wide) {
            frames.push({ node: one, level: level + 1, left: x, folded: 0, above: at });
            x += one.total / whole;
        }
        const rest = some.slice(wide.length), total = rest.reduce((sum, one) => sum + one.total, 0);
        if (total >= whole * LEAST_FRAME) {
            const folded_ = { paths: rest.flatMap((one) => one.paths), look: -1, name: `${counted(rest.length)} more`, total, own: 0 };
            frames.push({ node: folded_, level: level + 1, left: x, folded: rest.length, above: at });
        }
    }
    return {
        nodes: frames.map((frame) => frame.node), above: frames.map((frame) => frame.above),
        level: Uint16Array.from(frames, (one) => one.level), left: Float64Array.from(frames, (one) => one.left),
        width: Float64Array.from(frames, (one) => one.node.total / whole), folded: Uint8Array.from(frames, (one) => Number(one.folded > 0)),
        lit: Uint8Array.from(frames, (one) => (about.searched && !(one.node.look >= 0 && about.searched[one.node.look]) ? 0 : 1)),
        look: Uint16Array.from(frames, (one) => style(one.node.look)), looks,
        names: frames.map((frame) => frame.node.name),
        facts: frames.map(({ node }) => [amountText(node.total, weight), `${share(node.total, about.whole)} of all`,
            ...(node.own > 0 && node.own < node.total ? [`${amountText(node.own, weight)} by itself`] : [])]),
        levels: frames.reduce((most, one) => Math.max(most, one.level), 0) + 1, upwards: Boolean(about.upwards), searching: about.searched !== null,
        title: about.title, nothing: root.total > 0 ? "" : "nothing here has such a weight",
    };
}

/** A flame graph's state. @param {Run} run */
function makeTree(run) {
    const below = calleePaths(run), top = run.paths.parent.length;
    /** @type {Record<string, {own: Float64Array, total: Float64Array}>} */
    let sums = {};
    const has = (/** @type {Weight} */ weight) => run.paths[{ device: "device_ns", host: "host_ns", count: "slices" }[weight]].some((one) => one > 0);
    const tree = {
        weights: /** @type {Weight[]} */ (["device", "host", "count"]).filter(has),
        weight: /** @type {Weight} */ ("count"),
        /** @type {number[]} */ root: [],
        /** @type {[number, number] | null} */ range: null,
        /** @type {Uint8Array | null} */ lit: null,
        /** @type {Uint8Array | null} */ searched: null,
        upwards: false,
        /** @param {[number, number] | null} range @param {Uint8Array | null} lit */
        scope(range, lit) { tree.range = range; tree.lit = lit; sums = {}; },
        /** @returns {{own: Float64Array, total: Float64Array}} */
        amounts() {
            if (!sums[tree.weight]) {
                const own = ownSums(run, tree.weight, tree.range, tree.lit);
                sums[tree.weight] = { own, total: totalsOf(run, own) };
            }
            return sums[tree.weight];
        },
        /** @param {CallNode} node */
        callees(node) {
            const { own, total } = tree.amounts();
            return grouped(run, node.paths.flatMap((path) => below[path]), (path) => [total[path], own[path]]);
        },
        /** @param {CallNode} node the callers of its paths, with the amounts of what was called first */
        callers(node) {
            const amounts = /** @type {any} */ (node).amounts, { parent } = run.paths;
            /** @type {Map<number, number>} */
            const of = new Map();
            node.paths.forEach((path, at) => { if (parent[path] >= 0) of.set(parent[path], (of.get(parent[path]) ?? 0) + amounts[at]); });
            const nodes = grouped(run, of.keys(), (path) => [of.get(path) ?? 0, 0]);
            for (const one of nodes) /** @type {any} */ (one).amounts = one.paths.map((path) => of.get(path));
            return nodes;
        },
        whole() { return below[top].reduce((sum, path) => sum + tree.amounts().total[path], 0); },
        /** The paths of a name that are in no other path of that name. @param {string} name */
        named(name) {
            const { parent, look } = run.paths, found = [];
            const isNamed = (/** @type {number} */ path) => run.texts[run.looks[look[path]][0]] === name;
            for (let path = 0; path < top; path += 1) {
                if (!isNamed(path)) continue;
                let above = parent[path];
                while (above >= 0 && !isNamed(above)) above = parent[above];
                if (above < 0) found.push(path);
            }
            return found;
        },
        /** @param {number[]} paths @param {string} name @returns {CallNode} */
        node(paths, name) {
            const { own, total } = tree.amounts();
            const sum = (/** @type {Float64Array} */ of) => paths.reduce((all, path) => all + of[path], 0);
            return { paths, look: paths.length ? run.paths.look[paths[0]] : -1, name, total: sum(total), own: sum(own) };
        },
        title() {
            const of = [tree.range ? `from ${duration(tree.range[0])} to ${duration(tree.range[1])}` : "", tree.lit ? "of what is selected" : ""].filter(Boolean).join(", ");
            return `${WEIGHT_TITLES[tree.weight]}: ${amountText(tree.whole(), tree.weight)}${of ? `, ${of}` : ""}`;
        },
        picture() {
            const whole = tree.whole(), everything = /** @type {CallNode} */ ({ paths: [top], look: -1, name: "everything", total: whole, own: 0 });
            const root = tree.root.length ? tree.node(tree.root, run.texts[run.looks[run.paths.look[tree.root[0]]][0]]) : everything;
            return pictureOf(run, root, tree.callees, tree.weight, { whole, searched: tree.searched, upwards: tree.upwards, title: tree.title() });
        },
        /** Callers, and callees, of all frames of a name. @param {string} name */
        sandwich(name) {
            const node = tree.node(tree.named(name), name), whole = tree.whole();
            const callers = { ...node, amounts: node.paths.map((path) => tree.amounts().total[path]) };
            const about = (/** @type {string} */ title) => ({ whole, searched: null, title });
            return {
                callers: pictureOf(run, callers, tree.callers, tree.weight, { ...about(`callers of ${name}`), upwards: true }),
                callees: pictureOf(run, node, tree.callees, tree.weight, about(`callees of ${name}: ${amountText(node.total, tree.weight)}, ${share(node.total, whole)} of all`)),
            };
        },
    };
    tree.weight = tree.weights[0] ?? "count";
    return tree;
}
