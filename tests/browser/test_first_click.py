"""Keys that follow a click in a figure are the figure's: JupyterLab, where D, D deletes a cell, does not see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Lab
from tests.browser.notebook_page import NotebookPage

pytestmark = pytest.mark.browser

_RUN = """\
import sys
sys.path.insert(0, {root!r})
from npuprof.simulator import npu
import npuprof
with npuprof.profile(collector="simulator", output={folder!r}):
    a = npu.ones((64, 64))
    for _ in range(20): b = a @ a + a
    float(b.sum())
"""
_SHOWN = {
    "explorer": "npuprof.last().explore()",
    "panel": "npuprof.panel()",
}
_PLOTS = {
    "Timeline": (".npuprof-timeline", ".nsewdrag"),
    "Flame graph": (".npuprof-flame", ".js-plotly-plot .main-svg"),
}
_TIMEOUT_MS = 120_000


@pytest.fixture
def open_cells(lab: Lab, browser: Any, tmp_path: Path) -> Iterator[Callable[..., NotebookPage]]:
    """Open a notebook of some cells in a page of its own."""
    opened: list[NotebookPage] = []

    def open_(name: str, *cells: str) -> NotebookPage:
        opened.append(NotebookPage(lab, browser, name, cells, 1400))
        return opened[-1]

    yield open_
    for number, notebook in enumerate(opened):
        notebook.page.screenshot(path=tmp_path / f"end_{number}.png")  # what a failed test saw
        notebook.page.close()


@pytest.mark.parametrize("title", _PLOTS)
@pytest.mark.parametrize("shown", _SHOWN)
def test_d_d_after_the_first_click_deletes_no_cell(
    open_cells: Callable[..., NotebookPage], tmp_path: Path, shown: str, title: str
) -> None:
    name = f"first_{shown}_{title.split()[0]}.ipynb"
    run = _RUN.format(root=str(Path(__file__).parents[2]), folder=str(tmp_path))
    notebook = open_cells(name, run, _SHOWN[shown], "kept = 1")
    notebook.run(0)
    page, cell = notebook.page, notebook.run(1)
    page.set_default_timeout(_TIMEOUT_MS)  # a figure brings 5 MB of script
    if shown == "panel":
        cell.get_by_role("grid", name="Runs of this kernel").locator("tbody tr[data-id]").click()
        cell.get_by_role("button", name="Open", exact=True).click()
    cell.get_by_role("tab", name=title, exact=True).click()
    box, plot = _PLOTS[title]
    place = cell.locator(box).locator(plot).first
    place.wait_for(state="attached")
    page.wait_for_timeout(1_500)  # the width is told, and the first answer to it drawn
    # As a user leaves it who has just run the cell: the notebook has the keys.
    cell.locator(".jp-InputPrompt").click()
    page.wait_for_selector(".jp-Notebook.jp-mod-commandMode")

    place.click(force=True)
    page.keyboard.press("d")
    page.keyboard.press("d")

    page.wait_for_timeout(800)
    assert page.locator(".jp-Notebook .jp-Cell").count() == 3
    assert page.evaluate(f"() => document.activeElement.closest('{box}') !== null")
