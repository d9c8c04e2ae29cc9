"""Nesting of intervals by sort and scan: the innermost interval around each, its depth, and lookups by time.

Everything is columnar: a million intervals of ordinary depth need no Python loop over rows, and pathological ones
need one, in linear time. Intervals that overlap without nesting are allowed: they do not hold each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Bools, Int64, first_rows, outer_first

Integers: TypeAlias = npt.NDArray[np.integer[Any]]


_FEW = 8  # labels, for each of which a pass is cheaper than a hash of every row
_MAX_ROUNDS = 64  # enough for calls of ordinary depth; deeper ones are scanned


@dataclass(frozen=True)
class Nesting:
    """Intervals in groups (threads, streams ...), with the innermost interval around each."""

    # Row numbers of the intervals as given, sorted by group, then start, longer first. The other arrays are in this
    # order.
    order: Int64
    groups: Int64  # codes of the groups, 0 and up
    # starts, ends: bounds; an interval holds another one of its group if it starts no later and ends no earlier.
    starts: Int64
    ends: Int64
    parents: Int64  # position (in this order) of the innermost interval around each, -1 at the top
    _labels: Integers

    @classmethod
    def build(cls, starts: Int64, ends: Int64, groups: Integers | None = None) -> Nesting:
        """Sort intervals and find their holders.

        Parameters
        ----------
        groups
            The group of each interval (a thread id, a stream); intervals nest only within their group.
        """
        labels, codes = _factorize(np.zeros(len(starts), np.int64) if groups is None else groups)
        order = time_order(starts, ends)
        if len(labels) > 1:
            order = order[np.argsort(_narrow(codes, len(labels))[order], kind="stable")]
        codes, starts, ends = codes[order], starts[order], ends[order]
        return cls(order, codes, starts, ends, _parents(codes, ends), labels)

    def depths(self) -> Int64:
        """Return the number of intervals around each, in sorted order: 0 at the top."""
        depths = (self.parents >= 0).astype(np.int64)
        above = self.parents.copy()
        rows = np.flatnonzero(above >= 0)
        while len(rows):  # every round doubles the number of levels counted
            depths[rows], above[rows] = depths[rows] + depths[above[rows]], above[above[rows]]
            rows = rows[above[rows] >= 0]
        return depths

    def nearest(self, is_wanted: Bools) -> Int64:
        """Return for each interval itself or the innermost interval around it that is wanted; -1 if there is none."""
        ancestor = np.where(is_wanted, np.arange(len(self.parents)), self.parents)
        while True:  # every round doubles the number of levels searched
            further = np.where(ancestor >= 0, ancestor[ancestor], -1)
            if bool((further == ancestor).all()):
                return ancestor
            ancestor = further

    def innermost(self, points: Int64, groups: Integers | None = None) -> Int64:
        """Return the innermost interval with ``start < point <= end`` in each point's group."""
        if not len(self.starts) or not len(points):
            return np.full(len(points), -1, np.int64)
        codes = np.zeros(len(points), np.int64) if groups is None else _codes_of(self._labels, groups)
        first = np.searchsorted(self.groups, np.arange(len(self._labels)))
        last = _last_before(self.groups, self.starts, codes, points)
        last[(codes < 0) | (last < first[codes])] = -1
        rows = np.flatnonzero(last >= 0)
        for _ in range(_MAX_ROUNDS):  # the interval around another ends no earlier: climbing skips no match
            rows = rows[self.ends[last[rows]] < points[rows]]
            last[rows] = self.parents[last[rows]]
            rows = rows[last[rows] >= 0]
            if not len(rows):
                return last
        last[rows] = self._scan_points(codes[rows], points[rows])
        return last

    def _scan_points(self, codes: Int64, points: Int64) -> Int64:
        count = len(self.starts)
        groups, times = np.concatenate((self.groups, codes)), np.concatenate((self.starts, points))
        is_interval = np.repeat([1, 0], [count, len(points)])
        order = np.lexsort((np.arange(len(groups)), is_interval, times, groups))
        holders = _scan(groups[order], np.concatenate((self.ends, points))[order], is_interval[order])
        innermost = np.empty(len(order), np.int64)
        innermost[order] = np.where(holders >= 0, order[holders], -1)
        return innermost[count:]


