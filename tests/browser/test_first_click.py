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


@pytest.mark.parametrize("title", ["Timeline", pytest.param("Flame graph", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("shown", _SHOWN)
def test_d_d_after_the_first_click_deletes_no_cell(
    open_notebook: OpenNotebook, tmp_path: Path, shown: str, title: str
) -> None:
    run = _RUN.format(root=str(Path(__file__).parents[2]), folder=str(tmp_path))
    notebook = open_notebook([run, _SHOWN[shown], "kept = 1"], own_kernel=True, own_page=True)
    notebook.run(0)
    page, cell = notebook.page, notebook.run(1)
    if shown == "panel":
        cell.get_by_role("grid", name="Runs", exact=True).locator("tbody tr[data-id]", has_text="this kernel").click()
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


_SLOWED = 8  # times: as a page is on a machine with that load
_VIEWS = {
    "Timeline": ".npuprof-timeline .stick > canvas >> nth=1",
    "Flame graph": ".npuprof-flame .flamebox canvas",
    "Code": "[data-row] >> nth=0",
    "Kernels": ".npuprof-grid tbody tr[data-id] >> nth=0",
}


@pytest.mark.parametrize(
    "title", [pytest.param(title, marks=() if title == "Timeline" else pytest.mark.exhaustive) for title in _VIEWS]
)
def test_the_first_gesture_on_a_slow_page_acts(open_notebook: OpenNotebook, tmp_path: Path, title: str) -> None:
    run = _RUN.format(root=str(Path(__file__).parents[2]), folder=str(tmp_path))
    notebook = open_notebook([run, _SHOWN["explorer"], "kept = 1"], own_kernel=True, own_page=True)
    notebook.run(0)
    page = notebook.page
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": _SLOWED})
    cell = notebook.start(1)
    tab = cell.get_by_role("tab", name=title, exact=True)
    tab.click()
    place = cell.locator(_VIEWS[title])
    place.wait_for()

    if title == "Timeline":
        window = "() => document.querySelector('.npuprof-timeline').dataset.window"
        before = page.evaluate(window)
        place.hover()
        page.keyboard.down("Control")
        page.mouse.wheel(0, -400)
        page.keyboard.up("Control")
        page.wait_for_function(f"before => ({window})() !== before", arg=before)
    elif title == "Flame graph":
        picture = "() => document.querySelector('.flamebox canvas').toDataURL()"
        before = page.evaluate(picture)
        place.click(position={"x": 30, "y": 30})
        page.wait_for_function(f"before => ({picture})() !== before", arg=before)
    elif title == "Code":
        place.click()
        page.locator("[data-row][aria-pressed=true]").wait_for()
    else:
        place.click()
        page.locator("tr[data-id][aria-selected=true]").wait_for()
    assert page.locator(".jp-Notebook .jp-Cell").count() == 3


def test_the_first_click_in_the_panel_on_a_slow_page_acts(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(["import npuprof\nnpuprof.panel()", "kept = 1"], own_kernel=True, own_page=True)
    page = notebook.page
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": _SLOWED})
    notebook.start(0).get_by_role("button", name="Start", exact=True).click()
    page.locator(".npuprof-phase", has_text="Recording").wait_for()
    notebook.cell(0).get_by_role("button", name="Stop", exact=True).click()
    page.locator(".npuprof-phase", has_text="Idle").wait_for()
