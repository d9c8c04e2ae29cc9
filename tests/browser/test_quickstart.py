"""The quickstart notebook as a newcomer sees it in JupyterLab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from npuprof.demo import notebook_path
from tests.browser.conftest import Lab

pytestmark = pytest.mark.browser

_RUN_TIMEOUT_MS = 45_000
_ASKS_FOR_A_KERNEL = "document.querySelector('.jp-Dialog') !== null"
_ALL_NUMBERED = r"""(prompts =>
    prompts.length > 0 && prompts.every(prompt => /\[\d+\]/.test(prompt.textContent))
)([...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')])"""
_COUNT_OVERFLOWING = """() =>
    [...document.querySelectorAll('.jp-OutputArea-output')].filter(o => o.scrollWidth > o.clientWidth + 1).length
"""


@pytest.fixture
def open_notebook(lab: Lab, browser: Any, tmp_path: Path) -> Any:
    """Open a copy of the quickstart in a page of its own; gives the page."""
    pages = []

    def open_(name: str, *, width: int, outputs: bool) -> Any:
        notebook = nbformat.read(notebook_path(), as_version=4)
        if not outputs:
            for cell in notebook.cells:
                cell.update({"outputs": [], "execution_count": None} if cell.cell_type == "code" else {})
        nbformat.write(notebook, lab.folder / name)
        # Tall, so that JupyterLab, which draws only the cells in view, draws them all.
        page = browser.new_page(viewport={"width": width, "height": 4500})
        pages.append(page)
        page.goto(lab.notebook_url(name))
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        return page

    yield open_
    for number, page in enumerate(pages):
        page.screenshot(path=tmp_path / f"end_{number}.png")  # what a failed test saw
        page.close()


def _run_all(page: Any) -> None:
    idle = ".jp-Notebook-ExecutionIndicator[data-status=idle]"
    page.wait_for_selector(idle, state="attached", timeout=_RUN_TIMEOUT_MS)  # hidden where narrow
    for _ in range(5):
        if (accept := page.locator(".jp-Dialog .jp-mod-accept")).is_visible():
            accept.click()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        if _all_cells_ran(page):
            return
    pytest.fail("the cells have not all been run")


def _all_cells_ran(page: Any) -> bool:
    """Wait for the cells' numbers.

    What is asked of a kernel that has only just connected may get lost, or make JupyterLab ask which kernel is
    meant: then it must be asked again.
    """
    from playwright.sync_api import TimeoutError as Late

    try:
        page.wait_for_function(f"() => {_ASKS_FOR_A_KERNEL} || {_ALL_NUMBERED}", timeout=_RUN_TIMEOUT_MS)
    except Late:
        return False
    return bool(page.evaluate(f"() => {_ALL_NUMBERED}"))


@pytest.mark.parametrize("width", [1400, 900])
def test_the_report_appears_under_the_cell(open_notebook: Any, tmp_path: Path, width: int) -> None:
    page = open_notebook(f"quickstart_{width}.ipynb", width=width, outputs=False)
    _run_all(page)
    page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot .main-svg').length >= 2")
    shown = page.inner_text(".jp-Notebook")
    page.screenshot(path=tmp_path / f"quickstart_{width}.png")
    assert "simulated" in shown.lower()
    assert "Traceback" not in shown
    # Nothing of the report sticks out of its cell at this width.
    assert page.evaluate(_COUNT_OVERFLOWING) == 0


def test_the_saved_notebook_shows_its_reports_without_a_kernel(open_notebook: Any, tmp_path: Path) -> None:
    page = open_notebook("saved.ipynb", width=1400, outputs=True)
    page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot .main-svg').length >= 2")
    page.screenshot(path=tmp_path / "saved.png")
    assert page.locator(".jp-RenderedSVG").count() == 0  # the picture is for viewers that draw no plotly
    assert "simulated" in page.inner_text(".jp-Notebook").lower()
