"""The explorer in Jupyter Notebook 7: its keys are the explorer's from the first click, as in JupyterLab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import saved_notebooks
from tests.browser.notebook_page import Lab, press_advertised_keys

pytestmark = [pytest.mark.browser, pytest.mark.long]  # in JupyterLab: test_timeline.py and test_keys.py

_SOURCE = """\
import sys
sys.path.insert(0, {root!r})
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
from tests import factories
run = Profile(Decoded(tables=factories.profile(2_000), info=factories.info(), notes=Notes(), statistics={{}}))
run.explore(window=tuple(run.kernels["start_ns"].iloc[[100, 300]]))
"""
_WINDOW = "document.querySelector('.npuprof-timeline[data-window]').dataset.window"
_CELLS = ".jp-Notebook .jp-Cell"


def test_the_first_click_takes_the_keys_in_notebook_7(notebook7: Lab, context: Any, tmp_path: Path) -> None:
    source = _SOURCE.format(root=str(Path(__file__).parents[2]))
    saved_notebooks.write(saved_notebooks.new([source, "kept = 1"]), notebook7.folder / "keys.ipynb")
    page = context.new_page()
    page.set_viewport_size({"width": 1200, "height": 1600})
    page.goto(notebook7.notebook_url("keys.ipynb"))
    page.locator(_CELLS).first.locator(".cm-content").click()
    page.wait_for_function("() => document.querySelector('[data-status=idle]')")
    page.keyboard.press("Control+Enter")
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
    page.screenshot(path=tmp_path / "notebook7.png")
    page.keyboard.press("Escape")
    page.keyboard.press("b")  # the notebook's again: a cell below
    page.wait_for_function(f"() => document.querySelectorAll('{_CELLS}').length === 3")
    page.close()
