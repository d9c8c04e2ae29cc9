// @ts-check
// The timeline: what the hand does, and where it is shown.

const GUTTER = 176;
const AXIS_HEIGHT = 24;
const STRIP_HEIGHT = 36;
const LEAST_NS = 20;
const DRAG_PIXELS = 4;

/** @param {any} store @param {any} model @param {HTMLElement} el */
function timelineView(store, model, el) {
    const setup = store.setup;
    const layout = store.layout;
    const plain = matchMedia("(forced-colors: active)");
    /** @type {any} */
    const hand = { x: null, y: null, bar: null, range: null };
    let placed = rowsOf(setup, layout);
    let window_ = store.window;
    /** @type {Theme} */
    let theme;
    let width = 0, frame = 0, dirty = true, moved = true, listed = "";
    /** @type {{start: number, end: number}[]} */
    const bookmarks = [];
    const state = { view: "names", table: false, raw: false };

    // The page

    const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ onclick) =>
        make("button", { type: "button", text, title, onclick });
    const search = make("input", { type: "search", placeholder: "part of a name", "aria-label": "Search", spellcheck: "false" });
    const regex = make("input", { type: "checkbox", "aria-label": "regular expression" });
    const found = make("span", { class: "found", role: "status" });
    const lanes = make("div", { class: "menu" });
    const jumps = make("div", { class: "menu" },
        button("Longest kernel", "L", () => jump("kernel")), button("Longest gap of the device", "I", () => jump("gap")),
        button("Next slice of the same name", "M", () => jump("same")), button("Previous slice of the same name", "Shift M", () => jump("same before")),
        button("Next step", "]", () => jump("step")), button("Previous step", "[", () => jump("step before")));
    const found_ = make("div", { class: "menu findings" });
    const files = make("div", { class: "menu" },
        button("Picture (PNG)", "what is shown, at twice the size of the screen", () => saveCanvas()),
        button("Drawing (SVG)", "what is shown, as lines and text", () => saveDrawing()),
        ...(store.alone ? [] : [
            button("Page (HTML)", "the window, which moves without a kernel", () => take("page")),
            button("Chrome trace (JSON)", "the window, for Perfetto", () => take("trace")),
            button("Line of code", "opens the explorer at this window again", () => take("code"))]));
    files.addEventListener("click", () => files.closest("details")?.removeAttribute("open"));
    const tab = button("Own tab", "shows these views in a tab, too; what is done in one is seen in the other", () => { if (!openTab(root)) fillScreen(root, say); });
    tab.hidden = true;
    const bar = make("div", { class: "bar" },
        button("Zoom in", "W: show half as much", () => zoom(0.5, null)), button("Zoom out", "S: show twice as much", () => zoom(2, null)),
        button("◀ Move", "A: move to the left", () => pan(-0.25)), button("Move ▶", "D: move to the right", () => pan(0.25)),
        button("Selection", "F: show the selection or the marked range", fit), button("All", "0: show the whole run", all),
        make("label", { class: "search" }, "Search ", search), make("label", {}, regex, " regular expression"),
            button("Previous", "P: the match before", () => store.send({ kind: "match", by: -1 })),
            button("Next", "N: the next match", () => store.send({ kind: "match", by: 1 })), found,
        make("details", { ontoggle: listLanes }, make("summary", { text: "Lanes" }), lanes),
        make("details", {}, make("summary", { text: "Go to" }), jumps),
        make("details", { ontoggle: listFindings }, make("summary", { text: "Findings" }), found_),
        make("details", {}, make("summary", { text: "Export" }), files),
        button("Table", "T: what is visible as a table", toggleTable), tab, button("Full screen", "all views of the run; again: back", () => fillScreen(root, say)),
        button("?", "the keys", toggleHelp));
    bar.querySelectorAll("details").forEach(keepMenuWhole);
    const canvas = () => make("canvas", { "aria-hidden": "true" });
    const strip = canvas(), axis = canvas(), base = canvas(), over = canvas();
    strip.className = "strip";
    axis.className = "axis";
    const labels = make("div", { class: "labels" }), pinnedLabels = make("div", { class: "labels pinned" });
    const gutter = make("div", { class: "gutter" }, labels, pinnedLabels);
    const tip = make("div", { class: "tip", "aria-hidden": "true", hidden: true });
    const stick = make("div", { class: "stick" }, gutter, base, over, tip);
    const sheet = make("div", { class: "sheet" }, stick);
    const box = make("div", { class: "frame" }, sheet);
    const said = make("div", { class: "said", role: "status", "aria-live": "polite" });
    const failed = make("div", { class: "failed", role: "alert", hidden: true });
    const legend = make("div", { class: "legend" });
    const rangePanel = make("div", { class: "panel range", hidden: true }), selection = make("div", { class: "panel selection" });
    const visible = make("div", { class: "panel visible", hidden: true });
    const marks = make("div", { class: "bookmarks" });
    const copied = make("div", { class: "copied" });
    const head = make("div", { class: "head" },
        make("div", { class: "corner", text: "device", title: `0 is ${setup.origin}` }), strip,
        make("div", { class: "corner zero", text: `0 = ${setup.origin}`, title: `all times count from ${setup.origin}` }), axis);
    const help = make("div", { class: "help", role: "dialog", "aria-label": "Keys of the timeline", hidden: true });
    const root = make("div", {
        class: `npuprof-timeline npuprof-keys${setup.link ? " linked" : ""}`, tabindex: "0", role: "application", "data-lm-suppress-shortcuts": "true",
        "aria-label": "Timeline. Press the question mark for its keys; Escape gives the keys back.",
    }, bar, failed, head, box, help, make("div", { class: "foot" }, legend, marks), said, copied,
    make("div", { class: "panels" }, rangePanel, selection), visible);
    el.append(root);

    for (const { label, shades } of setup.families) {
        legend.append(make("span", {}, make("i", { style: `background:${shades[0]}` }), label));
    }
    legend.append(make("span", { class: "faint", text: "strip on top:" }));
    for (const [part, colour] of setup.parts) legend.append(make("span", {}, make("i", { style: `background:${colour}` }), part));
    legend.append(make("span", { class: "faint", text: "blank: idle" }));

    // Where things are

    const span = () => window_.end - window_.start;
    const momentAt = (/** @type {number} */ x) => window_.start + (x / Math.max(width, 1)) * span();
    const scene = () => ({
        start: window_.start, end: window_.end, width, height: box.clientHeight, scroll: box.scrollTop, rows: placed.rows,
        pinned: placed.pinned, theme, store, setup,
    });

    /** The bar under a point of the picture. @param {number} x @param {number} y */
    function barAt(x, y) {
        const now = scene();
        const row = placed.rows.find((one) => {
            const top = topOf(now, one);
            return top !== null && y >= top && y < top + one.height && (one.pinned || y >= placed.pinned);
        });
        if (!row) return null;
        if (row.lines.length) return { row };
        const moment = momentAt(x), near = span() / Math.max(width, 1);
        const answer = store.covering(window_.start, window_.end).at(-1);
        const lane = answer?.lanes.get(row.lane);
        if (!lane) return null;
        let at = firstBar(answer, row.lane, moment);
        if (at + 1 < lane[1] && moment > answer.begin[at] + answer.length[at] + near && answer.begin[at + 1] - moment < near) at += 1;
        const begin = answer.begin[at], length = answer.length[at];
        if (moment < begin - near || moment > begin + length + near) return null;
        return {
            row, lane: row.lane, begin, length, count: answer.count[at], busy: answer.busy[at], longest: answer.longest[at],
            slice: answer.slice[at], name: answer.names.get(answer.label[at])?.[0] || "(unnamed)",
        };
    }

    // Drawing

    /** @param {HTMLCanvasElement} picture @param {number} wide @param {number} tall */
    function sized(picture, wide, tall) {
        const ratio = globalThis.devicePixelRatio || 1;
        if (picture.width !== Math.round(wide * ratio) || picture.height !== Math.round(tall * ratio)) {
            picture.width = Math.round(wide * ratio);
            picture.height = Math.round(tall * ratio);
            picture.style.width = `${wide}px`;
            picture.style.height = `${tall}px`;
        }
        const ctx = /** @type {any} */ (picture.getContext("2d"));
        ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
        return ctx;
    }

    /** @param {boolean} [all_] whether more than what moves with the pointer has changed */
    function redraw(all_ = true) {
        dirty ||= all_;
        moved = true;
        if (!frame) frame = requestAnimationFrame(draw);
    }

    function draw() {
        frame = 0;
        width = Math.max(box.clientWidth - GUTTER, 0);
        if (!width || !box.clientHeight) return;
        if (store.run?.isAway) {  // what is drawn stays until then
            if (store.run.isSeen) store.run.here();
            return;
        }
        theme ??= themeOf(root, setup.families);
        tab.hidden = store.alone || !canHaveTab(root);
        const now = scene();
        if (dirty) {
            const began = performance.now();
            drawLanes(sized(base, width, now.height), now);
            drawAxis(sized(axis, width, AXIS_HEIGHT), now, AXIS_HEIGHT);
            drawOverview(sized(strip, width, STRIP_HEIGHT), now, STRIP_HEIGHT);
            placeLabels();
            root.dataset.drawn = String(Number(root.dataset.drawn ?? 0) + 1);
            root.dataset.window = `${window_.start},${window_.end}`;
            root.dataset.cursor = String(store.cursor ?? "");
            root.dataset.drawMs = (performance.now() - began).toFixed(2);
        }
        if (moved) {
            const ctx = sized(over, width, now.height);
            ctx.clearRect(0, 0, width, now.height);
            drawOver(ctx, now, hand);
        }
        if (dirty) {
            const shown = placed.rows.filter((row) => row.lane >= 0).map((row) => row.lane);
            store.want(window_.start, window_.end, width, shown);
        }
        dirty = moved = false;
        setTimeout(store.greet);
    }

    function placeLabels() {
        const key = JSON.stringify([layout, placed.height]);
        labels.style.transform = `translateY(${-box.scrollTop}px)`;
        if (key === listed) return;
        listed = key;
        sheet.style.height = `${placed.height}px`;
        labels.replaceChildren();
        pinnedLabels.replaceChildren();
        pinnedLabels.style.height = `${placed.pinned}px`;
        const groups = new Map(ordered(setup, layout).map((group) => [group.title, group]));
        const titled = placed.rows.filter((row) => row.title || row.first);
        titled.forEach((row, at) => {
            const group = groups.get(row.group);
            const one = group.lanes.length === 1 || row.title.toLowerCase().startsWith(row.groupName.toLowerCase());
            const end = titleEnd(row.title, [titled[at - 1]?.title, titled[at + 1]?.title], Math.floor((GUTTER - 8) / CHARACTER));
            const whole = row.title || row.groupName;
            const title = row.first && !one && end === row.title ? `${row.groupName} · ${whole}` : end || row.groupName;
            const label = make("div", {
                class: row.height < LINE_HEIGHT ? "label" : "label tall", style: `top:${row.y}px;height:${row.height - 1}px`, title: `${row.group} · ${whole}\na double click gives it another name`,
                ondblclick: () => rename(row.key, whole),
            });
            if (row.first && group.lanes.length > FOLDED_ROWS) {
                const folded = isFolded(group, layout);
                const more = group.lanes.length - FOLDED_ROWS;
                label.append(make("button", {
                    type: "button", class: "fold", "data-group": row.group, "aria-expanded": String(!folded), onclick: () => fold(group),
                    "aria-label": `${row.groupName}: ${folded ? `show ${more} more rows` : "fold"}`, text: folded ? `▸ ${title} +${more}` : `▾ ${title}`,
                }));
            } else label.append(make("span", { text: title }));
            (row.pinned ? pinnedLabels : labels).append(label);
        });
        listLanes();
    }

    /** List the lanes in their menu while it is open: the first picture does not wait for it. */
    function listLanes() {
        if (!lanes.closest("details")?.open) return;
        lanes.replaceChildren(...ordered(setup, layout).map((group) => {
            const title = group.title;
            const small = (/** @type {string} */ text, /** @type {string} */ hint, /** @type {() => void} */ act) =>
                make("button", { type: "button", text, title: hint, "aria-label": `${title}: ${hint}`, "data-npuprof-key": `${title} ${hint}`, onclick: () => { act(); changed(`${title} ${hint}`); } });
            const box_ = make("input", { type: "checkbox", "data-npuprof-key": title, onchange: () => { toggle(layout.hidden, title); changed(title); } });
            box_.checked = !layout.hidden.includes(title);
            const name = layout.names[title] ?? title;
            return make("div", { class: "lane" }, make("label", { title }, box_, ` ${name}`),
                small(layout.pinned.includes(title) ? "unpin" : "pin", layout.pinned.includes(title) ? "let it scroll" : "keep on top", () => toggle(layout.pinned, title)),
                small("↑", "move up", () => shift(title, -1)), small("↓", "move down", () => shift(title, 1)),
                make("button", { type: "button", text: "rename", "aria-label": `${title}: rename`, onclick: () => { lanes.closest("details")?.removeAttribute("open"); rename(title, name); } }),
                small("+", "taller rows", () => resize(title, 1)), small("−", "lower rows", () => resize(title, -1)));
        }), ...(setup.lines.some((/** @type {any} */ line) => line.total) ? [joinChoice()] : []), button("As they were", "show all lanes in their order", () => { Object.assign(layout, layoutOf({})); changed(""); }));
    }

    function joinChoice() {
        const choice = make("select", { "data-npuprof-key": LINES, "aria-label": "Counters of several devices", onchange: () => { layout.joined = choice.value; changed(LINES); } },
            ...JOINED.map(([joined, text]) => make("option", { value: joined, text, selected: joined === layout.joined })));
        return make("div", { class: "lane" }, make("label", { text: "Counters of several devices" }), choice);
    }

    // What the user makes of the lanes

    /** @param {string[]} list @param {string} title */
    function toggle(list, title) {
        const at = list.indexOf(title);
        if (at < 0) list.push(title);
        else list.splice(at, 1);
    }
    /** @param {any} group */
    function fold(group) {
        toggle(group.folded ? layout.opened : layout.folded, group.title);
        changed("");
        /** @type {any} */ ([...gutter.querySelectorAll(".fold")].find((one) => /** @type {any} */ (one).dataset.group === group.title))?.focus({ preventScroll: true });
    }
    /** @param {string} title @param {number} by */
    function shift(title, by) {
        const titles = ordered(setup, layout).map((group) => group.title);
        const at = titles.indexOf(title), to = Math.min(Math.max(at + by, 0), titles.length - 1);
        titles.splice(to, 0, titles.splice(at, 1)[0]);
        layout.order = titles;
    }
    /** @param {string} title @param {number} by */
    function resize(title, by) {
        const at = SIZES.indexOf(layout.sizes[title] ?? SIZES[1]) + by;
        layout.sizes = { ...layout.sizes, [title]: SIZES[Math.min(Math.max(at, 0), SIZES.length - 1)] };
    }
    /** Show a changed layout, and keep it in the kernel. @param {string} held what had the focus */
    function changed(held) {
        store.send({ kind: "layout", layout });
        keepArrangement(layout);
        store.tell("arranged", null);
        if (held) /** @type {any} */ ([...lanes.querySelectorAll("[data-npuprof-key]")].find((one) => /** @type {any} */ (one).dataset.npuprofKey === held))?.focus();
    }
    function arranged() {
        placed = rowsOf(setup, layout);
        listed = "";
        sheet.style.height = `${placed.height}px`;
        placeLabels();
    }
    /** Ask for another name of a group or a lane. @param {string} key @param {string} name */
    function rename(key, name) {
        askText("Name", `another name of ${key.split("\n").at(-1)}; empty: as it was`, name, 100, (text) => {
            if (text) layout.names = { ...layout.names, [key]: text };
            else delete layout.names[key];
            changed("");
        });
    }
    /** Ask for a text in a field above the panels. @param {string} title @param {string} hint @param {string} before @param {number} most @param {(text: string) => void} take_ */
    function askText(title, hint, before, most, take_) {
        const field = make("input", { type: "text", "aria-label": `${title}: ${hint}`, placeholder: hint, maxlength: String(most), size: "50" });
        const keep = () => {
            take_(field.value.trim());
            copied.replaceChildren();
            root.focus({ preventScroll: true });
        };
        field.value = before;
        field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
            event.stopPropagation();
            if (event.key === "Enter") keep();
            else if (event.key === "Escape") copied.replaceChildren();
        });
        copied.replaceChildren(make("label", {}, `${title} `, field), button("Keep", "Enter", keep));
        field.focus();
        field.select();
    }

    // What is looked at

    /** @param {number} start @param {number} end */
    function show(start, end) {
        const { start: first, end: last } = store.bounds;
        const whole = last - first, most = whole * 1.1, spare = Math.max(whole / 20, 1);
        const length = Math.min(Math.max(end - start, LEAST_NS), most);
        const middle = start + (end - start) / 2;
        const low = Math.max(Math.min(middle - length / 2, last + spare - length), first - spare);
        store.window = { start: low, end: low + length };
        linked.tell({ window: store.window });
        store.tell("moved", null);
    }
    /** @param {number} factor @param {number | null} x */
    function zoom(factor, x) {
        const centre = x === null ? window_.start + span() / 2 : momentAt(x);
        show(centre - (centre - window_.start) * factor, centre + (window_.end - centre) * factor);
    }
    const pan = (/** @type {number} */ part) => show(window_.start + span() * part, window_.end + span() * part);
    function all() { show(store.bounds.start, store.bounds.end); }
    function fit() {
        const chosen = (store.selected.ends ?? []).find((/** @type {number[]} */ one) => one[0] === store.selected.slice);
        if (store.range.marked) show(store.range.marked[0], store.range.marked[1]);
        else if (chosen) show(chosen[1] - Math.max(chosen[2] - chosen[1], LEAST_NS), chosen[2] + Math.max(chosen[2] - chosen[1], LEAST_NS));
        else all();
    }
    const jump = (/** @type {string} */ to) => store.send({ kind: "jump", to });
    const select = (/** @type {number} */ slice) => store.send({ kind: "select", slice });
    const mark = (/** @type {number} */ start, /** @type {number} */ end) =>
        store.send({ kind: "mark", start: Math.round(start), end: Math.round(end) });

    // Keys

    /** @type {Record<string, () => void>} */
    const actions = {
        w: () => zoom(0.5, hand.x), s: () => zoom(2, hand.x), a: () => pan(-0.25), d: () => pan(0.25), 0: all, f: fit,
        ArrowLeft: () => store.send({ kind: "step", by: -1 }), ArrowRight: () => store.send({ kind: "step", by: 1 }),
        ArrowUp: () => store.send({ kind: "cause" }), ArrowDown: () => store.send({ kind: "effect" }),
        "[": () => jump("step before"), "]": () => jump("step"), n: () => store.send({ kind: "match", by: 1 }),
        p: () => store.send({ kind: "match", by: -1 }), m: () => jump("same"), M: () => jump("same before"),
        x: measure, g: () => nextFinding(1), G: () => nextFinding(-1), l: () => jump("kernel"), i: () => jump("gap"), r: () => mark(window_.start, window_.end), b: bookmark, t: toggleTable,
        PageUp: () => box.scrollBy({ top: -box.clientHeight * 0.8 }), PageDown: () => box.scrollBy({ top: box.clientHeight * 0.8 }),
        "/": () => search.focus(), c: () => { search.value = ""; store.finding = -1; store.send({ kind: "clear" }); }, "?": toggleHelp, Escape: giveBack,
    };
    /** @param {KeyboardEvent} event */
    function onKey(event) {
        if (event.target === search && event.key === "Enter") find();
        if (event.target === search && event.key === "Escape") {
            event.preventDefault();  // the browser would empty the field
            root.focus({ preventScroll: true });
        }
        const key = keyOf(event);
        if (!key) return;
        event.preventDefault();
        event.stopPropagation();
        actions[key]();
    }
    function find() {
        store.send({ kind: "search", text: search.value, regex: regex.checked });
    }
    function giveBack() {
        if (!help.hidden) { toggleHelp(); return; }
        /** @type {any} */ (document.activeElement)?.blur?.();
        const cell = /** @type {any} */ (root.closest(".jp-Cell"));
        cell?.focus?.({ preventScroll: true });
        say("The keys are the notebook's again.");
    }
    function toggleHelp() {
        if (!help.firstChild) help.append(...helpOf(toggleHelp));
        help.hidden = !help.hidden;
        if (help.hidden) root.focus({ preventScroll: true });
        else help.querySelector("button")?.focus({ preventScroll: true });
    }
    function toggleTable() {
        state.table = !state.table;
        visible.hidden = !state.table;
        tellVisible();
    }
    function tellVisible() {
        if (state.table && theme) visible.replaceChildren(...visibleTable(scene(), select));
    }
    /** List the findings in their menu, and ask for them if they are not here. */
    function listFindings() {
        if (!store.findings) { askFindings(); found_.replaceChildren(make("span", { class: "faint", text: "working …" })); return; }
        found_.replaceChildren(
            ...store.findings.map((/** @type {any} */ one, /** @type {number} */ at) => make("button", {
                type: "button", text: `${at + 1} ${one.title} · ${one.cost}`, title: `${one.detail}\n→ ${one.action}`, "aria-pressed": String(at === store.finding),
                onclick: () => { goToFinding(at); found_.closest("details")?.removeAttribute("open"); },
            })),
            ...(store.findings.length ? [] : [make("span", { class: "faint", text: "nothing was found, or the run cannot tell" })]),
            ...(store.path.length ? [make("button", {
                type: "button", text: "Critical path", title: "what a step waits for, as a thread through the lanes", "aria-pressed": String(store.showsPath),
                onclick: () => { store.showsPath = !store.showsPath; listFindings(); redraw(false); },
            })] : []));
    }
    let asked = false;
    function askFindings() {
        if (!asked) store.send({ kind: "findings" });
        asked = true;
    }
    /** @type {number} which finding waits for the findings */
    let wanted = 0;
    /** @param {number} by */
    function nextFinding(by) {
        if (!store.findings) { wanted = by; askFindings(); return; }
        const many = store.findings.length;
        if (many) goToFinding((store.finding + (store.finding < 0 && by < 0 ? 0 : by) + many) % many);
        else say("Nothing was found, or the run cannot tell.");
    }
    /** What is said of the slice that a finding selects. */
    let shownFinding = { slice: -1, text: "" };
    /** Show where a finding happened: its costliest row, with what is around it. @param {number} number */
    function goToFinding(number) {
        const finding = store.findings?.[number];
        if (!finding) return;
        store.finding = number;
        const text = `Finding ${number + 1} of ${store.findings.length}: ${finding.title}. ${finding.where || "It names no rows."}`;
        if (finding.drawn.length) {
            const [slice, , start, end] = finding.drawn[0], late = finding.late[0];
            const from = late ? Math.min(start, late[4]) : start, to = late ? Math.max(end, late[3]) : end;
            const margin = Math.max((to - from) * 1.5, LEAST_NS);
            show(from - margin, to + margin);
            shownFinding = { slice, text };
            select(slice);
        }
        listFindings();
        say(text);
        redraw();
    }
    function bookmark() {
        const marked = store.range.marked;
        if (!marked) { say("Mark a range first: Shift and drag, or R."); return; }
        bookmarks.push({ start: marked[0], end: marked[1] });
        listBookmarks();
        say("The range is kept below the picture.");
    }
    /** Ask for a note on a range in a field above the picture. @param {[number, number]} range */
    function writeNote([start, end]) {
        const known = store.notes.find((/** @type {any} */ one) => one[0] === start && one[1] === end);
        askText("Note", "on the range; empty removes it", known?.[2] ?? "", 2000, (text) => {
            store.send({ kind: "note", start, end, text: "" });
            if (text) store.send({ kind: "note", start, end, text });
        });
    }
    function listBookmarks() {
        marks.replaceChildren(...store.notes.map((/** @type {any} */ [start, end, text]) =>
            button(`✎ ${text.length > 40 ? `${text.slice(0, 39)}…` : text}`, `${text}\nshow this note`, () => { show(start - Math.max(end - start, LEAST_NS), end + Math.max(end - start, LEAST_NS)); if (end > start) mark(start, end); })),
        ...bookmarks.map((one) => make("span", {},
            button(`${duration(one.start)} + ${duration(one.end - one.start)}`, "show this range", () => { show(one.start, one.end); mark(one.start, one.end); }),
            button("×", "forget this range", () => { bookmarks.splice(bookmarks.indexOf(one), 1); listBookmarks(); }))));
    }
    /** @param {string} text */
    function say(text) { said.textContent = text; }

    // What the user takes along

    /** @param {any} ctx */
    function drawAll(ctx) {
        const above = stick.getBoundingClientRect().top;
        const shown = [...gutter.querySelectorAll(".label")].map((one) => {
            const place = one.getBoundingClientRect();
            return { text: one.textContent ?? "", y: place.top - above, height: place.height, pinned: pinnedLabels.contains(one) };
        });
        drawView(ctx, scene(), shown, { x: null, bar: null, range: null });
    }
    const outer = () => [GUTTER + width, STRIP_HEIGHT + AXIS_HEIGHT + box.clientHeight + LEGEND_HEIGHT];
    function saveCanvas() {
        const picture = canvas(), [wide, tall] = outer();
        const ctx = /** @type {any} */ (picture.getContext("2d"));
        picture.width = wide * 2;
        picture.height = tall * 2;
        ctx.scale(2, 2);
        drawAll(ctx);
        picture.toBlob((/** @type {Blob | null} */ blob) => { if (blob) saved("png", blob); else say("The browser could not make a picture."); });
    }
    function saveDrawing() {
        const pen = new SvgPen(outer()[0], outer()[1]);
        drawAll(pen);
        saved("svg", new Blob([pen.text(`Timeline from ${duration(window_.start)} to ${duration(window_.end)}`)], { type: "image/svg+xml" }));
    }
    /** @param {string} ending @param {Blob} blob */
    function saved(ending, blob) {
        const name = `timeline-${Math.round(window_.start)}-${Math.round(window_.end)}ns.${ending}`;
        download(name, blob);
        say(`Saved as ${name}.`);
    }
    function take(/** @type {string} */ what) {
        say("working …");
        store.send({ kind: "export", what });
    }
    /** @param {any} told */
    function taken(told) {
        if (told.what === "code") copyText(told.text, copied, say);
        else if (told.what === "trace") saved("json", new Blob([told.text], { type: "application/json" }));
        else saved("html", new Blob([told.text], { type: "text/html" }));
    }

    // The hand

    /** @param {PointerEvent} event @param {HTMLElement} place */
    const across = (event, place) => event.clientX - place.getBoundingClientRect().left;
    /** @param {PointerEvent} event */
    function onFirstPointer(event) {
        const target = /** @type {HTMLElement} */ (event.target);
        if (!target.closest("input, textarea, select, button, summary, a[href]")) root.focus({ preventScroll: true });
    }
    /** @param {PointerEvent} event */
    function onDown(event) {
        if (event.button !== 0) return;
        const x = across(event, over), y = event.clientY - over.getBoundingClientRect().top;
        const ranging = event.shiftKey || event.currentTarget === axis;
        const begun = { x, y, start: window_.start, end: window_.end, scroll: box.scrollTop, far: false };
        /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
        const place = /** @type {HTMLElement} */ (event.currentTarget);
        /** @param {PointerEvent} to */
        const onMove = (to) => {
            const dx = across(to, over) - begun.x;
            const dy = to.clientY - over.getBoundingClientRect().top - begun.y;
            begun.far ||= Math.abs(dx) + Math.abs(dy) > DRAG_PIXELS;
            if (!begun.far) return;
            if (ranging) {
                const ends = [momentAt(begun.x), momentAt(begun.x + dx)].sort((one, other) => one - other);
                hand.range = [Math.max(ends[0], setup.start), Math.min(ends[1], setup.end)];
                redraw(false);
                return;
            }
            over.style.cursor = "grabbing";
            const by = (-dx / width) * (begun.end - begun.start);
            show(begun.start + by, begun.end + by);
            box.scrollTop = begun.scroll - dy;
        };
        const onUp = (/** @type {PointerEvent} */ to) => {
            place.removeEventListener("pointermove", onMove);
            place.removeEventListener("pointerup", onUp);
            place.removeEventListener("pointercancel", onUp);
            over.style.cursor = "";
            if (hand.range) {
                const [low, high] = hand.range;
                hand.range = null;
                if (to.type === "pointerup") mark(low, high);
            } else if (!begun.far && to.type === "pointerup" && place === over) click(barAt(x, y), x);
        };
        place.addEventListener("pointermove", onMove);
        place.addEventListener("pointerup", onUp);
        place.addEventListener("pointercancel", onUp);
    }
    /** @param {any} bar_ @param {number} x */
    function click(bar_, x) {
        if (!bar_) { point(null); return; }
        if (bar_.row.lines.length) {
            point(peakNear(scene(), store.covering(window_.start, window_.end).at(-1), bar_.row, x));
            return;
        }
        if (bar_.count > 1) { mark(bar_.begin, bar_.begin + bar_.length); return; }
        if (bar_.row.group === "Steps") show(bar_.begin, bar_.begin + bar_.length);
        select(bar_.slice);
    }
    /** The moment under the pointer, or the edge of a bar in its lane that is a few pixels away. */
    function edgeNear() {
        const moment = momentAt(hand.x), reach = (SNAP_PIXELS * span()) / Math.max(width, 1);
        const bar_ = barAt(hand.x, hand.y), answer = store.covering(window_.start, window_.end).at(-1);
        const lane = bar_?.row.lines.length === 0 ? bar_.lane : undefined, edges = [];
        if (lane !== undefined) {
            const at = firstBar(answer, lane, moment), last = answer.lanes.get(lane)[1];
            for (let near = Math.max(at, 0); near < Math.min(at + 2, last); near += 1) edges.push(answer.begin[near], answer.begin[near] + answer.length[near]);
        }
        const near = edges.filter((edge) => Math.abs(edge - moment) <= reach).sort((one, other) => Math.abs(one - moment) - Math.abs(other - moment));
        return near[0] ?? Math.round(moment);
    }
    function measure() {
        if (hand.x === null) { say("Point at a moment first."); return; }
        if (store.measured.length === 2) store.measured = [];
        else store.measured = [...store.measured, edgeNear()];
        const [from, to] = store.measured;
        say(to !== undefined ? `${duration(Math.abs(to - from))} (${counted(Math.abs(to - from))} ns) between the cursors` : from !== undefined ? `A cursor at ${duration(from)}; X again for the second.` : "The cursors are removed.");
        redraw(false);
    }
    /** Keep the cursor at a moment, and tell what counters are then. @param {number | null} moment */
    function point(moment) {
        if (moment === store.cursor) return;
        store.cursor = moment;
        linked.tell({ cursor: moment });
        store.send({ kind: "cursor", at: moment });
        if (moment !== null) tellMoment(moment);
        redraw();
    }
    /** @param {number} moment */
    function tellMoment(moment) {
        const answer = store.covering(window_.start, window_.end).at(-1);
        const values = placed.rows.flatMap((row) => row.lines).flatMap((line) => {
            const { value } = lineFacts(answer, line, window_.start, window_.end, moment);
            return value === null ? [] : [`${setup.lines[line].title} ${figure(value)} ${setup.lines[line].unit}`];
        });
        say(`At ${duration(moment)}: ${values.join(", ") || "no counter"}`);
    }
    /** @param {PointerEvent} event */
    function onHover(event) {
        hand.x = across(event, over);
        hand.y = event.clientY - over.getBoundingClientRect().top;
        hover();
    }
    function hover() {
        linked.tell({ pointer: hand.x === null ? null : momentAt(hand.x) });
        const at = hand.x === null ? null : barAt(hand.x, hand.y);
        const bar_ = hand.bar = at?.row.lines.length ? null : at;  // a counter's lane has its value in it
        tip.hidden = !bar_;
        if (bar_) {
            tip.replaceChildren(...tipLines(bar_).map((text, at) => make(at ? "div" : "b", { text })));
            const top = topOf(scene(), bar_.row) ?? 0, below = top + bar_.row.height + 4;
            const above = below + tip.offsetHeight > box.clientHeight && top - tip.offsetHeight - 4 >= 0;
            tip.style.top = `${above ? top - tip.offsetHeight - 4 : below}px`;
            tip.style.left = `${GUTTER + Math.max(Math.min(hand.x + 12, width - tip.offsetWidth - 4), 0)}px`;
        }
        redraw(false);
    }
    /** @param {any} bar_ @returns {string[]} */
    function tipLines(bar_) {
        if (bar_.count === 1) return [bar_.name, `${duration(bar_.length)}, at ${duration(bar_.begin)}`];
        return [`${counted(bar_.count)} slices`, `${duration(bar_.busy)} in ${duration(bar_.length)}, at ${duration(bar_.begin)}`,
            `longest: ${bar_.name}, ${duration(bar_.longest)}`];
    }
    /** @param {WheelEvent} event */
    function onWheel(event) {
        const zooming = event.ctrlKey || event.metaKey;
        const sideways = event.shiftKey ? event.deltaY || event.deltaX : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
        if (!zooming && !sideways) return;
        event.preventDefault();
        event.stopPropagation();
        if (zooming) zoom(2 ** Math.min(Math.max(event.deltaY / 300, -3), 3), across(/** @type {any} */ (event), over));
        else pan(sideways / Math.max(width, 1));
    }
    /** The strip: a drag shows what it spans, a click what is around it. @param {PointerEvent} event */
    function onStrip(event) {
        if (event.button !== 0) return;
        const from = across(event, strip);
        const { start: first, end: last } = store.bounds;
        const at = (/** @type {number} */ x) => first + (Math.min(Math.max(x, 0), width) / Math.max(width, 1)) * (last - first);
        strip.setPointerCapture(event.pointerId);
        const length = span();
        const onMove = (/** @type {PointerEvent} */ to) => {
            const x = across(to, strip);
            if (Math.abs(x - from) > DRAG_PIXELS) show(Math.min(at(from), at(x)), Math.max(at(from), at(x)));
        };
        const onUp = (/** @type {PointerEvent} */ to) => {
            strip.removeEventListener("pointermove", onMove);
            strip.removeEventListener("pointerup", onUp);
            if (Math.abs(across(to, strip) - from) <= DRAG_PIXELS) show(at(from) - length / 2, at(from) + length / 2);
        };
        strip.addEventListener("pointermove", onMove);
        strip.addEventListener("pointerup", onUp);
    }

    // What the kernel tells

    const act = {
        view: (/** @type {any} */ view) => { state.view = view; tellRange(); }, fit, bookmark,
        note: (/** @type {any} */ marked) => writeNote(marked),
        copy: (/** @type {any} */ code) => { if (code) copyText(code, copied, say); },
    };
    function tellRange() {
        rangePanel.hidden = !store.range.marked;
        if (store.range.marked) rangePanel.replaceChildren(...rangeBox(store.range, state, act));
    }
    function toggleRaw() {
        state.raw = !state.raw;
        tellSelection();
        selection.querySelector("button")?.focus({ preventScroll: true });
    }
    function tellSelection() {
        selection.hidden = store.selected.slice === null;
        if (selection.hidden) return;
        selection.replaceChildren(...selectionBox(store.selected, select, state.raw, toggleRaw));
        say(store.selected.slice === shownFinding.slice ? shownFinding.text : `selected: ${store.selected.name || "(unnamed)"}`);
        const chosen = store.selected.ends.find((/** @type {number[]} */ one) => one[0] === store.selected.slice);
        const row = placed.rows.find((one) => one.lane === chosen?.[3]);
        if (row && !row.pinned) {
            const top = row.y - box.scrollTop;
            if (top < placed.pinned) box.scrollTop = row.y - placed.pinned;
            else if (top + row.height > box.clientHeight) box.scrollTop = row.y + row.height - box.clientHeight;
        }
    }
    /** @param {string} text */
    function fail(text) {
        failed.hidden = !text;
        failed.replaceChildren(text, " ", button("Try again", "ask the kernel again", () => { fail(""); store.send({ kind: "hello" }); store.retry(); }));
    }
    const unlisten = store.listen((/** @type {string} */ what, /** @type {any} */ message) => {
        if (what === "late") fail("The kernel has not answered: it may be busy, or gone. What is drawn is what the page has.");
        else if (what === "back") fail("");
        else if (what === "show") show(message.start, message.end);
        else if (what === "moved") {
            window_ = store.window;
            if (!tip.hidden) hover();  // something else is under the pointer now
        }
        else if (what === "arranged") arranged();
        else if (what === "cursor") {
            linked.tell({ cursor: message.at });
            if (message.at !== null) tellMoment(message.at);
        }
        else if (what === "selected") tellSelection();
        else if (what === "range") tellRange();
        else if (what === "matches") found.textContent = message.text;
        else if (what === "said" && message.failed) { found.textContent = message.text; say(message.text); }
        else if (what === "said") say(message.text);
        else if (what === "window") tellVisible();
        else if (what === "export") taken(message);
        else if (what === "notes") listBookmarks();
        else if (what === "findings") {
            listFindings();
            if (wanted) { const by = wanted; wanted = 0; nextFinding(by); }
        }
        else if (what === "finding") goToFinding(message.number);
        redraw();
    });

    const linked = linkOf(setup.link, (told) => {
        if (told.window) window_ = store.window = { ...told.window };
        if (told.cursor !== undefined) store.cursor = told.cursor;
        if (told.pointer !== undefined) hand.x = told.pointer === null ? null : ((told.pointer - window_.start) / span()) * width;
        hand.bar = null;
        redraw(told.pointer === undefined);
    });

    root.addEventListener("pointerdown", onFirstPointer, { capture: true });
    root.addEventListener("keydown", onKey);
    search.addEventListener("input", () => { if (!search.value) find(); });
    regex.addEventListener("change", find);
    over.addEventListener("pointerdown", onDown);
    axis.addEventListener("pointerdown", onDown);
    strip.addEventListener("pointerdown", onStrip);
    over.addEventListener("pointermove", onHover);
    over.addEventListener("pointerleave", () => { hand.x = null; hover(); });
    over.addEventListener("dblclick", () => fit());
    for (const place of [over, axis]) place.addEventListener("wheel", onWheel, { passive: false });
    box.addEventListener("scroll", () => redraw(), { passive: true });
    box.style.height = `${Math.min(layout.height, placed.height + 18)}px`;
    sheet.style.height = `${placed.height}px`;
    const sizes = new ResizeObserver(() => {
        stick.style.height = `${box.clientHeight}px`;
        const tall = Math.round(box.getBoundingClientRect().height);
        if (tall > 60 && Math.abs(tall - layout.height) > 2 && tall !== Math.min(layout.height, placed.height + 18) && !document.fullscreenElement) {
            layout.height = tall;
            store.send({ kind: "layout", layout });
            keepArrangement(layout);
        }
        redraw();
    });
    sizes.observe(box);
    const themes = new MutationObserver(() => { theme = themeOf(root, setup.families); redraw(); });
    themes.observe(document.body, { attributes: true });
    const recolour = () => { theme = themeOf(root, setup.families); redraw(); };
    plain.addEventListener("change", recolour);
    say("Click a slice to see all that is known of it, its causes and its effects.");
    tellSelection();
    tellRange();
    found.textContent = store.matches.text;
    redraw();
    return () => {
        unlisten();
        linked.close();
        sizes.disconnect();
        themes.disconnect();
        plain.removeEventListener("change", recolour);
        cancelAnimationFrame(frame);
    };
}
