"""Nesting and lookup: depth by parent, the innermost slice at a time, rows by start or by id."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npuprof.analysis.nesting import Nesting
from npuprof.arrays import Int64, Records, distinct, first_rows
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.tables.notes import Notes

_MAX_ID = 1 << 62
_ROUNDING_NS = 2_000  # of starts and durations, which may be whole microseconds


def call_depth(ids: Int64, parents: Int64) -> tuple[Int64, int]:
    """Return the depth of each call (-1 in or below a cycle), and the number of calls with depth -1.

    `parents` holds the id of the caller, or :data:`~npuprof.sources.columns.builders.ABSENT`; a parent that was not
    recorded counts as none.
    """
    order = np.argsort(ids, kind="stable")
    place = np.searchsorted(ids[order], parents)
    place = np.minimum(place, max(len(ids) - 1, 0))
    is_known = (parents != ABSENT) & (ids[order[place]] == parents) if len(ids) else np.zeros(0, np.bool_)
    up = np.where(is_known, order[place], np.arange(len(ids))) if len(ids) else np.zeros(0, np.intp)
    steps = is_known.astype(np.int64)
    # Doubling: after k rounds `up` is 2**k callers away, so a chain of n calls takes log2(n) rounds, and the loop ends
    # even if there are cycles.
    for _ in range(max(1, len(ids).bit_length() + 1)):
        steps = steps + steps[up]
        up = up[up]
    endless = is_known[up] if len(ids) else is_known
    return np.where(endless, -1, steps), int(endless.sum())


def python_calls(ids: Int64, parents: Int64, notes: Notes, source: str) -> dict[str, Records]:
    """Return the columns `id`, `parent_id` and `depth` of Python calls; a call that is its own parent is a root."""
    parent = np.where(parents == ids, ABSENT, parents)
    unnamed = (ids == ABSENT) | (ids > _MAX_ID)
    if unnamed.any():
        notes.warning(source, "a Python call has no id, or too large an id; numbered here", int(unnamed.sum()))
        ids = np.where(unnamed, int(ids.max(initial=0, where=~unnamed)) + 1 + np.arange(len(ids)), ids)
    depth, cycles = call_depth(ids, parent)
    if cycles:
        notes.warning(source, "a Python call is its own ancestor; its parent is left out", cycles)
        parent[depth < 0] = ABSENT
        depth = np.maximum(depth, 0)
    return {"id": ids, "parent_id": optional(parent), "depth": depth}


def end_calls(lanes: Records, starts: Int64, durations: Int64, ids: Int64, parents: Int64) -> tuple[Int64, Int64, int]:
    """End the calls of a tracer whose return was not recorded, and so were taken to last until the recording ended.

    On a thread a call ends before the next call of its caller begins, and no later than its caller. What begins after
    that end is of the nearest caller that still runs.
    """
    up = first_rows(ids, np.where(parents == ids, ABSENT, parents))
    up = np.where((up >= 0) & (lanes[up] == lanes), up, -1)
    ends = starts + durations
    order = np.lexsort((starts, up))
    before, after = order[:-1], order[1:]
    over = (up[before] == up[after]) & (up[before] >= 0) & (ends[before] > starts[after] + _ROUNDING_NS)
    within = up >= 0
    within[within] = ends[within] <= ends[up[within]] + _ROUNDING_NS
    if not over.any() and (within | (up < 0)).all():
        return durations, parents, 0
    cut = np.zeros(len(starts), np.bool_)
    ends[before[over]] = starts[after[over]]
    cut[before[over]] = True
    above = up.copy()
    depth = call_depth(np.arange(len(up)), np.where(up < 0, ABSENT, up))[0]
    for level in range(1, int(depth.max(initial=0)) + 1):  # callers first
        rows = np.flatnonzero(depth == level)
        gone = rows[cut[above[rows]] & (starts[rows] >= ends[above[rows]])]
        while len(gone):
            above[gone] = above[above[gone]]
            gone = gone[above[gone] >= 0]
            gone = gone[starts[gone] >= ends[above[gone]]]
        rows = rows[above[rows] >= 0]
        late = rows[ends[rows] > ends[above[rows]] + _ROUNDING_NS]
        ends[late] = ends[above[late]]
        cut[late] = True
    moved = above != up
    return ends - starts, np.where(moved, np.append(ids, ABSENT)[above], parents), int(cut.sum())


def innermost(lanes: Records, starts: Int64, ends: Int64, at_lanes: Records, at: Int64) -> npt.NDArray[np.intp]:
    """Return the row of the innermost slice that runs on a lane at each time; -1 for none.

    `lanes`, `starts` and `ends` are the slices, which nest within a lane; `at_lanes` and `at` are the times.
    """
    if not len(starts) or not len(at):
        return np.full(len(at), -1, np.intp)
    moments = distinct(np.concatenate([starts, ends, at]))  # ranks, so that no sum can overflow
    first, last, point = (np.searchsorted(moments, times) for times in (starts, ends, at))
    nesting = Nesting.build(first, last + 1, lanes.astype(np.int64))
    return np.append(nesting.order, -1)[nesting.innermost(point + 1, at_lanes.astype(np.int64))]


def starting_at(lanes: Records, starts: Int64, at_lanes: Records, at: Int64) -> Int64:
    """Return the first row that starts on a lane at each time (`at_lanes`, `at`); -1 for none. Lanes are any codes."""
    moments = np.unique(at)
    place = np.searchsorted(moments, starts)
    matters = place < len(moments)
    matters[matters] = moments[place[matters]] == starts[matters]
    rows = np.flatnonzero(matters)
    if not len(rows):
        return np.full(len(at), -1)
    width = len(moments)
    keys = lanes[rows].astype(np.int64) * width + place[rows]
    row = first_rows(keys, at_lanes.astype(np.int64) * width + np.searchsorted(moments, at))
    return np.where(row >= 0, rows[row], -1)
