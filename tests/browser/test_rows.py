"""Tables in a page: what it finds in the run that it holds is what the kernel finds, and what a user makes of them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.analysis.filters import understand
from npuprof.browser.saved_run import save_run
from npuprof.browser.script import commented_saved_script
from npuprof.browser.tables import kind_of
from npuprof.errors import OptionsError
from npuprof.notebook.explorer.table import TableView
from npuprof.profiles.profile import Profile
from npuprof.profiles.selection import SelectedRows
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.state import Timeline
from npuprof.words import quantities
from tests import factories
from tests.budget import examples

pytestmark = pytest.mark.browser

_NAMES = "{ openRun, letGo, unpack, bodyOf, heldRows, rowsModel, savedTable, valueText, filterOf, columnTitle }"
_START = f"""script => {{
    globalThis.bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    Object.assign(globalThis, new Function(`${{script}}; return {_NAMES};`)());
    globalThis.tableOf = (name) => {{
        const own = run.tables.find((one) => one.name === name);
        return heldRows(run, own, own.described);
    }};
    globalThis.maskOf = (name, rows) => {{
        if (!rows) return null;
        const mask = new Uint8Array(run.count), {{ at }} = run.tables.find((one) => one.name === name);
        for (const row of rows) mask[at + row] = 1;
        return mask;
    }};
}}"""
_FIND = """async ([name, view, rows, first, count, places]) => {
    const table = tableOf(name), mask = maskOf(name, rows);
    const page = await table.page(view, mask, first, count);
    return { ...page, holds: table.holds(view), members: await table.members(view, mask, places) };
}"""
_KERNELS = ("MatMulV3", "Add", "Softmax", "add", "ADD ß", "mat.mul", "名前", "x" * 300)
_COUNT = 240


def _tables() -> dict[str, pd.DataFrame]:
    """Tables with absent values, equal ones, flags, single precision and numbers that no page can hold."""
    made = factories.profile(_COUNT, kernel_names=_KERNELS)
    at = np.arange(len(made["kernels"]))
    made["kernels"] = made["kernels"].assign(
        duration_ns=at * 7 % 50 * 1_000 + at % 3,
        step=pd.array([None if row % 3 else row % 4 for row in at.tolist()], "Int64"),
        hf32=pd.array([None if row % 5 == 0 else row % 2 == 0 for row in at.tolist()], "boolean"),
        core=pd.Categorical([None if row % 7 == 0 else ("AI_CORE", "MIX_AIC")[row % 2] for row in at.tolist()]),
        connection_id=pd.array((at % 60).tolist(), "Int64"),
        mac_ratio=np.where(at % 2, np.nan, at / 3),
        huge=at + 2**60,
        op_type=pd.Categorical([("MatMul", "Add", "Cast")[row % 8 % 3] for row in at.tolist()]),
    )
    made["api"] = made["api"].assign(name=pd.Categorical([f"a\n{row % 3}" for row in range(len(made["api"]))]))
    return made


@pytest.fixture(scope="module")
def run() -> Profile:
    """The run that the page holds."""
    return Profile(Decoded(_tables(), factories.info(), Notes()))


@pytest.fixture(scope="module")
def page(browser: Any, run: Profile) -> Iterator[Any]:
    """A page that holds the run, and knows the functions."""
    page = browser.new_page()
    page.evaluate(_START, commented_saved_script(with_grid=False).split("{\n    const place =")[0])
    data = save_run(Timeline(run.tables, run.info, run.aligned)).data
    page.evaluate("async data => { globalThis.run = await openRun(bytes(data)); }", b64encode(data).decode())
    yield page
    page.close()


class Kernel:
    """What the kernel tells of a table."""

    def __init__(self, run: Profile, table: str, rows: list[int] | None = None) -> None:
        kind = kind_of(table)
        assert kind is not None
        self.said: list[Any] = []
        self.shown: list[list[int]] = []
        selected = SelectedRows() if rows is None else SelectedRows(rows={table: np.array(rows, np.int64)})
        self.view = TableView(
            run,
            kind,
            origin_ns=Timeline(run.tables, run.info, run.aligned).origin,
            show=lambda _, meant: self.shown.append(meant.tolist()),
            selected=lambda: selected,
        )
        self.view.canvas.send = lambda content, buffers=(): self.said.append(content)

    def ask(self, kind: str, **asked: Any) -> Any:
        self.view.canvas._asked(None, {"kind": kind, **asked}, None)
        return self.said.pop()


_QUANTITIES = (
    "> 10 us",
    "<= 20us",
    "5..30 us",
    "!= 7 us",
    "1,000",
    "> 5 us and < 40 us",
    "0.5 ms",
    "> 1.0005 us",
    "x",
    "1 B",
)
_TEXTS = ("add", " ", "= Add", "!= Add", "≠add", "/^A/", "/^a/i", "/(/", "ß", "AI", "= ", "/./")
_WHERE = {
    **dict.fromkeys(("duration_ns", "start_ns", "total_ns", "mean_ns", "min_ns", "max_ns"), _QUANTITIES),
    **dict.fromkeys(("name", "op_type", "core"), _TEXTS),
    **dict.fromkeys(
        ("step", "connection_id", "count", "stream_id"), ("2", "> 1", "1..2", "!= 0", "1.5", "1 us", "-1", ">= 1e1")
    ),
    "hf32": ("yes", "NO", "1", "x"),
    "share": ("> 5 %", "0.01..0.1", "5..20 %", "> 1 us"),
}
_OF_ROWS = ("name", "op_type", "core", "duration_ns", "start_ns", "step", "connection_id", "stream_id", "hf32")
_OF_GROUPS = ("count", "total_ns", "mean_ns", "min_ns", "max_ns", "share")
_GROUPS: tuple[list[str], ...] = ([], ["name", "op_type"], ["op_type"], ["core"], ["stream_id"], ["step"])


@st.composite
def _views(draw: st.DrawFn) -> dict[str, Any]:
    group = draw(st.sampled_from(_GROUPS))
    columns = [*group, *_OF_GROUPS] if group else list(_OF_ROWS)
    filtered = draw(st.lists(st.sampled_from(columns), max_size=3, unique=True))
    ordered = draw(st.lists(st.sampled_from(columns), max_size=3, unique=True))
    return {
        "group": group,
        "where": [[name, draw(st.sampled_from(_WHERE[name]))] for name in filtered],
        "sort": [[name, draw(st.booleans())] for name in ordered],
        "columns": columns,
    }


@settings(max_examples=examples(150))
@given(_views(), st.none() | st.lists(st.integers(0, _COUNT - 1), unique=True), st.integers(0, 60), st.data())
def test_page_and_kernel_find_the_same(
    page: Any, run: Profile, view: dict[str, Any], rows: list[int] | None, first: int, data: st.DataObject
) -> None:
    rows = None if rows is None else sorted(rows)
    kernel = Kernel(run, "kernels", rows)
    told = kernel.ask("rows", first=first, count=50, **view)
    places = data.draw(st.lists(st.integers(0, max(told["total"] - 1, 0)), max_size=4, unique=True))
    found = page.evaluate(_FIND, ["kernels", view, rows, first, 50, places])
    assert found["holds"]
    assert set(found["errors"]) == set(told["errors"])
    assert (found["total"], found["rows"]) == (told["total"], told["rows"])
    kernel.ask("show", places=places, **view)
    assert [sorted(found["members"])] == (kernel.shown or [[]])


@pytest.mark.parametrize("table", ["operators", "api", "marks", "communication", "kernels"])
def test_page_holds_the_recorded_table(page: Any, run: Profile, table: str) -> None:
    if not len(run.tables[table]):
        pytest.skip("the run has no rows of it")
    kernel = Kernel(run, table)
    columns = kernel.view.canvas.setup["table"]["columns"]
    for column in columns:
        name = column["name"]
        is_held = column["exact"] and name not in ("huge", "device_start_ns")  # which a page cannot hold
        view = {"group": [], "where": [], "sort": [[name, True]], "columns": [name]}
        assert page.evaluate("([table, view]) => Boolean(tableOf(table).holds(view))", [table, view]) == is_held, name
        if is_held:
            found = page.evaluate(_FIND, [table, view, None, 0, 50, []])
            assert found["rows"] == kernel.ask("rows", first=0, count=50, **view)["rows"], name
    if table == "kernels":  # what is only shown need not be as it was recorded
        shown = {"group": [], "where": [], "sort": [], "columns": ["mac_ratio"]}
        assert page.evaluate(_FIND, [table, shown, None, 0, 5, []])["holds"]


def test_filters_are_understood_as_python_understands_them(page: Any) -> None:
    frame = pd.DataFrame(
        {
            "duration_ns": pd.array([0, 1, 1_100, 99_999, 100_000, None], "Int64"),
            "size_bytes": pd.array([0, 1023, 1024, 1500, 2**30, None], "Int64"),
            "share": [0.0, 0.05, 0.123, 1.0, np.nan, -1.0],
            "count": [-3, 0, 7, 10, 11, 10**12],
            "name": pd.Categorical(["a", "A b", "=x", "ß", None, "a/b"]),
            "hf32": pd.array([True, False, None, True, False, None], "boolean"),
        }
    )
    kinds = {"share": "float", "name": "text", "hf32": "flag"}
    texts = {
        "duration_ns": (
            "1.1 us",
            "0.1ms",
            "1e2 us",
            "<= 1_100",
            "> 0 and != 1",
            "1..2 us",
            "1us..1 ms",
            "= 1..2 us",
            "> 1..2 us",
            "~ 1 us",
            "≥ 100 us",
            "1.5",
            "5 kB",
            "",
            "..",
            "1 µs",
            "=",
            "1e-3 us",
        ),
        "size_bytes": ("1 KiB", "1.5 kB", "< 1 GiB", "1023", "1 us", "1..2 KiB", "0.5 KiB", "1 TiB", "2 tb"),
        "share": ("> 5 %", "5 %", "0.05", "10..20 %", "1 us", "!= 1", "12.3 %"),
        "count": ("~ 3", "-3", "> -4 and < 8", "1e12", "7 %", "1,000,000,000,000", "0x7", "+10", ".5"),
        "name": (
            "A",
            "= a",
            "== A b ",
            "!= a",
            "≠ a",
            "==x",
            "/a/",
            "/a/i",
            "//",
            "/[/",
            "SS",
            "ss",
            ">a",
            " ",
            "~ a",
            "~ ß",
        ),
        "hf32": ("true", "Yes", " 0 ", "no", "2", "", "= yes", "!= yes", "> no"),
    }
    for name, tried in texts.items():
        values = [None if pd.isna(value) else value for value in frame[name].tolist()]
        for text in tried:
            try:
                wanted: Any = understand(frame, name, text).mask(frame).astype(bool).tolist()
            except OptionsError as error:
                wanted = str(error)
            found = page.evaluate(
                """([name, kind, text, values]) => {
                    try { return values.map(filterOf(name, kind, text)); } catch (error) { return error.message; }
                }""",
                [name, kinds.get(name, "int"), text, values],
            )
            if isinstance(wanted, str) and not text.startswith("/"):
                assert found.replace("'", "").split(":")[0] == wanted.replace("'", "").split(":")[0], (name, text)
            else:
                assert isinstance(found, str) if isinstance(wanted, str) else found == wanted, (name, text)


def test_values_are_written_as_reports_write_them(page: Any) -> None:
    text = "([name, kind, value]) => valueText(name, kind, value)"
    for ns in (0, 999, 1_000, 12_345, 999_994, 123_456_789, 5 * 10**12):
        assert page.evaluate(text, ["duration_ns", "int", ns]) == quantities.duration(ns)
    for size in (0, 1023, 1024, 12_345, 10 * 2**20, 3 * 2**40):
        assert page.evaluate(text, ["size_bytes", "int", size]) == quantities.size(size)
    for name, kind, value, written in (
        ("start_ns", "int", 1_234_567_890, "1.234 567 890 s"),
        ("start_ns", "int", -1, "-0.000 000 001 s"),
        ("count", "int", 12_345, "12,345"),
        ("stream_id", "int", 12_345, "12345"),
        ("share", "float", 0.1234, "12.3 %"),
        ("mac_ratio", "float", 0.123456, "0.1235"),
        ("hf32", "flag", True, "yes"),
        ("hf32", "flag", False, "no"),
        ("name", "text", "a\n\x1b[31mb\u202e", "a [31mb "),
        ("huge", "int", "1,152,921,504,606,846,976", "1,152,921,504,606,846,976"),
        ("name", "text", None, quantities.ABSENT),
    ):
        assert page.evaluate(text, [name, kind, value]) == written
    long = page.evaluate(text, ["name", "text", "é" * 200 + "😀" * 200])
    assert long == quantities.printable("é" * 200 + "😀" * 200, 300)


_MODEL = """async (acts) => {
    const own = run.tables.find((one) => one.name === 'kernels'), lit = [];
    const lightUp = (text, positions) => lit.push([text, positions.map((one) => one - own.at)]);
    const table = savedTable(run, own, () => null, lightUp);
    await table.follow();
    const pages = [table.model.get()];
    for (const act of acts) { await table.model.send(act); pages.push(table.model.get()); }
    return { pages, lit };
}"""


def _acts(page: Any, *acts: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    told = page.evaluate(_MODEL, list(acts))
    return told["pages"], told["lit"]


def test_the_first_view_is_grouped_with_the_most_time_first(page: Any, run: Profile) -> None:
    (first,), _ = _acts(page)
    assert first["group"] == 0
    assert first["groups"][0] == "grouped by name, op_type"
    assert first["groups"][-1] == "single kernels"
    assert [column["name"] for column in first["columns"] if column["sort"] == "descending"] == ["total_ns"]
    sums = run.kernels.groupby(run.kernels["name"].astype(str))["duration_ns"].sum().sort_values(ascending=False)
    assert [row[2:4] for row in first["rows"]] == [["30", quantities.duration(int(total))] for total in sums.tolist()]
    assert first["noun"] == "groups"


def test_pages_are_turned_within_what_there_is(page: Any) -> None:
    single = {"kind": "group", "group": 6}
    pages, _ = _acts(
        page,
        single,
        {"kind": "page", "page": 3},
        {"kind": "page", "page": 99},
        {"kind": "page", "page": -1},
        {"kind": "page", "page": 3},
        {"kind": "filter", "column": "stream_id", "text": "1e9"},
    )
    assert [(one["offset"], len(one["rows"]), one["total"]) for one in pages[1:]] == [
        (0, 50, 240),
        (150, 50, 240),
        (200, 40, 240),
        (0, 50, 240),
        (150, 50, 240),
        (0, 0, 0),
    ]
    assert pages[2]["ids"][0] == 150
    assert pages[1]["noun"] == "kernels"
    assert (pages[1]["empty"], pages[-1]["empty"]) == ("no rows", "no rows match the filters")


def test_a_filter_that_cannot_be_understood_is_reported_and_changes_nothing(page: Any) -> None:
    pages, _ = _acts(
        page,
        {"kind": "filter", "column": "total_ns", "text": "> 5 apples"},
        {"kind": "filter", "column": "total_ns", "text": "> 5 us"},
    )
    assert [column["name"] for column in pages[1]["columns"] if column["error"]] == ["total_ns"]
    assert "not measured in apples" in pages[1]["note"]
    assert pages[1]["rows"] == pages[0]["rows"]
    assert pages[2]["note"] == ""


def test_order_filters_and_columns_are_the_users(page: Any) -> None:
    pages, _ = _acts(
        page,
        {"kind": "filter", "column": "name", "text": "add"},
        {"kind": "filter", "column": "share", "text": "> 0 %"},
        {"kind": "sort", "column": "name", "order": "ascending"},
        {"kind": "sort", "column": "count", "order": "descending", "add": True},
        {"kind": "column", "column": "share", "shown": False},
        {"kind": "group", "group": 6},
    )
    assert [column["sort"] for column in pages[4]["columns"][:4]] == ["ascending", "none", "descending", "none"]
    assert [row[0] for row in pages[4]["rows"]] == ["ADD ß", "Add", "add"]
    assert [column["name"] for column in pages[5]["columns"]][-1] == "max_ns"
    assert [one["name"] for one in pages[5]["choices"] if not one["shown"]] == ["share"]
    # Of single rows the filter of the name is kept, the others have no column any more.
    assert {column["name"]: column["filter"] for column in pages[6]["columns"] if column["filter"]} == {"name": "add"}
    assert pages[6]["total"] == 90
    hidden = [{"kind": "column", "column": column["name"], "shown": False} for column in pages[0]["columns"]]
    last = _acts(page, *hidden)[0][-1]
    assert [column["name"] for column in last["columns"]] == ["share"]
    assert last["note"] == "the last column stays"
    assert len(last["rows"][0]) == 1


def test_chosen_rows_are_selected_in_all_views(page: Any, run: Profile) -> None:
    names = run.kernels["name"].astype(str)
    pages, lit = _acts(
        page,
        {"kind": "filter", "column": "name", "text": "= Add"},
        {"kind": "action", "action": "timeline", "rows": [0, 7]},
        {"kind": "group", "group": 6},
        {"kind": "action", "action": "timeline", "rows": [3, 1]},
    )
    assert pages[1]["total"] == 1
    rows = np.flatnonzero(names == "Add").tolist()
    assert lit == [["rows of kernels", rows], ["rows of kernels", [rows[3], rows[1]]]]


def test_released_rows_come_back(page: Any) -> None:
    told = page.evaluate(
        """async () => {
            const own = run.tables.find((one) => one.name === 'kernels'), data = run.body;
            const table = savedTable(run, own, () => null, () => {});
            await table.follow();
            const before = table.model.get();
            letGo(run);
            table.letGo();
            const away = table.model.get();
            let coming = null;  // as a saved explorer does: its views follow before it is back
            run.here = () => (coming ??= (async () => { await unpack(run, data); await table.follow(); })());
            await table.model.send({ kind: 'sort', column: 'name', order: 'ascending' });
            return { before, away, after: table.model.get() };
        }"""
    )
    assert told["away"] == told["before"]
    assert sorted(row[0] for row in told["before"]["rows"]) == [row[0] for row in told["after"]["rows"]]
