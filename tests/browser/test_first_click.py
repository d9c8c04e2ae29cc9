"""Keys that follow a click in a figure are the figure's: JupyterLab, where D, D deletes a cell, does not see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.notebook_page import OpenNotebook, settle

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
    "Timeline": (".npuprof-timeline", ".stick > canvas >> nth=1"),
    "Flame graph": (".npuprof-flame", ".flamebox canvas"),
}


@pytest.mark.long
@pytest.mark.parametrize("title", _PLOTS)
@pytest.mark.parametrize("shown", _SHOWN)
def test_d_d_after_the_first_click_deletes_no_cell(
    open_notebook: OpenNotebook, tmp_path: Path, shown: str, title: str
) -> None:
    run = _RUN.format(root=str(Path(__file__).parents[2]), folder=str(tmp_path))
    notebook = open_notebook([run, _SHOWN[shown], "kept = 1"], own_kernel=True, own_page=True)
    notebook.run(0)
    page, cell = notebook.page, notebook.run(1)
    if shown == "panel":
        cell.get_by_role("grid", name="Runs of this kernel").locator("tbody tr[data-id]").click()
        cell.get_by_role("button", name="Open", exact=True).click()
    cell.get_by_role("tab", name=title, exact=True).click()
    box, plot = _PLOTS[title]
    place = cell.locator(box).locator(plot).first
    place.wait_for(state="attached")
    settle(page)
    # As a user leaves it who has just run the cell: the notebook has the keys.
    cell.locator(".jp-InputPrompt").click()
    page.wait_for_selector(".jp-Notebook.jp-mod-commandMode")

    place.click(force=True)
    page.keyboard.press("d")
    page.keyboard.press("d")

    settle(page)
    assert page.locator(".jp-Notebook .jp-Cell").count() == 3
    assert page.evaluate(f"() => document.activeElement.closest('{box}') !== null")
