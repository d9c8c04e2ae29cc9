"""The explorer in JupyterLab: what the mouse and the keyboard do, and how long it takes to see it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import factories
from tests.browser.notebook_page import OpenNotebook, settle, wait_for_text

pytestmark = pytest.mark.browser

_SOURCE = """\
import sys
sys.path.insert(0, {root!r})
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
from tests import factories
tables = factories.profile({launches}, kernel_names={names!r})
{setup}
run = Profile(Decoded(tables=tables, info=factories.info(), notes=Notes(), statistics={{}}))
run.explore()
"""
_COUNTERS = """\
tables["kernels"] = tables["kernels"].assign(
    aic_mac_ratio=0.25, aic_mte2_ratio=0.5, aic_fixpipe_ratio=0.125, aiv_vec_ratio=0.75)
"""
_LANES = """\
import pandas as pd
one = tables["python"].iloc[:1]  # as deep as frameworks call, on four threads
tables["python"] = pd.concat([
    one.assign(
        start_ns=one["start_ns"] + depth * 1_000, duration_ns=one["duration_ns"] - depth * 2_000, thread_id=thread,
        depth=depth)
    for thread in range(4) for depth in range(30)
], ignore_index=True)
"""
_SLEEP = """\
import time
print("begun", flush=True)
while True:  # until the kernel is interrupted, after the test
    time.sleep(0.1)
