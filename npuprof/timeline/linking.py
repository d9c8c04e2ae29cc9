"""Timelines above each other: their common span, and how they are aligned."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from npuprof.timeline.state import Timeline


@dataclass(frozen=True)
class Link:
    """Timelines above each other, which pan and zoom together."""

    name: str  # the identifier that they share
    # start, end: the time span of all of them together, in nanoseconds from their common origin.
    start: int
    end: int


def linked(*timelines: Timeline) -> Link:
    """Return a link of aligned timelines."""
    start = min(timeline.whole[0] - timeline.origin for timeline in timelines)
    end = max(timeline.whole[1] - timeline.origin for timeline in timelines)
    return Link(uuid4().hex, start, end)


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
