"""Saved notebooks opened again without their kernel: in JupyterLab, in Notebook 7, and as nbviewer shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import plotly.io as pio
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display
from IPython.utils.capture import capture_output

from npuprof.demo import notebook_path, run_demo
from npuprof.notebook.report import show_run
from npuprof.notebook.widgets import LiveBox
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories, saved_notebooks
from tests.browser.notebook_page import Lab, OpenNotebook

pytestmark = pytest.mark.browser

_NAMES = ("$x$ and $y$", r"\(a\) and \[b\]", "<img src=x onerror='window.pwned=1'>", "$$z$$", "<b>bold</b>")
_POLICY = """<meta http-equiv="Content-Security-Policy" content="connect-src 'none'">"""  # scripts run
_LOOKED_MS = 3_500  # so long front ends look for the models of widgets
_FIGURES = "() => [...document.querySelectorAll('.js-plotly-plot .main-svg .trace')].length"
_ALL_DRAWN = "() => document.querySelectorAll('.js-plotly-plot .cartesianlayer').length >= 1"
_LIVES = ".npuprof-saved .npuprof-timeline[data-drawn]"
_UNPACKED = ".npuprof-saved > style"
_WIDTHS = "() => [...document.querySelectorAll('.npuprof-fold .npuprof-timeline canvas')].map(c => c.clientWidth)"


def _run() -> Profile:
    return Profile(Decoded(factories.profile(300, kernel_names=_NAMES), factories.info(name="$n$ of $m$"), Notes(), {}))


@pytest.fixture(scope="module")
def outputs() -> list[list[Any]]:
    """The outputs of cells that showed a report, a timeline, an explorer and a panel."""
    run = _run()
    return _outputs(
        lambda: show_run(run),
        lambda: _display(run.timeline()),
        lambda: _display(run.explore()),
        lambda: _display(LiveBox([], what="the panel")),
    )


def _outputs(*shows: Callable[[], object]) -> list[list[Any]]:
    """Return the outputs of cells, each of which shows something."""
    InteractiveShell.instance()
    # Plotly chooses when it is imported, which another test may have done outside of IPython.
    chosen = pio.renderers.default
    pio.renderers.default = "plotly_mimetype"
    try:
        return [_shown(show) for show in shows]
    finally:
        pio.renderers.default = chosen
        InteractiveShell.clear_instance()


def _display(value: object) -> None:
    display(value)  # type: ignore[no-untyped-call]


def _shown(show: Callable[[], object]) -> list[Any]:
    from nbformat.v4 import new_output  # takes long to import

    with capture_output() as captured:
        show()
    return [new_output("display_data", data=output.data) for output in captured.outputs]


def _notebook(outputs: list[list[Any]]) -> Any:
    return saved_notebooks.new([f"cell_{number}()" for number in range(len(outputs))], outputs)


@pytest.fixture
def open_saved(context: Any, outputs: list[list[Any]], tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a saved notebook in a page of its own, whose front end gets no kernel; gives the page."""
    pages: list[Any] = []

    def open_(served: Lab, *, width: int = 1400, trusted: bool = False, name: str | None = None) -> Any:
        if name is None:
            name = f"saved_{len(pages)}_{tmp_path.name}.ipynb"
            saved_notebooks.write(_notebook(outputs), served.folder / name)
        if trusted:
            served.trust(name)
        # Tall, so that the front end, which draws only the cells in view, draws them all.
        page = context.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 3600})
        page.route(
            "**/api/sessions*", lambda route: route.abort() if route.request.method == "POST" else route.continue_()
        )
        page.goto(served.notebook_url(name))
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        # With the keyboard: a pointer that rests above a saved picture of a figure would bring the figure in its place.
        page.locator(".jp-Dialog", has_text="Error Starting Kernel").get_by_role("button", name="Ok").press("Enter")
        page.locator(".jp-Dialog", has_text="Select Kernel").get_by_role("button", name="No Kernel").press("Enter")
        return page

    yield open_
    for number, page in enumerate(pages):
        page.screenshot(path=tmp_path / f"end_{number}.png")  # what a failed test saw
        page.close()


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "from_elsewhere"])
@pytest.mark.parametrize("application", ["lab", "notebook7"])
def test_every_report_shows(
    application: str, trusted: bool, request: pytest.FixtureRequest, open_saved: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_saved(request.getfixturevalue(application), trusted=trusted)
    page.wait_for_function(_ALL_DRAWN)
    page.get_by_text("npuprof: the panel needs a running kernel: run this cell again.").wait_for()
    page.get_by_text("npuprof: the explorer of $n$ of $m$ needs a running kernel: run this cell again.").wait_for()
    page.wait_for_timeout(_LOOKED_MS)
    fold = page.locator("summary", has_text="Timeline, flame graph")
    if trusted:
        page.locator(_LIVES).wait_for()  # the explorer's
        assert page.locator(_UNPACKED).count() == 1  # the report's is still folded
        fold.click()
        page.wait_for_function(f"() => document.querySelectorAll({_LIVES!r}).length === 2")
        assert page.locator(_UNPACKED).count() == 2
    else:
        fold.click()
        for picture in page.locator(".jp-OutputArea-output img[src^='data:image/svg']").all():
            assert picture.evaluate("i => i.complete && i.clientWidth > 100 && i.clientHeight > 5")
        assert page.locator(_LIVES).count() == 0
    page.screenshot(path=tmp_path / "reopened.png")
    text = page.text_content(".jp-Notebook")  # folded parts too
    assert "simulated NPU" in text
    for name in _NAMES:
        assert name in text
    assert page.locator(".npuprof-report mjx-container").count() == 0
    assert page.locator(".jp-OutputArea-output img[src=x]").count() == 0
    assert page.locator(".jp-RenderedSVG").count() == 0  # the picture is for viewers that draw no plotly
    seen = page.inner_text(".jp-Notebook")
    assert "Error displaying widget" not in seen
    assert "npuprof-late" not in seen
    assert page.evaluate("() => window.pwned") is None


def test_the_folded_explorer_fits_whenever_it_is_opened(lab: Lab, open_saved: Callable[..., Any]) -> None:
    page = open_saved(lab, trusted=True)
    fold = page.locator("summary", has_text="Timeline, flame graph")

    def width(room: int) -> int:
        """Return the width of the timeline in a window, which is what the fold leaves it."""
        page.set_viewport_size({"width": room, "height": 3600})
        page.wait_for_function(f"() => new Set(({_WIDTHS})().filter(Boolean)).size === 1")
        page.wait_for_timeout(_LOOKED_MS)
        shown = page.evaluate(_WIDTHS)
        assert max(shown) == min(shown)
        overflow = (
            "() => { const e = document.querySelector('.npuprof-fold[open]'); return e.scrollWidth - e.clientWidth; }"
        )
        assert page.evaluate(overflow) <= 1
        return int(shown[0])

    fold.click()
    page.locator(f".npuprof-fold {_LIVES}").wait_for()
    wide = width(1400)
    assert wide > 500
    fold.click()
    page.set_viewport_size({"width": 900, "height": 3600})
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area')")
    fold.click()
    narrow = width(700)
    assert 100 < narrow < wide
    assert width(1400) == wide  # the report is as wide as it can be, without the sidebar too


def test_figures_keep_their_height(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    run = f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[2])!r})\nfrom tests import factories\n"
    run += "from npuprof.sources.base import Decoded\nfrom npuprof.tables.notes import Notes\n"
    run += "from npuprof.profiles.profile import Profile\n"
    run += "run = Profile(Decoded(factories.profile(300), factories.info(), Notes()))\nrun.plot_steps()"
    notebook = open_notebook([run, "run.timeline()", "run.flamegraph()"])
    page = notebook.page
    for number in range(3):
        notebook.run(number).locator(".js-plotly-plot .main-svg").first.wait_for()
    sizes = "() => [...document.querySelectorAll('.js-plotly-plot')].map(e => [e.clientWidth, e.clientHeight])"
    before = page.evaluate(sizes)
    narrower = f"before => ({sizes})().every(([width], at) => width < before[at][0])"
    for widths in ((1000, 1400), (1200, 1400)):
        for width in widths:
            page.set_viewport_size({"width": width, "height": 2600})
            if width < 1400:
                page.wait_for_function(narrower, arg=before)
            else:
                page.wait_for_function(f"before => !({narrower})(before)", arg=before)
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area')")
    page.wait_for_function(f"before => ({sizes})().every(([width], at) => width !== before[at][0])", arg=before)
    page.wait_for_timeout(1_000)
    page.screenshot(path=tmp_path / "resized.png")
    after = page.evaluate(sizes)
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area')")
    assert [height for _, height in after] == [height for _, height in before]
    assert min(height for _, height in after) > 200


