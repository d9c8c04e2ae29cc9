"""Fewer points for a line or a row of bars, with every stretch's least and greatest kept."""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Float64, Int64


def thinned(values: Float64, most: int) -> Int64:
    """Choose at most so many points of a line, keeping the ends and the least and greatest of each stretch.

    Parameters
    ----------
    values
        The line's values, in the order of time; those that are no number never count as extremes.
    most
        The most points; at least 4.

    Returns
    -------
    Positions, ascending; all of them where they are few enough.

    Raises
    ------
    ValueError
        If `most` is below 4.
    """
    if most < 4:
        raise ValueError(f"{most} points are too few for a line: its ends, its least and its greatest make 4")
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, (most - 2) // 2 + 1).astype(np.int64)
    begins, stretch = edges[:-1], np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    known = ~np.isnan(values)
    kept = [np.array([0, count - 1])]
    for extreme, worst in ((np.minimum, np.inf), (np.maximum, -np.inf)):
        filled = np.where(known, values, worst)
        hit = np.flatnonzero(known & (filled == extreme.reduceat(filled, begins)[stretch]))
        kept.append(hit[np.flatnonzero(np.diff(stretch[hit], prepend=-1))])  # the first of equals
    return np.unique(np.concatenate(kept))
