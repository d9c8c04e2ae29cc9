from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from npuprof.notebook.explorer.canvas import CanvasWidget
from npuprof.notebook.explorer.tabs import explorer_of
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.linking import align
from npuprof.timeline.state import Timeline
from tests import factories


def _run(launches: int, later_ns: int = 0, **info: Any) -> Profile:
    tables = {
        name: frame.assign(
            **{time: frame[time] + later_ns for time in ("start_ns", "time_ns", "device_start_ns") if time in frame}
        )
        for name, frame in factories.profile(launches).items()
    }
    return Profile(Decoded(tables=tables, info=dataclasses.replace(factories.info(), **info), notes=Notes()))


def _timelines(*runs: Profile) -> tuple[Timeline, ...]:
    return tuple(Timeline(run.tables, run.info) for run in runs)


def test_two_runs_count_from_their_first_step() -> None:
    first, second = _timelines(_run(30, name="before"), _run(40, later_ns=3_600_000_000_000, name="after"))

    assert "first step" in align(first, second)
    assert [timeline.origin for timeline in (first, second)] == [
        timeline.tables["steps"]["start_ns"].min() for timeline in (first, second)
    ]


def test_ranks_that_ran_together_keep_their_clocks() -> None:
    first, second = _timelines(_run(30, rank=0), _run(30, later_ns=7_000, rank=1))

    assert "clocks" in align(first, second)
    assert second.origin == first.origin == first.whole[0]
    assert second.whole[0] - second.origin == 7_000


@pytest.mark.slow
def test_a_run_beside_another_has_both_timelines_and_the_difference() -> None:
    explorer = explorer_of(_run(30, name="before"), beside=_run(60, name="<b>after</b>"))
    assert explorer.titles[:3] == ["Overview", "Timeline", "Difference"]

    for title in ("Timeline", "Difference"):
        explorer.open(title)

    every = _all(explorer.widget)
    links = [one.setup["link"] for one in every if isinstance(one, CanvasWidget)]
    assert len(links) == 2
    assert links[0] == links[1]
    assert links[0]["end"] == explorer.timeline.whole[1] - explorer.timeline.origin + 30 * 40_000
    texts = "\n".join(str(one.value) for one in every if one.__class__.__name__ == "HTML")
    assert "could not be made" not in texts
    assert "b: &lt;b&gt;after" in texts
    assert "ms" in texts
    assert "Difference" not in explorer_of(_run(30)).titles


def _all(widget: Any) -> list[Any]:
    """A widget and all within it."""
    return [widget, *(one for child in getattr(widget, "children", ()) for one in _all(child))]
