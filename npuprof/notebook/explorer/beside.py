"""Two runs at once: their timelines above each other, which pan and zoom together."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from uuid import uuid4

import ipywidgets as widgets

from npuprof.notebook.explorer.timeline import Link, TimelineView
from npuprof.quantities import printable
from npuprof.timeline.state import Timeline

if TYPE_CHECKING:
    from npuprof.notebook.explorer.explorer import Explorer
    from npuprof.profiles import Profile

_LONGEST_NAME = 80


def above_each_other(explorer: Explorer, other: Profile) -> widgets.Widget:
    """Return the timelines of the explorer's run and another one, with a shared window and cursor."""
    runs = (explorer.run, other)
    timelines = (explorer.timeline, Timeline(other.tables, other.info, other.aligned))
    reason = align(*timelines)
    start = min(timeline.whole[0] - timeline.origin for timeline in timelines)
    end = max(timeline.whole[1] - timeline.origin for timeline in timelines)
    link = Link(uuid4().hex, start, end)
    parts: list[widgets.Widget] = [widgets.HTML(f"<span class='faint'>{reason}; drag or zoom either of them.</span>")]
    for letter, run, timeline in zip("ab", runs, timelines, strict=True):
        kernel = explorer.kernel if run is explorer.run else None
        parts += [
            widgets.HTML(f"<b>{letter}: {escape(printable(run.info.name, _LONGEST_NAME))}</b>"),
            TimelineView(timeline, kernel, run.advice, link=link).widget,
        ]
    return widgets.VBox(parts, layout={"width": "100%"})


def align(first: Timeline, second: Timeline) -> str:
    """Align the origins of two timelines, and return a sentence that says how.

    Different ranks that ran at the same time are aligned by their clocks, other runs by the start of their first step,
    or of their first slice if either has no steps.
    """
    ranks = {timeline.info.rank for timeline in (first, second)}
    if (
        None not in ranks
        and len(ranks) == 2
        and max(first.whole[0], second.whole[0]) < min(first.whole[1], second.whole[1])
    ):
        second.origin = first.origin
        return "Both count from the same moment of their clocks"
    steps = [timeline.tables["steps"]["start_ns"] for timeline in (first, second)]
    if all(len(starts) for starts in steps):
        first.origin, second.origin = (int(starts.min()) for starts in steps)
        return "Both count from the beginning of their first step"
    return "Both count from their first slice"
