// @ts-check
// A table of a run that the page holds, as the grid asks for it: searched, filtered, sorted and grouped.

const PAGE_ROWS = 50;
const FILTER_UNITS = /** @type {Record<string, number>} */ ({
    ns: 1, us: 1e3, "µs": 1e3, "μs": 1e3, ms: 1e6, s: 1e9, min: 6e10, "%": 0.01, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9,
});
const COMPARED = /** @type {Record<string, (one: number, other: number) => boolean>} */ ({
    "<": (one, other) => one < other, "<=": (one, other) => one <= other, ">": (one, other) => one > other,
    ">=": (one, other) => one >= other, "=": (one, other) => one === other, "==": (one, other) => one === other, "!=": (one, other) => one !== other,
});

/** A number with its unit. @param {string} text */
function quantity(text) {
    const found = /^([+-]?(?:\d[\d,_]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d{1,2})?)\s*([^\W\d]+|%)?$/i.exec(text.trim());
    const factor = found?.[2] ? FILTER_UNITS[found[2]] : 1;
    if (!found || factor === undefined) throw new Error(`${text} is no number with a unit`);
    return Number(found[1].replace(/[,_]/g, "")) * factor;
}

/**
 * Which values a filter keeps: absent ones never.
 * @param {string} text @param {boolean} isText
 * @returns {(value: any) => boolean}
 */
function filterOf(text, isText) {
    if (isText) {
        const regular = /^\/(.+)\/(i?)$/s.exec(text), whole = /^(==?|!=)\s*(.*)$/s.exec(text);
        if (regular) {
            const pattern = new RegExp(regular[1], regular[2]);
            return (value) => value !== null && pattern.test(value);
        }
        if (whole) return (value) => value !== null && (value === whole[2].trim()) === (whole[1] !== "!=");
        const part = text.trim().toLowerCase();
        return (value) => value !== null && value.toLowerCase().includes(part);
    }
    const tests = text.split(/\band\b/).map((part) => {
        const between = /^(.+?)\.\.(.+)$/.exec(part);
        if (between) {
            const [low, high] = [quantity(between[1]), quantity(between[2])];
            return (/** @type {number} */ value) => value >= low && value <= high;
        }
        const [, sign, rest] = /** @type {RegExpExecArray} */ (/^\s*(>=|<=|==|!=|>|<|=)?\s*(.*)$/s.exec(part));
        const limit = quantity(rest), compare = COMPARED[sign ?? "="];
        return (/** @type {number} */ value) => compare(value, limit);
    });
    return (value) => value !== null && tests.every((test) => test(value));
}

/** @param {string} column */
const columnTitle = (column) => column.replace(/_(ns|bytes)$/, "").replaceAll("_", " ");

/**
 * A model of the grid for a table.
 * @param {Run} run @param {Table} table @param {(text: string, positions: number[] | null) => void} lightUp
 * @returns {{model: any, letGo: () => void}} the model, whose rows are there once its `select` has ended
 */
