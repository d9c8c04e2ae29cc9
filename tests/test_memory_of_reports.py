"""A report never takes more memory than there is: what does not fit is left out, and the report says how to have it."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path

import ipywidgets as widgets
import numpy as np
import pytest

from npuprof.errors import NpuprofError
from npuprof.exports.text_figures import timeline_text
from npuprof.notebook.explorer.tabs import explorer_of
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.sources.files import memory_limit
from npuprof.timeline.slices import TABLES
from npuprof.timeline.state import Timeline
from npuprof.timeline.svg import timeline_svg
from tests import factories

_HOW = "npuprof.load(path, steps=...), or with start= and end="


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Profile:
    """A run on a machine whose memory is used up."""
    monkeypatch.setattr(memory_limit, "ALWAYS_BYTES", 0)
    monkeypatch.setattr(memory_limit, "free_memory", lambda: 5 << 10)
    return Profile(Decoded(factories.profile(200), factories.info()))


def test_oversized_findings_are_left_out(run: Profile) -> None:
    advice = run.advice()
    assert (advice.findings, advice.fired) == ([], [])
    assert _HOW in " ".join(advice.remarks())
    assert "5.00 KiB are free" in " ".join(advice.remarks())
    assert "no finding" not in " ".join(advice.remarks())
    assert sum(advice.parts().values()) == advice.step_ns > 0
    for report in (str(run), run._repr_html_()):
        assert "Findings and lines of the code are left out" in " ".join(report.split())
        assert "computing" in report


def test_a_timeline_that_does_not_fit_says_so_in_each_form(run: Profile) -> None:
    figure = run.timeline()
    (note,) = figure.layout.annotations
    assert "slices are left out" in note.text
    assert "start=" in note.text
    assert "slices are left out" in timeline_svg(run.tables, run.info)
    assert timeline_text(run.tables).startswith("timeline: slices are left out")


def test_a_flame_graph_that_does_not_fit_says_so(run: Profile) -> None:
    (note,) = run.flamegraph().layout.annotations
    assert "frames are left out" in note.text


def test_window_needs_memory_of_its_slices(run: Profile) -> None:
    start = int(run.kernels["start_ns"].iloc[0])
    figure = run.timeline(start_ns=start, end_ns=start + 10)
    assert not any("left out" in str(note.text) for note in figure.layout.annotations)


def test_page_and_saved_report_list_omissions(run: Profile, tmp_path: Path) -> None:
    page = run.to_html(tmp_path / "page.html").read_text("utf-8")
    assert "slices are left out" in page
    assert _HOW in page
    assert "kernels" in page
    both = run.to_html(tmp_path / "both.html", beside=run).read_text("utf-8")
    assert both.count("slices are left out") > page.count("slices are left out")


def _texts(widget: widgets.Widget) -> Iterator[str]:
    if isinstance(widget, widgets.HTML):
        yield unescape(widget.value)
    for child in getattr(widget, "children", ()):
        yield from _texts(child)


def test_live_explorer_shows_tabs_and_omissions(run: Profile) -> None:
    explorer = explorer_of(run)
    widget = explorer.widget
    assert explorer.timeline.left_out in " ".join(_texts(widget))
    for title in explorer.titles:
        explorer.open(title)
    explorer.light_up("kernels", np.arange(3))
    assert explorer.timeline.matches is None
    assert len(run.selection.kernels) == len(run.kernels)
    with pytest.raises(NpuprofError, match="slices are left out"):
        run.select(lanes=["stream"])


def test_what_is_saved_needs_more_than_the_index(run: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sum(len(run.tables[name]) for name in TABLES)
    monkeypatch.setattr(memory_limit, "free_memory", lambda: 300 * rows)
    assert not Timeline(run.tables, run.info).left_out
    assert Timeline(run.tables, run.info, is_saved=True).left_out


def test_with_enough_memory_nothing_is_left_out(run: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "free_memory", lambda: 1 << 40)
    assert run.advice().findings
    assert not Timeline(run.tables, run.info, is_saved=True).empty
    assert run.advice().left_out == ""
    assert memory_limit.left_out("all is", 10**12) == ""
    assert "about 909 TiB of memory, and 1.00 TiB are free" in memory_limit.left_out("all is", 10**15)
