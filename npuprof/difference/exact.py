"""Integer nanoseconds per step that still add up after division by the number of steps."""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Int64


def per_step(sums: Int64, parents: Int64, count: int, whole: int) -> Int64:
    """Divide the sums of a tree by a count, so that the children of each node still add up to it exactly.

    Quotients are rounded down, and the rest goes to the children with the greatest remainders.

    Parameters
    ----------
    parents
        The parent of each node, which precedes it; -1 for the top nodes, which add up to `whole`.
    whole
        Nanoseconds of a step: the sum of the top nodes divided by `count`, rounded to either side.
    """
    values = sums // count
    remainder = sums - values * count
    for depth in depths(parents):
        group = parents[depth]
        order = depth[np.lexsort((-remainder[depth], group))]
        of = parents[order]
        first = np.concatenate(([True], of[1:] != of[:-1])) if len(of) else np.zeros(0, bool)
        begin = np.flatnonzero(first)
        size = np.diff(np.append(begin, len(of)))
        place = np.arange(len(of)) - np.repeat(begin, size)
        target = np.where(of[begin] >= 0, values[np.maximum(of[begin], 0)], whole)
        missing = target - np.add.reduceat(values[order], begin) if len(begin) else target
        values[order] += place < np.repeat(missing, size)
    return values


def depths(parents: Int64) -> list[Int64]:
    """Return the nodes of each depth, from the top."""
    depth = np.full(len(parents), -1, np.int64)
    rows = np.flatnonzero(parents < 0)
    levels: list[Int64] = []
    while len(rows):
        depth[rows] = len(levels)
        levels.append(rows)
        rows = np.flatnonzero((depth < 0) & (parents >= 0) & (depth[np.maximum(parents, 0)] == len(levels) - 1))
    return levels
