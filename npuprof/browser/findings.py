"""Marks above the slices of a timeline: findings, late slices, the critical path, and the user's notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from npuprof.advice.finding import Finding
from npuprof.arrays import Int64
from npuprof.errors import NpuprofError
from npuprof.timeline.state import Timeline
from npuprof.words.quantities import duration, printable

_MOST_ROWS = 2_000  # of a finding's evidence, the costliest
_MOST_DRAWN = 200
_MOST_LATE = 20  # whose kernels are looked for
_MOST_SEGMENTS = 4_000  # of the critical path
_LONGEST_TEXT = 1_200


def drawn_findings(timeline: Timeline, findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return the findings, in the order and with the numbers of the report, with the slices that are their evidence.

    Times are nanoseconds from the origin of the timeline.

    Returns
    -------
    list[dict[str, Any]]
        ``title``, ``detail``, ``action``, ``cost``, ``gain``, ``where``; ``slices`` with the numbers of the slices, the
        costliest first; ``drawn`` with slice, lane, start and end of the costliest; ``late`` with lane and end of a
        call, lane and start of the kernel that waited for it, and the end of the work before on its stream.
    """
    first = timeline.slices.first
    shown = []
    for finding in findings:
        numbers: Int64 = np.zeros(0, np.int64)
        if finding.table in first:
            rows = finding.rows.index.to_numpy(np.int64)[np.argsort(-finding.costs(), kind="stable")]
            numbers = rows[:_MOST_ROWS] + first[finding.table]
        shown.append(
            {
                "title": printable(finding.title, _LONGEST_TEXT),
                "detail": printable(finding.detail, _LONGEST_TEXT),
                "action": printable(finding.action, _LONGEST_TEXT),
                "cost": duration(finding.cost_ns),
                "gain": finding.gain,
                "where": finding.where,
                "slices": numbers.tolist(),
                "drawn": _drawn(timeline, numbers[:_MOST_DRAWN].tolist()),
                "late": _late(timeline, numbers[:_MOST_LATE].tolist()),
            }
        )
    return shown


def drawn_path(timeline: Timeline, critical_path: Callable[[], pd.DataFrame]) -> list[list[int]]:
    """Return lane, start and end of each segment of the critical path that is drawn; nothing if it is unknown."""
    try:
        path = critical_path()
    except NpuprofError:
        return []
    first, origin = timeline.slices.first, timeline.origin
    known = path[path["row"].notna().to_numpy(bool)].head(_MOST_SEGMENTS)
    segments = []
    for table, row, start, length in zip(
        known["table"].tolist(),
        known["row"].tolist(),
        known["start_ns"].tolist(),
        known["duration_ns"].tolist(),
        strict=True,
    ):
        lane = timeline.lane_of(first[table] + int(row)) if table in first else None
        if lane is not None:
            segments.append([lane, start - origin, start + length - origin])
    return segments


def drawn_notes(timeline: Timeline, annotations: pd.DataFrame) -> list[list[Any]]:
    """Return start and end of each note from the origin of the timeline, and its text; not escaped."""
    origin = timeline.origin
    return [
        [start - origin, start + length - origin, text]
        for start, length, text in annotations[["start_ns", "duration_ns", "text"]].itertuples(index=False)
    ]


def _drawn(timeline: Timeline, numbers: list[int]) -> list[list[int]]:
    places = ([number, *_place(timeline, number)] for number in numbers)
    return [place for place in places if place[1] >= 0]


def _place(timeline: Timeline, number: int) -> tuple[int, int, int]:
    """Return the lane of a slice, -1 if it is not drawn, with its start and end from the origin."""
    lane = timeline.lane_of(number)
    start, end = timeline.slices.span(number)
    return -1 if lane is None else lane, start - timeline.origin, end - timeline.origin


def _late(timeline: Timeline, numbers: list[int]) -> list[list[int]]:
    """Return the first kernel below each call if its stream was idle before; see :func:`drawn_findings`."""
    first = timeline.slices.first["kernels"]
    after = first + len(timeline.tables["kernels"])
    late = []
    for number, kernel in zip(numbers, timeline.relations.first_kernels(numbers), strict=True):
        if first <= number < after or kernel is None:
            continue
        lane, begin, _ = _place(timeline, kernel)
        before = timeline.before(kernel)
        idle_since = begin if before is None else min(timeline.slices.span(before)[1] - timeline.origin, begin)
        call_lane, call_start, call_end = _place(timeline, number)
        if lane >= 0 and call_lane >= 0 and idle_since < begin:
            late.append([call_lane, min(max(call_start, begin), call_end), lane, begin, idle_since])
    return late
