"""Nesting: a call's place in the chain of its parents, and the innermost slice around a moment."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64, Records
from npuprof.notes import Notes
from npuprof.sources.columns.nullable import ABSENT, optional

_MAX_ID = 1 << 62
_MAX_LEVELS = 256  # deeper nesting than this is not searched


def call_depth(ids: Int64, parents: Int64) -> tuple[Int64, int]:
    """Return how many calls are around each, by the chain of parents.

    Parameters
    ----------
    ids, parents
        The number of each call and of the call around it; :data:`~npuprof.sources.columns.nullable.ABSENT` where
        there is none. A parent that was not recorded counts as none.

    Returns
    -------
    depth
        0 for a call without a parent; -1 for one that is, or lies below, its own ancestor.
    cycles
        How many calls have depth -1.
    """
    order = np.argsort(ids, kind="stable")
    place = np.searchsorted(ids[order], parents)
    place = np.minimum(place, max(len(ids) - 1, 0))
    known = (parents != ABSENT) & (ids[order[place]] == parents) if len(ids) else np.zeros(0, np.bool_)
    up = np.where(known, order[place], np.arange(len(ids))) if len(ids) else np.zeros(0, np.intp)
    steps = known.astype(np.int64)
    # Doubling: after k rounds `up` is 2**k callers away, so a chain of n calls takes log2(n) rounds, and no
    # cycle can keep it running.
    for _ in range(max(1, len(ids).bit_length() + 1)):
        steps = steps + steps[up]
        up = up[up]
    endless = known[up] if len(ids) else known
    return np.where(endless, -1, steps), int(endless.sum())


def python_calls(ids: Int64, parents: Int64, notes: Notes, source: str) -> dict[str, Records]:
    """Make the columns `id`, `parent_id` and `depth` of Python calls; what has to be mended is noted.

    Parameters
    ----------
    ids, parents
        As of :func:`call_depth`; a call that is its own parent is a root.
    notes, source
        What was mended in which file.
    """
    own, parent = ids, np.where(parents == ids, ABSENT, parents)
    unnamed = (own == ABSENT) | (own > _MAX_ID)
    if unnamed.any():
        notes.warning(source, "a Python call has no id, or one that is too large; numbered here", int(unnamed.sum()))
        own = np.where(unnamed, int(own.max(initial=0, where=~unnamed)) + 1 + np.arange(len(own)), own)
    depth, cycles = call_depth(own, parent)
    if cycles:
        notes.warning(source, "a Python call is its own ancestor; its parent is left out", cycles)
        parent[depth < 0] = ABSENT
        depth = np.maximum(depth, 0)
    return {"id": own, "parent_id": optional(parent), "depth": depth}


def innermost(lanes: Records, starts: Int64, ends: Int64, at_lanes: Records, at: Int64) -> npt.NDArray[np.intp]:
    """Find the innermost slice that is running on a lane at a moment.

    Parameters
    ----------
    lanes, starts, ends
        The slices; those of one lane nest.
    at_lanes, at
        The moments.

    Returns
    -------
    The slice's row for each moment; -1 where none is running.
    """
    found = np.full(len(at), -1, np.intp)
    if not len(starts) or not len(at):
        return found
    # One axis for all lanes: times by their rank, so that no product of times can overflow.
    moments = np.sort(np.concatenate([starts, ends, at]))
    width = len(moments)
    offset = lanes.astype(np.int64) * width
    first, last = offset + np.searchsorted(moments, starts), offset + np.searchsorted(moments, ends)
    point = at_lanes.astype(np.int64) * width + np.searchsorted(moments, at)
    rows = np.lexsort((-last, first))
    for _ in range(_MAX_LEVELS):  # a level a round: slices that no slice left in `rows` is around
        if not len(rows):
            break
        reach = np.maximum.accumulate(last[rows])
        outer = np.ones(len(rows), np.bool_)
        outer[1:] = last[rows][1:] > reach[:-1]
        level = rows[outer]
        before = np.searchsorted(first[level], point, side="right") - 1
        inside = (before >= 0) & (point <= last[level][before])
        found[inside] = level[before[inside]]
        rows = rows[~outer]
    return found


def starting_at(lanes: Records, starts: Int64, at_lanes: Records, at: Int64) -> Int64:
    """Find the first row that starts on a lane at a moment.

    Parameters
    ----------
    lanes, starts
        The rows: lane codes (or any other code that must agree) and times.
    at_lanes, at
        What to look for.

    Returns
    -------
    The row for each moment; -1 where none starts.
    """
    moments = np.unique(at)
    place = np.searchsorted(moments, starts)
    matters = place < len(moments)
    matters[matters] = moments[place[matters]] == starts[matters]
    rows = np.flatnonzero(matters)
    if not len(rows):
        return np.full(len(at), -1)
    width = len(moments)
    keys = lanes[rows].astype(np.int64) * width + place[rows]
    order = np.argsort(keys, kind="stable")
    wanted = at_lanes.astype(np.int64) * width + np.searchsorted(moments, at)
    position = np.minimum(np.searchsorted(keys[order], wanted), len(rows) - 1)
    return np.where(keys[order][position] == wanted, rows[order][position], -1)
