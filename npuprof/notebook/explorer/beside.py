"""Two runs at once: their timelines above each other, which pan and zoom together."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import ipywidgets as widgets

from npuprof.notebook.explorer.timeline import TimelineView
from npuprof.timeline.linking import align, linked
from npuprof.timeline.state import Timeline
from npuprof.words.quantities import printable

if TYPE_CHECKING:
    from npuprof.notebook.explorer.explorer import Explorer
    from npuprof.profiles.profile import Profile

_LONGEST_NAME = 80


def above_each_other(explorer: Explorer, other: Profile) -> widgets.Widget:
    """Return the timelines of the explorer's run and another one, with a shared window and cursor."""
    runs = (explorer.run, other)
    timelines = (explorer.timeline, Timeline(other.tables, other.info, other.aligned))
    if problem := next((timeline.left_out for timeline in timelines if timeline.left_out), ""):
        return widgets.HTML(escape(problem))
    reason, link = align(*timelines), linked(*timelines)
    parts: list[widgets.Widget] = [widgets.HTML(f"<span class='faint'>{reason}; drag or zoom either of them.</span>")]
    for letter, run, timeline in zip("ab", runs, timelines, strict=True):
        kernel = explorer.kernel if run is explorer.run else None
        parts += [
            widgets.HTML(f"<b>{letter}: {escape(printable(run.info.name, _LONGEST_NAME))}</b>"),
            TimelineView(timeline, kernel, run.advice, link=link).widget,
        ]
    return widgets.VBox(parts, layout={"width": "100%"})
