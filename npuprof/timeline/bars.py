"""Bars: what a timeline draws; each stands for one slice, or for several neighbours of one lane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuprof.arrays import Int64


@dataclass(frozen=True)
class Bars:
    """Bars in the order of lane and start; each stands for one slice or for several. Arrays of one length.

    Attributes
    ----------
    lane
        Which lane; bars of one lane do not overlap.
    start_ns, end_ns
        From the first start to the last end of the slices it stands for.
    count, busy_ns
        How many slices, and the sum of their durations.
    row
        The longest of them.
    longest_ns
        Its duration.
    """

    lane: Int64
    start_ns: Int64
    end_ns: Int64
    count: Int64
    busy_ns: Int64
    row: Int64
    longest_ns: Int64

    def __len__(self) -> int:
        return len(self.lane)

    @classmethod
    def of_slices(cls, lane: Int64, start_ns: Int64, duration_ns: Int64, row: Int64) -> Bars:
        """Make a bar for each slice, in the order of lane and start; the slices come ordered by start."""
        order = np.argsort(lane.astype(np.int16), kind="stable")  # linear: NumPy sorts 16 bits by radix
        start, duration = start_ns[order], duration_ns[order]
        return cls(lane[order], start, start + duration, np.ones_like(start), duration, row[order], duration)

    @classmethod
    def joined(cls, parts: list[Bars]) -> Bars:
        """Put bars of ascending lanes one after the other."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns)) if parts else cls(*[np.zeros(0, np.int64)] * 7)


def merged(bars: Bars, begins: Int64) -> Bars:
    """Merge consecutive bars into groups that begin at the positions `begins` (the first is 0)."""
    if not len(bars):
        return bars
    longest = np.maximum.reduceat(bars.longest_ns, begins)
    group = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(bars))))
    candidates = np.flatnonzero(bars.longest_ns == longest[group])[::-1]
    row = np.empty(len(begins), np.int64)
    row[group[candidates]] = bars.row[candidates]  # written backwards: the first of equals stays
    return Bars(
        bars.lane[begins],
        bars.start_ns[begins],
        np.maximum.reduceat(bars.end_ns, begins),
        np.add.reduceat(bars.count, begins),
        np.add.reduceat(bars.busy_ns, begins),
        row,
        longest,
    )
