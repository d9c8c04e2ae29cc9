"""The tables of a run in JupyterLab: a page at a time, from the kernel where nothing of the run is in the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npuprof.words.quantities import duration
from tests.browser.notebook_page import NotebookPage, OpenNotebook, wait_until_enabled
from tests.factories import profile

pytestmark = pytest.mark.browser

_TABLE = """
import sys
sys.path.insert(0, {tests!r})
from npuprof.browser.tables import kind_of
from npuprof.notebook.explorer.table import TableView
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests.factories import info, profile
names = ("<img src=x onerror=document.title='hacked'>MatMul", "Add", "Softmax", "</td><script>1</script>", "TransData")
run = Profile(Decoded(tables=profile(5000, kernel_names=names), info=info(), notes=Notes()))
lit = []
TableView(run, kind_of("kernels"), show=lambda table, rows: lit.append((table, len(rows)))).widget
"""
_KERNELS = profile(5000, kernel_names=("long", "Add", "Softmax", "hostile", "TransData"))["kernels"]
_ROOT = str(Path(__file__).parents[2])


@pytest.fixture
def table(open_notebook: OpenNotebook) -> Callable[..., NotebookPage]:
    """Open a notebook that shows the kernels of a made-up run."""

    def open_(*cells: str, **how: Any) -> NotebookPage:
        notebook = open_notebook([_TABLE.format(tests=_ROOT), *cells], **how)
        notebook.run(0).get_by_role("grid", name="Kernels").wait_for()
        return notebook

    return open_


def _grid(notebook: NotebookPage) -> Any:
    return notebook.page.locator(".npuprof-grid").first


def _column(grid: Any, place: int) -> list[str]:
    return [str(text) for text in grid.locator(f"tbody tr[data-id] td:nth-child({place})").all_inner_texts()]


def _wait_count(grid: Any, text: str) -> None:
    grid.locator(".count", has_text=text).wait_for()


@pytest.mark.parametrize(("width", "dark"), [pytest.param(1400, False, marks=pytest.mark.exhaustive), (900, True)])
def test_single_rows_are_sorted_filtered_and_turned(
    table: Callable[..., NotebookPage], tmp_path: Path, width: int, dark: bool
) -> None:
    notebook = table(width=width, dark=dark)
    grid = _grid(notebook)
    notebook.page.screenshot(path=tmp_path / "grouped.png")
    grid.get_by_label("Rows").select_option(label="single kernels")
    _wait_count(grid, "1–50 of 5,000")
    assert len(_column(grid, 1)) == 50
    heading = grid.get_by_role("columnheader", name="duration", exact=False).first
    heading.get_by_role("button").click()
    grid.locator("th[aria-sort=descending]", has_text="duration").wait_for()
    assert _column(grid, 4)[0] == duration(int(_KERNELS["duration_ns"].max()))
    grid.get_by_role("button", name="Next", exact=True).click()
    _wait_count(grid, "51–100 of 5,000")
    grid.get_by_label("Filter duration_ns").fill("<= 13 us")
    short = _KERNELS[_KERNELS["duration_ns"] <= 13_000]
    _wait_count(grid, f"1–50 of {len(short):,}")
    grid.get_by_label("Filter name", exact=True).fill("/^Add$/")
    _wait_count(grid, f"of {(short['name'] == 'Add').sum():,} kernels")
    grid.get_by_label("Filter duration_ns").fill("> 5 apples")
    grid.get_by_text("not measured in apples").wait_for()
    notebook.page.screenshot(path=tmp_path / "single.png")
    assert notebook.page.title() != "hacked"
    # Nothing sticks out of the cell: a wide table scrolls within itself.
    overflow = "e => e.closest('.jp-OutputArea-output').scrollWidth - e.closest('.jp-OutputArea-output').clientWidth"
    assert grid.evaluate(overflow) <= 1


def test_the_table_works_by_keyboard_and_shows_hostile_names_as_text(table: Callable[..., NotebookPage]) -> None:
    notebook = table("print(lit)")
    grid, page = _grid(notebook), notebook.page
    rows = grid.locator("tbody tr[data-id]")
    assert any(text.startswith("<img src=x") for text in _column(grid, 1))
    assert grid.locator("tbody img, tbody script").count() == 0
    button = grid.get_by_role("button", name="Show in timeline")
    wait_until_enabled(button, enabled=False)
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert rows.nth(1).get_attribute("aria-selected") == "true"
    wait_until_enabled(button)
    page.keyboard.press("Enter")
    grid.get_by_text("shown in the timeline").wait_for()
    assert "('kernels', 1000)" in notebook.run(1).inner_text()
    grid.get_by_role("columnheader", name="count").get_by_role("button").focus()
    page.keyboard.press("Enter")
    grid.locator("th[aria-sort=descending]", has_text="count").wait_for()
    unlabelled = """e => [...e.querySelectorAll('button, input, select')].filter(
        c => !(c.textContent.trim() || c.getAttribute('aria-label') || c.labels?.length)).length"""
    assert grid.evaluate(unlabelled) == 0


def test_the_line_can_be_copied_and_run(table: Callable[..., NotebookPage]) -> None:
    notebook = table("frame = None\nprint(len(frame))")
    grid = _grid(notebook)
    grid.get_by_label("Filter op_type").fill("Add")
    _wait_count(grid, "1 group")
    grid.get_by_role("button", name="Copy as DataFrame code").click()
    grid.locator("code", has_text="run.kernels").wait_for()
    line = grid.locator("code").inner_text()
    cell = notebook.cell(1).locator(".cm-content")
    cell.click()
    notebook.page.keyboard.press("Control+A")
    notebook.page.keyboard.insert_text(f"frame = {line}\nprint('groups:', len(frame), frame['count'].sum())")
    assert "groups: 1 1000" in notebook.run(1).inner_text()
