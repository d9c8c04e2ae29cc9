"""Lane packing: the slices of a track on lanes without overlap, and the bars of a timeline.

Nested calls are placed by depth; slices that overlap without nesting, as on a stream, on the first free lane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuprof.analysis.nesting import time_order
from npuprof.arrays import Bools, Int64
from npuprof.timeline.layers import Layer


@dataclass(frozen=True)
class Bars:
    """Bars ordered by lane and start; each is one slice or several adjacent slices. All arrays have the same length."""

    lane: Int64
    # start_ns, end_ns: first start and last end of the slices; the bars of a lane do not overlap.
    start_ns: Int64
    end_ns: Int64
    # count, busy_ns: number of slices in the bar, and the sum of their durations.
    count: Int64
    busy_ns: Int64
    # row, longest_ns: number of the longest slice, and its duration.
    row: Int64
    longest_ns: Int64

    def __len__(self) -> int:
        return len(self.lane)

    @property
    def single(self) -> bool:
        """Whether each bar is known to be one slice."""
        return self.busy_ns is self.longest_ns

    @classmethod
    def of_slices(cls, lane: Int64, start_ns: Int64, duration_ns: Int64, row: Int64) -> Bars:
        """Return a bar for each slice, ordered by lane and start; the slices are ordered by start."""
        order = np.argsort(_short(lane), kind="stable")
        start, duration = start_ns[order], duration_ns[order]
        return cls(lane[order], start, start + duration, np.ones_like(start), duration, row[order], duration)

    @classmethod
    def joined(cls, parts: list[Bars]) -> Bars:
        """Concatenate bars with ascending lanes."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns)) if parts else cls(*[np.zeros(0, np.int64)] * 7)


def _short(numbers: Int64) -> npt.NDArray[np.integer]:
    """Return few different numbers from 0 on as 16 bits, which NumPy sorts in linear time."""
    return numbers.astype(np.int16) if numbers.max(initial=0) <= np.iinfo(np.int16).max else numbers


def merged(bars: Bars, begins: Int64) -> Bars:
    """Merge consecutive bars into groups that begin at the positions `begins`; the first is 0."""
    if not len(bars):
        return bars
    longest = np.maximum.reduceat(bars.longest_ns, begins)
    group = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(bars))))
    candidates = np.flatnonzero(bars.longest_ns == longest[group])[::-1]
    row = np.empty(len(begins), np.int64)
    row[group[candidates]] = bars.row[candidates]  # written backwards: the first of equal rows stays
    return Bars(
        bars.lane[begins],
        bars.start_ns[begins],
        np.maximum.reduceat(bars.end_ns, begins),
        np.add.reduceat(bars.count, begins),
        np.add.reduceat(bars.busy_ns, begins),
        row,
        longest,
    )


LEFT_OVER = -1
"""The lane of a slice that does not fit on the allowed lanes."""


@dataclass(frozen=True)
class Lane:
    """A row of the timeline.

    `place` is its position downwards from 0, with gaps between layers; the title is empty below a track's first lane.
    """

    layer: int
    place: float
    title: str


def tracks(layer: Layer) -> list[tuple[Bars, str]]:
    """Return the bars and title of each track of a layer; each track's lanes count from 0."""
    start, duration, number = layer.column("start_ns"), layer.column("duration_ns"), layer.slices
    codes, keys = layer.tracks()
    if len(keys) == 1 and (start[1:] > start[:-1]).all():
        return [(_in_lanes(start, duration, number, layer.most_lanes), layer.track_title(keys[0], keys))]
    order = time_order(start, start + duration)
    if len(keys) > 1:
        order = order[np.argsort(_short(codes[order]), kind="stable")]
    bounds = np.searchsorted(codes[order], np.arange(len(keys) + 1))
    rows = [order[bounds[code] : bounds[code + 1]] for code in _busiest(codes, duration, len(keys), layer.most_tracks)]
    drawn = sorted(rows, key=lambda some: int(codes[some[0]]))
    tracks = [
        (
            _in_lanes(start[some], duration[some], number[some], layer.most_lanes),
            layer.track_title(keys[codes[some[0]]], keys),
        )
        for some in drawn
    ]
    if remaining := len(keys) - len(drawn):
        is_taken = np.zeros(len(codes), bool)
        is_taken[np.concatenate(drawn)] = True
        other_values = np.flatnonzero(~is_taken)
        other_values = other_values[np.argsort(start[other_values], kind="stable")]
        folded = _fold(start[other_values], duration[other_values], number[other_values], 0)
        tracks.append((folded, f"{layer.title} · {remaining:,} more"))
    return tracks


