"""A report never takes more memory than there is: what does not fit is left out, and the report says how to have it."""

from __future__ import annotations

import pytest

from npuprof.exports.text_figures import timeline_text
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
from npuprof.sources.files import memory_limit
from npuprof.timeline.svg import timeline_svg
from tests import factories

_HOW = "npuprof.load(path, steps=...), or with start= and end="


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Profile:
    """A run on a machine whose memory is used up."""
    monkeypatch.setattr(memory_limit, "ALWAYS_BYTES", 0)
    monkeypatch.setattr(memory_limit, "free_memory", lambda: 5 << 10)
    return Profile(Decoded(factories.profile(200), factories.info()))


def test_findings_that_do_not_fit_are_left_out_of_the_report_which_has_the_rest(run: Profile) -> None:
    advice = run.advice()
    assert (advice.findings, advice.fired) == ([], [])
    assert _HOW in advice.rest()
    assert "5.00 KiB are free" in advice.rest()
    assert "no finding" not in advice.rest()
    assert sum(advice.parts().values()) == advice.step_ns > 0
    for report in (str(run), run._repr_html_()):
        assert "findings and lines of the code are left out" in " ".join(report.split())
        assert "kernels" in report


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


def test_a_window_of_the_timeline_needs_the_memory_of_its_slices_alone(run: Profile) -> None:
    start = int(run.kernels["start_ns"].iloc[0])
    figure = run.timeline(start_ns=start, end_ns=start + 10)
    assert not any("left out" in str(note.text) for note in figure.layout.annotations)


def test_with_enough_memory_nothing_is_left_out(run: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "free_memory", lambda: 1 << 40)
    assert run.advice().findings
    assert "left out" not in run.advice().rest()
    assert memory_limit.left_out("all is", 10**12) == ""
    assert "about 909 TiB of memory, and 1.00 TiB are free" in memory_limit.left_out("all is", 10**15)
