// @ts-check
// A table of a run: its order, filters, groups and page, and its rows from the run that the page holds, or from the kernel.

/**
 * What is known of a table before its rows are, as `npuprof/browser/tables.py` describes it. A column that is not exact is
 * held as it is shown, so that a filter or an order could find other rows than the kernel.
 * @typedef {"int" | "float" | "text" | "flag"} ColumnKind
 * @typedef {{name: string, kind: ColumnKind, meaning: string, exact: boolean}} Column
 * @typedef {{table: string, title: string, noun: string, weight: string, count: number, columns: Column[], groups: string[][]}} Described
 */
/**
 * What is shown of a table: the columns that group its rows, none for single ones; filters, order, and the columns.
 * @typedef {{group: string[], where: [string, string][], sort: [string, boolean][], columns: string[]}} TableView
 * @typedef {{total: number, errors: Record<string, string>, rows: any[][], note?: string}} RowsPage values by row and column
 */
/**
 * Where rows come from.
 * @typedef {object} RowSource
 * @property {(view: TableView, first: number, count: number) => Promise<RowsPage | null>} rows
 * @property {((view: TableView, places: number[]) => Promise<string> | string) | null} show selects rows in all views; what is said of it
 * @property {((view: TableView, places: number[]) => void) | null} choose tells which rows are chosen
 * @property {((view: TableView) => Promise<string>) | null} code the expression for the same rows in Python
 */

const PAGE_ROWS = 50;
const LONGEST_CELL = 300, LONGEST_FILTER = 1000;
const TIME_FACTORS = { ns: 1, us: 1e3, "µs": 1e3, "μs": 1e3, ms: 1e6, s: 1e9, min: 6e10 };
const SIZE_FACTORS = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };
const MOMENTS = ["start_ns", "time_ns", "allocated_ns", "released_ns", "device_start_ns", "end_ns"];
const TRUTH = /** @type {Record<string, boolean>} */ ({ true: true, yes: true, 1: true, false: false, no: false, 0: false });
const NUMBER_HINT = "A number, > < >= <= = != with one, low..high, or several joined by and: for example";
const TEXT_HINT = "A part of the text, = or != and the whole text, or /a regular expression/ (/.../i in any case)";
const COMPARED = /** @type {Record<string, (one: number, other: number) => boolean>} */ ({
    "<": (one, other) => one < other, "<=": (one, other) => one <= other, ">": (one, other) => one > other,
    ">=": (one, other) => one >= other, "==": (one, other) => one === other, "!=": (one, other) => one !== other,
});
const QUANTITY = /^([+-]?)(\d[\d,_]*(?:\.\d+)?|\.\d+)(?:e([+-]?\d{1,2}))?\s*([^\W\d]+|[µμ]s|%)?$/i;
const NEVER = new Map([["≥", ">="], ["≤", "<="], ["≠", "!="], ["=", "=="]]);

/** The units of a column. @param {string} name @returns {Record<string, number>} */
function unitsOf(name) {
    if (name === "share" || name.endsWith("_ratio")) return { "%": 1 };
    return name.endsWith("_ns") ? TIME_FACTORS : name.endsWith("_bytes") ? SIZE_FACTORS : {};
}

/** @param {string} name @param {ColumnKind} kind */
function exampleOf(name, kind) {
    if (kind === "text" || kind === "flag") return "text or /regex/";
    if (MOMENTS.includes(name)) return "> 1.5 s";
    return name.endsWith("_ns") ? "> 100 us" : name.endsWith("_bytes") ? "> 1 MiB" : name === "share" ? "> 5 %" : "> 10";
}

