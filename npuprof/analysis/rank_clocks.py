"""Clock offsets between ranks, by weighted least squares over the graph of groups."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Int64

_TOGETHER = r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier"
"""Collectives that end on all members at the same time; sends may end early."""

_LEAST_SPREAD_NS = 100
_ALL_PAIRS = 8  # members of which all pairs are compared; in larger groups, also those 16, 32, ... positions apart
_MOST_OPS = 256  # per group, evenly spread over time: enough for the median
_DRIFT_SPAN_NS = 10_000_000_000
_DRIFT_OPS = 8

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Lead:
    """The lead of a clock: `offset_ns` at `middle_ns`, growing by `rate` nanoseconds per nanosecond."""

    offset_ns: int
    rate: float = 0.0
    middle_ns: int = 0

    def taken_off(self, times_ns: pd.Series[int]) -> pd.Series[int]:
        """Return times on the reference clock; absent times stay absent."""
        if not self.rate:
            return times_ns - self.offset_ns
        drifted: pd.Series[int] = ((times_ns - self.middle_ns) * self.rate).round().astype(times_ns.dtype)
        return times_ns - self.offset_ns - drifted


@dataclass(frozen=True)
class Clocks:
    """The leads of the ranks' clocks over the clock of the lowest rank connected with each by collectives.

    Attributes
    ----------
    ranks
        The ranks, ascending.
    offsets
        Leads in nanoseconds by position in `ranks`, at `middle_ns`; 0 without common collectives.
    rates
        Growth of the lead in nanoseconds per nanosecond; 0 unless the collectives span 10 s.
    spreads
        The median deviation of ends of collectives from the estimate; -1 without common collectives.
    collectives
        The number of ends compared.
    references
        The position of each rank's reference: the lowest of the ranks that collectives connect.
    middle_ns
        The time at which `offsets` holds.
    """

    ranks: Int64
    offsets: Int64
    rates: Floats
    spreads: Int64
    collectives: Int64
    references: Int64
    middle_ns: int

    def corrected(self, rank: Int64, times_ns: Int64) -> Int64:
        """Return times of ranks on the common clock."""
        place = np.searchsorted(self.ranks, rank)
        drifted = np.rint(self.rates[place] * (times_ns - self.middle_ns)).astype(np.int64)
        moments: Int64 = times_ns - self.offsets[place] - drifted
        return moments

    def recorded(self, rank: int, times_ns: Int64) -> Int64:
        """Return times of the common clock as the rank's clock recorded them."""
        at = int(np.searchsorted(self.ranks, rank))
        ahead = self.offsets[at] + np.rint(self.rates[at] * (times_ns - self.middle_ns)).astype(np.int64)
        moments: Int64 = times_ns + ahead
        return moments

    def lead(self, rank: int) -> Lead:
        """Return the lead of a rank's clock."""
        at = int(np.searchsorted(self.ranks, rank))
        return Lead(int(self.offsets[at]), float(self.rates[at]), self.middle_ns)


