"""A table of a live explorer in a page: what it shows of the run that it holds, and what the kernel is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof.browser.tables import kind_of
from npuprof.notebook.explorer.table import TableView
from npuprof.profiles.profile import Profile
from npuprof.profiles.selection import SelectedRows
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.state import Timeline
from tests import factories
from tests.browser.canvas_page import CanvasPage
from tests.browser.notebook_page import OpenNotebook, settle

pytestmark = pytest.mark.browser

_HOSTILE = "<img src=x onerror='window.pwned=1'>"
_LATE = """() => {  // others need the room
    npuprofHeld.all.splice(0).forEach((one) => one.letGo());
}"""
Open = Callable[..., "Shown"]


class Shown(CanvasPage):
    """The kernels of a run in a page.

    Attributes
    ----------
    lit, chosen
        The rows that were to be shown in the timeline, and those that were chosen, each time.
    selected
        What the kernel says is selected.
    """

    def __init__(self, page: Any, run: Profile, listed: list[int] | None = None) -> None:
        self.run, self.selected = run, SelectedRows()
        self.timeline = Timeline(run.tables, run.info, run.aligned)
        self.lit: list[list[int]] = []
        self.chosen: list[list[int]] = []
        kind = kind_of("kernels")
        assert kind is not None
        view = TableView(
            run,
            kind,
            origin_ns=self.timeline.origin,
            show=lambda _, rows: self.lit.append(rows.tolist()),
            choose=lambda rows: self.chosen.append(rows.tolist()),
            listed=None if listed is None else np.array(listed),
            selected=lambda: self.selected,
            explorer="one",
        )
        super().__init__(page, view)
        page.locator(".npuprof-grid tbody tr").first.wait_for()

    def asked(self) -> list[str]:
        """What the kernel was asked for since the last time."""
        kinds: list[str] = self.page.evaluate("() => sent.splice(0).map((one) => one.kind)")
        return kinds

    def cells(self) -> list[list[str]]:
        """The texts of all cells."""
        found: list[list[str]] = self.page.locator(".npuprof-grid tbody tr[data-id]").evaluate_all(
            "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        return found

    def group(self, label: str) -> None:
        self.page.get_by_label("Rows").select_option(label=label)
        self.settle()

    def filter(self, column: str, text: str) -> None:
        field = self.page.get_by_label(f"Filter {column}", exact=True)
        field.fill(text)
        field.press("Enter")
        self.settle()

    def sort(self, column: str) -> None:
        self.page.locator(f"[data-npuprof-key='sort {column}']").click()
        self.settle()

    def count(self) -> str:
        return str(self.page.locator(".npuprof-grid .count").text_content())

    def told(self, slices: list[int] | None) -> None:
        """The kernel tells the timeline of the explorer what is lit up."""
        self.page.evaluate(
            """slices => hear({ kind: 'matches', version: Math.random(), text: 'some', searching: slices !== null },
                slices ? [new DataView(Uint32Array.from(slices).buffer)] : [])""",
            slices,
        )
        self.settle()


_EXPLORED = """\
import sys
sys.path.insert(0, {root!r})
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
run = Profile(Decoded(tables=factories.profile(2_000), info=factories.info(), notes=Notes(), statistics={{}}))
run.explore()
"""
_HELD = "() => globalThis.npuprofStores?.of.size"  # the page has the run


@pytest.fixture
def open_table(browser: Any) -> Iterator[Open]:
    """Show the kernels of a run in a page without JupyterLab."""
    pages = []

    def open_(launches: int = 300, names: tuple[str, ...] = (_HOSTILE, "MatMulV3", "Add"), **how: Any) -> Shown:
        pages.append(browser.new_page(viewport={"width": 1400, "height": 900}))
        made = factories.profile(launches, kernel_names=names)
        return Shown(pages[-1], Profile(Decoded(made, factories.info(), Notes())), **how)

    yield open_
    for page in pages:
        page.close()


def _views(shown: Shown) -> list[Any]:
    """Use a table: groups, single rows, order, filters, pages."""
    seen: list[Any] = [shown.cells()]
    shown.filter("total_ns", "> 400 us")
    seen.append(shown.cells())
    shown.group("single kernels")
    shown.sort("duration_ns")
    seen.append((shown.count(), shown.cells()))
    shown.page.get_by_role("button", name="Last", exact=True).click()
    shown.settle()
    seen.append((shown.count(), shown.cells()))
    shown.filter("name", "/^(Mat|<)/")
    shown.filter("duration_ns", "10..30 us")
    shown.sort("name")
    seen.append((shown.count(), shown.cells()))
    return seen


def test_page_with_the_run_shows_the_same(open_table: Open) -> None:
    asking, holding = open_table(), open_table()
    holding.hold(holding.timeline)
    assert holding.asked() == ["rows"]  # before the run was there
    seen = _views(asking)
    assert _views(holding) == seen
    assert holding.asked() == []
    assert set(asking.asked()) == {"rows"}
    assert holding.page.evaluate("() => window.pwned") is None
    assert any(_HOSTILE in row for row in seen[0])
    assert asking.errors == holding.errors == []


@pytest.mark.parametrize("holds", [False, True])
def test_chosen_rows_are_told_to_the_kernel(open_table: Open, holds: bool) -> None:
    shown = open_table()
    if holds:
        shown.hold(shown.timeline)
    page, kernels = shown.page, shown.run.kernels
    rows = page.locator(".npuprof-grid tbody tr[data-id]")
    shown.filter("name", "= Add")
    rows.first.click()
    shown.settle()
    op_type = shown.cells()[0][1]
    group = np.flatnonzero((kernels["name"] == "Add") & (kernels["op_type"] == op_type)).tolist()
    assert shown.chosen == [group]
    rows.first.focus()
    shown.press("Enter")
    assert shown.lit == [group]
    assert page.locator(".npuprof-grid-note").text_content() == f"{len(group)} kernels shown in the timeline"
    shown.group("single kernels")
    shown.sort("duration_ns")
    rows.nth(2).click()
    shown.settle()
    adds = kernels[kernels["name"] == "Add"].sort_values("duration_ns", ascending=False, kind="stable")
    assert shown.chosen[1] == [adds.index[2]]
    assert shown.errors == []


def test_selection_is_listed_from_page_or_kernel(open_table: Open) -> None:
    shown = open_table()
    shown.selected = SelectedRows(rows={"kernels": np.arange(7)})
    shown.do(lambda: shown.view.follow(shown.selected))
    shown.group("single kernels")
    assert shown.count() == "7 kernels"
    assert shown.asked() == ["rows", "rows", "rows"]
    shown.hold(shown.timeline)
    first = shown.timeline.slices.first["kernels"]
    shown.told([first + row for row in range(9)])
    assert shown.count() == "9 kernels"
    assert shown.asked() == []
    shown.told([])
    assert shown.count() == "0 kernels"
    shown.told(None)
    assert shown.count() == "1–50 of 300 kernels"
    assert shown.asked() == []
    shown.page.evaluate(_LATE)
    shown.settle()
    assert shown.count() == "7 kernels"  # as the kernel says
    assert shown.asked() == ["rows"]
    assert shown.errors == []


def test_of_a_run_that_was_merged_the_kernel_is_asked(open_table: Open) -> None:
    shown = open_table(20_000)
    shown.hold(shown.timeline, is_merged=True)
    shown.asked()
    shown.group("single kernels")
    assert shown.count() == "1–50 of 20,000 kernels"
    assert shown.asked() == ["rows"]


def test_a_filter_that_the_page_does_not_understand_is_the_kernels(open_table: Open) -> None:
    shown = open_table()
    shown.hold(shown.timeline)
    shown.asked()
    shown.filter("name", "/(?i)^MATMUL/")  # as the kernel's expressions have it
    assert all(row[0] == "MatMulV3" for row in shown.cells())
    assert shown.asked() == ["rows"]
    shown.filter("total_ns", "> 5 apples")
    assert (
        "total_ns is not measured in apples: its units are" in shown.page.locator(".npuprof-grid-note").text_content()
    )
    assert shown.page.get_by_label("Filter total_ns").get_attribute("aria-invalid") == "true"
    shown.filter("total_ns", "")
    shown.filter("name", "")
    assert len(shown.cells()) == 15
    assert shown.errors == []


def test_the_line_of_python_is_asked_for_when_it_is_wanted(open_table: Open) -> None:
    shown = open_table()
    shown.hold(shown.timeline)
    shown.asked()
    shown.filter("name", "Add")
    code = shown.page.locator(".npuprof-grid code")
    assert not code.is_visible()
    shown.page.get_by_role("button", name="Copy as DataFrame code").click()
    shown.settle()
    made: dict[str, Any] = {"run": shown.run}
    exec(f"frame = {code.text_content()}", made)
    frame: pd.DataFrame = made["frame"]
    assert [[row[0], row[1]] for row in shown.cells()] == frame[["name", "op_type"]].astype(str).to_numpy().tolist()
    assert shown.asked() == ["code"]
    shown.sort("count")
    assert not code.is_visible()  # it was another view's


def test_listed_rows_are_told_from_the_page_too(open_table: Open) -> None:
    shown = open_table(listed=[3, 5, 250])
    shown.hold(shown.timeline)
    shown.asked()
    shown.group("single kernels")
    assert shown.count() == "3 kernels"
    assert shown.page.get_by_role("button", name="Copy as DataFrame code").count() == 0
    shown.page.locator(".npuprof-grid tbody tr[data-id]").last.click()
    shown.settle()
    assert shown.chosen == [[250]]
    assert shown.asked() == ["choice"]


def test_user_changes_survive_a_reload(open_table: Open) -> None:
    shown = open_table()
    shown.group("single kernels")
    shown.filter("name", "MatMul")
    shown.sort("duration_ns")
    before = shown.cells(), shown.count()
    shown.page.evaluate(
        """async () => {
            close();
            document.getElementById('place').replaceChildren();
            await openAgain();
        }"""
    )
    shown.page.locator(".npuprof-grid tbody tr").first.wait_for()
    shown.settle()
    assert (shown.cells(), shown.count()) == before
    assert shown.page.get_by_label("Filter name", exact=True).input_value() == "MatMul"
    assert shown.errors == []


def test_a_question_that_fails_is_shown(open_table: Open) -> None:
    shown = open_table()

    def fail(*_: Any) -> None:
        raise ValueError(_HOSTILE)

    shown.view._find = fail
    with pytest.raises(ValueError, match="onerror"):
        shown.view.canvas._asked(None, {"kind": "rows", "id": 1, "page": "p"}, None)
    (content, _) = shown._said.pop()
    own = shown.page.evaluate("() => sent[0].page")
    shown.page.evaluate("message => tell([message])", [{**content, "page": own}, []])
    failed = shown.page.locator(".failed")
    failed.wait_for()
    assert "rows could not be answered: ValueError: <img" in failed.text_content()


def test_jupyterlab_restores_views_without_a_kernel(open_notebook: OpenNotebook) -> None:
    source = _EXPLORED.format(root=str(Path(__file__).parents[2]))
    notebook = open_notebook([source], own_kernel=True, own_page=True, height=1500)
    page = notebook.page
    notebook.run(0)
    page.wait_for_function(_HELD)
    page.get_by_role("tab", name="Flame graph", exact=True).click()
    frames = page.locator(".npuprof-flame-canvas").first
    frames.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.get_by_label("Search frames").fill("launch")
    root = page.locator(".npuprof-flame .long").first
    page.wait_for_function(
        "text => document.querySelector('.npuprof-flame .long').textContent !== text", arg="everything"
    )
    before = root.inner_text()
    page.get_by_role("tab", name="Kernels", exact=True).click()
    count, name = page.locator(".npuprof-grid .count"), page.get_by_label("Filter name", exact=True)
    page.locator(".npuprof-grid").get_by_label("Rows").select_option(label="single kernels")
    count.filter(has_text="of 2,000 kernels").wait_for()
    name.fill("MatMul")
    count.filter(has_text="of 400 kernels").wait_for()
    settle(page)
    page.keyboard.press("Control+S")
    page.wait_for_function("() => !document.querySelector('.jp-mod-current.jp-mod-dirty')")
    settle(page)
    page.reload()
    count.filter(has_text="of 400 kernels").wait_for()
    assert name.input_value() == "MatMul"
    page.wait_for_function(_HELD)  # though nobody sees the timeline
    page.get_by_role("tab", name="Flame graph", exact=True).click()
    root.wait_for()
    assert root.inner_text() == before
    assert page.get_by_label("Search frames").input_value() == "launch"
    page.get_by_role("tab", name="Kernels", exact=True).click()
    count.wait_for()

    page.evaluate("() => { WebSocket.prototype.send = () => { throw new Error('there is no kernel'); }; }")
    name.fill("Softmax")
    page.locator("[data-npuprof-key='sort duration_ns']").click()  # before what was typed is searched for
    page.locator("th[aria-sort=descending]", has_text="duration").wait_for()
    page.locator(".npuprof-grid tbody td:first-child", has_text="Softmax").first.wait_for()
    page.get_by_role("button", name="Next", exact=True).click()
    count.filter(has_text="51–100 of 400 kernels").wait_for()
    assert set(page.locator(".npuprof-grid tbody td:first-child").all_inner_texts()) == {"SoftmaxV2"}
