"""Which line ran between two calls of the device: where a sample saw the thread there, the line that it saw."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.analysis.intervals import Spans
from npuprof.arrays import Int64

Pieces = tuple[Int64, Int64, Int64]
"""Starts and ends, in order of time, and a number of each."""

NO_PIECES: Pieces = (np.zeros(0, np.int64),) * 3


def seen_in(gaps: Spans, kinds: Int64, moments: Int64, lines: Int64) -> Pieces:
    """Divide gaps between calls among the lines that samples saw in them.

    A gap without a sample has the line that samples mostly saw in gaps of its kind, unless it is shorter than half of
    the shortest of those: it may then lack what took the time there.

    Parameters
    ----------
    gaps
        Times of a thread between two calls, in order.
    kinds
        A number of each gap: gaps with the same one are between the same two lines.
    moments, lines
        The samples of the thread, in order, and the line that each saw.
    """
    starts, ends = gaps
    at = np.searchsorted(starts, moments, side="right") - 1
    inside = np.flatnonzero((at >= 0) & (moments < np.append(ends, 0)[at]))
    if not len(inside):
        return NO_PIECES
    gap, moment, line = at[inside], moments[inside], lines[inside]
    is_first = np.append(True, gap[1:] != gap[:-1])
    middle = (moment + np.append(moment[0], moment[:-1])) // 2
    begins = np.where(is_first, starts[gap], middle)
    stops = np.where(np.append(is_first[1:], True), ends[gap], np.append(middle[1:], 0))
    seen: pd.DataFrame = pd.DataFrame({"kind": kinds[gap], "line": line, "time": stops - begins})
    most = seen.groupby(["kind", "line"], sort=False)["time"].sum().sort_values(kind="stable").reset_index()
    line_of = most.drop_duplicates("kind", keep="last").set_index("kind")["line"]
    shortest = pd.Series(ends[gap] - starts[gap]).groupby(kinds[gap]).min()
    unseen = np.ones(len(starts), bool)
    unseen[gap] = False
    unseen &= np.isin(kinds, shortest.index.to_numpy(np.int64))
    rest = np.flatnonzero(unseen)
    rest = rest[2 * (ends[rest] - starts[rest]) >= shortest.loc[kinds[rest]].to_numpy(np.int64)]
    pieces = (
        np.concatenate((begins, starts[rest])),
        np.concatenate((stops, ends[rest])),
        np.concatenate((line, line_of.loc[kinds[rest]].to_numpy(np.int64))),
    )
    order = np.argsort(pieces[0], kind="stable")
    return pieces[0][order], pieces[1][order], pieces[2][order]


def number_at(pieces: Pieces, moments: Int64) -> Int64:
    """Return the number of the piece that holds each moment, -1 without one."""
    starts, ends, numbers = pieces
    at = np.searchsorted(starts, moments, side="right") - 1
    return np.where((at >= 0) & (moments < np.append(ends, 0)[at]), np.append(numbers, -1)[at], -1)
