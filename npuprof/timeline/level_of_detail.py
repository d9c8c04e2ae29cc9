"""Level of detail: any window of a timeline of millions of slices, in a bounded number of bars and a few milliseconds.

The slices of a lane are in the order of time and do not overlap. Number and time of the slices of a bar are differences
of running sums, and the longest comes from block maxima. A build takes a sort; a window costs as much as it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64
from npuprof.timeline.lane_packing import Bars, Lane, tracks
from npuprof.timeline.layers import Layer

_BLOCK = 16


class Maxima:
    """Maxima of blocks of 16 values, of blocks of 16 blocks, and so on: a 15th more memory than the values."""

    def __init__(self, values: Int64) -> None:
        self._levels = [values]
        while len(below := self._levels[-1]) > _BLOCK:
            self._levels.append(np.maximum.reduceat(below, np.arange(0, len(below), _BLOCK)))

    def at_least(self, least: int, first: Int64, last: Int64) -> Int64:
        """Return the ascending positions of all values of at least `least` in intervals.

        The intervals from `first` to before `last` are ascending, non-empty and disjoint. The cost grows with the
        number of positions, not with the length of the intervals.
        """
        top = len(self._levels) - 1
        blocks = np.arange(len(self._levels[top]))
        for level in range(top, -1, -1):
            if level < top:
                blocks = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
                blocks = blocks[blocks < len(self._levels[level])]
            blocks = blocks[self._levels[level][blocks] >= least]
            size = _BLOCK**level
            stretch = np.searchsorted(last, blocks * size, side="right")
            inside = stretch < len(last)
            inside[inside] = first[stretch[inside]] < (blocks[inside] + 1) * size
            blocks = blocks[inside]
        return blocks

    def greatest(self, first: Int64, last: Int64) -> Int64:
        """Return the position of the maximum of each interval; intervals are non-empty and may overlap."""
        best = self._levels[0][first]
        place, height = first.copy(), np.zeros(len(first), np.int64)
        low, high = first, last
        for level, values in enumerate(self._levels):
            if not (open_ := low < high).any():
                break
            top = level == len(self._levels) - 1
            # What does not fill a block is looked at here, whole blocks a level higher.
            inner_low = high if top else np.minimum(-(-low // _BLOCK) * _BLOCK, high)
            inner_high = high if top else np.maximum(high // _BLOCK * _BLOCK, inner_low)
            for begin, end in ((low, inner_low), (inner_high, high)):
                rows = np.flatnonzero(open_ & (begin < end))
                at, values_found = _widest(values, begin[rows], end[rows])
                more = values_found > best[rows]
                rows = rows[more]
                best[rows], place[rows], height[rows] = values_found[more], at[more], level
            low, high = inner_low // _BLOCK, inner_high // _BLOCK
        return self._descended(place, height)

    def _descended(self, place: Int64, height: Int64) -> Int64:
        """Turn blocks into the positions of their maxima."""
        for level in range(len(self._levels) - 1, 0, -1):
            rows = np.flatnonzero(height == level)
            begin = place[rows] * _BLOCK
            end = np.minimum(begin + _BLOCK, len(self._levels[level - 1]))
            place[rows], _ = _widest(self._levels[level - 1], begin, end)
            height[rows] = level - 1
        return place


def _widest(values: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Return position and value of the maximum of at most 16 values for each row."""
    if not len(begin):
        return begin, begin
    places = np.minimum(begin[:, None] + np.arange(_BLOCK), end[:, None] - 1)
    looked_at = values[places]
    column = looked_at.argmax(axis=1)
    rows = np.arange(len(begin))
    return places[rows, column], looked_at[rows, column]


MOST_BARS = 2000
"""Maximum number of bars of a window: more make it slow without more information."""

_GAP = 0.45  # between two layers, in lanes
_LAST_SHIFT = 62  # stretches of 2**62 ns, 146 years: whatever is left is one bar a side of the epoch


