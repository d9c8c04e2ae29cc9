"""Greatest values of stretches of a long array, found through the maxima of its blocks and not by looking at all."""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Int64

_BLOCK = 16


class Maxima:
    """Maxima of blocks of 16 values, of blocks of 16 blocks, and so on: a 15th more memory than the values.

    Parameters
    ----------
    values
        Any number; kept, not copied.
    """

    def __init__(self, values: Int64) -> None:
        self._levels = [values]
        while len(below := self._levels[-1]) > _BLOCK:
            self._levels.append(np.maximum.reduceat(below, np.arange(0, len(below), _BLOCK)))

    def at_least(self, least: int, first: Int64, last: Int64) -> Int64:
        """Return the positions of all values of at least `least` in stretches.

        Parameters
        ----------
        least
            What a value must reach.
        first, last
            Where each stretch begins, and where it is over; ascending, none empty, none overlapping another.

        Returns
        -------
        Positions, ascending. The work grows with their number, not with the length of the stretches.
        """
        top = len(self._levels) - 1
        found = np.arange(len(self._levels[top]))
        for level in range(top, -1, -1):
            if level < top:
                found = (found[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
                found = found[found < len(self._levels[level])]
            found = found[self._levels[level][found] >= least]
            size = _BLOCK**level
            stretch = np.searchsorted(last, found * size, side="right")
            inside = stretch < len(last)
            inside[inside] = first[stretch[inside]] < (found[inside] + 1) * size
            found = found[inside]
        return found

    def greatest(self, first: Int64, last: Int64) -> Int64:
        """Return the position of the greatest value of each stretch.

        Parameters
        ----------
        first, last
            Where each stretch begins, and where it is over; none is empty, and they may overlap.
        """
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
                at, found = _widest(values, begin[rows], end[rows])
                more = found > best[rows]
                rows = rows[more]
                best[rows], place[rows], height[rows] = found[more], at[more], level
            low, high = inner_low // _BLOCK, inner_high // _BLOCK
        return self._descended(place, height)

    def _descended(self, place: Int64, height: Int64) -> Int64:
        """Turn blocks into the positions of their greatest values."""
        for level in range(len(self._levels) - 1, 0, -1):
            rows = np.flatnonzero(height == level)
            begin = place[rows] * _BLOCK
            end = np.minimum(begin + _BLOCK, len(self._levels[level - 1]))
            place[rows], _ = _widest(self._levels[level - 1], begin, end)
            height[rows] = level - 1
        return place


def _widest(values: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Return the greatest of at most 16 values for each row: where it is, and what."""
    if not len(begin):
        return begin, begin
    places = np.minimum(begin[:, None] + np.arange(_BLOCK), end[:, None] - 1)
    looked_at = values[places]
    column = looked_at.argmax(axis=1)
    rows = np.arange(len(begin))
    return places[rows, column], looked_at[rows, column]
