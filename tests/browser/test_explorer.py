"""The explorer in JupyterLab: what the mouse and the keyboard do, and how long it takes to see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import factories
from tests.browser.notebook_page import OpenNotebook, press_advertised_keys, settle, wait_for_text

pytestmark = pytest.mark.browser

_SOURCE = """\
import sys
sys.path.insert(0, {root!r})
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
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
_SLOW_TAB = """\
import pathlib, time
import ipywidgets
from npuprof.notebook.explorer import tabs
def build(explorer):
    while not pathlib.Path({flag!r}).exists():
        time.sleep(0.05)
    return ipywidgets.HTML("<b class='built'>built</b>")
tabs.register(tabs.Tab("Slow", lambda explorer: True, build))
"""
_SLEEP = """\
import time
print("begun", flush=True)
while True:  # until the kernel is interrupted, after the test
    time.sleep(0.1)
"""
_HOSTILE = "<img src=x onerror='window.pwned=1'>"

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
        page.wait_for_selector(".npuprof-timeline[data-drawn]")
        settle(page)
        return page

    return open_


def _search_field(page: Any) -> Any:
    return page.locator(".npuprof-timeline").get_by_label("Search", exact=True)


def _plot(page: Any) -> dict[str, float]:
    box: dict[str, float] = page.locator(".npuprof-timeline .stick > canvas").last.bounding_box()
    return box


def _window(page: Any) -> tuple[float, float]:
    low, high = page.locator(".npuprof-timeline").get_attribute("data-window").split(",")
    return float(low), float(high)


_BUTTON = ".npuprof-timeline .bar button"
_NARROWER = "high => Number(document.querySelector('.npuprof-timeline').dataset.window.split(',')[1]) < high"
_PIPES = """() => [...document.querySelectorAll('.npuprof-measured .js-plotly-plot')]
    .filter((plot) => plot.checkVisibility())
    .map((plot) => [plot.data.filter((trace) => trace.type === 'bar').map((trace) => Array.from(trace.x)),
                    plot._fullLayout.width])"""


def _pipes(page: Any) -> tuple[list[list[float]], float]:
    """Return the bars of the one kernel that is shown in detail, and how wide they are drawn."""
    page.wait_for_function(f"() => ({_PIPES})().length === 1")
    settle(page)
    ((bars, width),) = page.evaluate(_PIPES)
    return bars, width


@pytest.mark.parametrize(("width", "dark"), [pytest.param(1400, False, marks=pytest.mark.exhaustive), (900, True)])
def test_a_selected_kernel_is_described_in_detail(open_explorer: Open, tmp_path: Path, width: int, dark: bool) -> None:
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
    rows.first.wait_for()
    assert rows.count() == 1  # what the search found is selected in all views
    page.get_by_role("button", name="Show all").click()
    rows.nth(1).click()
    wait_for_text(page.locator(".npuprof-measured .g-gtitle"), rows.nth(1).locator("td").first.inner_text())
    page.locator("tr[data-id][aria-selected=true]").wait_for()
    assert rows.nth(1).get_attribute("aria-selected") == "true"
    assert _pipes(page)[0] == bars
    page.screenshot(path=tmp_path / "chosen.png")
    wide = page.evaluate("() => document.querySelector('.npuprof-explorer').scrollWidth")
    assert wide <= page.evaluate("() => document.querySelector('.npuprof-explorer').clientWidth") + 1


def test_keys_after_the_first_click_are_the_timelines(open_explorer: Open, tmp_path: Path) -> None:
    page = open_explorer(launches=20_000, more=("kept = 1",))
    page.locator(".jp-Cell .jp-InputPrompt").first.click()  # as one leaves it who has just run the cell
    page.wait_for_selector(".jp-Notebook.jp-mod-commandMode")
    page.screenshot(path=tmp_path / "whole.png")
    assert page.locator(".npuprof-loading:visible").count() == 0
    box, before = _plot(page), _window(page)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 130)
    for key in "dddxx":
        page.keyboard.press(key)
    assert len(set(press_advertised_keys(page))) == 30
    page.keyboard.press("0")
    page.keyboard.press("w")
    page.wait_for_function(_NARROWER, arg=before[1])
    settle(page)
    assert page.locator(".jp-Notebook .jp-Cell").count() == 2
    page.screenshot(path=tmp_path / "keys.png")

    _search_field(page).fill("SoftmaxV2")
    _search_field(page).press("Enter")
    page.wait_for_selector(".found:has-text(' of 4,000 matches')")
    page.locator(".npuprof-timeline .selection", has_text="caused by").wait_for()  # told after the matches
    page.locator(".npuprof-timeline").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("b")  # the notebook's again: a cell below
    page.wait_for_function("() => document.querySelectorAll('.jp-Notebook .jp-Cell').length === 3")


