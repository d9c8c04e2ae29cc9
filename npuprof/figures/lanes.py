"""Rows of a track such that no two slices of one row overlap: nested calls by depth, others where there is room."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]

LEFT_OVER = -1
"""The lane of a slice for which there was no room in the lanes allowed."""


def assign(start_ns: IntArray, end_ns: IntArray, most: int) -> IntArray:
    """Give each slice a lane that is free when it starts.

    Properly nested slices so get their depth. Slices that overlap without nesting, as device tasks of one
    stream do, get lanes side by side.

    Parameters
    ----------
    start_ns, end_ns
        Slices of one track, ordered by start, and the longer first at one start. A slice of no duration
        takes part as if it lasted 1 ns.
    most
        How many lanes there may be.

    Returns
    -------
    numpy.ndarray
        A lane below `most` for each slice, or :data:`LEFT_OVER` for one that starts while as many others run.
    """
    end_ns = np.maximum(end_ns, start_ns + 1)
    # Slices that began earlier less those that have ended: the depth, wherever slices nest.
    lanes = np.arange(len(start_ns)) - np.searchsorted(np.sort(end_ns, kind="stable"), start_ns, side="right")
    tangled = _tangled(start_ns, end_ns, lanes)
    if len(tangled):
        lanes[tangled] = _first_free(start_ns[tangled], end_ns[tangled], most)
    lanes[lanes >= most] = LEFT_OVER
    return lanes


def clusters(start_ns: IntArray, end_ns: IntArray) -> IntArray:
    """Give each slice the number of its group: slices linked by overlaps. They come ordered by start."""
    if not len(start_ns):
        return np.zeros(0, np.int64)
    latest_end = np.maximum.accumulate(end_ns)
    begins = np.concatenate([[False], start_ns[1:] >= latest_end[:-1]])
    return np.cumsum(begins)


def _tangled(start_ns: IntArray, end_ns: IntArray, lanes: IntArray) -> IntArray:
    """Find the rows of all clusters in which two slices of one lane overlap."""
    order = np.argsort(lanes, kind="stable")
    same_lane = lanes[order][1:] == lanes[order][:-1]
    conflict = same_lane & (start_ns[order][1:] < end_ns[order][:-1])
    if not conflict.any():
        return np.zeros(0, np.int64)
    cluster = clusters(start_ns, end_ns)
    hit = np.zeros(int(cluster[-1]) + 1, bool)
    hit[cluster[order][1:][conflict]] = True
    return np.flatnonzero(hit[cluster])


def _first_free(start_ns: IntArray, end_ns: IntArray, most: int) -> IntArray:
    """Fill one lane after the other with the first slice, the first that starts after its end, and so on."""
    lanes = np.full(len(start_ns), LEFT_OVER, np.int64)
    left = np.arange(len(start_ns))
    for lane in range(most):
        if not len(left):
            break
        chosen = _chain(start_ns[left], end_ns[left])
        lanes[left[chosen]] = lane
        left = left[~chosen]
    return lanes


def _chain(start_ns: IntArray, end_ns: IntArray) -> npt.NDArray[np.bool_]:
    """Mark the first slice and everything reached from it by "the next that starts at or after my end".

    The jumps double each round, so a chain of n slices takes log2(n) rounds and no loop over rows.
    """
    count = len(start_ns)
    jump = np.append(np.searchsorted(start_ns, end_ns, side="left"), count)
    reached = np.zeros(count + 1, bool)
    reached[0] = True
    while jump[0] != count:
        reached[jump[reached]] = True
        jump = jump[jump]
    return reached[:count]
