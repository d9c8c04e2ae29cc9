// @ts-check
// A saved page of a window: what the kernel would tell is told from what the page has.

(() => {
    const data = JSON.parse(document.getElementById("data")?.textContent ?? "{}");
    const bytes = (/** @type {string} */ text) => new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer);
    const first = { content: data.first.content, buffers: data.first.buffers.map(bytes) };
    /** @type {((content: any, buffers: any[]) => void)[]} */
    const listeners = [];
    const tell = (/** @type {any} */ content, /** @type {any[]} */ buffers = []) => {
        for (const one of listeners) one(content, buffers);
    };
    /** @type {Map<number, [string, number]>} */
    const names = new Map();
    const bars = decode(first.content, first.buffers, names, null);
    const nameOf = (/** @type {number} */ at) => names.get(bars.label[at])?.[0] ?? "";

    /** @param {number} slice */
    function selected(slice) {
        const at = bars.slice.findIndex((one, place) => one === slice && bars.count[place] === 1);
        if (at < 0) return { kind: "selected", slice: null };
        const facts = [["start", duration(bars.begin[at])], ["duration", duration(bars.length[at])]];
        return {
            kind: "selected", slice, name: nameOf(at), ends: [[slice, bars.begin[at], bars.begin[at] + bars.length[at], bars.lane[at]]],
            arrows: [], more: false, causes: [], effects: [], findings: [], groups: [{ title: "time", facts, zeros: 0 }],
        };
    }
    /** The sums of a range, by name. @param {number} low @param {number} high */
    function summed(low, high) {
        /** @type {Map<string, number[]>} */
        const found = new Map();
        for (let at = 0; at < bars.begin.length; at += 1) {
            const inside = Math.min(bars.begin[at] + bars.length[at], high) - Math.max(bars.begin[at], low);
            if (inside <= 0 || bars.count[at] > 1) continue;
            const of = data.setup.families[bars.family[at]].label + "\0" + nameOf(at);
            found.set(of, [...(found.get(of) ?? []), inside]);
        }
        const rows = [...found].map(([of, times]) => {
            times.sort((one, other) => one - other);
            const sum = times.reduce((all, one) => all + one, 0);
            return [...of.split("\0"), times.length, sum, sum / times.length, times[Math.ceil(0.95 * times.length) - 1], times[times.length - 1]];
        });
        rows.sort((one, other) => Number(other[3]) - Number(one[3]));
        return { names: rows.slice(0, 50), lanes: [], parts: [], left: Math.max(rows.length - 50, 0), code: "" };
    }
    /** @type {Record<string, (asked: any) => void>} */
    const answers = {
        hello() {}, layout() {}, cursor() {},
        overview: () => tell({ kind: "overview", ...data.overview }, [bytes(data.overview.shares)]),
        select: ({ slice }) => tell(selected(slice)),
        mark: ({ start, end }) => tell({ kind: "range", marked: [start, end], summary: summed(start, end) }),
        clear() { tell({ kind: "selected", slice: null }); tell({ kind: "range", marked: null }); },
    };
    const model = {
        get: (/** @type {string} */ name) => /** @type {any} */ ({ setup: data.setup, first })[name],
        on: (/** @type {string} */ _, /** @type {any} */ listener) => listeners.push(listener),
        off() {},
        send(/** @type {any} */ asked) {
            const answer = answers[asked.kind] ?? (() => tell({ kind: "said", text: "A saved page cannot tell this: open the run in a notebook." }));
            setTimeout(() => answer(asked));
        },
    };
    const widget = makeWidget();
    widget.initialize({ model });
    widget.render({ model, el: /** @type {HTMLElement} */ (document.getElementById("place")) });
})();