def test_figures_behind_saved_pictures_fit_a_narrower_window(
    lab: Lab, open_saved: Callable[..., Any], tmp_path: Path
) -> None:
    name, run = f"pictures_{tmp_path.name}.ipynb", _run()
    shown = _outputs(lambda: _display(run.plot_steps()), lambda: _display(run.flamegraph()))
    saved_notebooks.write(_notebook([[*shown[0], *shown[1]]]), lab.folder / name)
    page = open_saved(lab, trusted=True, name=name)
    page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot .main-svg .trace').length >= 2")
    page.wait_for_timeout(2_000)
    page.locator(".jp-Notebook .jp-Cell").first.click()
    page.keyboard.press("Control+s")
    page.wait_for_function("() => !document.querySelector('.jp-mod-dirty')")
    pictures = [
        len(output.data["image/png"])
        for output in saved_notebooks.read(lab.folder / name).cells[0].outputs
        if "image/png" in output.data
    ]
    print("JupyterLab's pictures, in bytes:", pictures)
    assert len(pictures) == 2
    assert (lab.folder / name).stat().st_size < 1_000_000
    page = open_saved(lab, name=name, width=900)
    page.wait_for_function("() => [...document.querySelectorAll('.plot-img')].filter(i => i.width > 100).length === 2")
    page.screenshot(path=tmp_path / "pictures.png")
    for picture in page.locator(".plot-img").all():  # JupyterLab draws a figure in place of the picture pointed at
        picture.dispatch_event("mouseenter")
    page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot .main-svg .trace').length >= 2")
    page.wait_for_function("() => ![...document.querySelectorAll('.plot-img')].some(i => i.checkVisibility())")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.jp-RenderedPlotly')].every(e => e.scrollWidth - e.clientWidth <= 1)"
    )
    page.screenshot(path=tmp_path / "narrow.png")


