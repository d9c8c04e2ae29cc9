"""Level of detail: any window of a timeline of millions of slices as a bounded number of bars, in milliseconds.

The slices of a lane are ordered by time and do not overlap. A bar's number of slices and busy time are differences of
running sums; its longest slice comes from block maxima. Building takes a sort; a query costs what its window shows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64
from npuprof.timeline.lane_packing import Bars, Lane, tracks
from npuprof.timeline.layers import Layer

_BLOCK = 16


class Maxima:
    """Maxima of blocks of 16 values, of blocks of 16 blocks, and so on; takes a 15th more memory than the values."""

    def __init__(self, values: Int64) -> None:
        self._levels = [values]
        while len(below := self._levels[-1]) > _BLOCK:
            self._levels.append(np.maximum.reduceat(below, np.arange(0, len(below), _BLOCK)))

    def at_least(self, least: int, first: Int64, last: Int64) -> Int64:
        """Return the ascending positions of all values of at least `least` in the given intervals.

        The intervals, from `first` to before `last`, are ascending, non-empty and disjoint. The cost grows with the
        number of results, not with the length of the intervals.
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
        """Return the position of each interval's maximum; intervals are non-empty and may overlap."""
        best = self._levels[0][first]
        place, height = first.copy(), np.zeros(len(first), np.int64)
        low, high = first, last
        for level, values in enumerate(self._levels):
            if not (pending := low < high).any():
                break
            top = level == len(self._levels) - 1
            # The ragged ends of an interval are searched at this level, whole blocks one level higher.
            inner_low = high if top else np.minimum(-(-low // _BLOCK) * _BLOCK, high)
            inner_high = high if top else np.maximum(high // _BLOCK * _BLOCK, inner_low)
            for begin, end in ((low, inner_low), (inner_high, high)):
                rows = np.flatnonzero(pending & (begin < end))
                at, maxima = _block_maxima(values, begin[rows], end[rows])
                more = maxima > best[rows]
                rows = rows[more]
                best[rows], place[rows], height[rows] = maxima[more], at[more], level
            low, high = inner_low // _BLOCK, inner_high // _BLOCK
        return self._descend(place, height)

    def _descend(self, place: Int64, height: Int64) -> Int64:
        """Replace block numbers by the positions of the blocks' maxima."""
        for level in range(len(self._levels) - 1, 0, -1):
            rows = np.flatnonzero(height == level)
            begin = place[rows] * _BLOCK
            end = np.minimum(begin + _BLOCK, len(self._levels[level - 1]))
            place[rows], _ = _block_maxima(self._levels[level - 1], begin, end)
            height[rows] = level - 1
        return place


def _block_maxima(values: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Return position and value of each row's maximum, over at most 16 values."""
    if not len(begin):
        return begin, begin
    places = np.minimum(begin[:, None] + np.arange(_BLOCK), end[:, None] - 1)
    candidates = values[places]
    column = candidates.argmax(axis=1)
    rows = np.arange(len(begin))
    return places[rows, column], candidates[rows, column]


MOST_BARS = 2000
"""Maximum number of bars of a window; more bars make it slow and show nothing new."""

_GAP = 0.45  # between two layers, in lanes
_LAST_SHIFT = 62  # intervals of 2**62 ns, 146 years: all slices are then at most one bar on either side of the epoch


class WindowIndex:
    """All slices of a run on their lanes: built once, queried by window.

    Attributes
    ----------
    lanes
        All lanes with their places; ``lane.layer`` is the index of the layer.
    slices
        Total number of slices.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.lanes: list[Lane] = []
        parts: list[Bars] = []
        bounds = [np.zeros(1, np.int64)]
        place, begin = 0.0, 0
        for index, layer in enumerate(layers):
            for bars, title in tracks(layer):
                height = int(bars.lane[-1]) + 1
                self.lanes += [Lane(index, place + lane, title if lane == 0 else "") for lane in range(height)]
                parts.append(bars)
                bounds.append(begin + np.searchsorted(bars.lane, np.arange(1, height + 1)))
                place, begin = place + height, begin + len(bars)
            place += _GAP
        # One array over all lanes, lane by lane; overlapping slices of a folded lane are one element.
        single = all(bars.single for bars in parts)
        self._bounds = np.concatenate(bounds)
        self._start, self._end, self._slice, self._longest = (
            np.concatenate([np.zeros(0, np.int64), *(getattr(bars, name) for bars in parts)])
            for name in ("start_ns", "end_ns", "row", "longest_ns")
        )
        self._counted = None if single else _running([bars.count for bars in parts])
        self._busy = _running([bars.busy_ns for bars in parts])
        self._maxima = Maxima(self._longest)
        self.slices = begin if self._counted is None else int(self._counted[-1])

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first start and the last end, in epoch nanoseconds; None without slices."""
        if not len(self._start):
            return None
        return int(self._start.min()), int(self._end.max())

    @property
    def height(self) -> float:
        """The bottom of the last lane, in lanes."""
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
        """Return the bars of a window, by lane and start; ``row`` is the number of a bar's longest slice.

        A slice that is long enough to see has its own bar. Shorter adjacent slices share one bar per interval of time;
        intervals have fixed positions and lengths that are powers of two, so bars stay the same as the window moves.

        Parameters
        ----------
        start_ns, end_ns
            Window in epoch nanoseconds, both included: every slice that touches it is in exactly one bar.
        pixels
            Width of the picture: slices narrower than a pixel share bars; None shares only what exceeds `most`.
        most, shown
            Maximum number of bars, at least the number of lanes; and the lanes to include, by default all.
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
        coarse = 4 * most if pixels is None else min(pixels, max(16, 4 * most // len(first)))  # few more bars than fit
        finest = max((end_ns - start_ns) // (pixels if fit and pixels is not None else coarse), 1).bit_length() - 1
        for shift in range(min(finest, _LAST_SHIFT), _LAST_SHIFT + 1):
            cuts = self._cuts(first, last, start_ns, end_ns, shift)
            if len(cuts) <= most:
                break
        lane_end = last[np.searchsorted(last, cuts, side="right")]
        return self._bars(cuts, np.minimum(np.append(cuts[1:], len(self._start)), lane_end))

    @property
    def elements(self) -> Bars:
        """Every element as a bar."""
        every = np.arange(len(self._start))
        return self._bars(every, every + 1)

    def lanes_of_slices(self, count: int) -> Int64:
        """Return the lane of each of `count` slices, -1 for those that share the element of a longer one."""
        lanes = np.full(count, -1, np.int64)
        lanes[self._slice] = np.repeat(np.arange(len(self.lanes)), np.diff(self._bounds))
        return lanes

    def lanes_holding(self, layer: int, start_ns: Int64) -> Int64:
        """Return the lane of a layer with an element of several slices at each start, the last one of several."""
        lanes = np.full(len(start_ns), -1, np.int64)
        for at in (at for at, lane in enumerate(self.lanes) if lane.layer == layer):
            low, high = int(self._bounds[at]), int(self._bounds[at + 1])
            place = low + np.searchsorted(self._start[low:high], start_ns, side="right") - 1
            is_there = place >= low
            place = np.maximum(place, low)
            counted = self._counted
            shared = np.zeros(len(place), bool) if counted is None else counted[place + 1] - counted[place] > 1
            lanes[is_there & shared & (self._end[place] >= start_ns)] = at
        return lanes

    def elements_within(self, start_ns: int, end_ns: int, is_visible: npt.NDArray[np.bool_] | None = None) -> int:
        """Return the number of bars of a window if none were shared; `is_visible` marks the lanes to include."""
        first, last = self._touching(start_ns, end_ns)
        lengths = np.maximum(last - first, 0)
        return int(lengths.sum() if is_visible is None else lengths[is_visible].sum())

    def held(self, bars: Bars, elements: Int64) -> Int64:
        """Return the number of the given ascending elements in each bar of a window."""
        first, last = np.empty(len(bars), np.int64), np.empty(len(bars), np.int64)
        for lane in np.unique(bars.lane).tolist():
            low, high = int(self._bounds[lane]), int(self._bounds[lane + 1])
            of_lane = np.flatnonzero(bars.lane == lane)
            first[of_lane] = low + np.searchsorted(self._start[low:high], bars.start_ns[of_lane], side="left")
            # Up to the start of the next bar: an empty slice may end where the next bar starts.
            last[of_lane[:-1]] = first[of_lane[1:]]
            last[of_lane[-1:]] = low + np.searchsorted(self._end[low:high], bars.end_ns[of_lane[-1:]], side="right")
        return np.searchsorted(elements, last) - np.searchsorted(elements, first)

    def elements_of(self, slices: Int64) -> Int64:
        """Return the ascending elements of slices; slices folded into another slice's element are left out."""
        places = self._places[slices[slices < len(self._places)]]
        return np.unique(places[places >= 0])

    def lane_of(self, element: int) -> int:
        return bisect_right(self._bounds_list, element) - 1

    def element_of(self, slice_number: int) -> int:
        """Return the element that shows a slice alone, or as its longest one; -1 if there is none."""
        return int(self._places[slice_number]) if 0 <= slice_number < len(self._places) else -1

    def slice_at(self, element: int) -> int:
        """Return the slice of an element, or the longest slice of a folded element."""
        return int(self._slice[element])

    def holding(self, lanes: Sequence[int], start_ns: int, end_ns: int) -> int:
        """Return the element on the given lanes that covers an interval; -1 if none does."""
        for lane in lanes:
            low, high = int(self._bounds[lane]), int(self._bounds[lane + 1])
            at = low + int(np.searchsorted(self._start[low:high], start_ns, side="right")) - 1
            if at >= low and int(self._end[at]) >= end_ns:
                return at
        return -1

    def beside(self, element: int, step: int) -> int:
        """Return the previous (-1) or next (+1) element of the lane; at the end of the lane, the element itself."""
        lane = self.lane_of(element)
        low, high = int(self._bounds[lane]), int(self._bounds[lane + 1])
        return min(max(element + step, low), high - 1)

    @cached_property
    def _bounds_list(self) -> list[int]:
        return self._bounds.tolist()

    @cached_property
    def _places(self) -> Int64:
        places = np.full(int(self._slice.max(initial=-1)) + 1, -1, np.int64)
        places[self._slice] = np.arange(len(self._slice))
        return places

    def _touching(self, start_ns: int, end_ns: int) -> tuple[Int64, Int64]:
        first, last = np.empty(len(self.lanes), np.int64), np.empty(len(self.lanes), np.int64)
        for lane, (low, high) in enumerate(pairwise(self._bounds_list)):
            first[lane] = low + np.searchsorted(self._end[low:high], start_ns, side="left")
            last[lane] = low + np.searchsorted(self._start[low:high], end_ns, side="right")
        return first, last

    def _cuts(self, first: Int64, last: Int64, start_ns: int, end_ns: int, shift: int) -> Int64:
        """Return the elements at which bars begin, for intervals of 2**shift ns."""
        edges = np.arange((start_ns >> shift) + 1, (end_ns >> shift) + 1) << shift
        parts = [first]
        for low, high in zip(first.tolist(), last.tolist(), strict=True):
            start = self._start[low:high]
            if len(start) > len(edges):
                parts.append(low + np.searchsorted(start, edges, side="left"))
            else:
                parts.append(low + 1 + np.flatnonzero(np.diff(start >> shift)))
        long = self._maxima.at_least(1 << shift, first, last)
        cuts: Int64 = np.sort(np.concatenate([*parts, long, long + 1]))
        cuts = cuts[np.append(True, cuts[1:] > cuts[:-1])]  # quicker than numpy.unique, which hashes
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


def _running(parts: Sequence[Int64]) -> Int64:
    sums = np.zeros(sum(map(len, parts)) + 1, np.int64)
    begin = 1
    for values in parts:
        here = sums[begin : begin + len(values)]
        np.cumsum(values, out=here)
        here += sums[begin - 1]
        begin += len(values)
    return sums