"""
_HOSTILE = "<img src=x onerror='window.pwned=1'>"
_BARS = "document.querySelector('.npuprof-timeline .js-plotly-plot').data[0]"
_BAR_COUNT = f"() => {_BARS}.y.length"

_FIGURE = ".js-plotly-plot .main-svg .trace:visible"

Open = Callable[..., Any]


@pytest.fixture
def open_explorer(open_notebook: OpenNotebook) -> Open:
    """Run a cell that shows an explorer, and open its timeline; gives the page."""

    def open_(
        *,
        launches: int = 60_000,
        names: tuple[str, ...] = factories.KERNELS,
        width: int = 1400,
        dark: bool = False,
        setup: str = "",
        more: tuple[str, ...] = (),
    ) -> Any:
        source = _SOURCE.format(root=str(Path(__file__).parents[2]), launches=launches, names=names, setup=setup)
        notebook = open_notebook([source, *more], width=width, height=1500, dark=dark)
        page = notebook.page
        notebook.run(0)
        page.get_by_role("tab", name="Timeline").click()
        page.wait_for_selector(".npuprof-timeline .nsewdrag")
        page.wait_for_function(f"() => {_BARS}.y.length > 0")
        settle(page)
        return page

    return open_


def _search_field(page: Any) -> Any:
    return page.locator(".npuprof-timeline").get_by_label("Search", exact=True)


def _plot(page: Any) -> dict[str, float]:
    box: dict[str, float] = page.locator(".npuprof-timeline .nsewdrag").first.bounding_box()
    return box


def _zoom_by_mouse(page: Any, low: float, high: float) -> float:
    """Drag over a part of the picture; give the seconds until other bars are there."""
    before = page.evaluate(f"() => JSON.stringify(Array.from({_BARS}.base))")
    box = _plot(page)
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + low * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + high * box["width"], middle + 3, steps=5)
    page.mouse.up()
    released = time.perf_counter()
    page.wait_for_function(f"before => JSON.stringify(Array.from({_BARS}.base)) !== before", arg=before, polling=10)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return time.perf_counter() - released


def _window(page: Any) -> tuple[float, float]:
    low, high = page.evaluate("() => document.querySelector('.npuprof-timeline .js-plotly-plot').layout.xaxis.range")
    return low, high


def test_zooming_by_mouse_brings_detail(open_explorer: Open, tmp_path: Path) -> None:
    page = open_explorer()
    page.screenshot(path=tmp_path / "whole.png")
    assert "slices</b>" in page.evaluate(f"() => {_BARS}.hovertext.join()")

    taken = [_zoom_by_mouse(page, 0.45, 0.55) for _ in range(4)]

    print("seconds from mouse-up to detail:", ", ".join(f"{seconds:.3f}" for seconds in taken))
    page.screenshot(path=tmp_path / "zoomed.png")
    assert 0 < page.evaluate(_BAR_COUNT) <= 2_000
    assert "slices</b>" not in page.evaluate(f"() => {_BARS}.hovertext.slice(20).join()")


def test_a_kernel_is_found_selected_and_its_arrows_drawn(open_explorer: Open, tmp_path: Path) -> None:
    page = open_explorer(launches=2_000)
    _search_field(page).fill("SoftmaxV2")
    _search_field(page).press("Enter")
    page.wait_for_selector("[role=status]:has-text('1 of 400 matches')")
    page.get_by_role("button", name="Next").click()
    page.wait_for_selector("[role=status]:has-text('2 of 400 matches')")
    page.get_by_role("button", name="Selection").click()
    # Three arrows, a gap after each.
    page.wait_for_function("() => document.querySelector('.npuprof-timeline .js-plotly-plot').data[2].x.length === 9")
    page.screenshot(path=tmp_path / "selected.png")

    shown = page.inner_text(".npuprof-timeline")
    assert "caused by" in shown
    assert "SoftmaxV2" in shown
    page.keyboard.press("Escape")


_BUTTON = ".npuprof-timeline button.jupyter-button"
_SCROLLED = "document.querySelector('.npuprof-scrolled')"
_PIPES = """() => [...document.querySelectorAll('.npuprof-measured .js-plotly-plot')]
    .filter((plot) => plot.checkVisibility())
    .map((plot) => [plot.data.filter((trace) => trace.type === 'bar').map((trace) => Array.from(trace.x)),
                    plot._fullLayout.width])"""


def _pipes(page: Any) -> tuple[list[list[float]], float]:
    """Give the bars of the one kernel that is shown in detail, and how wide they are drawn."""
    page.wait_for_function(f"() => ({_PIPES})().length === 1")
    settle(page)
    ((bars, width),) = page.evaluate(_PIPES)
    return bars, width


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (900, True)])
def test_a_kernel_that_is_chosen_is_told_in_detail(open_explorer: Open, tmp_path: Path, width: int, dark: bool) -> None:
    page = open_explorer(launches=200, setup=_COUNTERS, width=width, dark=dark)
    assert page.evaluate(_PIPES) == []
    _search_field(page).fill("SoftmaxV2")
    _search_field(page).press("Enter")
    bars, drawn = _pipes(page)
    assert bars == [[25, 50, 12.5], [75]]
    room = page.evaluate("() => document.querySelector('.npuprof-measured').clientWidth")
    assert drawn == min(room, 760)
    page.screenshot(path=tmp_path / "selected.png")

    page.get_by_role("tab", name="Kernels", exact=True).click()
    rows = page.get_by_role("grid", name="Kernels").locator("tbody tr[data-id]")
    rows.nth(1).click()
    wait_for_text(page.locator(".npuprof-measured .g-gtitle"), rows.nth(1).locator("td").first.inner_text())
    page.locator("tr[data-id][aria-selected=true]").wait_for()
    assert rows.nth(1).get_attribute("aria-selected") == "true"
    assert _pipes(page)[0] == bars
    page.screenshot(path=tmp_path / "chosen.png")
    wide = page.evaluate("() => document.querySelector('.npuprof-explorer').scrollWidth")
    assert wide <= page.evaluate("() => document.querySelector('.npuprof-explorer').clientWidth") + 1


def test_the_time_axis_stays_when_the_lanes_are_scrolled(open_explorer: Open, tmp_path: Path) -> None:
    page = open_explorer(launches=2_000, setup=_LANES)
    hidden = page.evaluate(f"() => {_SCROLLED}.scrollHeight - {_SCROLLED}.clientHeight")
    assert hidden > 50
    assert not page.locator(".npuprof-axis.npuprof-needed").count()
    page.evaluate(f"() => {{ {_SCROLLED}.scrollTop = {hidden}; }}")
    axis = page.locator(".npuprof-axis.npuprof-needed")
    axis.wait_for()
    texts = "() => [...document.querySelectorAll('.npuprof-{} .xtick text')].map(e => e.textContent)"
    own, copied = texts.format("scrolled .js-plotly-plot"), texts.format("axis")
    before = page.evaluate(own)
    assert len(before) > 2
    assert page.evaluate(copied) == before
    strip, box = axis.bounding_box(), page.locator(".npuprof-scrolled").bounding_box()
    assert abs(strip["y"] - box["y"]) < 2

    page.locator(_BUTTON, has_text="Zoom in").click()
    page.wait_for_function(f"before => ({own})().join() !== before", arg=",".join(before))
    settle(page)
    assert page.evaluate(copied) == page.evaluate(own)
    # Each tick is above its place in the lanes.
    places = "selector => [...document.querySelectorAll(selector)].map(e => Math.round(e.getBoundingClientRect().x))"
    assert page.evaluate(places, ".npuprof-axis .xtick text") == page.evaluate(
        places, ".npuprof-scrolled .js-plotly-plot .xtick text"
    )
    page.screenshot(path=tmp_path / "scrolled.png")


def test_its_controls_do_not_wait_for_a_running_cell(open_explorer: Open) -> None:
    page = open_explorer(launches=2_000, more=(_SLEEP,))
    page.locator(".jp-Cell .cm-content").nth(1).click()
    page.keyboard.press("Control+Enter")
    page.locator(".jp-OutputArea-output", has_text="begun").wait_for()
    before = _window(page)
    page.locator(_BUTTON, has_text="Zoom in").click()
    page.wait_for_function(
        "high => document.querySelector('.npuprof-timeline .js-plotly-plot').layout.xaxis.range[1] < high",
        arg=before[1],
    )
    # A tab that is made now, and what is in it.
    page.get_by_role("tab", name="Operators", exact=True).click()
    grid = page.get_by_role("grid", name="Operators")
    grid.wait_for()
    page.get_by_label("Filter name", exact=True).fill("softmax")
    page.locator(".npuprof-grid-foot .count", has_text="1 group").wait_for()
    assert "*" in page.locator(".jp-Cell").nth(1).locator(".jp-InputPrompt").inner_text()


def test_a_click_selects_and_keys_move(open_explorer: Open, tmp_path: Path) -> None:
    page = open_explorer(launches=40)
    box = _plot(page)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 8)  # the topmost lane: the steps
    page.wait_for_selector(".npuprof-timeline :text('steps, row')")
    page.locator(".npuprof-timeline").focus()
    before = _window(page)
    page.keyboard.press("w")
    page.wait_for_function(
        "high => document.querySelector('.npuprof-timeline .js-plotly-plot').layout.xaxis.range[1] < high",
        arg=before[1],
    )
    for key in ("d", "a", "d", "d"):
        page.keyboard.press(key)
    settle(page)
    assert len(page.query_selector_all(".jp-Notebook .jp-Cell")) == 1  # D, D deletes a cell elsewhere
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".npuprof-timeline :text('steps, row 2')")
    page.screenshot(path=tmp_path / "keys.png")


@pytest.mark.parametrize(("width", "dark"), [(1400, True), (900, False), (900, True)])
def test_it_fits_and_follows_the_theme(open_explorer: Open, tmp_path: Path, width: int, dark: bool) -> None:
    page = open_explorer(launches=3_000, width=width, dark=dark)
    page.screenshot(path=tmp_path / f"explorer_{width}.png")
    wide = page.evaluate(
        "() => [...document.querySelectorAll('.npuprof-explorer')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert max(wide) <= 1


def _wait_for_a_wide_figure(page: Any) -> None:
    """Wait until the one figure that is to be seen is drawn, over most of the explorer's width."""
    page.wait_for_function(
        """() => {
            const width = document.querySelector('.npuprof-explorer').getBoundingClientRect().width;
            const seen = [...document.querySelectorAll('.npuprof-explorer .main-svg')].filter(
                (svg) => svg.checkVisibility() && svg.getBoundingClientRect().width > 0.8 * width);
            return seen.some((svg) => [...svg.querySelectorAll('.trace path, .trace rect, .slice path')].some(
                (mark) => mark.getBoundingClientRect().height > 1));
        }"""
    )


