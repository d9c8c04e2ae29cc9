"""The quickstart notebook as a newcomer sees it in JupyterLab."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.demo import notebook_path
from tests import saved_notebooks
from tests.browser.notebook_page import OpenNotebook

pytestmark = pytest.mark.browser
_WHOLE = 9000  # pixels: JupyterLab draws only the cells in view

_ALL_NUMBERED = r"""(prompts =>
    prompts.length > 0 && prompts.every(prompt => /\[\d+\]/.test(prompt.textContent))
)([...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')])"""
_COUNT_OVERFLOWING = """() =>
    [...document.querySelectorAll('.jp-OutputArea-output')].filter(o => o.scrollWidth > o.clientWidth + 1).length
"""


@pytest.mark.parametrize("width", [900, pytest.param(1400, marks=pytest.mark.exhaustive)])
def test_the_report_appears_under_the_cell(open_notebook: OpenNotebook, tmp_path: Path, width: int) -> None:
    notebook = saved_notebooks.read(notebook_path())
    for cell in notebook.cells:
        cell.update({"outputs": [], "execution_count": None} if cell.cell_type == "code" else {})
    page = open_notebook(notebook, width=width, height=_WHOLE, own_kernel=True).page
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(f"() => {_ALL_NUMBERED}")
    for fold in page.locator("summary", has_text="Timeline, flame graph").all():
        fold.click()
    page.wait_for_function(
        "() => document.querySelectorAll('.npuprof-saved .npuprof-timeline[data-drawn]').length >= 2"
    )
    shown = page.inner_text(".jp-Notebook")
    page.screenshot(path=tmp_path / f"quickstart_{width}.png")
    assert "simulated" in shown.lower()
    assert "Traceback" not in shown
    # Nothing of the report sticks out of its cell at this width.
    assert page.evaluate(_COUNT_OVERFLOWING) == 0


def test_the_saved_notebook_shows_its_reports_without_running(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    page = open_notebook(saved_notebooks.read(notebook_path()), height=_WHOLE).page
    drawn = page.locator(".jp-OutputArea-output img[src^='data:image/svg']")  # scripts do not run: it is not trusted
    drawn.nth(3).wait_for()
    page.screenshot(path=tmp_path / "saved.png")
    assert page.locator("[role=alert]", has_text="npuprof").count() == 0
    assert "simulated" in page.inner_text(".jp-Notebook").lower()
