"""Unions, differences and intersections of intervals, and cutting intervals at windows such as steps."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import numpy as np

from npuprof.arrays import Int64

Spans: TypeAlias = tuple[Int64, Int64]
"""Starts and ends of intervals, ``int64`` nanoseconds."""

_FEW = 64  # windows, below which slices of the intervals are cheaper than a row at a time


def union(starts: Int64, ends: Int64) -> Spans:
    """Merge intervals that overlap or touch; the result is sorted and disjoint. Empty intervals vanish."""
    is_kept = ends > starts
    starts, ends = starts[is_kept], ends[is_kept]
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return starts[first], reach[last]


def executed_spans(executed: Collection[tuple[str, int, int]]) -> Spans:
    """Return when cells were executed, of their names, starts and ends."""
    starts, ends = np.array([span for _, *span in executed], np.int64).reshape(-1, 2).T
    return union(starts, ends)


def subtract(whole: Spans, part: Spans) -> Spans:
    """Return the parts of `whole` not covered by `part`; both must be sorted and disjoint, as from :func:`union`."""
    if not len(whole[0]) or not len(part[0]):
        return whole
    low, high = min(whole[0][0], part[0][0]), max(whole[1][-1], part[1][-1])
    return intersection(whole, (np.append(low, part[1]), np.append(part[0], high)))


def intersection(first: Spans, second: Spans) -> Spans:
    """Return the time covered by both; both must be sorted and disjoint."""
    fewer, more = sorted((first, second), key=lambda spans: len(spans[0]))
    starts, ends, _ = pieces(more, fewer)  # one search per window
    return starts, ends


def covering(starts: Int64, durations: Int64) -> Spans:
    """Merge intervals given by a table's ``start_ns`` and ``duration_ns``."""
    return union(starts, starts + durations)


def pieces(spans: Spans, windows: Spans) -> tuple[Int64, Int64, Int64]:
    """Cut intervals at the borders of windows."""
    first = np.searchsorted(spans[1], windows[0], side="right")
    counts = np.maximum(np.searchsorted(spans[0], windows[1], side="left") - first, 0)
    window = np.repeat(np.arange(len(counts)), counts)
    if len(counts) <= _FEW:
        return _slice(spans, windows, first, counts, window)
    rows = np.arange(len(window)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    starts, ends = np.maximum(spans[0][rows], windows[0][window]), np.minimum(spans[1][rows], windows[1][window])
    return _with_length(starts, ends, window)


def _slice(spans: Spans, windows: Spans, first: Int64, counts: Int64, window: Int64) -> tuple[Int64, Int64, Int64]:
    """Return the pieces of few windows: slices of the intervals, of which the first and the last are cut."""
    of_window = [slice(begin, begin + count) for begin, count in zip(first.tolist(), counts.tolist(), strict=True)]
    starts, ends = (np.concatenate([side[:0], *(side[rows] for rows in of_window)]) for side in spans)
    selected_rows = np.flatnonzero(counts)
    stop = np.cumsum(counts)[selected_rows]
    begin, last = stop - counts[selected_rows], stop - 1
    starts[begin] = np.maximum(starts[begin], windows[0][selected_rows])
    ends[last] = np.minimum(ends[last], windows[1][selected_rows])
    return _with_length(starts, ends, window)


def _with_length(starts: Int64, ends: Int64, window: Int64) -> tuple[Int64, Int64, Int64]:
    is_kept = ends > starts  # an empty window contains nothing
    return (starts, ends, window) if bool(is_kept.all()) else (starts[is_kept], ends[is_kept], window[is_kept])


def within(spans: Spans, starts: Int64, ends: Int64) -> Int64:
    """Return the time of disjoint, sorted intervals within each window; windows may overlap."""
    return _before(spans, ends) - _before(spans, starts)


def _before(spans: Spans, moments: Int64) -> Int64:
    """Return the time of disjoint, sorted intervals before each moment."""
    begins, ends = spans
    if not len(begins):
        return np.zeros(len(moments), np.int64)
    sums = np.concatenate([[0], np.cumsum(ends - begins)])
    place = np.searchsorted(begins, moments, side="right")
    last = np.maximum(place - 1, 0)
    part = np.clip(moments, begins[last], ends[last]) - begins[last]
    return np.where(place > 0, sums[last] + part, 0)


def total(spans: Spans) -> int:
    """Sum the lengths of intervals."""
    return int((spans[1] - spans[0]).sum())


def breakdown(computing: Spans, communication: Spans, others: Spans | None = None) -> dict[str, Spans]:
    """Split device time, from the first interval to the last, by what the device did.

    Returns
    -------
    Disjoint intervals by kind: ``computing``, ``communication``, ``communication_not_overlapped`` (outside
    computing) and ``free``. Computing, communication not overlapped and free add up to the whole span.
    Source: raw/FORMAT.md section 9 (overlap analysis).
    """
    compute, communicate = union(*computing), union(*communication)
    busy = union(np.concatenate((compute[0], communicate[0])), np.concatenate((compute[1], communicate[1])))
    whole = busy if others is None else union(*(np.concatenate(edges) for edges in zip(busy, others, strict=True)))
    span = (whole[0][:1], whole[1][-1:])
    return {
        "computing": compute,
        "communication": communicate,
        "communication_not_overlapped": subtract(communicate, compute),
        "free": subtract(span, busy),
    }