def clocks(rows: pd.DataFrame) -> Clocks:
    """Estimate clock offsets: all members of a collective end at the same time.

    The offset of two ranks is the median difference of their ends; all offsets are fitted together by least squares,
    weighted by the number of collectives and the spread of the differences. If the collectives span more than 10 s, a
    line over time is fitted to the differences of two ranks instead of a constant.

    Parameters
    ----------
    rows
        The result of :func:`npuprof.analysis.rank_waits.collectives`.
    """
    ranks = np.unique(rows["rank"].to_numpy(np.int64))
    first, second, ends, ahead = _pairs(rows, ranks)
    middle = int((int(ends.min()) + int(ends.max())) // 2) if len(ends) else 0
    span = int(ends.max() - ends.min()) if len(ends) else 0
    key = first * len(ranks) + second
    order = np.lexsort((ends, key))
    pairs, begins = np.unique(key[order], return_index=True)
    bounds = np.append(begins, len(order))
    fits = [
        _fit(ends[order[a:b]] - middle, ahead[order[a:b]], drifts=span > _DRIFT_SPAN_NS)
        for a, b in itertools.pairwise(bounds.tolist())
    ]
    middles, slopes, spreads, counts = np.array(fits, np.float64).reshape(-1, 4).T
    graph = _Graph(len(ranks), pairs // max(1, len(ranks)), pairs % max(1, len(ranks)), counts / spreads**2)
    is_known = np.isfinite(slopes)
    drifting = _Graph(len(ranks), graph.first[is_known], graph.second[is_known], graph.weights[is_known])
    ends_of, spread_of = np.zeros(len(ranks), np.int64), np.full(len(ranks), -1, np.int64)
    for side in (graph.first, graph.second):
        np.add.at(ends_of, side, counts.astype(np.int64))
        np.maximum.at(spread_of, side, spreads.astype(np.int64))
    return Clocks(
        ranks,
        np.rint(graph.solved(middles)).astype(np.int64),
        drifting.solved(slopes[is_known]),
        spread_of,
        ends_of,
        graph.references(),
        middle,
    )


def _pairs(rows: pd.DataFrame, ranks: Int64) -> tuple[Int64, Int64, Int64, Int64]:
    """Return pairs of members of an operator by position, the end on the first, and how much later the second ends."""
    types, names = pd.factorize(rows["op_type"])
    together = pd.Series(names, dtype=object).astype(str).str.contains(_TOGETHER, case=False, regex=True)
    is_selected = together.to_numpy(bool)[types] & (rows["members"].to_numpy() > 1)
    group = pd.factorize(rows["group"])[0]
    ops = pd.DataFrame({"op": rows["op"], "group": group})[is_selected].drop_duplicates("op")
    place, size = ops.groupby("group").cumcount(), ops.groupby("group")["op"].transform("size")
    every = -(-size // _MOST_OPS)
    is_taken = np.zeros(int(rows["op"].max() if len(rows) else -1) + 1, bool)
    is_taken[ops["op"][(place % every == 0)].to_numpy(np.int64)] = True
    rows = rows[is_selected & is_taken[rows["op"].to_numpy(np.int64)]]
    place_of = np.searchsorted(ranks, rows["rank"].to_numpy(np.int64))
    op = rows["op"].to_numpy(np.int64)
    end = rows["start_ns"].to_numpy(np.int64) + rows["duration_ns"].to_numpy(np.int64)
    order = np.lexsort((place_of, op))
    op, place_of, end = op[order], place_of[order], end[order]
    pairs: list[tuple[Int64, Int64, Int64, Int64]] = []
    for step in _steps(int(rows["members"].max()) if len(rows) else 0):
        same_rows = np.flatnonzero((op[:-step] == op[step:]) & (place_of[:-step] < place_of[step:]))
        pairs.append(
            (place_of[same_rows], place_of[same_rows + step], end[same_rows], end[same_rows + step] - end[same_rows])
        )
    nothing = (np.zeros(0, np.int64),) * 4
    first, second, ends, ahead = (np.concatenate(column) for column in zip(nothing, *pairs, strict=True))
    return first, second, ends, ahead


def _steps(members: int) -> Sequence[int]:
    near = list(range(1, min(members, _ALL_PAIRS)))
    return near + [1 << power for power in range(3, members.bit_length()) if _ALL_PAIRS <= 1 << power < members]


def _fit(times: Int64, ahead: Int64, *, drifts: bool) -> tuple[float, float, float, float]:
    """Return offset at the middle, its growth (NaN if unknown), spread of residuals, and number of differences."""
    middle, slope = _median(ahead), np.nan
    left = ahead - middle
    if drifts and len(times) >= _DRIFT_OPS and np.ptp(times) > _DRIFT_SPAN_NS // 2:
        seconds = times / 1e9
        near = np.abs(left) <= 10 * max(_LEAST_SPREAD_NS, int(np.percentile(np.abs(left), 75)))
        slope = float(np.polyfit(seconds[near], left[near].astype(np.float64), 1)[0]) / 1e9
        left = left - np.rint(slope * times).astype(np.int64)
        more = _median(left)
        middle, left = middle + more, left - more
    spread = max(_LEAST_SPREAD_NS, _median(np.abs(left)))
    return float(middle), slope, float(spread), float(len(ahead))


@dataclass(frozen=True)
class _Graph:
    """Clock differences between ranks, by position, with their weights."""

    count: int
    first: Int64
    second: Int64
    weights: Floats

    def references(self) -> Int64:
        """Return the lowest rank connected with each rank, by position."""
        lowest = np.arange(self.count)
        for component in self._components():
            lowest[component] = component[0]
        return lowest

    def _components(self) -> list[list[int]]:
        return _components(self.count, list(zip(self.first.tolist(), self.second.tolist(), strict=True)))

    def solved(self, differences: Floats) -> Floats:
        """Return the value of each rank, where the lowest rank of each component has 0."""
        normal, right = np.zeros((self.count, self.count)), np.zeros(self.count)
        np.add.at(normal, (self.first, self.first), self.weights)
        np.add.at(normal, (self.second, self.second), self.weights)
        np.add.at(normal, (self.first, self.second), -self.weights)
        np.add.at(normal, (self.second, self.first), -self.weights)
        np.add.at(right, self.second, self.weights * differences)
        np.add.at(right, self.first, -self.weights * differences)
        values = np.zeros(self.count)
        for component in self._components():
            free = component[1:]  # the lowest rank is the reference
            if len(free):
                scale = normal[free, free].max()
                values[free] = np.linalg.solve(normal[np.ix_(free, free)] / scale, right[free] / scale)
        return values


def _components(count: int, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the connected components of a graph, each in ascending order."""
    label = list(range(count))

    def root(node: int) -> int:
        while label[node] != node:
            label[node] = label[label[node]]
            node = label[node]
        return node

    for a, b in pairs:
        low, high = sorted((root(a), root(b)))
        label[high] = low
    parts: dict[int, list[int]] = {}
    for node in range(count):
        parts.setdefault(root(node), []).append(node)
    return list(parts.values())


def _median(values: Int64) -> int:
    ordered = np.sort(values)
    return int((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2)
