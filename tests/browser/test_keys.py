"""Keys that are pressed in what npuprof draws do not reach the notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.key_presses import cells, listen_to_commands, press_all
from tests.browser.notebook_page import NotebookPage, OpenNotebook, settle

pytestmark = pytest.mark.browser

_ROOT = str(Path(__file__).parents[2])
_RUN = f"""\
import sys
sys.path.insert(0, {_ROOT!r})
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.notebook.report import show_run
from tests import factories
notes = Notes()
notes.info("a file", "what it lacks")
run = Profile(Decoded(tables=factories.profile(300), info=factories.info(), notes=notes, statistics={{}}))
"""
_RERUN = """\
from pathlib import Path
from npuprof.session.reruns import Rerun
show_run(run, lambda: Rerun(run - run, Path("before"), []))"""
_PANEL = "import npuprof\nnpuprof.panel()"
_OUTPUT = ".jp-Cell >> nth=0"


def _tabs(notebook: NotebookPage) -> list[str]:
    """Go through the tabs of the first cell's view, pressing all keys in each; gives what could have the focus."""
    page = notebook.page
    tabs = notebook.cell(0).locator(".npuprof-explorer > .widget-tab > .lm-TabBar .lm-TabBar-tab")
    found: list[str] = []
    for number in range(tabs.count()):
        tabs.nth(number).click()
        settle(page)
        found += press_all(page, ".jp-Cell:first-child .jp-Cell-outputArea")
    return found


def test_no_key_pressed_in_the_panel_reaches_the_notebook(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook([_PANEL, "kept = 1"], own_kernel=True)
    panel, page = notebook.run(0), notebook.page
    panel.get_by_role("button", name="Options ▾").click()
    panel.get_by_label("Collector", exact=True).wait_for()
    listen_to_commands(page)

    found = press_all(page, ".jp-Cell .jp-Cell-outputArea", alike=1)

    page.screenshot(path=tmp_path / "panel.png")
    assert len(found) > 20
    assert any("<select" in element for element in found)
    # Escape gives the keys back: they act again.
    panel.get_by_role("button", name="Options ▾").focus()
    before = cells(page)
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    page.wait_for_function("count => document.querySelectorAll('.jp-Notebook .jp-Cell').length > count", arg=2)
    assert len(cells(page)) == len(before) + 1


def test_keys_in_explorer_tabs_stay_there(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook([_RUN + "run.explore()", "kept = 1"])
    notebook.run(0).locator(".npuprof-timeline[data-drawn]").wait_for()
    settle(notebook.page)
    listen_to_commands(notebook.page)

    found = _tabs(notebook)

    notebook.page.screenshot(path=tmp_path / "explorer.png")
    for part in ("npuprof-timeline", "npuprof-flame-canvas", "modebar-btn", "<summary", "data-id", "lm-TabBar-tab"):
        assert any(part in element for element in found), part


@pytest.mark.parametrize("trusted", [True, False])
def test_no_key_pressed_in_a_report_reaches_the_notebook(
    open_notebook: OpenNotebook, tmp_path: Path, trusted: bool
) -> None:
    notebook = open_notebook([_RUN + _RERUN, "run.plot_steps()", "run", "kept = 1"], height=4000)
    page = notebook.page
    for number in range(3):
        notebook.run(number)
    if not trusted:  # the same outputs, drawn again as in a notebook of somebody else
        page.evaluate(
            "() => { for (const one of jupyterapp.shell.currentWidget.content.widgets) one.model.trusted = false }"
        )
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    if trusted:
        page.locator("summary", has_text="Timeline, flame graph").first.click()
        page.locator(".npuprof-saved .npuprof-timeline[data-drawn]").wait_for()
    settle(page)
    assert (page.locator(".jp-OutputArea-output style").count() > 0) == trusted  # what is not trusted is sanitised
    listen_to_commands(page)

    found = press_all(page, ".jp-Cell .jp-Cell-outputArea")

    assert any("<summary" in element for element in found)  # what is folded takes the focus, trusted or not
    assert any("npuprof-timeline" in element for element in found) == trusted
    assert trusted or all("modebar-btn" in element or "<summary" in element for element in found)
    for place in (".npuprof-report table td", ".js-plotly-plot .nsewdrag", ".npuprof-report pre"):
        before = cells(page)
        page.locator(place).first.click()
        for key in "ddxb":
            page.keyboard.press(key)
        assert cells(page) == before, place
    page.screenshot(path=tmp_path / "report.png")


def test_panel_works_by_keyboard(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook([_PANEL, "kept = 1"], own_kernel=True)
    panel, page = notebook.run(0), notebook.page
    options = panel.get_by_role("button", name="Options ▾")
    options.focus()
    page.keyboard.press("Enter")
    panel.get_by_label("Collector", exact=True).wait_for()
    page.locator("button[aria-expanded=true]", has_text="Options").wait_for()
    start = panel.get_by_role("button", name="Start", exact=True)
    start.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement?.innerText === 'Stop'")
    page.keyboard.press("Enter")
    row = panel.get_by_role("grid", name="Runs", exact=True).locator("tbody tr[data-id]", has_text="this kernel")
    row.focus()
    page.keyboard.press("Space")
    panel.get_by_role("button", name="Rename").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement?.placeholder === 'new name'")
    page.keyboard.type("mxd")
    page.keyboard.press("Enter")
    panel.locator("tbody tr[data-id]", has_text="mxd").wait_for()
    panel.get_by_label("Load", exact=True).focus()
    page.keyboard.type("/nowhere")
    page.keyboard.press("Enter")
    panel.locator(".npuprof-line", has_text="not opened: /nowhere").wait_for()


def test_keys_in_tables_stay_there(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    table = "from npuprof.browser.tables import kind_of\nfrom npuprof.notebook.explorer.table import TableView\n"
    notebook = open_notebook(
        [
            _RUN + "display(run - run)\n(run - run).plot_waterfall()",
            table + "TableView(run, kind_of('kernels')).widget",
            "run.explore(beside=run)",
            "kept = 1",
        ],
        height=4000,
    )
    page = notebook.page
    for number in range(3):
        notebook.run(number)
    settle(page)
    listen_to_commands(page)

    found = press_all(page, ".jp-Cell .jp-Cell-outputArea")

    page.screenshot(path=tmp_path / "compared.png")
    for part in ("npuprof-timeline", "modebar-btn", "data-id"):
        assert any(part in element for element in found), part