class WindowIndex:
    """All slices of a run on their lanes, built once and queried by window.

    Attributes
    ----------
    lanes
        All lanes with their places; ``lane.layer`` is an index of the layers.
    slices
        Total number of slices.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.lanes: list[Lane] = []
        parts: list[Bars] = []
        place = 0.0
        for index, layer in enumerate(layers):
            for bars, title in tracks(layer):
                height = int(bars.lane.max()) + 1
                self.lanes += [Lane(index, place + lane, title if lane == 0 else "") for lane in range(height)]
                parts.append(replace(bars, lane=bars.lane + len(self.lanes) - height))
                place += height
            place += _GAP
        # Lane by lane in one array each; where a folded lane has slices that overlap, they are one element.
        elements = Bars.joined(parts)
        self._bounds = np.searchsorted(elements.lane, np.arange(len(self.lanes) + 1))
        self._start, self._end, self._slice = elements.start_ns, elements.end_ns, elements.row
        self._counted = None if bool((elements.count == 1).all()) else _running(elements.count)
        self._busy = _running(elements.busy_ns)
        self._longest = elements.longest_ns
        self._maxima = Maxima(elements.longest_ns)
        self.slices = int(self._counted[-1]) if self._counted is not None else len(elements)

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first start and the last end, epoch nanoseconds; None without slices."""
        if not len(self._start):
            return None
        return int(self._start.min()), int(self._end.max())

    @property
    def height(self) -> float:
        """The bottom of the last lane."""
        return self.lanes[-1].place + 1 if self.lanes else 0.0

    def within(
        self,
        start_ns: int,
        end_ns: int,
        *,
        pixels: int | None = 2000,
        most: int = MOST_BARS,
        shown: npt.NDArray[np.bool_] | None = None,
    ) -> Bars:
        """Return the bars of a window, by lane and start; their ``row`` is the number of the longest slice.

        A slice that is long for the window has a bar. Shorter adjacent slices share a bar for each interval of time;
        intervals have lengths of powers of two and fixed positions, so bars do not change as the window moves.

        Parameters
        ----------
        start_ns, end_ns
            Epoch nanoseconds, both included: every slice that touches the window is in exactly one bar.
        pixels
            Width of the picture: narrower slices share bars; with None, only slices beyond `most`.
        most, shown
            Maximum number of bars, at least that of lanes; and the lanes to include, by default all.

        Raises
        ------
        ValueError
            If `most` or `pixels` is too small, or the window ends before it starts.
        """
        if most < len(self.lanes) or (pixels is not None and pixels < 1):
            raise ValueError(f"{most} bars on {pixels} pixels are too few: each of {len(self.lanes)} lanes needs one")
        if end_ns < start_ns:
            raise ValueError(f"the window ends at {end_ns} ns, before it starts at {start_ns} ns")
        first, last = self._touching(start_ns, end_ns)
        some = first < last if shown is None else (first < last) & shown
        if not some.any():
            return Bars.joined([])
        first, last = first[some], last[some]
        fit = int((last - first).sum()) <= most
        if fit and pixels is None:
            cuts = np.concatenate([np.arange(low, high) for low, high in zip(first, last, strict=True)])
            return self._bars(cuts, cuts + 1)
        coarse = 4 * most if pixels is None else min(pixels, max(16, 4 * most // len(first)))  # few more than can fit
        finest = max((end_ns - start_ns) // (pixels if fit and pixels is not None else coarse), 1).bit_length() - 1
        for shift in range(min(finest, _LAST_SHIFT), _LAST_SHIFT + 1):
            cuts = self._cuts(first, last, start_ns, end_ns, shift)
            if len(cuts) <= most:
                break
        lane_end = last[np.searchsorted(last, cuts, side="right")]
        return self._bars(cuts, np.minimum(np.append(cuts[1:], len(self._start)), lane_end))

    def elements_within(self, start_ns: int, end_ns: int, shown: npt.NDArray[np.bool_] | None = None) -> int:
        """Return how many bars there would be with none shared; `shown` are the lanes to include."""
        first, last = self._touching(start_ns, end_ns)
        lengths = np.maximum(last - first, 0)
        return int(lengths.sum() if shown is None else lengths[shown].sum())

    def held(self, bars: Bars, elements: Int64) -> Int64:
        """Return for each bar of a window the number of elements in it; the elements are ascending."""
        first, last = np.empty(len(bars), np.int64), np.empty(len(bars), np.int64)
        for lane in np.unique(bars.lane).tolist():
            low, high = int(self._bounds[lane]), int(self._bounds[lane + 1])
            some = np.flatnonzero(bars.lane == lane)
            first[some] = low + np.searchsorted(self._start[low:high], bars.start_ns[some], side="left")
            # Up to where the next bar begins: what lasts no time may end where that one starts.
            last[some[:-1]] = first[some[1:]]
            last[some[-1:]] = low + np.searchsorted(self._end[low:high], bars.end_ns[some[-1:]], side="right")
        return np.searchsorted(elements, last) - np.searchsorted(elements, first)

    def elements_of(self, slices: Int64) -> Int64:
        """Return the ascending elements of slices, without slices that are folded in others."""
        places = self._places[slices[slices < len(self._places)]]
        return np.unique(places[places >= 0])

    def lane_of(self, element: int) -> int:
        """Return the lane of an element."""
        return int(np.searchsorted(self._bounds, element, side="right")) - 1

    def element_of(self, slice_number: int) -> int:
        """Return the element of a slice, drawn as itself or as the longest of a folded bar; -1 for others."""
        return int(self._places[slice_number]) if 0 <= slice_number < len(self._places) else -1

    def slice_at(self, element: int) -> int:
        """Return the number of an element's slice, or of the longest in it."""
        return int(self._slice[element])

    def holding(self, lanes: Sequence[int], start_ns: int, end_ns: int) -> int:
        """Return the element of the lanes that covers an interval; -1 without one."""
        for lane in lanes:
            low, high = int(self._bounds[lane]), int(self._bounds[lane + 1])
            at = low + int(np.searchsorted(self._start[low:high], start_ns, side="right")) - 1
            if at >= low and int(self._end[at]) >= end_ns:
                return at
        return -1

    def beside(self, element: int, step: int) -> int:
        """Return the previous (-1) or next (+1) element of the lane; at its end the same element."""
        lane = self.lane_of(element)
        low, high = int(self._bounds[lane]), int(self._bounds[lane + 1])
        return min(max(element + step, low), high - 1)

    @cached_property
    def _places(self) -> Int64:
        places = np.full(int(self._slice.max(initial=-1)) + 1, -1, np.int64)
        places[self._slice] = np.arange(len(self._slice))
        return places

    def _touching(self, start_ns: int, end_ns: int) -> tuple[Int64, Int64]:
        bounds = self._bounds.tolist()
        first, last = np.empty(len(self.lanes), np.int64), np.empty(len(self.lanes), np.int64)
        for lane, (low, high) in enumerate(pairwise(bounds)):
            first[lane] = low + np.searchsorted(self._end[low:high], start_ns, side="left")
            last[lane] = low + np.searchsorted(self._start[low:high], end_ns, side="right")
        return first, last

    def _cuts(self, first: Int64, last: Int64, start_ns: int, end_ns: int, shift: int) -> Int64:
        """Return where bars begin for intervals of 2**shift ns."""
        edges = np.arange((start_ns >> shift) + 1, (end_ns >> shift) + 1) << shift
        parts = [first]
        for low, high in zip(first.tolist(), last.tolist(), strict=True):
            start = self._start[low:high]
            if len(start) > len(edges):
                parts.append(low + np.searchsorted(start, edges, side="left"))
            else:
                parts.append(low + 1 + np.flatnonzero(np.diff(start >> shift)))
        long = self._maxima.at_least(1 << shift, first, last)
        cuts = np.unique(np.concatenate([*parts, long, long + 1]))
        stretch = np.searchsorted(last, cuts, side="right")
        cuts, stretch = cuts[stretch < len(last)], stretch[stretch < len(last)]
        return cuts[cuts >= first[stretch]]

    def _bars(self, first: Int64, last: Int64) -> Bars:
        longest = first.copy()
        several = np.flatnonzero(last - first > 1)
        longest[several] = self._maxima.greatest(first[several], last[several])
        counted = self._counted
        return Bars(
            np.searchsorted(self._bounds, first, side="right") - 1,
            self._start[first],
            self._end[last - 1],
            last - first if counted is None else counted[last] - counted[first],
            self._busy[last] - self._busy[first],
            self._slice[longest],
            self._longest[longest],
        )


def _running(values: Int64) -> Int64:
    return np.concatenate([[0], np.cumsum(values)])