/** A number with its unit, in the unit of a column. @param {string} name @param {ColumnKind} kind @param {string} text */
function quantity(name, kind, text) {
    const found = QUANTITY.exec(text.trim()), example = `write, for example, ${exampleOf(name, kind)}`;
    if (!found) throw new Error(`'${text.trim()}' is not a number, which ${name} needs: ${example}`);
    const [, sign, digits, power, unit] = found, units = unitsOf(name), known = Object.keys(units);
    if (unit && !Object.hasOwn(units, unit)) throw new Error(`${name} is not measured in ${unit}: ${known.length ? `its units are ${known.filter((one) => /^[ -~]+$/.test(one)).join(", ")}` : "it has no unit"}; ${example}`);
    const [whole, decimals = ""] = digits.replace(/[,_]/g, "").split("."), at = Number(power ?? 0) - decimals.length - (unit === "%" ? 2 : 0);
    if (kind === "float") return Number(`${sign}${whole}${decimals}e${at}`);
    // Whole numbers are counted exactly, and fit after that.
    const scaled = BigInt(whole + decimals) * BigInt(unit ? units[unit] : 1), shift = 10n ** BigInt(Math.abs(at));
    if (at < 0 && scaled % shift) throw new Error(`${name} is a whole number, and ${text.trim()} is not one: ${example}`);
    return Number(at < 0 ? scaled / shift : scaled * shift) * (sign === "-" ? -1 : 1);
}

/** The sign before a text, and the rest. @param {string} text @returns {[string, string]} */
function signed(text) {
    const [, sign = "", rest] = /** @type {RegExpExecArray} */ (/^(>=|<=|==|!=|≥|≤|≠|>|<|=|~)?\s*(.*)$/s.exec(text.trim()));
    return [NEVER.get(sign) ?? sign, rest];
}

/**
 * Which values a filter keeps: absent ones never.
 * @param {string} name @param {ColumnKind} kind @param {string} text
 * @returns {(value: any) => boolean}
 */
function filterOf(name, kind, text) {
    if (text.length > LONGEST_FILTER) throw new Error(`the filter of ${name} is longer than ${LONGEST_FILTER} characters`);
    if (kind === "flag") {
        const [sign, rest] = signed(text), wanted = TRUTH[rest.trim().toLowerCase()];
        if (wanted === undefined || !["", "==", "!="].includes(sign)) throw new Error(`${name} is true or false, not '${text}'`);
        return (value) => value !== null && (value === wanted) === (sign !== "!=");
    }
    if (kind === "text") {
        const regular = /^\/(.+)\/(i?)$/s.exec(text), [sign, whole] = signed(text);
        if (regular) {
            const pattern = new RegExp(regular[1], regular[2]);
            return (value) => value !== null && pattern.test(value);
        }
        if (sign === "==" || sign === "!=") return (value) => value !== null && (value === whole.trim()) === (sign === "==");
        const part = (sign === "~" ? whole : text).toUpperCase();
        return (value) => value !== null && value.toUpperCase().includes(part);
    }
    /** @type {[string, number][]} */
    const tests = text.trim().split(/\s+and\s+/).flatMap((/** @type {string} */ part) => {
        const [sign, rest] = signed(part), dots = rest.indexOf("..");
        if (sign === "~") throw new Error(`${name} is a number: compare it with <, <=, >, >=, = or !=`);
        if (dots < 0 || (sign && sign !== "==")) return [[sign || "==", quantity(name, kind, rest)]];
        const low = rest.slice(0, dots), high = rest.slice(dots + 2), unit = QUANTITY.exec(high.trim())?.[4] ?? "";
        const isBare = QUANTITY.exec(low.trim())?.[4] === undefined;  // 10..20 us: the unit at the end is that of both
        return [[">=", quantity(name, kind, isBare ? low + unit : low)], ["<=", quantity(name, kind, high)]];
    });
    return (value) => value !== null && tests.every(([sign, limit]) => COMPARED[sign](value, limit));
}

/** @param {string} column */
const columnTitle = (column) => column.replace(/_(ns|bytes)$/, "").replaceAll("_", " ");

