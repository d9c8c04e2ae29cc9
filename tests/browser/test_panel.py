"""The panel as a user works with it in JupyterLab."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.browser.notebook_page import (
    NotebookPage,
    OpenNotebook,
    wait_for_text,
    wait_until_described,
    wait_until_enabled,
)

pytestmark = pytest.mark.browser

_OLD_KERNEL = version("ipykernel").startswith("6.")
_PANEL = "import npuprof\nnpuprof.panel()"
_SETUP = "from npuprof.simulator import npu\na = npu.ones((64, 64))\nfor _ in range(20): b = a @ a + a\nfloat(b.sum())"
_LONG = """import time
print("begun", flush=True)
while npuprof.session.active.current():
    b = a @ a + a
    time.sleep(0.1)
print("ended by Stop")"""


@pytest.fixture
def open_cells(open_notebook: OpenNotebook) -> Callable[..., NotebookPage]:
    """Open a notebook of some cells with a kernel of its own, whose runs the panel lists."""
    return lambda *cells, **how: open_notebook(cells, own_kernel=True, **how)


def _phase(notebook: NotebookPage, word: str) -> None:
    notebook.page.locator(".npuprof-phase", has_text=word).wait_for()


def test_start_a_cell_stop_and_the_run_is_listed(open_cells: Callable[..., NotebookPage], tmp_path: Path) -> None:
    notebook = open_cells(_PANEL, _SETUP)
    panel = notebook.run(0)
    _phase(notebook, "Idle")
    panel.get_by_role("button", name="Start", exact=True).click()
    _phase(notebook, "Recording")
    notebook.run(1)
    panel.get_by_role("button", name="Stop", exact=True).click()
    row = panel.get_by_role("grid", name="Runs", exact=True).locator("tbody tr[data-id]", has_text="this kernel")
    row.wait_for()
    panel.get_by_text("simulated NPU", exact=True).wait_for()
    panel.get_by_role("tab", name="Kernels", exact=True).click()
    panel.get_by_role("grid", name="Kernels").wait_for()
    notebook.page.screenshot(path=tmp_path / "panel.png")
    wait_for_text(row, "simulator (simulated)")
    _phase(notebook, "Idle")
    wait_until_enabled(panel.get_by_role("button", name="Start", exact=True))
    wait_until_enabled(panel.get_by_role("button", name="Stop", exact=True), enabled=False)


@pytest.mark.skipif(_OLD_KERNEL, reason="ipykernel 6 has no subshells: see test_panel_old_kernel.py")
@pytest.mark.parametrize("begun_by", ["Start", "next cell"])
def test_stop_acts_while_a_cell_is_running(
    open_cells: Callable[..., NotebookPage], tmp_path: Path, begun_by: str
) -> None:
    notebook = open_cells(_PANEL, _SETUP, _LONG)
    panel = notebook.run(0)
    notebook.run(1)
    panel.get_by_role("button", name=begun_by, exact=True).click()
    _phase(notebook, "Recording" if begun_by == "Start" else "The next cell will be profiled")
    cell = notebook.start(2)
    output = cell.locator(".jp-OutputArea-output")
    output.get_by_text("begun").wait_for()
    details = panel.locator(".npuprof-line").first
    notebook.page.wait_for_function(
        "() => Number((/([0-9,]+) records/.exec(document.querySelector('.npuprof-line')?.textContent) || [0, '0'])[1]"
        ".replaceAll(',', '')) > 0"
    )
    assert "on disk" in details.inner_text()
    options = panel.get_by_role("button", name="Options ▾")
    options.click()
    panel.locator("button.mod-active", has_text="Options").wait_for()
    panel.get_by_label("Collector", exact=True).wait_for()
    assert "*" in cell.locator(".jp-InputPrompt").inner_text()  # no control waits for the cell
    notebook.page.screenshot(path=tmp_path / "recording.png")
    panel.get_by_role("button", name="Stop", exact=True).click()
    output.get_by_text("ended by Stop").wait_for()
    panel.get_by_role("grid", name="Runs", exact=True).locator("tbody tr[data-id]", has_text="this kernel").wait_for()


@pytest.mark.parametrize("width", [pytest.param(1400, marks=pytest.mark.exhaustive), 900])
def test_no_button_moves_while_a_run_records(open_cells: Callable[..., NotebookPage], width: int) -> None:
    notebook = open_cells(_PANEL, _SETUP, width=width)
    panel = notebook.run(0)
    _phase(notebook, "Idle")
    before = _places(panel)
    panel.get_by_role("button", name="Start", exact=True).click()
    _phase(notebook, "Recording")
    seen = [_places(panel)]
    notebook.run(1)
    notebook.page.wait_for_function(
        "() => (document.querySelector('.npuprof-line')?.textContent || '').includes('on disk')"
    )
    seen.append(_places(panel))
    notebook.page.wait_for_timeout(1_500)  # a longer time, more records, larger files
    seen.append(_places(panel))
    assert len(before) > 8
    assert seen == [seen[0]] * 3
    # With ipykernel 6 a line below the first row of buttons then says when Stop acts.
    still = 6 if _OLD_KERNEL else len(before)
    assert seen[0][:still] == before[:still]
    panel.get_by_role("button", name="Stop", exact=True).click()
    panel.get_by_role("grid", name="Runs", exact=True).locator("tbody tr[data-id]", has_text="this kernel").wait_for()


def _places(panel: Any) -> list[tuple[str, float, float]]:
    """Return what stands on each button of the panel, and where it is in the panel."""
    found: list[tuple[str, float, float]] = panel.locator(".npuprof-panel").evaluate(
        """panel => [...panel.querySelectorAll('button')].filter(b => b.checkVisibility()).map(b => [
            b.textContent, ...['left', 'top'].map(
                side => b.getBoundingClientRect()[side] - panel.getBoundingClientRect()[side])])"""
    )
    return found


@pytest.mark.parametrize(("width", "dark"), [pytest.param(1400, False, marks=pytest.mark.exhaustive), (900, True)])
def test_options_give_reasons_and_runs_are_managed(
    open_cells: Callable[..., NotebookPage], tmp_path: Path, width: int, dark: bool
) -> None:
    notebook = open_cells(_PANEL, _SETUP, width=width, dark=dark)
    panel = notebook.run(0)
    panel.get_by_role("button", name="Options ▾").click()
    panel.get_by_label("Collector", exact=True).select_option(label="simulator")
    panel.get_by_role("button", name="options that no front end here has").click()
    modules = panel.get_by_label("modules", exact=True)
    wait_until_enabled(modules, enabled=False)
    wait_until_described(modules, "it knows CANN's operators only")
    panel.get_by_label("memory", exact=True).and_(panel.get_by_title("Sample the device's memory.")).wait_for()
    panel.get_by_label("Level", exact=True).select_option(label="none")
    panel.get_by_text("needs level 1 or 2").first.wait_for()
    wait_until_enabled(panel.get_by_label("Metrics", exact=True), enabled=False)
    panel.get_by_label("marks", exact=True).uncheck()
    panel.locator(".npuprof-problem").wait_for()
    wait_until_enabled(panel.get_by_role("button", name="Start", exact=True), enabled=False)
    notebook.page.screenshot(path=tmp_path / "options.png")
    panel.get_by_label("Level", exact=True).select_option(label="1")
    panel.get_by_label("memory", exact=True).check()
    panel.get_by_label("Name", exact=True).fill("<img src=x onerror=document.title='hacked'>".replace("/", ""))
    panel.get_by_text("--memory").wait_for()
    panel.get_by_role("button", name="next cell").click()
    _phase(notebook, "The next cell will be profiled")
    wait_for_text(notebook.run(1), "simulated NPU")
    runs = panel.get_by_role("grid", name="Runs", exact=True)
    rows = runs.locator("tbody tr[data-id]", has_text="this kernel")
    wait_for_text(rows, "<img src=x")
    rows.focus()
    notebook.page.keyboard.press("Space")
    panel.get_by_role("button", name="Open", exact=True).click()
    panel.get_by_role("tab", name="Overview").wait_for()
    panel.get_by_role("button", name="Delete", exact=True).click()
    panel.get_by_text("for good?").wait_for()
    notebook.page.screenshot(path=tmp_path / "opened.png")
    assert notebook.page.title() != "hacked"
    overflow = "e => e.closest('.jp-OutputArea-output').scrollWidth - e.closest('.jp-OutputArea-output').clientWidth"
    assert panel.locator(".npuprof-panel").evaluate(overflow) <= 1
    panel.get_by_role("button", name="Delete it").click()
    rows.wait_for(state="detached")
    unlabelled = """e => [...e.querySelectorAll('button, input, select')].filter(c => !(
        c.textContent.trim() || c.getAttribute('aria-label') || c.labels?.length || c.title || c.placeholder
        || c.type === 'hidden' || c.offsetParent === null)).map(c => c.outerHTML)"""
    assert panel.locator(".npuprof-panel").evaluate(unlabelled) == []


def test_two_cells_are_compared_in_the_panel_and_by_a_minus(
    open_cells: Callable[..., NotebookPage], tmp_path: Path
) -> None:
    cells = (
        "%load_ext npuprof\nimport npuprof",
        f"%%npuprof --name short\n{_SETUP}",
        "short = npuprof.last()",
        f"%%npuprof --name long\n{_SETUP.replace('20', '60')}",
        "npuprof.last() - short",
        "npuprof.panel()",
    )
    notebook = open_cells(*cells)
    outputs = [notebook.run(number) for number in range(len(cells))]
    wait_for_text(outputs[-2], "against short")
    wait_for_text(outputs[-2], "a step was")
    panel = outputs[-1]
    rows = panel.get_by_role("grid", name="Runs", exact=True).locator("tbody tr[data-id]", has_text="this kernel")
    rows.nth(1).wait_for()
    rows.filter(has_text="short").click()
    rows.filter(has_text="long").click(modifiers=["Control"])
    panel.get_by_role("button", name="Compare", exact=True).click()
    panel.locator(".js-plotly-plot").nth(1).wait_for()
    wait_for_text(panel, "against short")
    wait_for_text(panel, "a step was")
    notebook.page.screenshot(path=tmp_path / "compared.png")


def test_the_path_to_load_is_completed(open_cells: Callable[..., NotebookPage]) -> None:
    notebook = open_cells(_PANEL, "%%npuprof --name kept\n" + _SETUP)
    notebook.run(0)
    notebook.run(1)
    panel = notebook.cell(0)
    path = panel.get_by_label("Load", exact=True)
    path.fill("npuprof-recordings/kept_")
    completed = panel.locator("datalist option[value*='kept_']").first
    completed.wait_for(state="attached")
    path.fill(completed.get_attribute("value"))
    panel.get_by_role("button", name="Load", exact=True).click()
    panel.get_by_role("tab", name="Overview").wait_for()
    wait_for_text(panel, "kept")
