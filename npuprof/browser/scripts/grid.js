// The view of a page of a table: what is asked of it, its model answers with another page.
// All text is set as text: nothing of a recording is ever read as HTML.

const NEXT_SORT = { none: "descending", descending: "ascending", ascending: "none" };
const ARROWS = { ascending: "▲", descending: "▼", none: "" };
const DELAY_MS = 300;

function render({ model, el }) {
  const root = make("div", { class: "npuprof-grid npuprof-keys", "data-lm-suppress-shortcuts": "true" });
  const bar = make("div", { class: "npuprof-grid-bar" });
  const frame = make("div", { class: "npuprof-grid-frame" });
  const table = make("table", { role: "grid" });
  const head = make("thead");
  const body = make("tbody");
  const foot = make("div", { class: "npuprof-grid-foot" });
  const note = make("div", { class: "npuprof-grid-note", role: "status" });
  const code = make("code", { class: "npuprof-grid-code", tabindex: "0", hidden: true, "aria-label": "DataFrame code" });
  table.append(head, body);
  frame.append(table);
  root.append(bar, note, frame, foot, code);
  el.append(root);

  let selected = new Set();
  let anchor = null;
  let shape = "";
  let asked = "";
  const ask = (question) => model.send(question);

  function drawBar(page) {
    const open = bar.querySelector("details")?.open ?? false;
    const held = document.activeElement?.dataset?.npuprofKey;
    bar.replaceChildren();
    if (page.groups?.length) {
      const choice = make("select", { "data-npuprof-key": "group", onchange: (e) => ask({ kind: "group", group: Number(e.target.value) }) });
      page.groups.forEach((label, number) =>
        choice.append(make("option", { value: number, text: label, selected: number === page.group }))
      );
      bar.append(make("label", { text: "Rows " }, choice));
    }
    if (page.choices?.length) {
      const boxes = page.choices.map((column) =>
        make("label", {},
          make("input", {
            type: "checkbox", checked: column.shown, "data-npuprof-key": `column ${column.name}`,
            onchange: (e) => ask({ kind: "column", column: column.name, shown: e.target.checked }),
          }),
          ` ${column.name}`)
      );
      const menu = make("details", { open }, make("summary", { text: "Columns" }), make("div", {}, ...boxes));
      keepMenuWhole(menu);
      bar.append(menu);
    }
    for (const action of page.actions) {
      const button = make("button", {
        type: "button", text: action.label, title: action.hint, "data-npuprof-key": `action ${action.name}`,
        onclick: () => ask({ kind: "action", action: action.name, rows: [...selected] }),
      });
      button.dataset.least = action.least;
      button.dataset.most = action.most;
      bar.append(button);
    }
    if (page.has_code) {
      bar.append(make("button", { type: "button", text: "Copy as DataFrame code", "data-npuprof-key": "code", onclick: copyCode }));
    }
    bar.hidden = !bar.childElementCount;
    if (held) [...bar.querySelectorAll("[data-npuprof-key]")].find((e) => e.dataset.npuprofKey === held)?.focus();
  }

  async function copyCode() {
    code.textContent = await model.code();
    code.hidden = false;
    try {
      await navigator.clipboard.writeText(code.textContent);
      note.textContent = "Copied.";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      note.textContent = "The browser does not let a page copy: the line below is selected.";
    }
  }

  function drawHead(page) {
    const titles = make("tr");
    const filters = make("tr");
    for (const column of page.columns) {
      const arrow = make("span", { "aria-hidden": "true", text: ` ${ARROWS[column.sort] ?? ""}` });
      const meaning = column.meaning ? `${column.name}: ${column.meaning}\n` : "";
      const title = page.sortable
        ? make("button", {
            type: "button", title: `${meaning}Sort by ${column.name}; with Shift, after the columns sorted by already`,
            onclick: (e) => ask({ kind: "sort", column: column.name, order: NEXT_SORT[column.sort], add: e.shiftKey }),
            "data-npuprof-key": `sort ${column.name}`,
          }, column.title, arrow)
        : make("span", { text: column.title });
      titles.append(make("th", { scope: "col", "aria-sort": column.sort ?? "none", class: column.numeric ? "number" : null }, title));
      if (!page.filterable) continue;
      let timer;
      const send = (e) => {
        clearTimeout(timer);
        delete e.target.dataset.typed;
        ask({ kind: "filter", column: column.name, text: e.target.value });
      };
      const input = make("input", {
        type: "text", spellcheck: "false", placeholder: column.example, "aria-label": `Filter ${column.name}`, title: column.hint,
        "aria-invalid": column.error ? "true" : null, "data-npuprof-key": `filter ${column.name}`,
        oninput: (e) => { e.target.dataset.typed = ""; clearTimeout(timer); timer = setTimeout(() => send(e), DELAY_MS); },
        onkeydown: (e) => {
          if (e.key === "Enter") send(e);
          if (e.key === "Escape" && e.target.value) { e.preventDefault(); e.target.value = ""; send(e); }
        },
      });
      input.value = column.filter;
      filters.append(make("th", {}, input));
    }
    head.replaceChildren(titles);
    if (page.filterable) head.append(filters);
  }

  function updateHead(page) {
    const titles = [...head.rows[0].cells];
    page.columns.forEach((column, number) => {
      titles[number].setAttribute("aria-sort", column.sort ?? "none");
      const button = titles[number].querySelector("button");
      if (button) {
        const fresh = button.cloneNode(false);
        fresh.append(column.title, make("span", { "aria-hidden": "true", text: ` ${ARROWS[column.sort] ?? ""}` }));
        fresh.addEventListener("click", (e) =>
          ask({ kind: "sort", column: column.name, order: NEXT_SORT[column.sort], add: e.shiftKey }));
        const focused = document.activeElement === button;
        button.replaceWith(fresh);
        if (focused) fresh.focus();
      }
      const input = head.rows[1]?.cells[number]?.querySelector("input");
      if (input) {
        if (document.activeElement !== input && !("typed" in input.dataset)) input.value = column.filter;
        if (column.error) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
      }
    });
  }

  function drawBody(page) {
    const hadFocus = body.contains(document.activeElement);
    body.replaceChildren();
    page.rows.forEach((texts, number) => {
      const row = make("tr", { tabindex: number ? "-1" : "0" });
      row.dataset.id = page.ids[number];
      texts.forEach((text, place) =>
        row.append(make("td", { text, title: text.length > 40 ? text : null, class: page.columns[place].numeric ? "number" : null })));
      body.append(row);
    });
    if (!page.rows.length) {
      body.append(make("tr", {}, make("td", { class: "empty", colspan: Math.max(page.columns.length, 1), text: page.empty })));
    } else if (hadFocus) {
      body.rows[0].focus();
    }
    mark();
  }

  function drawFoot(page) {
    const last = Math.max(0, Math.ceil(page.total / page.size) - 1);
    const at = Math.floor(page.offset / page.size);
    const first = page.total ? page.offset + 1 : 0;
    const held = document.activeElement?.dataset?.npuprofKey;
    const turn = (label, to) =>
      make("button", {
        type: "button", text: label, disabled: to < 0 || to > last || to === at, "data-npuprof-key": `page ${label}`,
        onclick: () => ask({ kind: "page", page: to }),
      });
    const many = page.total > page.size;
    const whole = `${page.total.toLocaleString("en")} ${page.total === 1 ? page.noun.replace(/s$/, "") : page.noun}`;
    const part = `${first.toLocaleString("en")}–${(page.offset + page.rows.length).toLocaleString("en")} of ${whole}`;
    foot.replaceChildren(
      make("span", { class: "count", text: many ? part : whole }),
      ...(many ? [turn("First", 0), turn("Previous", at - 1), turn("Next", at + 1), turn("Last", last)] : [])
    );
    const again = [...foot.querySelectorAll("button")].find((e) => e.dataset.npuprofKey === held);
    if (again && !again.disabled) again.focus();
    else if (again) foot.querySelector("button:not([disabled])")?.focus();
  }

  function mark() {
    for (const row of body.rows) row.setAttribute("aria-selected", String(selected.has(Number(row.dataset.id))));
    for (const button of bar.querySelectorAll("button[data-least]")) {
      button.disabled = selected.size < Number(button.dataset.least) || selected.size > Number(button.dataset.most);
    }
  }

  function choose(row, { toggle, extend }) {
    const id = Number(row.dataset.id);
    if (Number.isNaN(id)) return;
    const all = [...body.rows];
    if (extend && anchor !== null) {
      const ends = [all.findIndex((r) => Number(r.dataset.id) === anchor), all.indexOf(row)].sort((a, b) => a - b);
      selected = new Set(all.slice(Math.max(ends[0], 0), ends[1] + 1).map((r) => Number(r.dataset.id)));
    } else {
      if (!toggle) selected = selected.size === 1 && selected.has(id) ? new Set() : new Set([id]);
      else if (!selected.delete(id)) selected.add(id);
      anchor = id;
    }
    focusRow(row);
    mark();
    if (model.get("page").tells_choice) ask({ kind: "choice", rows: [...selected] });
  }

  function focusRow(row) {
    for (const other of body.rows) other.tabIndex = other === row ? 0 : -1;
    row.focus({ preventScroll: false });
  }

  body.addEventListener("mousedown", (e) => { if (e.shiftKey) e.preventDefault(); });  // which would select text
  body.addEventListener("click", (e) => {
    const row = e.target.closest("tr");
    if (row?.dataset.id !== undefined && !getSelection().toString()) {
      choose(row, { toggle: e.ctrlKey || e.metaKey, extend: e.shiftKey });
    }
  });
  body.addEventListener("keydown", (e) => {
    const row = e.target.closest("tr");
    const page = model.get("page");
    const at = Math.floor(page.offset / page.size);
    const keys = {
      ArrowDown: () => row.nextElementSibling && focusRow(row.nextElementSibling),
      ArrowUp: () => row.previousElementSibling && focusRow(row.previousElementSibling),
      Home: () => focusRow(body.rows[0]),
      End: () => focusRow(body.rows[body.rows.length - 1]),
      PageDown: () => page.offset + page.size < page.total && ask({ kind: "page", page: at + 1 }),
      PageUp: () => at > 0 && ask({ kind: "page", page: at - 1 }),
      " ": () => choose(row, { toggle: true, extend: e.shiftKey }),
      Enter: () => {
        if (!selected.has(Number(row.dataset.id))) choose(row, {});
        bar.querySelector("button[data-least]:not([disabled])")?.click();
      },
    };
    if (row?.dataset.id === undefined || !(e.key in keys)) return;
    e.preventDefault();
    e.stopPropagation();
    keys[e.key]();
  });

  function draw() {
    const page = model.get("page");
    if (!page.columns) return;
    table.setAttribute("aria-label", page.label);
    table.setAttribute("aria-rowcount", page.total);
    table.setAttribute("aria-multiselectable", "true");
    // Rows are chosen by their places, which are others' when they are grouped, sorted or filtered in another way.
    const how = JSON.stringify([page.group, page.filterable && page.total, ...page.columns.map((c) => ((c.sort ?? "none") !== "none" || c.filter ? [c.name, c.sort, c.filter] : 0)).filter(Boolean)]);
    if (how !== asked) selected.clear();
    asked = how;
    code.hidden = true;  // it was that of another page
    selected = new Set([...selected].filter((id) => page.ids.includes(id)));
    drawBar(page);
    const now = JSON.stringify([page.columns.map((c) => [c.name, c.numeric]), page.sortable, page.filterable]);
    if (now !== shape) drawHead(page);
    else updateHead(page);
    shape = now;
    drawBody(page);
    drawFoot(page);
    note.textContent = page.note ?? "";
    note.classList.toggle("error", page.columns.some((c) => c.error));
  }

  model.on("change:page", draw);
  draw();
  return () => model.off("change:page", draw);
}

export default { render };
