// @ts-check
// The state of a flame graph: the call tree of a run, whole or of a part, its root and its search; and callers and callees of a name.

/** @typedef {"device" | "host" | "count"} Weight */
/**
 * @typedef {object} CallNode a frame: paths of one name below one caller, or several folded ones, whose look is -1
 * @property {number[]} paths @property {number} look @property {string} name @property {number} total @property {number} own
 * @property {boolean} [isFolded]
 * @typedef {{least: number, some: number}} Room how wide a frame is, at least, unless it is one of some that are the widest
 */
/**
 * @typedef {object} Part of a run, of which the sums are
 * @property {[number, number] | null} range @property {Uint8Array | null} lit for each position, where the slices are here
 * @property {boolean} isChosen whether it is of selected slices @property {string} of step and thread, in words
 * @property {Record<Weight, Float64Array> | null} own what each path has by itself, where the slices are not here
 */

/** @type {Part} */
const WHOLE = { range: null, lit: null, isChosen: false, of: "", own: null };

const LEAST_FRAME = 0.0007;  // of the view's width: narrower frames are folded
const MOST_OF_ROOT = 500;  // of its callees are not folded, so that what is folded gets less with each one that is opened
const MOST_FRAMES = 2000, MOST_LEVELS = 60;
const WEIGHT_TITLES = /** @type {Record<Weight, string>} */ ({ device: "device time", host: "host time", count: "slices" });

/** An amount as text. @param {number} amount @param {Weight} weight */
const amountText = (amount, weight) => (weight === "count" ? counted(amount) : duration(amount));

const SUMS_OF_PATHS = /** @type {Record<Weight, string>} */ ({ device: "device_ns", host: "host_ns", count: "slices" });
const KINDS = /** @type {Record<string, string>} */ ({ python: "Python", operator: "operator" });

/**
 * What each path has by itself: in a range, of the slices that are lit.
 * @param {Run} run @param {Weight} weight @param {[number, number] | null} range @param {Uint8Array | null} lit
 */
function ownSums(run, weight, range, lit) {
    if (!range && !lit) return run.paths[SUMS_OF_PATHS[weight]];
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

/**
 * Group paths by name: those that are wide have a frame, the widest first, all others share one.
 * @param {Run} run @param {Iterable<number>} paths
 * @param {(path: number) => number} total @param {(path: number) => number} own @param {Room} room
 * @returns {CallNode[]}
 */
function grouped(run, paths, total, own, { least, some }) {
    const { look } = run.paths, sums = new Map(), kept = [];
    for (const path of paths) {
        const amount = total(path);
        if (amount <= 0) continue;
        kept.push(path);
        sums.set(look[path], (sums.get(look[path]) ?? 0) + amount);
    }
    const amounts = Float64Array.from(sums.values()).sort(), last = amounts[Math.max(amounts.length - some, 0)];
    /** @type {Map<number, CallNode>} */
    const nodes = new Map();
    let room = some - amounts.reduce((many, one) => many + Number(one > last), 0);  // for those that are as wide as the last one
    const rest = /** @type {CallNode} */ ({ paths: [], look: -1, name: "", total: 0, own: 0, isFolded: true });
    /** @type {Set<number>} */
    const folded = new Set();
    for (const path of kept) {
        const one = look[path], sum = sums.get(one);
        let node = nodes.get(one);
        if (!node && !folded.has(one) && (sum >= least || (some && sum >= last && (sum > last || (room -= 1) >= 0)))) {
            nodes.set(one, node = { paths: [], look: one, name: run.texts[run.looks[one][0]], total: 0, own: 0 });
        }
        if (!node) folded.add(one);
        const into = node ?? rest;
        into.paths.push(path);
        into.total += total(path);
        if (node) node.own += own(path);
    }
    rest.name = `(${counted(folded.size)} more)`;
    return [...[...nodes.values()].sort((one, other) => other.total - one.total), ...(rest.total >= least && folded.size ? [rest] : [])];
}

/** The callees of each path. @param {Run} run @returns {number[][]} the last ones are those at the top */
function calleePaths(run) {
    const { parent } = run.paths, below = Array.from({ length: parent.length + 1 }, () => /** @type {number[]} */ ([]));
    for (let path = 0; path < parent.length; path += 1) below[parent[path] < 0 ? parent.length : parent[path]].push(path);
    return below;
}

/**
 * The frames of a tree as a view draws them.
 * @param {Run} run @param {CallNode} root @param {(node: CallNode, room: Room) => CallNode[]} callees
 * @param {{searched: Uint8Array | null, holds?: Uint8Array, facts: (node: CallNode) => string[], upwards?: boolean, title: string, nothing?: string}} about `holds`: which paths are, or call, what is searched
 */
function pictureOf(run, root, callees, about) {
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
        let x = left;
        for (const one of callees(node, { least: whole * LEAST_FRAME, some: at ? 0 : MOST_OF_ROOT })) {
            frames.push({ node: one, level: level + 1, left: x, folded: Number(one.isFolded ?? 0), above: at });
            x += one.total / whole;
        }
    }
    return {
        nodes: frames.map((frame) => frame.node), above: frames.map((frame) => frame.above),
        level: Uint16Array.from(frames, (one) => one.level), left: Float64Array.from(frames, (one) => one.left),
        width: Float64Array.from(frames, (one) => one.node.total / whole), folded: Uint8Array.from(frames, (one) => one.folded),
        lit: Uint8Array.from(frames, ({ node, folded }) => {
            if (!about.searched) return 1;
            return Number(folded ? node.paths.some((path) => about.holds?.[path]) : node.look >= 0 && about.searched[node.look]);
        }),
        look: Uint16Array.from(frames, (one) => style(one.node.look)), looks,
        names: frames.map((frame) => frame.node.name),
        facts: (/** @type {number} */ at) => about.facts(frames[at].node),
        levels: frames.reduce((most, one) => Math.max(most, one.level), 0) + 1, upwards: Boolean(about.upwards), searching: about.searched !== null,
        title: about.title, nothing: root.total > 0 ? "" : about.nothing ?? "",
    };
}