/** A text on one line, cut in its middle, as names differ at their ends. @param {string} text */
function cellOf(text) {
    const line = text.replace(/[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]+/g, " "), all = line.length > LONGEST_CELL ? [...line] : [];
    if (all.length <= LONGEST_CELL) return line;
    return `${all.slice(0, LONGEST_CELL / 2).join("")}…${all.slice(all.length - LONGEST_CELL / 2 + 1).join("")}`;
}

/** A value as text. @param {string} name @param {ColumnKind} kind @param {any} value */
function valueText(name, kind, value) {
    if (value === null) return ABSENT_TEXT;
    if (kind === "flag") return value ? "yes" : "no";
    if (typeof value === "string") return cellOf(value);
    if (kind === "float") return name === "share" ? `${(100 * value).toFixed(1)} %` : figure(value);
    if (MOMENTS.includes(name)) return exactMoment(value);
    return /_(ns|bytes)$/.test(name) ? columnText(name, value) : name === "count" ? counted(value) : String(value);
}

/** The sums of groups. @param {Described} table */
const sumsOfGroups = ({ weight }) => ["total", "mean", "min", "max"].map((sum) => `${sum}_${weight.endsWith("_bytes") ? "bytes" : "ns"}`);

/** The columns of rows that are grouped by some. @param {Described} table @param {string[]} group @returns {Column[]} */
function columnsOfView(table, group) {
    if (!group.length) return table.columns;
    const made = (/** @type {string} */ name, /** @type {ColumnKind} */ kind) => ({ name, kind, meaning: "", exact: true });
    const keys = group.map((name) => /** @type {Column} */ (table.columns.find((one) => one.name === name)));
    return [...keys, made("count", "int"), ...sumsOfGroups(table).map((name) => made(name, "int")), made("share", "float")];
}

/**
 * The model of a grid: what the user made of a table, and the page that is shown.
 * @param {Described} table @param {RowSource} source
 * @param {any} [kept] what the user made of it before @param {(made: any) => void} [keep] called with what is to be kept
 */
