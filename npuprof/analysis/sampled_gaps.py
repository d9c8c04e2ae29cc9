"""Which line ran between two calls of the device: where a sample saw the thread there, the line that it saw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from npuprof.analysis.intervals import Spans
from npuprof.arrays import Int64, search_in_groups


class Pieces(NamedTuple):
    """Thread, start and end of each piece, by thread in order of time, and a number of each."""

    threads: Int64
    starts: Int64
    ends: Int64
    numbers: Int64

    def number_at(self, threads: Int64, moments: Int64) -> Int64:
        """Return the number of the piece that holds each moment of a thread, -1 without one."""
        at = search_in_groups(self.threads, self.starts, threads, moments, "right") - 1
        is_inside = (at >= 0) & (np.append(self.threads, -1)[at] == threads) & (moments < np.append(self.ends, 0)[at])
        return np.where(is_inside, np.append(self.numbers, -1)[at], -1)


NO_PIECES = Pieces(*(np.zeros(0, np.int64) for _ in range(4)))


def seen_in(
    gap_threads: Int64, gaps: Spans, kinds: Int64, sample_threads: Int64, moments: Int64, lines: Int64
) -> Pieces:
    """Divide gaps between calls among the lines that samples saw in them.

    A gap without a sample has the line that samples mostly saw in gaps of its kind, unless it is shorter than half of
    the shortest of those: it may then lack what took the time there.

    Parameters
    ----------
    kinds
        A number of each gap: gaps with the same one are of the same thread and between the same two lines.
    """
    starts, ends = gaps
    at = search_in_groups(gap_threads, starts, sample_threads, moments, "right") - 1
    inside = (at >= 0) & (np.append(gap_threads, -1)[at] == sample_threads) & (moments < np.append(ends, 0)[at])
    inside = np.flatnonzero(inside)
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
        np.concatenate((gap_threads[gap], gap_threads[rest])),
        np.concatenate((begins, starts[rest])),
        np.concatenate((stops, ends[rest])),
        np.concatenate((line, line_of.loc[kinds[rest]].to_numpy(np.int64))),
    )
    order = np.lexsort((pieces[1], pieces[0]))
    return Pieces(*(column[order] for column in pieces))
