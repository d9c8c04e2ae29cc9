"""Two runs above each other in JupyterLab: one window and one cursor for both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.notebook_page import OpenNotebook, settle

pytestmark = pytest.mark.browser

_SOURCE = """\
import dataclasses, sys
sys.path.insert(0, {root!r})
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
from tests import factories
def run(launches, name):
    info = dataclasses.replace(factories.info(), name=name)
    return Profile(Decoded(tables=factories.profile(launches), info=info, notes=Notes(), statistics={{}}))
run(300, "before").explore(beside=run(450, "after"))
"""


def _windows(page: Any) -> list[str]:
    found: list[str] = page.evaluate(
        "() => [...document.querySelectorAll('.npuprof-timeline.linked')].map((one) => one.dataset.window)"
    )
    return found


def test_two_runs_move_together(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook([_SOURCE.format(root=str(Path(__file__).parents[2])), "kept = 1"], height=1700)
    page = notebook.page
    notebook.run(0)
    page.wait_for_function("() => document.querySelectorAll('.npuprof-timeline.linked[data-drawn]').length === 2")
    settle(page)
    first, second = page.locator(".npuprof-timeline.linked").all()
    whole = _windows(page)
    assert whole[0] == whole[1]  # from the first of both to the last: one scale
    box = first.locator(".stick > canvas").last.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 60)
    for key in "dwd":
        page.keyboard.press(key)
    settle(page)
    moved = _windows(page)
    assert moved[0] == moved[1] != whole[0]
    page.screenshot(path=tmp_path / "moved.png")

    second.locator(".bar").get_by_role("button", name="All", exact=True).click()
    settle(page)
    assert _windows(page) == whole
    assert page.locator(".jp-Notebook .jp-Cell").count() == 2

    lane = first.locator(".label", has_text="PTA allocated").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.4, lane["y"] + 20)
    cursors = "() => [...document.querySelectorAll('.npuprof-timeline.linked')].map((one) => one.dataset.cursor)"
    page.wait_for_function(f"() => ({cursors})().every((one) => Number(one) > 0)")
    assert len(set(page.evaluate(cursors))) == 1
    page.locator(".npuprof-explorer").get_by_role("tab", name="Difference", exact=True).click()
    page.locator(".npuprof-drawn .js-plotly-plot .trace").first.wait_for()
    page.screenshot(path=tmp_path / "difference.png")