def test_its_controls_do_not_wait_for_a_running_cell(open_explorer: Open) -> None:
    page = open_explorer(launches=2_000, more=(_SLEEP,))
    page.locator(".jp-Cell .cm-content").nth(1).click()
    page.keyboard.press("Control+Enter")
    page.locator(".jp-OutputArea-output", has_text="begun").wait_for()
    before = _window(page)
    page.locator(_BUTTON, has_text="Zoom in").click()
    page.wait_for_function(_NARROWER, arg=before[1])
    # A tab that is made now, and what is in it.
    page.get_by_role("tab", name="Operators", exact=True).click()
    grid = page.get_by_role("grid", name="Operators")
    grid.wait_for()
    page.get_by_label("Filter name", exact=True).fill("softmax")
    page.locator(".npuprof-grid-foot .count", has_text="1 group").wait_for()
    assert "*" in page.locator(".jp-Cell").nth(1).locator(".jp-InputPrompt").inner_text()


@pytest.mark.parametrize(
    ("width", "dark"), [pytest.param(1400, True, marks=pytest.mark.exhaustive), (900, False), (900, True)]
)
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
        "Overview": "text=simulated NPU",
        "Flame graph": ".flamebox canvas",
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

    explorer.get_by_role("tab", name="Memory", exact=True).click()
    page.wait_for_selector(".npuprof-clicked[data-npuprof-clicks]")
    _wait_for_a_wide_figure(page)
    peak = page.locator(".npuprof-clicked .scatterlayer .points path").last.bounding_box()
    page.mouse.move(peak["x"] + peak["width"] / 2, peak["y"] + peak["height"] / 2, steps=3)
    page.locator(".npuprof-clicked .hoverlayer", has_text="49.0 MiB at").wait_for()  # a click is where plotly hovers
    page.mouse.down()
    page.mouse.up()
    page.locator(".said[aria-live]", has_text="PTA allocated device 0 49 MiB").wait_for()
    page.screenshot(path=tmp_path / "peak.png")


def test_hostile_names_stay_text(open_explorer: Open) -> None:
    page = open_explorer(
        launches=30, names=(_HOSTILE, "<script>window.pwned=2</script>", "<a href='javascript:1'>x</a>")
    )
    _search_field(page).fill("onerror")
    _search_field(page).press("Enter")
    page.wait_for_selector(".found:has-text('1 of')")
    for title in ("Overview", "Kernels", "Flame graph"):
        page.locator(".npuprof-explorer").get_by_role("tab", name=title, exact=True).click()
        settle(page)
    assert page.evaluate("() => window.pwned") is None
    assert page.query_selector(".npuprof-explorer img[src=x], .npuprof-explorer a[href^=javascript]") is None


def test_a_tab_says_at_once_that_it_is_working(open_explorer: Open, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    page = open_explorer(launches=300, setup=_SLOW_TAB.format(flag=str(flag)))
    page.locator(".npuprof-explorer").get_by_role("tab", name="Slow", exact=True).click()
    page.wait_for_function(
        """() => [...document.querySelectorAll('.npuprof-explorer .widget-tab-contents > .widget-vbox')].some(
            (one) => one.offsetParent && getComputedStyle(one, '::before').content.includes('one moment'))"""
    )
    assert not page.locator(".built").count()
    flag.touch()
    page.locator(".built").wait_for()


def test_view_moves_into_a_tab_and_back(open_explorer: Open, tmp_path: Path) -> None:
    page = open_explorer(launches=500)
    there = page.locator(".jp-MainAreaWidget:not(.jp-NotebookPanel) .npuprof-timeline")
    here = page.locator(".jp-NotebookPanel .npuprof-timeline")
    here.focus()
    page.keyboard.press("w")
    page.keyboard.press("l")
    here.locator(".panel.selection h3").wait_for()
    # Without what only tests have: a user's JupyterLab hands its commands to no page.
    page.evaluate("() => { globalThis.kept_ = jupyterapp; delete globalThis.jupyterapp; }")
    here.get_by_role("button", name="Own tab").click()
    page.evaluate("() => { globalThis.jupyterapp = kept_; }")
    there.wait_for()
    page.wait_for_selector(".jp-MainAreaWidget:not(.jp-NotebookPanel) .npuprof-timeline[data-drawn]")
    seen = [place.get_attribute("data-window") for place in (here, there)]
    assert seen[0] == seen[1]
    chosen = there.locator(".panel.selection h3").text_content()
    assert chosen == here.locator(".panel.selection h3").text_content()
    assert there.get_by_role("button", name="Own tab").is_hidden()
    page.screenshot(path=tmp_path / "tab.png")
    there.focus()
    page.keyboard.press("s")
    page.keyboard.press("Shift+M")
    page.wait_for_function(
        "before => document.querySelector('.jp-NotebookPanel .npuprof-timeline').dataset.window !== before", arg=seen[0]
    )
    moved = there.get_attribute("data-window")
    page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="Output View").locator(
        ".lm-TabBar-tabCloseIcon"
    ).click()
    there.wait_for(state="detached")
    assert here.get_attribute("data-window") == moved
    assert here.locator(".panel.selection").is_visible()
