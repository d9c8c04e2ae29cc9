"""The code of a cell in JupyterLab: in its report, in the explorer, and with its kernels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.notebook_page import NotebookPage, OpenNotebook, settle
from tests.notebook.cells import output

pytestmark = pytest.mark.browser

SETUP = """\
%load_ext npuprof
import time
import npuprof
import numpy as np
from npuprof import simulator
from npuprof.simulator import npu
simulator.reset()
x = npu.ones((64, 64))
def forward(x):
    return np.sin(x) @ x"""
CELL = """\
%%npuprof --collector simulator {output}
losses = []
for batch in range(10):
    time.sleep(0.002)  # the data comes late
    y = forward(x)
    losses.append(float(np.sum(y)))"""
_LINES = """pre => {  // how high each line of the code is, in lines, and whether all of it can be scrolled to
    const room = pre.parentElement;
    const height = pre.clientHeight / parseFloat(getComputedStyle(pre).lineHeight);
    return [height, pre.textContent.trimEnd().split("\\n").length, getComputedStyle(room).overflowX];
}"""
# Where the code begins, and whether the figures that no bar shows are there.
_PLACES = """pre => {
    const text = pre.querySelector(".npuprof-hot"), figures = pre.querySelector(".npuprof-others");
    return [text.getBoundingClientRect().left - pre.getBoundingClientRect().left, figures.offsetWidth > 0];
}"""
_EXPLORE = "npuprof.last().explore()"
_CODE = "npuprof.last().code()"


def _line(place: Any, text: str) -> Any:
    return place.locator("[data-row]", has_text=text)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [pytest.param(1400, False, marks=pytest.mark.exhaustive), (900, True)])
def test_a_line_of_the_cell_chooses_its_kernels(
    open_notebook: OpenNotebook, tmp_path: Path, width: int, dark: bool
) -> None:
    notebook = open_notebook([SETUP, CELL.format(output=output(tmp_path)), _EXPLORE, _CODE], width=width, dark=dark)
    page = notebook.page
    notebook.run(0)
    report = notebook.run(1).locator(".npuprof-report").first
    code = report.locator("pre", has_text="time.sleep(0.002)")
    code.wait_for()
    assert "losses.append(float(np.sum(y)))" in code.inner_text()
    height, count, overflow = code.evaluate(_LINES)
    assert round(height) == count  # no line is broken
    assert overflow == "auto"
    page.screenshot(path=tmp_path / "report.png")

    code = notebook.run(3).locator("pre", has_text="time.sleep(0.002)").first
    code.wait_for()
    begins, has_figures = code.evaluate(_PLACES)
    assert has_figures == (width == 1400)
    assert begins < (320 if width == 900 else 480)

    explorer = notebook.run(2)
    page.get_by_role("tab", name="Code", exact=True).click()
    line = _line(explorer, "losses.append(float(np.sum(y)))")
    line.click()
    explorer.get_by_text(re.compile(r"kernels of In \[\d+\], line 6")).wait_for()
    explorer.get_by_role("grid", name="Kernels").wait_for()
    assert line.get_attribute("aria-pressed") == "true"
    page.screenshot(path=tmp_path / "code.png")
    explorer.get_by_role("button", name="Open the timeline").click()
    page.wait_for_selector(".npuprof-timeline[data-drawn]")
    settle(page)
    page.screenshot(path=tmp_path / "timeline.png")
    back = explorer.get_by_role("button", name=re.compile(r"In \[\d+\], line 6"))
    back.click()
    line.wait_for()
    assert line.get_attribute("aria-pressed") == "true"


# What is where in a report: the bar, the lanes and the axis of the strip, titles of findings, and what sticks out.
_LOOK = """report => {
    const left = (one) => Math.round(one.getBoundingClientRect().left);
    const all = (selector) => [...report.querySelectorAll(selector)];
    const output = report.closest(".jp-OutputArea-output"), [bar, ...lanes] = all("img[width='100%']");
    return {
        bar: [bar.clientWidth / report.clientWidth, bar.clientHeight],
        lanes: lanes.map((one) => [left(one), one.clientWidth]),
        axis: left(all(".npuprof-tick")[0]),
        patches: all(".npuprof-patch").filter((one) => one.clientWidth > 5 && one.clientHeight > 5).length,
        titles: all(".npuprof-title > *").map((one) => left(one) - left(report)),
        bold: Number(getComputedStyle(all(".npuprof-step > *")[0]).fontWeight),
        code: getComputedStyle(all("pre")[0]).whiteSpace,
        cut: output.scrollWidth - output.clientWidth,
    };
}"""


def test_a_report_that_is_not_trusted_is_readable(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook([SETUP, CELL.format(output=output(tmp_path))], width=900, dark=True)
    page = notebook.page
    notebook.run(0)
    notebook.run(1)
    notebook.cell(1).locator("summary", has_text="Timeline, flame graph").wait_for()
    page.evaluate(
        "() => { for (const one of jupyterapp.shell.currentWidget.content.widgets) one.model.trusted = false }"
    )
    page.wait_for_function("() => !document.querySelector('.npuprof-report ~ style, style ~ .npuprof-report')")
    settle(page)
    page.screenshot(path=tmp_path / "untrusted.png")
    report = notebook.cell(1).locator(".npuprof-report").first
    look = report.evaluate(_LOOK)
    text = report.inner_text()
    assert "a step" in text
    assert "For the rest it waits, mostly for line 4" in text
    assert look["bold"] >= 600
    width, height = look["bar"]
    assert width > 0.9
    assert height == 10
    assert look["patches"] >= 2
    assert len(look["lanes"]) == 2  # of the host and the device
    assert look["lanes"][0] == look["lanes"][1]
    assert abs(look["axis"] - look["lanes"][0][0]) <= 1
    assert max(look["titles"]) < 100
    assert look["code"] == "pre"  # no line is broken
    assert look["cut"] <= 1
    lines = report.locator("pre").inner_text().splitlines()
    (begin,) = (line.index("for batch") for line in lines if "for batch" in line)
    inner = [line.index(code) for line in lines for code in ("time.sleep", "y = ", "losses.append") if code in line]
    assert inner == [begin + 4] * 3


_PLACE = """() => {
    const cells = [...document.querySelectorAll('.jp-Notebook .jp-Cell')];
    const at = cells.findIndex(cell => cell.classList.contains('jp-mod-active'));
    const content = cells[at].querySelector('.cm-content'), inner = content.cmTile ?? content.cmView;
    const { state } = (inner.root ?? inner.rootView).view, { from, to } = state.selection.main;
    return [at, state.doc.lineAt(from).number, state.sliceDoc(from, to),
        document.querySelector('.jp-Notebook').classList.contains('jp-mod-editMode'), cells.length];
}"""
_RESTART = "async () => { await jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); }"
_REMOVE = "() => { jupyterapp.shell.currentWidget.context.model.sharedModel.deleteCell(0); }"


def follow_links(notebook: NotebookPage) -> None:
    """Go to cells by the links of a report on a cell, the second one, whose function is in the first."""
    page = notebook.page
    report, folded = (notebook.cell(1).locator(".npuprof-report").nth(at) for at in range(2))
    folded.wait_for()
    report.hover()
    page.locator(".jp-Notebook .jp-Cell").nth(2).click()
    report.locator("[role=link]", has_text=re.compile(r"^In \[\d+\]$")).click()  # its name
    assert page.evaluate(_PLACE)[0] == 1
    report.locator("[role=link]", has_text=re.compile(r"^ *4$")).click()  # in the code
    assert page.evaluate(_PLACE) == [1, 4, "    time.sleep(0.002)  # the data comes late", False, 3]
    page.locator(".jp-Notebook .jp-Cell").nth(2).click()
    folded.hover()
    functions = folded.locator("details", has_text="Functions it calls")
    functions.locator("summary").click()
    other = functions.locator("[role=link]", has_text=re.compile(r"^10$")).element_handle()
    other.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(_PLACE) == [0, 10, "    return np.sin(x) @ x", False, 3]

    number = notebook.cell(0).locator(".jp-InputPrompt").inner_text()
    page.evaluate(_RESTART)
    notebook.run(2)
    while notebook.cell(2).locator(".jp-InputPrompt").inner_text() != number:  # another cell has the number now
        notebook.run(2)
    other.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(_PLACE)[:2] == [0, 10]
    page.evaluate(_REMOVE)
    page.wait_for_function("() => document.querySelectorAll('.jp-Notebook .jp-Cell').length === 2")
    page.locator(".jp-Notebook .jp-Cell").nth(1).click()
    other.click()
    assert page.evaluate(_PLACE)[0] == 0  # where the click was
    assert "no longer the cell" in other.get_attribute("title")


@pytest.mark.slow
def test_a_click_on_a_line_goes_to_its_cell(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook([SETUP, CELL.format(output=output(tmp_path)), "1"], own_kernel=True)
    notebook.run(0)
    notebook.run(1).screenshot(path=tmp_path / "report.png")
    follow_links(notebook)