def test_a_live_view_hides_its_line(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook(["import npuprof\nnpuprof.panel()"])
    panel = notebook.run(0)
    panel.locator(".npuprof-panel").wait_for()
    line = panel.get_by_text("needs a running kernel")
    line.wait_for(state="hidden")
    notebook.page.wait_for_timeout(_LOOKED_MS)
    notebook.page.screenshot(path=tmp_path / "live.png")
    assert line.count() == 1
    assert not line.is_visible()


def test_view_of_a_restarted_kernel_is_a_picture(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook(["import npuprof\nnpuprof.panel()"], own_kernel=True)
    page, panel = notebook.page, notebook.run(0)
    panel.get_by_role("button", name="Start", exact=True).click()
    page.locator(".npuprof-phase", has_text="Recording").wait_for()
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    line = panel.get_by_text("What is still shown of it is a picture of the past.")
    line.wait_for(state="visible")
    assert "run this cell again" in line.inner_text()
    pale = "() => getComputedStyle(document.querySelector('.npuprof-panel')).opacity === '0.5'"
    page.wait_for_function(f"() => !document.querySelector('.npuprof-panel') || ({pale})()")
    page.screenshot(path=tmp_path / "past.png")


def test_as_nbviewer_shows_it(browser: Any, outputs: list[list[Any]], tmp_path: Path) -> None:
    exporters = pytest.importorskip("nbconvert.exporters")
    page = _open_exported(browser, exporters, _notebook(outputs), tmp_path)
    try:
        _check_exported(page, alive=2, tmp_path=tmp_path)
        text = page.text_content("body")
        for name in _NAMES:
            assert name in text
        assert "npuprof: the panel needs a running kernel: run this cell again." in text
        assert page.evaluate("() => window.pwned") is None
    finally:
        page.close()


@pytest.mark.filterwarnings("ignore:Your element with mimetype")  # a stored figure may have no other form
@pytest.mark.parametrize(
    "run_again", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["stored", "run_again"]
)
def test_the_quickstart_as_nbviewer_shows_it(browser: Any, tmp_path: Path, run_again: bool) -> None:
    exporters = pytest.importorskip("nbconvert.exporters")
    stored = notebook_path()
    if run_again:
        run_demo(tmp_path / "demo")
        stored = tmp_path / "demo" / stored.name
    page = _open_exported(browser, exporters, saved_notebooks.read(stored), tmp_path)
    try:
        _check_exported(page, alive=1, tmp_path=tmp_path)
    finally:
        page.close()


def _open_exported(browser: Any, exporters: Any, notebook: Any, tmp_path: Path) -> Any:
    """Export a notebook as HTML and open that without a network, with nbviewer's policy; gives the page."""
    html, _ = exporters.HTMLExporter().from_notebook_node(notebook)
    html = html.replace("<head>", f"<head>{_POLICY}", 1)
    (tmp_path / "exported.html").write_text(html, encoding="utf-8")
    context = browser.new_context(viewport={"width": 1200, "height": 3600}, offline=True)
    page = context.new_page()
    page.goto((tmp_path / "exported.html").as_uri(), wait_until="domcontentloaded")
    return page


def _check_exported(page: Any, alive: int, tmp_path: Path) -> None:
    """Check that reports and explorers live, at least so many, and that pictures without one are whole."""
    for fold in page.locator("summary", has_text="Timeline, flame graph").all():
        fold.click()
    page.wait_for_function(f"() => document.querySelectorAll({_LIVES!r}).length >= {alive}")
    page.screenshot(path=tmp_path / "exported.png", full_page=True)
    drawn = page.locator("img[src^='data:image/svg+xml']")
    assert "connect-src" in page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    sizes = drawn.evaluate_all(
        "all => all.filter(i => i.checkVisibility()).map(i => [i.complete, i.naturalWidth, i.clientWidth])"
    )
    assert sizes
    assert all(complete and natural and shown for complete, natural, shown in sizes), sizes
    assert page.locator(".jp-RenderedHTMLCommon table").count() >= 2
    assert "simulated NPU" in page.inner_text("body")
    assert page.locator("iframe").count() == 0
    broken = "() => [...document.images].filter(i => !i.naturalWidth).map(i => i.outerHTML.slice(0, 100))"
    assert page.evaluate(broken) == []