def _busiest(codes: Int64, duration: Int64, count: int, limit: int) -> Int64:
    if count <= limit:
        return np.arange(count)
    busy = np.zeros(count, np.int64)
    np.add.at(busy, codes, duration)
    return np.argsort(-busy, kind="stable")[:limit]


def _in_lanes(start: Int64, duration: Int64, row: Int64, limit: int) -> Bars:
    end = start + duration
    if limit and (np.maximum(end, start + 1)[:-1] <= start[1:]).all():  # most tracks: one slice after the other
        lane, single = (np.broadcast_to(np.int64(number), len(start)) for number in (0, 1))  # take no memory
        return Bars(lane, start, end, single, duration, row, duration)
    lanes = assign(start, end, limit)
    kept_rows = np.flatnonzero(lanes != LEFT_OVER)
    bars = Bars.of_slices(lanes[kept_rows], start[kept_rows], duration[kept_rows], row[kept_rows])
    left_rows = np.flatnonzero(lanes == LEFT_OVER)
    if not len(left_rows):
        return bars
    return Bars.joined([bars, _fold(start[left_rows], duration[left_rows], row[left_rows], limit)])


def _fold(start: Int64, duration: Int64, row: Int64, lane: int) -> Bars:
    """Put slices on one lane, where overlapping slices become one bar."""
    bars = Bars.of_slices(np.full(len(start), lane, np.int64), start, duration, row)
    cluster = clusters(bars.start_ns, bars.end_ns)
    return merged(bars, np.flatnonzero(np.diff(cluster, prepend=-1)))


def assign(start_ns: Int64, end_ns: Int64, limit: int) -> Int64:
    """Assign each slice a free lane: nested slices by depth, slices that overlap otherwise the first free lane.

    The slices are of one track, ordered by start, longer slices first at equal starts; an empty slice counts as 1 ns.
    A slice that starts while `limit` others are running gets :data:`LEFT_OVER`.
    """
    end_ns = np.maximum(end_ns, start_ns + 1)
    # Earlier starts minus earlier ends: the depth, where slices nest.
    lanes = np.arange(len(start_ns)) - np.searchsorted(np.sort(end_ns, kind="stable"), start_ns, side="right")
    conflicting = _conflicting(start_ns, end_ns, lanes)
    if len(conflicting):
        lanes[conflicting] = _first_free(start_ns[conflicting], end_ns[conflicting], limit)
    lanes[lanes >= limit] = LEFT_OVER
    return lanes


def clusters(start_ns: Int64, end_ns: Int64) -> Int64:
    """Return the number of each slice's cluster of overlapping slices; the slices are ordered by start."""
    if not len(start_ns):
        return np.zeros(0, np.int64)
    latest_end = np.maximum.accumulate(end_ns)
    begins = np.concatenate([[False], start_ns[1:] >= latest_end[:-1]])
    return np.cumsum(begins)


def _conflicting(start_ns: Int64, end_ns: Int64, lanes: Int64) -> Int64:
    """Return the rows of all clusters with overlapping slices on one lane."""
    order = np.argsort(lanes, kind="stable")
    same_lane = lanes[order][1:] == lanes[order][:-1]
    conflict = same_lane & (start_ns[order][1:] < end_ns[order][:-1])
    if not conflict.any():
        return np.zeros(0, np.int64)
    cluster = clusters(start_ns, end_ns)
    hit = np.zeros(int(cluster[-1]) + 1, bool)
    hit[cluster[order][1:][conflict]] = True
    return np.flatnonzero(hit[cluster])


def _first_free(start_ns: Int64, end_ns: Int64, limit: int) -> Int64:
    """Fill one lane after another: with the first slice left, the first slice after its end, and so on."""
    lanes = np.full(len(start_ns), LEFT_OVER, np.int64)
    left = np.arange(len(start_ns))
    for lane in range(limit):
        if not len(left):
            break
        is_chained = _chain(start_ns[left], end_ns[left])
        lanes[left[is_chained]] = lane
        left = left[~is_chained]
    return lanes


def _chain(start_ns: Int64, end_ns: Int64) -> Bools:
    """Mark the first slice, the first slice that starts at or after its end, and so on.

    Jumps double in each round: a chain of n slices takes log2(n) rounds, without a loop over rows.
    """
    count = len(start_ns)
    jump = np.append(np.searchsorted(start_ns, end_ns, side="left"), count)
    reached = np.zeros(count + 1, bool)
    reached[0] = True
    while jump[0] != count:
        reached[jump[reached]] = True
        jump = jump[jump]
    return reached[:count]
