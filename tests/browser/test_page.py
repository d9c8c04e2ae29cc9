"""The page of its own that a run is written as, in a browser without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
from tests import factories

pytestmark = pytest.mark.browser

_HOSTILE = "<img src=x onerror='window.pwned=1'>"
_NAMES = (_HOSTILE, "</script><script>window.pwned=2</script>", "$x$", "<a href='javascript:window.pwned=3'>x</a>")
_DRAWN = "() => document.querySelectorAll('.js-plotly-plot .main-svg .trace, .js-plotly-plot .main-svg .slice').length"
_WHITE, _BLACK = "rgb(255, 255, 255)", "rgb(17, 17, 17)"

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run whose every name is hostile."""
    notes = Notes()
    notes.warning(_HOSTILE, _HOSTILE)
    about = factories.info(name=f"{_HOSTILE}</title><script>window.pwned=4</script>", chip=_HOSTILE)
    run = Profile(Decoded(factories.profile(30, kernel_names=_NAMES), about, notes))
    return run.to_html(tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture
def open_page(browser: Any, page_path: Path) -> Iterator[Open]:
    """Open the page without a network; gives the page, and the addresses that it asked for."""
    contexts: list[Any] = []

    def open_(*, width: int = 1400, **how: Any) -> tuple[Any, list[str]]:
        contexts.append(browser.new_context(offline=True, viewport={"width": width, "height": 1600}, **how))
        asked: list[str] = []
        contexts[-1].on("request", lambda request: asked.append(request.url))
        page = contexts[-1].new_page()
        page.goto(page_path.as_uri())
        return page, asked

    yield open_
    for context in contexts:
        context.close()


_HOSTILE_BAR = """() => {
    const figure = document.getElementById('figure-0'), box = figure.getBoundingClientRect();
    const {xaxis, yaxis} = figure._fullLayout;
    for (const trace of figure._fullData) {
        const bar = trace.hovertext.findIndex(text => text.startsWith('<b>&lt;img'));
        if (bar >= 0) return [
            box.x + xaxis._offset + xaxis.l2p(trace.base[bar] + trace.x[bar] / 2),
            box.y + yaxis._offset + yaxis.l2p(trace.y[bar])];
    }
}"""


def _hovered(page: Any) -> str:
    """Move to a bar with a hostile name; gives what is told of it."""
    across, down = page.evaluate(_HOSTILE_BAR)
    page.mouse.move(across - 1, down)
    page.mouse.move(across, down)
    told = page.locator("#figure-0 .hoverlayer .hovertext")
    told.wait_for()
    return str(told.text_content())


@pytest.mark.parametrize(("width", "theme"), [(1400, "light"), (900, "dark")])
def test_it_is_whole_by_itself_and_follows_the_theme(open_page: Open, tmp_path: Path, width: int, theme: str) -> None:
    page, asked = open_page(width=width, color_scheme=theme)
    page.wait_for_function(_DRAWN)
    told = _hovered(page)
    page.screenshot(path=tmp_path / f"page_{theme}.png", full_page=True)
    assert _HOSTILE in told
    assert [address for address in asked if not address.startswith(("file:", "data:", "blob:"))] == []
    assert len([address for address in asked if address.startswith("file:")]) == 1
    assert page.evaluate("() => window.pwned") is None
    assert page.evaluate("() => document.querySelectorAll('img, iframe, a[href^=javascript]').length") == 0
    assert page.title().startswith(f"npuprof · {_HOSTILE}")
    assert _HOSTILE in page.inner_text("main")
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert background == (_WHITE if theme == "light" else _BLACK)
    assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def test_zooming_needs_nothing_from_elsewhere(open_page: Open) -> None:
    page, asked = open_page()
    page.wait_for_function(_DRAWN)
    before = page.evaluate("() => document.getElementById('figure-0').layout.xaxis.range")
    box = page.locator("#figure-0 .nsewdrag").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.3 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], middle, steps=4)
    page.mouse.up()
    page.wait_for_function(
        "before => document.getElementById('figure-0').layout.xaxis.range[1] < before[1] / 2", arg=before
    )
    assert len(asked) == 1


def test_without_scripts_it_shows_the_picture(open_page: Open, tmp_path: Path) -> None:
    page, _ = open_page(java_script_enabled=False)
    page.screenshot(path=tmp_path / "unscripted.png", full_page=True)
    picture = page.locator("noscript svg[aria-label=Timeline]")
    assert picture.is_visible()
    assert picture.bounding_box()["width"] > 800
    assert "need JavaScript" in page.inner_text("main")
    assert _HOSTILE in page.inner_text("main")