function rowsModel(run, table, lightUp) {
    const names = ["name", "start_ns", "duration_ns", ...table.details.map((detail) => detail.name)];
    /** @type {Record<string, {value: (row: number) => any, isText: boolean}>} */
    const columns = {
        name: { value: (row) => nameAt(run, table.at + row), isText: true },
        start_ns: { value: (row) => run.start[table.at + row], isText: false },
        duration_ns: { value: (row) => run.duration[table.at + row], isText: false },
    };
    const SUMS = ["name", "count", "total_ns", "mean_ns", "max_ns"];
    /** @type {any[]} */
    let shown = [];
    let group = 0, page = 0, note = "";
    /** @type {[string, boolean][]} */
    let sort = [["total_ns", true]];
    /** @type {Record<string, string>} */
    let filters = {};
    /** @type {Record<string, string>} */
    let errors = {};
    /** @type {Uint8Array | null} */
    let lit = null;
    /** @type {(() => void)[]} */
    const listeners = [];
    const column = async (/** @type {string} */ name) => (columns[name] ??= await detailOf(run, table, table.details.find((detail) => detail.name === name)));
    const isText = (/** @type {string} */ name) => (group === 0 ? name === "name" : columns[name]?.isText ?? true);

    /** The rows of groups, or of single slices, as objects or row numbers. @param {number[]} rows */
    function groups(rows) {
        /** @type {Map<number, any>} */
        const found = new Map();
        for (const row of rows) {
            const text = run.looks[run.look[table.at + row]][0], time = run.duration[table.at + row], one = found.get(text);
            if (one) {
                one.rows.push(row);
                one.total_ns += time;
                one.max_ns = Math.max(one.max_ns, time);
            } else found.set(text, { name: nameAt(run, table.at + row), rows: [row], total_ns: time, max_ns: time });
        }
        for (const one of found.values()) { one.count = one.rows.length; one.mean_ns = Math.floor(one.total_ns / one.count); }
        return [...found.values()];
    }
    async function update() {
        errors = {};
        const rows = [];
        for (let row = 0; row < table.count; row += 1) if (!lit || lit[table.at + row]) rows.push(row);
        if (group === 1) for (const name of names) await column(name);
        const value = (/** @type {any} */ one, /** @type {string} */ name) => (group === 0 ? one[name] : columns[name].value(one));
        /** @type {any[]} */
        let some = group === 0 ? groups(rows) : rows;
        for (const [name, text] of Object.entries(filters)) {
            if (!text.trim()) continue;
            try {
                const keeps = filterOf(text, isText(name));
                some = some.filter((one) => keeps(value(one, name)));
            } catch (error) { errors[name] = `${name}: ${error instanceof Error ? error.message : error}`; }
        }
        for (const [name, down] of [...sort].reverse()) {
            const keys = new Map(some.map((one) => [one, value(one, name)]));
            some.sort((one, other) => {
                const [a, b] = [keys.get(one), keys.get(other)];
                if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
                return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
            });
        }
        shown = some;
        page = Math.min(page, Math.max(Math.ceil(shown.length / PAGE_ROWS) - 1, 0));
        for (const listener of listeners) listener();
    }
    /** @param {any} one */
    const cells = (one) => (group === 0
        ? [one.name || "(unnamed)", counted(one.count), duration(one.total_ns), duration(one.mean_ns), duration(one.max_ns)]
        : names.map((name) => {
            const value = columns[name].value(one);
            return value === null ? ABSENT_TEXT : typeof value === "string" ? value.slice(0, 300) : columnText(name, value);
        }));
    /** @type {Record<string, (asked: any) => void>} */
    const answers = {
        sort({ column: name, order, add }) {
            const others = add ? sort.filter(([one]) => one !== name) : [];
            sort = order === "none" ? others : [...others, [name, order === "descending"]];
            page = 0;
        },
        filter({ column: name, text }) { filters[name] = text; page = 0; },
        group({ group: to }) { group = to; sort = to === 0 ? [["total_ns", true]] : [["start_ns", false]]; filters = {}; page = 0; },
        page({ page: to }) { page = Math.max(to, 0); },
        action({ rows }) {
            const chosen = rows.map((/** @type {number} */ at) => shown[at]).filter((/** @type {any} */ one) => one !== undefined);
            lightUp(`rows of ${table.name}`, chosen.flatMap((/** @type {any} */ one) => (group === 0 ? one.rows : [one])).map((/** @type {number} */ row) => table.at + row));
        },
    };
    const model = {
        get() {
            const offset = page * PAGE_ROWS, some = shown.slice(offset, offset + PAGE_ROWS);
            const heads = group === 0 ? SUMS : names;
            const left = table.all - table.count;
            return {
                label: table.name, noun: group === 0 ? "groups" : "rows", empty: "no rows match", size: PAGE_ROWS, offset, total: shown.length,
                columns: heads.map((name) => ({
                    name, title: columnTitle(name), numeric: !isText(name), sort: (sort.find(([one]) => one === name) ?? [0, null])[1] === null ? "none" : sort.find(([one]) => one === name)?.[1] ? "descending" : "ascending",
                    filter: filters[name] ?? "", error: name in errors, example: isText(name) ? "text or /regex/" : name.endsWith("_ns") ? "> 100 us" : "> 10", hint: "", meaning: "",
                })),
                rows: some.map(cells), ids: some.map((_, at) => offset + at), selected: [], groups: ["grouped by name", "single slices"], group, choices: [],
                actions: [{ name: "timeline", label: "Show in timeline", hint: "select the slices of the chosen rows in all views (Enter)", least: 1, most: PAGE_ROWS }],
                sortable: true, filterable: true, tells_choice: false, code: "",
                note: [...Object.values(errors), note, left ? `${counted(left)} of ${counted(table.all)} rows are not in this page.` : ""].filter(Boolean).join(" "),
            };
        },
        on(/** @type {string} */ _, /** @type {() => void} */ listener) { listeners.push(listener); },
        off() {},
        async send(/** @type {any} */ asked) { await run.here(); answers[asked.kind]?.(asked); update(); },
        /** Show only the rows that are selected, or all. @param {Uint8Array | null} mask */
        select(mask) {
            if (mask !== lit) page = 0;
            lit = mask;
            return update();
        },
    };
    return {
        model,
        /** Keep only what was asked for. */
        letGo() { shown = []; for (const { name } of table.details) delete columns[name]; },
    };
}
