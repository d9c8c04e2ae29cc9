"""The flame graph on a canvas: zooming, searching, weighing, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npuprof.flame.state import FlameGraph
from npuprof.notebook.explorer.flame_graph import FlameGraphView
from tests import factories
from tests.browser.canvas_page import FlamePage
from tests.browser.notebook_page import OpenNotebook, settle

pytestmark = pytest.mark.browser

_SOURCE = """\
import sys
sys.path.insert(0, {root!r})
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
from tests import factories
run = Profile(Decoded(tables=factories.profile(2_000), info=factories.info(), notes=Notes(), statistics={{}}))
run.explore()
"""
_HOSTILE = "<img src=x onerror='window.pwned=1'>"
_PICTURE = "() => document.querySelector('.flamebox canvas').toDataURL()"
_DRAWN = "document.querySelector('.npuprof-flame-canvas')?.dataset.drawn"

Open = Callable[..., FlamePage]


@pytest.fixture
def open_flame_graph(browser: Any) -> Iterator[Open]:
    """Show the flame graph of a run in a page without JupyterLab."""
    pages = []

    def open_(launches: int, **how: Any) -> FlamePage:
        flame = FlameGraph(factories.profile(launches, **how), factories.info())
        flame.weigh("device")
        pages.append(browser.new_page(viewport={"width": 1000, "height": 800}))
        return FlamePage(pages[-1], FlameGraphView(flame))

    yield open_
    for page in pages:
        page.close()


def test_a_zoom_is_drawn_at_once_and_brings_what_was_folded(open_flame_graph: Open, tmp_path: Path) -> None:
    shown = open_flame_graph(6_000, kernel_names=[f"MatMulV3_{at:05d}" for at in range(6_000)])
    page, flame = shown.page, shown.view._flame
    assert any(flame.picture().frames.folded)
    whole = page.evaluate(_PICTURE)

    page.evaluate("() => { silent = true; }")
    shown.click(shown.frame("aten::linear"))
    shown.settle()
    at_once = page.evaluate(_PICTURE)
    assert at_once != whole
    assert flame.path() == []
    page.evaluate("() => { silent = false; }")
    page.keyboard.press("0")
    shown.settle()
    assert page.evaluate(_PICTURE) == whole
    shown.click(shown.frame("aten::linear"))
    shown.settle()
    assert flame.path()[-1] == "aten::linear"
    page.screenshot(path=tmp_path / "zoomed.png")
    page.keyboard.press("Backspace")
    shown.settle()
    assert flame.path()[-1:] != ["aten::linear"]


def test_hostile_names_stay_text(open_flame_graph: Open) -> None:
    shown = open_flame_graph(30, kernel_names=[_HOSTILE, "<script>window.pwned=2</script>"])
    page = shown.page
    shown.click(shown.frame(_HOSTILE))
    shown.settle()
    page.locator(".flamebox canvas").hover(position={"x": 50, "y": 8})
    page.locator(".tip", has_text="onerror").wait_for()
    assert page.evaluate("() => window.pwned") is None
    page.locator(".npuprof-flame-canvas").focus()
    page.keyboard.press("t")
    rows = page.locator(".visible tbody tr")
    assert rows.first.locator("td").first.inner_text() == _HOSTILE  # the root: the widest comes first
    assert "launch" in rows.first.inner_text()
    assert page.evaluate("() => window.pwned") is None
    assert page.locator(".npuprof-flame-canvas img").count() == 0


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (900, True)])
def test_keys_and_controls_in_jupyterlab(open_notebook: OpenNotebook, tmp_path: Path, width: int, dark: bool) -> None:
    more = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.1)"
    notebook = open_notebook([_SOURCE.format(root=str(Path(__file__).parents[2])), more], width=width, dark=dark)
    page = notebook.page
    notebook.run(0)
    page.locator(".npuprof-explorer").get_by_role("tab", name="Flame graph", exact=True).click()
    page.wait_for_function(f"() => Number({_DRAWN}) > 0")
    settle(page)
    page.locator(".flamebox canvas").click(position={"x": 40, "y": 8})  # the root: nothing is above it
    for key in ("d", "d", "ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    status = page.locator(".npuprof-flame [role=status]")
    status.filter(has_text="model.py(7): forward").wait_for()
    page.keyboard.press("Enter")
    page.locator(".npuprof-flame", has_text="everything › train.py(1): main › train.py(20): step").wait_for()
    page.keyboard.press("0")
    assert page.locator(".jp-Notebook .jp-Cell").count() == 2  # D, D deletes a cell elsewhere
    page.locator(".npuprof-flame").screenshot(path=tmp_path / f"host_{width}.png")

    notebook.start(1).locator(".jp-OutputArea-output", has_text="begun").wait_for()
    page.get_by_role("button", name="device time", exact=True).click()
    page.locator(".npuprof-flame-canvas .said", has_text="device time").wait_for()
    field = page.locator(".npuprof-flame").get_by_label("Search", exact=True)
    field.fill("softmax")
    field.press("Enter")
    status.filter(has_text="% of device time").first.wait_for()
    page.locator(".npuprof-flame").screenshot(path=tmp_path / f"searched_{width}.png")
    callers, callees = (page.locator(".npuprof-flame-canvas").nth(at) for at in (1, 2))
    for half, said in ((callers, "callers of model.py(7): forward: "), (callees, "callees of model.py(7): forward: ")):
        half.and_(page.locator("[data-drawn]")).filter(has_text=said).wait_for()
        assert int(half.get_attribute("data-frames")) > 1
    assert not page.locator(".npuprof-flame .failed").count()
    callees.locator("canvas").click(position={"x": 40, "y": 28})  # the first of those that it called
    callers.filter(has_text="callers of layers.py(3): call").wait_for()
    assert "callees of layers.py(3): call" in callees.inner_text()
    wide = page.evaluate("() => document.querySelector('.npuprof-flame').scrollWidth")
    assert wide <= page.evaluate("() => document.querySelector('.npuprof-flame').clientWidth") + 1
    assert "*" in page.locator(".jp-Cell").nth(1).locator(".jp-InputPrompt").inner_text()