def time_order(starts: Int64, ends: Int64) -> Int64:
    """Return the rows ordered by start, longer first at equal starts; ties keep their order."""
    order = np.argsort(starts, kind="stable")
    ordered = starts[order]
    tied = np.zeros(len(order), bool)
    tied[1:] = ordered[1:] == ordered[:-1]
    tied[:-1] |= tied[1:]
    rows = np.flatnonzero(tied)
    if len(rows):  # only ties need the second key, and they stay in place otherwise
        among = order[rows]
        order[rows] = among[outer_first(starts[among], ends[among])]
    return order


def _parents(groups: Int64, ends: Int64) -> Int64:
    # The parent is the nearest earlier interval that ends no earlier. Every row starts at its neighbour and then, all
    # rows at once, jumps to its candidate's candidate: skipped intervals end earlier than the row itself.
    count = len(ends)
    parents = np.arange(-1, count - 1)
    rows = np.arange(count)
    first = np.maximum.accumulate(np.where(np.diff(groups, prepend=-1) != 0, rows, 0)) if count else rows
    # What ends later than everything before it in its group has no holder: such rows need not ask at all.
    bounds = np.append(np.flatnonzero(first == rows), count)
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True) if len(bounds) <= _FEW else ():
        reach = np.maximum.accumulate(ends[begin:end])
        parents[begin + 1 : end][reach[1:] > reach[:-1]] = -1
    rows = np.flatnonzero(parents >= 0)
    for _ in range(_MAX_ROUNDS):
        asked = parents[rows]
        inside = asked >= first[rows]
        parents[rows[~inside]] = -1
        rows, asked = rows[inside], asked[inside]
        crossing = ends[asked] < ends[rows]
        rows, asked = rows[crossing], asked[crossing]
        if not len(rows):
            return parents
        parents[rows] = parents[asked]
    return _scan(groups, ends, np.ones(count, np.int64))


def _scan(groups: Int64, ends: Int64, holds: Int64) -> Int64:
    # A plain stack over rows: slower on ordinary input, but linear on any, such as calls nested thousands deep.
    # Rows that hold nothing (points) are never on the stack.
    parents = []
    stack: list[tuple[int, int]] = []
    current = -1
    for row, (group, end, holder) in enumerate(zip(groups.tolist(), ends.tolist(), holds.tolist(), strict=True)):
        if group != current:
            stack, current = [], group
        while stack and stack[-1][1] < end:
            stack.pop()
        parents.append(stack[-1][0] if stack else -1)
        if holder:
            stack.append((row, end))
    return np.array(parents, np.int64)


def _last_before(groups: Int64, starts: Int64, point_groups: Int64, points: Int64) -> Int64:
    # One sorted key of (group, time): arithmetic if it fits into 63 bits, else with the ranks of the times.
    low = min(int(starts.min()), int(points.min()))
    width = max(int(starts.max()), int(points.max())) - low + 1
    if width * (int(groups[-1]) + 2) >= 1 << 63:
        times = np.unique(np.concatenate((starts, points)))
        starts, points = np.searchsorted(times, starts), np.searchsorted(times, points)
        low, width = 0, len(times)
    keys = groups * width + (starts - low)
    return np.searchsorted(keys, point_groups * width + (points - low), side="left") - 1


def _factorize(groups: Integers) -> tuple[Integers, Int64]:
    few = np.unique(groups[:: max(len(groups) // 64, 1)])
    codes = _codes_of(few, groups) if len(few) <= _FEW else np.array([-1])
    if len(groups) and int(codes.min()) >= 0:
        return few, codes
    codes, labels = pd.factorize(groups, sort=True)  # by hash: sorting a million rows with few labels takes far longer
    return labels, codes.astype(np.int64, copy=False)


def _codes_of(labels: Integers, groups: Integers) -> Int64:
    if len(labels) <= 64:  # one pass per label is cheaper than one search per row
        codes = np.full(len(groups), -1, np.int64)
        for code, label in enumerate(labels):
            codes[groups == label] = code
        return codes
    return first_rows(labels, groups)


def _narrow(codes: Int64, count: int) -> Integers:
    # NumPy sorts 16-bit integers by radix, in linear time.
    return codes.astype(np.uint16) if count <= 1 << 16 else codes
