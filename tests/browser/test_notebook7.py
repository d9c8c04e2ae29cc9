"""Jupyter Notebook 7: keys pressed in what npuprof draws are its own from the first click, as in JupyterLab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import saved_notebooks
from tests.browser.key_presses import cells, listen_to_commands, press_all
from tests.browser.notebook_page import Lab, NotebookPage, press_advertised_keys, settle
from tests.browser.test_code import CELL, SETUP, follow_links
from tests.notebook.cells import output

pytestmark = pytest.mark.browser  # in JupyterLab: test_timeline.py and test_keys.py

_RUN = """\
import sys
sys.path.insert(0, {root!r})
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.notebook.report import show_run
from tests import factories
run = Profile(Decoded(tables=factories.profile({size}), info=factories.info(), notes=Notes(), statistics={{}}))
""".format
_ROOT = str(Path(__file__).parents[2])
_READY = """async () => {
    const shown = jupyterapp.shell.currentWidget;
    await shown.context.ready;
    await shown.sessionContext.ready;
    await shown.sessionContext.session.kernel.info;  // it is connected: nothing that is asked of it gets lost
}"""
_WINDOW = "document.querySelector('.npuprof-timeline[data-window]').dataset.window"
_CELLS = ".jp-Notebook .jp-Cell"


@pytest.fixture
def open_notebook7(notebook7: Lab, context: Any, tmp_path: Path) -> Iterator[Callable[..., NotebookPage]]:
    """Open a notebook of some cells in a page of its own, whose kernel answers."""
    pages: list[Any] = []

    def open_(*sources: str, height: int = 1600) -> NotebookPage:
        name = f"{tmp_path.name}_{len(pages)}.ipynb"
        saved_notebooks.write(saved_notebooks.new(list(sources)), notebook7.folder / name)
        page = context.new_page()
        pages.append(page)
        page.set_viewport_size({"width": 1200, "height": height})
        page.goto(notebook7.notebook_url(name))
        page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.sessionContext")
        page.evaluate(_READY)
        return NotebookPage(page)

    yield open_
    for number, page in enumerate(pages):
        page.screenshot(path=tmp_path / f"end_{number}.png")
        page.close()


def test_the_first_click_takes_the_keys_in_notebook_7(open_notebook7: Callable[..., NotebookPage]) -> None:
    window = "run.explore(window=tuple(run.kernels['start_ns'].iloc[[100, 300]]))"
    notebook = open_notebook7(_RUN(root=_ROOT, size=2_000) + window, "kept = 1")
    page = notebook.page
    notebook.start(0)
    plot = page.locator(".npuprof-timeline[data-drawn] .stick > canvas").last
    plot.wait_for()
    page.locator(".jp-InputPrompt").first.click()  # the notebook has the keys
    before = page.evaluate(_WINDOW)

    plot.click(position={"x": 300, "y": 60})
    for key in "ddxx":
        page.keyboard.press(key)
    press_advertised_keys(page)
    for key in "0wd":
        page.keyboard.press(key)

    page.wait_for_function(f"before => {_WINDOW} !== before", arg=before)
    assert page.locator(_CELLS).count() == 2
    page.keyboard.press("Escape")
    page.keyboard.press("b")  # the notebook's again: a cell below
    page.wait_for_function(f"() => document.querySelectorAll('{_CELLS}').length === 3")


@pytest.mark.parametrize(
    "shown",
    [
        "the panel",
        "the explorer",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("a report", "a comparison")),
    ],
)
def test_no_key_pressed_in_an_output_reaches_notebook_7(
    open_notebook7: Callable[..., NotebookPage], tmp_path: Path, shown: str
) -> None:
    source = {
        "the panel": "import npuprof\nnpuprof.panel()",
        "a report": _RUN(root=_ROOT, size=100) + "show_run(run)\nrun.plot_steps()",
        "the explorer": _RUN(root=_ROOT, size=100) + "run.explore()",
        "a comparison": _RUN(root=_ROOT, size=100) + "run - run",
    }[shown]
    notebook = open_notebook7(source, "kept = 1", height=4000)
    page = notebook.page
    cell = notebook.run(0)
    if shown == "the panel":
        cell.get_by_role("button", name="Options ▾").click()
    settle(page)
    listen_to_commands(page)
    before = cells(page)

    tabs = cell.locator(".npuprof-explorer > .widget-tab > .lm-TabBar .lm-TabBar-tab")
    found = []
    for number in range(max(tabs.count(), 1)):
        if tabs.count():
            tabs.nth(number).click()
            settle(page)
        found += press_all(page, ".jp-Cell:first-child .jp-Cell-outputArea", alike=1)

    page.screenshot(path=tmp_path / "notebook7.png")
    assert found
    assert cells(page) == before


def test_line_click_opens_cell_in_notebook_7(open_notebook7: Callable[..., NotebookPage], tmp_path: Path) -> None:
    notebook = open_notebook7(SETUP, CELL.format(output=output(tmp_path)), "1", height=2600)
    notebook.run(0)
    notebook.run(1)
    follow_links(notebook)
