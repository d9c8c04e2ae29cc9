"""The live flame graph in JupyterLab: zooming, searching, weighing, by mouse and by keyboard."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import factories
from tests.browser.notebook_page import OpenNotebook, settle

pytestmark = pytest.mark.browser

_SOURCE = """\
import sys
sys.path.insert(0, {root!r})
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
from tests import factories
tables = factories.profile({launches}, kernel_names={names})
run = Profile(Decoded(tables=tables, info=factories.info(), notes=Notes(), statistics={{}}))
run.explore()
"""
_MANY_NAMES = "[f'MatMulV3_{i:05d}' for i in range(40_000)]"
_HOSTILE = "<img src=x onerror='window.pwned=1'>"
_PLOT = "document.querySelector('.npuprof-flame .js-plotly-plot')"
_FRAMES = f"{_PLOT}.data[0]"
_HOVER = f"() => Array.from({_FRAMES}.hovertext)"

Open = Callable[..., Any]


@pytest.fixture
def open_flame_graph(open_notebook: OpenNotebook) -> Open:
    """Run a cell that shows an explorer, and open its flame graph; gives the page."""

    def open_(
        *,
        launches: int = 2_000,
        names: str = repr(factories.KERNELS),
        width: int = 1400,
        dark: bool = False,
        more: tuple[str, ...] = (),
    ) -> Any:
        cell = _SOURCE.format(root=str(Path(__file__).parents[2]), launches=launches, names=names)
        notebook = open_notebook([cell, *more], width=width, dark=dark)
        page = notebook.page
        notebook.run(0)
        page.locator(".npuprof-explorer").get_by_role("tab", name="Flame graph", exact=True).click()
        page.wait_for_function(f"() => {_PLOT} && {_FRAMES} && {_FRAMES}.y && {_FRAMES}.y.length > 0")
        _wait_until_fitted(page)
        return page

    return open_


def _wait_until_fitted(page: Any) -> None:
    """Wait until the figure is drawn as wide as its place."""
    page.wait_for_function(
        """() => {
            const place = document.querySelector('.npuprof-flame-scrolled').getBoundingClientRect().width;
            const drawn = document.querySelector('.npuprof-flame .main-svg').getBoundingClientRect().width;
            return place > 300 && Math.abs(place - drawn) < 25;
        }"""
    )
    settle(page)


def _keep(page: Any, path: Path) -> None:
    """Keep a picture of the explorer, to be looked at."""
    page.locator(".npuprof-explorer").screenshot(path=path)


def _frame(page: Any, name: str) -> int:
    """Give the number of the widest frame of a name."""
    said = page.evaluate(_HOVER)
    return next(number for number, text in enumerate(said) if text.startswith(f"<b>{name}</b>"))


def _click(page: Any, frame: int) -> None:
    """Click a frame where it is drawn."""
    page.locator(".npuprof-flame .bars .point path").nth(frame).click(force=True)


def _zoom(page: Any, frame: int) -> float:
    """Click a frame; give the seconds until another picture is there."""
    before = page.evaluate(f"() => JSON.stringify({_FRAMES}.hovertext)")
    began = time.perf_counter()
    _click(page, frame)
    page.wait_for_function(f"before => JSON.stringify({_FRAMES}.hovertext) !== before", arg=before, polling=10)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return time.perf_counter() - began


def _control(page: Any, name: str) -> Any:
    return page.locator(".npuprof-flame").get_by_role("button", name=name, exact=True)


def _wait_for_text(page: Any, text: str) -> None:
    page.wait_for_function("text => document.querySelector('.npuprof-flame').innerText.includes(text)", arg=text)


def _search(page: Any, text: str) -> str:
    """Search; give what is told of it."""
    field = page.locator(".npuprof-flame").get_by_label("Search", exact=True)
    field.fill(text)
    field.press("Enter")
    told = page.locator(
        ".npuprof-flame [role=status]:has-text('frame'), .npuprof-flame [role=status]:has-text('match')"
    )
    told.first.wait_for()
    return str(told.first.inner_text())


@pytest.mark.parametrize("width", [1400, 900])
def test_zooming_into_a_frame_brings_detail(open_flame_graph: Open, tmp_path: Path, width: int) -> None:
    page = open_flame_graph(launches=40_000, names=_MANY_NAMES, width=width)
    page.get_by_role("button", name="device time", exact=True).click()
    page.wait_for_function(f"() => {_FRAMES}.hovertext.some(text => text.includes(' more)</b>'))")
    _keep(page, tmp_path / f"whole_{width}.png")
    assert page.evaluate(f"() => {_FRAMES}.y.length") <= 2_000

    taken = [_zoom(page, _frame(page, "aten::linear"))]
    _keep(page, tmp_path / f"zoomed_{width}.png")
    assert page.evaluate(f"() => {_FRAMES}.y.length") <= 2_000
    kernels = page.evaluate(f"() => Array.from({_FRAMES}.y).filter(level => level === 2).length")
    assert kernels > 1_500  # most of them were folded before
    _wait_for_text(page, "everything › aten::linear")

    folded = [number for number, text in enumerate(page.evaluate(_HOVER)) if " more)</b>" in text]
    widths = page.evaluate(f"() => Array.from({_FRAMES}.x)")
    more = max(folded, key=lambda number: widths[number])
    taken.append(_zoom(page, more))
    _wait_for_text(page, "› the rest")
    _keep(page, tmp_path / f"rest_{width}.png")
    print("seconds from the click to the picture:", ", ".join(f"{seconds:.3f}" for seconds in taken))

    _control(page, "All").click()
    page.wait_for_function(f"() => {_FRAMES}.hovertext[0].startsWith('<b>all</b>')")
    page.locator(".npuprof-flame button[disabled]", has_text="Up").wait_for()


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (900, True)])
def test_a_search_stands_out_and_tells_its_share(
    open_flame_graph: Open, tmp_path: Path, width: int, dark: bool
) -> None:
    page = open_flame_graph(width=width, dark=dark)
    _keep(page, tmp_path / f"host_{width}.png")

    told = _search(page, "linear|softmax")
    assert told == "no match"
    page.get_by_label("regular expression").check()
    page.wait_for_selector(".npuprof-flame [role=status]:has-text('% of host time')")
    page.wait_for_function(f"() => new Set({_FRAMES}.marker.opacity).size === 2")
    _keep(page, tmp_path / f"searched_{width}.png")

    page.locator(".npuprof-flame").get_by_label("Search", exact=True).fill("(")
    page.locator(".npuprof-flame").get_by_label("Search", exact=True).press("Enter")
    page.wait_for_selector(".npuprof-flame [role=status]:has-text('cannot be read')")


@pytest.mark.parametrize("width", [1400, 900])
def test_weight_step_thread_and_shape_are_chosen(open_flame_graph: Open, tmp_path: Path, width: int) -> None:
    page = open_flame_graph(width=width)
    page.locator(".npuprof-flame").get_by_label("Step", exact=True).select_option("1")
    page.wait_for_function(f"() => !{_FRAMES}.hovertext.some(text => text.includes('2,000 calls'))")
    page.get_by_role("button", name="count", exact=True).click()
    page.wait_for_function(f"() => {_PLOT}.layout.title.text.includes('number of calls')")
    page.locator(".npuprof-flame").get_by_label("Thread", exact=True).select_option("101")
    page.wait_for_function(f"() => !{_FRAMES}.hovertext.some(text => text.includes('train.py'))")
    page.get_by_role("button", name="flame", exact=True).click()
    page.wait_for_function(f"() => {_PLOT}.layout.yaxis.range[0] < {_PLOT}.layout.yaxis.range[1]")
    settle(page)
    _keep(page, tmp_path / f"flame_{width}.png")
    wide = page.evaluate(
        "() => [...document.querySelectorAll('.npuprof-flame')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert max(wide) <= 1


def test_keys_go_from_frame_to_frame(open_flame_graph: Open, tmp_path: Path) -> None:
    page = open_flame_graph()
    page.locator(".npuprof-flame").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    page.wait_for_selector(".npuprof-flame [role=status]:has-text('model.py(7): forward')")
    _keep(page, tmp_path / "cursor.png")
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {_FRAMES}.hovertext[0].startsWith('<b>model.py(7): forward</b>')")
    page.keyboard.press("Backspace")
    page.wait_for_function(f"() => {_FRAMES}.hovertext[0].startsWith('<b>train.py(20): step</b>')")
    page.keyboard.press("0")
    page.wait_for_function(f"() => {_FRAMES}.hovertext[0].startsWith('<b>all</b>')")
    assert len(page.query_selector_all(".jp-Notebook .jp-Cell")) == 1


def test_controls_act_while_a_cell_runs(open_flame_graph: Open) -> None:
    page = open_flame_graph(more=("import time\nwhile True: time.sleep(0.1)",))
    second = page.locator(".jp-Notebook .jp-Cell").nth(1)
    second.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    second.locator(".jp-InputPrompt:has-text('[*]')").wait_for()

    page.get_by_role("button", name="device time", exact=True).click()
    page.wait_for_function(f"() => {_PLOT}.layout.title.text.includes('device time')")
    _zoom(page, _frame(page, "aten::linear"))

    _wait_for_text(page, "everything › aten::linear")
    assert second.locator(".jp-InputPrompt").inner_text() == "[*]:"


def test_hostile_names_stay_text(open_flame_graph: Open, tmp_path: Path) -> None:
    names = [_HOSTILE, "<script>window.pwned=2</script>", "<a href='javascript:1'>x</a>"]
    page = open_flame_graph(launches=30, names=repr(names))
    page.get_by_role("button", name="device time", exact=True).click()
    page.wait_for_function(f"() => {_FRAMES}.hovertext.some(text => text.includes('&lt;img'))")
    number = next(number for number, text in enumerate(page.evaluate(_HOVER)) if "&lt;img" in text)
    page.locator(".npuprof-flame .bars .point path").nth(number).hover(force=True)
    settle(page)
    _keep(page, tmp_path / "hostile.png")
    _zoom(page, number)
    assert "frame" in _search(page, "onerror")
    settle(page)
    _wait_for_text(page, "<img src=x")
    assert page.evaluate("() => window.pwned") is None
    assert page.query_selector(".npuprof-flame img[src=x], .npuprof-flame a[href^=javascript]") is None