/** The state of a flame graph. @param {Run} run */
function makeTree(run) {
    const below = calleePaths(run), top = run.paths.parent.length;
    /** @type {Partial<Record<Weight, {own: Float64Array, total: Float64Array}>>} */
    let sums = {};
    const has = (/** @type {Weight} */ weight) => run.paths[SUMS_OF_PATHS[weight]].some((one) => one > 0);
    /** @param {number} path */
    const nameOf = (path) => run.texts[run.looks[run.paths.look[path]][0]];
    const tree = {
        run,
        weights: /** @type {Weight[]} */ (["device", "host", "count"]).filter(has),
        weight: /** @type {Weight} */ ("count"),
        /** @type {{paths: number[], isFolded: boolean} | null} */ root: null,
        part: WHOLE,
        /** @type {Uint8Array | null} looks that are searched */ searched: null,
        upwards: false,
        /** Show a part of the run. @param {Part} part */
        show(part) { tree.forget(); tree.part = part; tree.climb(); },
        forget() { tree.part = WHOLE; sums = {}; },
        /** @param {Weight} weight */
        weigh(weight) { tree.weight = weight; tree.climb(); },
        /** Go to the nearest caller of the root that has something of the weight. */
        climb() { while (tree.root && !tree.node(tree.root.paths, "").total) tree.up(); },
        up() {
            const above = tree.root ? run.paths.parent[tree.root.paths[0]] : -1;
            tree.root = above >= 0 ? { paths: [above], isFolded: false } : null;
        },
        /** @param {Weight} [of] by default the weight of the view @returns {{own: Float64Array, total: Float64Array}} */
        amounts(of) {
            const weight = of ?? tree.weight, own = () => tree.part.own?.[weight] ?? ownSums(run, weight, tree.part.range, tree.part.lit);
            return (sums[weight] ??= ((one) => ({ own: one, total: totalsOf(run, one) }))(own()));
        },
        /** @param {CallNode} node @param {Room} room @returns {CallNode[]} */
        callees(node, room) {
            const { own, total } = tree.amounts(), { paths } = node;
            const called = node.isFolded ? paths : paths.length === 1 ? below[paths[0]] : paths.flatMap((path) => below[path]);
            return grouped(run, called, (path) => total[path], (path) => own[path], room);
        },
        /** @param {CallNode} node the callers of its paths, with the amounts of what was called first @param {Room} room @returns {CallNode[]} */
        callers(node, room) {
            const amounts = /** @type {any} */ (node).amounts, { parent } = run.paths;
            /** @type {Map<number, number>} */
            const of = new Map();
            node.paths.forEach((path, at) => { if (parent[path] >= 0) of.set(parent[path], (of.get(parent[path]) ?? 0) + amounts[at]); });
            const nodes = grouped(run, of.keys(), (path) => of.get(path) ?? 0, () => 0, room);
            for (const one of nodes) /** @type {any} */ (one).amounts = one.paths.map((path) => of.get(path));
            return nodes;
        },
        /** @returns {number} */
        whole() { return below[top].reduce((sum, path) => sum + tree.amounts().total[path], 0); },
        /** The paths of a name that are in no other path of that name. @param {string} name @returns {number[]} */
        named(name) {
            const found = [], { parent } = run.paths, isNamed = (/** @type {number} */ path) => nameOf(path) === name;
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
        /** The names from the outermost call to the root. @returns {string[]} */
        path() {
            const names = [];
            for (let at = tree.root ? tree.root.paths[0] : -1; at >= 0; at = run.paths.parent[at]) names.unshift(nameOf(at));
            if (tree.root?.isFolded) names.splice(-1, 1, "the rest");
            return names;
        },
        /** What the search finds in the view; frames in frames that it finds count once. @returns {{text: string, holds: Uint8Array}} */
        found() {
            const { searched, root } = tree, { parent, look } = run.paths, { total } = tree.amounts(), holds = new Uint8Array(top);
            if (!searched) return { text: "", holds };
            const inside = new Uint8Array(top), covered = new Uint8Array(top), tops = new Set(root?.paths);
            let frames = 0, sum = 0;
            for (let path = 0; path < top; path += 1) {
                const above = parent[path];
                inside[path] = Number(!root || tops.has(path) || (above >= 0 && inside[above]));
                if (!inside[path]) continue;
                const isFound = searched[look[path]] && total[path] > 0, isCovered = above >= 0 && covered[above];
                holds[path] = covered[path] = Number(isFound);
                if (isCovered) covered[path] = 1;
                if (isFound) frames += 1;
                if (isFound && !isCovered) sum += total[path];
            }
            for (let path = top - 1; path >= 0; path -= 1) if (holds[path] && parent[path] >= 0) holds[parent[path]] = 1;
            const of = `${share(sum, tree.whole())} of ${tree.weight === "count" ? "all slices" : WEIGHT_TITLES[tree.weight]}`;
            const view = root ? `${share(sum, tree.node(root.paths, "").total)} of the view, ` : "";
            return { text: frames ? `${counted(frames)} ${frames === 1 ? "frame" : "frames"}, ${view}${of}` : "no match", holds };
        },
        /** @returns {string} */
        title() {
            const { range, isChosen, of } = tree.part;
            const about = [of, range ? `from ${duration(range[0])} to ${duration(range[1])}` : "", isChosen ? "of what is selected" : ""].filter(Boolean).join(", ");
            return `${run.setup.simulated}${WEIGHT_TITLES[tree.weight]}: ${amountText(tree.whole(), tree.weight)}${about ? `, ${about}` : ""}`;
        },
        /** What is known of a frame. @param {CallNode} node @returns {string[]} */
        facts(node) {
            const { weight, root } = tree, shown = root ? tree.node(root.paths, "").total : 0;
            const shares = `${share(node.total, tree.whole())} of ${weight === "count" ? "all slices" : WEIGHT_TITLES[weight]}${root ? `, ${share(node.total, shown)} of the view` : ""}`;
            if (node.look < 0) return [amountText(node.total, weight), shares];
            const sum = (/** @type {ArrayLike<number>} */ of) => node.paths.reduce((all, path) => all + of[path], 0);
            const { key, label } = run.setup.families[run.looks[node.look][1]], isKernel = !["python", "operator", "api"].includes(key);
            const calls = sum(tree.amounts("count").own), isSeen = node.paths.some((path) => run.paths.seen[path]);
            const times = calls === 1 ? "once" : `${counted(calls)} times`, word = isKernel ? (calls === 1 ? "launch" : "launches") : calls === 1 ? "call" : "calls";
            const called = isSeen && calls ? `seen ${times} in samples` : `${counted(calls)} ${word}`;
            const below_ = weight === "count" ? `, ${counted(node.total)} including all callees` : "";
            const kind = `${isKernel ? "kernel" : KINDS[key] ?? label}, ${sum(run.paths.slices) ? called : "from the stacks taken at launches"}${below_}`;
            const sums = /** @type {Weight[]} */ (["host", "device"]).map((one) => [one, sum(tree.amounts(one).total), sum(tree.amounts(one).own)])
                .filter(([one, total]) => one === weight || total).map(([one, total, own]) => `${one} ${duration(Number(total))}, ${duration(Number(own))} self`);
            return [kind, ...sums, shares];
        },
        /** @returns {any} */
        picture() {
            const { root, weight, searched, upwards } = tree;
            const everything = /** @type {CallNode} */ ({ paths: [top], look: -1, name: "everything", total: tree.whole(), own: 0 });
            const above = root ? run.paths.parent[root.paths[0]] : -1;
            const rest = () => ({ ...tree.node(root?.paths ?? [], above >= 0 ? `the rest of ${nameOf(above)}` : "the rest"), look: -1, own: 0, isFolded: true });
            const node = !root ? everything : root.isFolded ? rest() : tree.node(root.paths, nameOf(root.paths[0]));
            const { range, isChosen, of } = tree.part, nothing = `no ${WEIGHT_TITLES[weight]} in ${range || isChosen || of ? "what is shown" : "this run"}`;
            return pictureOf(run, node, tree.callees, { searched, holds: tree.found().holds, facts: tree.facts, upwards, title: tree.title(), nothing });
        },
        /** Callers, and callees, of all frames of a name. @param {string} name @returns {any} */
        sandwich(name) {
            const node = tree.node(tree.named(name), name), whole = tree.whole();
            const callers = { ...node, amounts: node.paths.map((path) => tree.amounts().total[path]) };
            const facts = (/** @type {CallNode} */ one) => [amountText(one.total, tree.weight), `${share(one.total, whole)} of all`];
            const about = { searched: null, facts };
            return {
                callers: pictureOf(run, callers, tree.callers, { ...about, title: `callers of ${name}`, upwards: true }),
                callees: pictureOf(run, node, tree.callees, { ...about, title: `callees of ${name}: ${facts(node).join(", ")}` }),
            };
        },
    };
    tree.weight = tree.weights[0] ?? "count";
    return tree;
}