def test_every_tab_opens(open_explorer: Open, tmp_path: Path) -> None:
    page = open_explorer(launches=500)
    explorer = page.locator(".npuprof-explorer")
    titles = [text.strip() for text in explorer.get_by_role("tab").all_inner_texts()]
    for title, holds in {
        "Overview": "text=SIMULATED NPU",
        "Flame graph": _FIGURE,
        "Operators": "text=aten::linear",
        "Kernels": "text=MatMulV3_ND_FP16",
        "API": "text=launch",
        "Memory": _FIGURE,
        "Communication": _FIGURE,
        "Steps": _FIGURE,
        "Marks": "text=epoch 3",
    }.items():
        explorer.get_by_role("tab", name=title, exact=True).click()
        panel = explorer.locator(".widget-tab-contents > *").nth(titles.index(title))
        panel.locator(holds).first.wait_for()
        if holds == _FIGURE:
            _wait_for_a_wide_figure(page)
        page.screenshot(path=tmp_path / f"{title}.png")
        assert "could not be made" not in explorer.inner_text()


def test_hostile_names_stay_text(open_explorer: Open) -> None:
    page = open_explorer(
        launches=30, names=(_HOSTILE, "<script>window.pwned=2</script>", "<a href='javascript:1'>x</a>")
    )
    _search_field(page).fill("onerror")
    _search_field(page).press("Enter")
    page.wait_for_selector("[role=status]:has-text('1 of')")
    for title in ("Overview", "Kernels", "Flame graph"):
        page.locator(".npuprof-explorer").get_by_role("tab", name=title, exact=True).click()
        settle(page)
    assert page.evaluate("() => window.pwned") is None
    assert page.query_selector(".npuprof-explorer img[src=x], .npuprof-explorer a[href^=javascript]") is None