function rowsModel(table, source, kept = null, keep = () => {}) {
    const groups = [...table.groups, []];
    const fresh = (/** @type {number} */ group) => ({
        group, page: 0, filters: /** @type {Record<string, string>} */ ({}), hidden: /** @type {string[]} */ ([]),
        sort: /** @type {[string, boolean][]} */ (groups[group].length ? [[sumsOfGroups(table)[0], true]] : table.columns.some((one) => one.name === "start_ns") ? [["start_ns", false]] : []),
    });
    let made = kept && kept.group in groups ? { ...fresh(kept.group), ...kept } : fresh(0), note = "", turn = 0;
    /** @type {RowsPage | null} */
    let shown = null;
    /** @type {Set<() => void>} */
    const listeners = new Set();
    const tell = () => { for (const listener of listeners) listener(); };
    const all = () => columnsOfView(table, groups[made.group]);
    const visible = () => all().filter((one) => !made.hidden.includes(one.name));
    /** @returns {TableView} */
    const view = () => ({
        group: groups[made.group], sort: made.sort, columns: visible().map((one) => one.name),
        where: /** @type {[string, string][]} */ (Object.entries(made.filters)).filter(([, text]) => text.trim()),
    });
    async function update() {
        const mine = (turn += 1), found = await source.rows(view(), made.page * PAGE_ROWS, PAGE_ROWS);
        if (mine !== turn || !found) return;
        const last = Math.max(Math.ceil(found.total / PAGE_ROWS) - 1, 0);
        if (made.page > last) { made.page = last; await update(); return; }
        shown = found;
        tell();
    }
    /** @type {Record<string, (asked: any) => void>} */
    const changes = {
        sort({ column: name, order, add }) {
            const others = add ? made.sort.filter((/** @type {[string, boolean]} */ [one]) => one !== name) : [];
            made.sort = order === "none" ? others : [...others, [name, order === "descending"]];
            made.page = 0;
        },
        filter({ column: name, text }) { made.filters[name] = text; made.page = 0; },
        group({ group }) {  // groups and rows have different columns: filters of those that stay are kept
            const { filters } = made;
            made = fresh(group);
            const names = all().map((one) => one.name);
            made.filters = Object.fromEntries(Object.entries(filters).filter(([name]) => names.includes(name)));
        },
        column({ column: name, shown: isShown }) {
            const hidden = isShown ? made.hidden.filter((/** @type {string} */ one) => one !== name) : [...made.hidden, name];
            if (hidden.length < all().length) made.hidden = hidden;
            else note = "the last column stays";
        },
        page({ page }) { made.page = Math.max(page, 0); },
    };
    const model = {
        get() {
            if (!shown) return {};
            const columns = visible(), order = new Map(made.sort), { errors, total, rows } = shown, offset = made.page * PAGE_ROWS;
            return {
                label: table.title, noun: made.group + 1 < groups.length ? "groups" : table.noun, size: PAGE_ROWS, offset, total,
                empty: view().where.length ? "no rows match the filters" : "no rows",
                columns: columns.map(({ name, kind, meaning }) => ({
                    name, title: columnTitle(name), meaning, numeric: kind === "int" || kind === "float",
                    sort: order.has(name) ? (order.get(name) ? "descending" : "ascending") : "none",
                    filter: made.filters[name] ?? "", error: name in errors, example: exampleOf(name, kind),
                    hint: kind === "int" || kind === "float" ? `${NUMBER_HINT} ${exampleOf(name, kind)}` : TEXT_HINT,
                })),
                rows: rows.map((row) => row.map((value, at) => valueText(columns[at].name, columns[at].kind, value))), ids: rows.map((_, at) => offset + at), selected: [],
                groups: groups.map((names) => (names.length ? `grouped by ${names.join(", ")}` : `single ${table.noun}`)), group: made.group,
                choices: all().map(({ name }) => ({ name, shown: !made.hidden.includes(name) })),
                actions: source.show ? [{ name: "timeline", label: "Show in timeline", hint: "Show the slices of the selected rows in the timeline (Enter)", least: 1, most: PAGE_ROWS }] : [],
                sortable: true, filterable: true, tells_choice: source.choose !== null, has_code: source.code !== null,
                note: [...Object.values(errors), note, shown.note].filter(Boolean).join("; "),
            };
        },
        on(/** @type {string} */ _, /** @type {() => void} */ listener) { listeners.add(listener); },
        off(/** @type {string} */ _, /** @type {() => void} */ listener) { listeners.delete(listener); },
        code: () => source.code?.(view()),
        async send(/** @type {any} */ asked) {
            if (asked.kind === "choice") { source.choose?.(view(), asked.rows); return; }
            note = "";
            if (asked.kind === "action") {
                note = await source.show?.(view(), asked.rows) ?? "";
                tell();
                return;
            }
            changes[asked.kind](asked);
            keep(made);
            await update();
        },
    };
    return { model, update };
}

/**
 * The rows of a table of a run that the page holds.
 * @param {Run} run @param {Table} held @param {Described} table
 */
