"""A finding in JupyterLab: its call, as the report writes it, opens the explorer at the evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.browser.notebook_page import OpenNotebook, settle

pytestmark = pytest.mark.browser

_KERNELS = 300
_SOURCE = f"""\
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
run = Profile(Decoded(factories.profile({_KERNELS}), factories.info(), Notes()))
run"""
_WINDOW = "document.querySelector('.npuprof-timeline[data-drawn]')?.dataset.window"


def test_the_call_below_a_finding_shows_its_costliest_row(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    run = Profile(Decoded(factories.profile(_KERNELS), factories.info(), Notes()))
    finding = run.advice()["layout_and_casts"]
    number = run.advice().fired.index(finding) + 1
    notebook = open_notebook([_SOURCE, f"run.advice()[{number}].show()"], width=1400, height=1500)
    page = notebook.page
    report = notebook.run(0)
    why = report.locator("details", has_text=f"Evidence: {finding.where}")
    why.locator("summary").click()
    call = why.locator("code", has_text=".show()")
    assert f"run.{call.inner_text()}" == notebook.cell(1).locator(".cm-line").inner_text()

    shown = notebook.run(1)
    page.wait_for_function(f"() => {_WINDOW}")
    settle(page)
    row = int(finding.rows.index[int(finding.costs().argmax())])
    shown.locator(".selection", has_text=f"kernels, row {row}").wait_for()
    low, high = map(float, page.evaluate(f"() => {_WINDOW}").split(","))
    kernel = run.kernels.iloc[row]
    start = kernel["start_ns"] - int(run.steps["start_ns"].min())
    assert low < start < start + kernel["duration_ns"] < high
    assert high - low < run.steps["duration_ns"].max()
    page.screenshot(path=tmp_path / "finding.png")