function heldRows(run, held, table) {
    const named = new Map(table.columns.map((one) => [one.name, one]));
    const detailNamed = (/** @type {string} */ name) => held.details.find((one) => one.name === name);
    const isSpan = (/** @type {string} */ name) => name === "start_ns" || name === "duration_ns";
    /** Whether a column is here: as numbers, texts, or yes and no. @param {string} name */
    const has = (name) => {
        const kind = named.get(name)?.kind, detail = detailNamed(name);
        if (isSpan(name) || (name === "name" && !detail)) return true;
        return detail && (detail.kind === kind || (kind === "flag" && detail.kind === "text"));
    };
    /** The values of a column by row. @param {string} name @returns {Promise<(row: number) => any>} */
    function columnOf(name) {
        return (held.values[name] ??= (async () => {
            if (isSpan(name)) {
                const values = name === "start_ns" ? run.start : run.duration;
                return (/** @type {number} */ row) => values[held.at + row];
            }
            const detail = detailNamed(name);
            if (!detail) return (/** @type {number} */ row) => nameAt(run, held.at + row) || null;
            const { value } = await detailOf(run, held, detail);
            return named.get(name)?.kind === "flag" ? (/** @type {number} */ row) => TRUTH[String(value(row)).toLowerCase()] ?? null : value;
        })());
    }
    /** @type {any} the last answer, since pages of it are turned */
    let last = null;
    let asked = "";
    /** @type {Uint8Array | null} */
    let litThen = null;

    /** The order of rows or groups by some of their values, absent ones at the end. @param {number} count @param {[(at: number) => any, boolean][]} by */
    function ordered(count, by) {
        const keys = by.map(([value, isDown]) => {
            const numbers = new Float64Array(count).fill(NaN), texts = new Set();
            for (let at = 0; at < count; at += 1) if (typeof value(at) === "string") texts.add(value(at));
            const ranks = new Map([...texts].sort().map((text, rank) => [text, rank]));
            for (let at = 0; at < count; at += 1) {
                const one = value(at);
                if (one !== null) numbers[at] = (typeof one === "string" ? /** @type {number} */ (ranks.get(one)) : Number(one)) * (isDown ? -1 : 1);
            }
            return numbers;
        });
        return Uint32Array.from({ length: count }, (_, at) => at).sort((a, b) => {
            for (const key of keys) {
                const one = key[a], other = key[b];
                if (one < other) return -1;
                if (one > other) return 1;
                if (one !== other && Number.isNaN(one) !== Number.isNaN(other)) return Number.isNaN(one) ? 1 : -1;
            }
            return a - b;
        });
    }
    /** Groups of rows in the order of their first ones. @param {ArrayLike<number>} rows @param {((row: number) => any)[]} keys */
    function grouped(rows, keys) {
        const of = new Int32Array(rows.length), codes = new Int32Array(rows.length);
        /** @type {number[]} */
        let first = [];
        const numberIn = (/** @type {Map<any, number>} */ known, /** @type {any} */ value) => known.get(value) ?? (known.set(value, known.size), known.size - 1);
        for (const key of keys) {
            const values = new Map(), groups = new Map();
            for (let at = 0; at < rows.length; at += 1) codes[at] = numberIn(values, key(rows[at]));
            first = [];
            for (let at = 0; at < rows.length; at += 1) {
                of[at] = numberIn(groups, of[at] * values.size + codes[at]);
                if (of[at] === first.length) first.push(rows[at]);
            }
        }
        return { of, first };
    }
    /** @param {TableView} view @param {Uint8Array | null} lit */
    async function find(view, lit) {
        /** @type {Record<string, string>} */
        const errors = {};
        /** @type {Record<string, (row: number) => any>} */
        const values = {};
        for (const name of named.keys()) if (has(name) && [...view.group, ...view.columns, ...view.where.map(([one]) => one), ...view.sort.map(([one]) => one)].includes(name)) values[name] = await columnOf(name);
        const columns = columnsOfView(table, view.group), kinds = new Map(columns.map((one) => [one.name, one.kind]));
        const filtersOf = (/** @type {boolean} */ isSum) => view.where.flatMap(([name, text]) => {
            const isOfRows = !view.group.length || view.group.includes(name);
            if (isOfRows === isSum || !kinds.has(name) || !text.trim()) return [];
            try {
                return [/** @type {[string, (value: any) => boolean]} */ ([name, filterOf(name, /** @type {ColumnKind} */ (kinds.get(name)), text)])];
            } catch (error) {
                errors[name] = error instanceof SyntaxError ? `the regular expression cannot be read: ${error.message}` : error instanceof Error ? error.message : String(error);
                return [];
            }
        });
        const filters = filtersOf(false), some = /** @type {number[]} */ ([]);
        for (let row = 0; row < held.count; row += 1) {
            if ((held.rows ? held.rows[row] : row) >= table.count) break;  // of the user's own tracks
            if ((!lit || lit[held.at + row]) && filters.every(([name, keeps]) => keeps(values[name](row)))) some.push(row);
        }
        if (!view.group.length) {
            const order = ordered(some.length, view.sort.filter(([name]) => name in values).map(([name, isDown]) => [(at) => values[name](some[at]), isDown]));
            return {
                errors, total: order.length, members: (/** @type {number[]} */ places) => places.map((place) => some[order[place]]),
                value: (/** @type {number} */ place, /** @type {string} */ name) => values[name](some[order[place]]),
            };
        }
        const { of, first } = grouped(some, view.group.map((name) => values[name])), many = first.length;
        const sums = Object.fromEntries(["count", ...sumsOfGroups(table), "share"].map((name) => [name, new Float64Array(many)]));
        const [total, mean, least, most] = sumsOfGroups(table).map((name) => sums[name]);
        least.fill(Infinity);
        for (let at = 0; at < some.length; at += 1) {
            const group = of[at], time = run.duration[held.at + some[at]];
            sums.count[group] += 1;
            total[group] += time;
            least[group] = Math.min(least[group], time);
            most[group] = Math.max(most[group], time);
        }
        let whole = 0;
        for (const one of total) whole += one;
        for (let group = 0; group < many; group += 1) {
            mean[group] = Math.floor(total[group] / sums.count[group]);
            sums.share[group] = total[group] / whole;
        }
        const valueOf = (/** @type {string} */ name) => (name in sums ? (/** @type {number} */ at) => (Number.isNaN(sums[name][at]) ? null : sums[name][at]) : (/** @type {number} */ at) => values[name](first[at]));
        const after = filtersOf(true), kept = /** @type {number[]} */ ([]);
        for (let group = 0; group < many; group += 1) if (after.every(([name, keeps]) => keeps(valueOf(name)(group)))) kept.push(group);
        const order = ordered(kept.length, view.sort.filter(([name]) => name in sums || name in values).map(([name, isDown]) => [(at) => valueOf(name)(kept[at]), isDown]));
        return {
            errors, total: order.length, value: (/** @type {number} */ place, /** @type {string} */ name) => valueOf(name)(kept[order[place]]),
            members(/** @type {number[]} */ places) {
                const chosen = new Set(places.map((place) => kept[order[place]]));
                return some.filter((_, at) => chosen.has(of[at]));
            },
        };
    }
    return {
        run, has,
        /** Whether a view is told from here as the kernel would tell it. @param {TableView} view */
        holds(view) {
            const used = [...view.group, ...view.where.map(([name]) => name), ...view.sort.map(([name]) => name)].filter((name) => named.has(name));
            const isExact = (/** @type {string} */ name) => named.get(name)?.exact || isSpan(name);
            return held.count === held.all && used.every((name) => has(name) && isExact(name)) && view.columns.every((name) => !named.has(name) || has(name));
        },
        /** @param {TableView} view @param {Uint8Array | null} lit for each position of the run */
        async answer(view, lit) {
            const question = JSON.stringify([view, run.isAway]);
            if (!last || question !== asked || lit !== litThen) {
                const found = find(view, lit);
                [last, asked, litThen] = [found, question, lit];
            }
            return last;
        },
        /** @param {TableView} view @param {Uint8Array | null} lit @param {number} first @param {number} count @returns {Promise<RowsPage>} */
        async page(view, lit, first, count) {
            const { total, errors, value } = await this.answer(view, lit), rows = [];
            for (let place = first; place < Math.min(first + count, total); place += 1) rows.push(view.columns.map((name) => value(place, name)));
            return { total, errors, rows };
        },
        /** The rows in the table of the rows of a view. @param {TableView} view @param {Uint8Array | null} lit @param {number[]} places @returns {Promise<number[]>} */
        async members(view, lit, places) {
            const { total, members } = await this.answer(view, lit);
            return members(places.filter((place) => place < total)).map((/** @type {number} */ row) => (held.rows ? held.rows[row] : row));
        },
        forget() { last = null; },
    };
}
