"""Clock offsets between ranks, by weighted least squares over the graph of groups.

Collectives tell them; between ranks that no collectives connect, sends whose two sides end together do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Int64

_TOGETHER = r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier"
"""Collectives that end on all members at the same time; sends end early where data is buffered."""

_SENDS = r"send|recv|receive"

_LEAST_SPREAD_NS = 100
_CLOSE_NS = 100_000
"""Both sides of a send end within this time if neither buffers data: 52 us were measured."""
_LEAST_SENDS = 5
_MOSTLY = 0.4  # of the sends of a rank in a group of several: those with one of its two neighbours
_SECOND = 0.75  # of the most coinciding ends: as many at another offset make both of them a guess
_ALL_PAIRS = 8  # members of which all pairs are compared; in larger groups, also those 16, 32, ... positions apart
_MOST_OPS = 256  # per group, evenly spread over time: enough for the median
_DRIFT_SPAN_NS = 10_000_000_000
_DRIFT_OPS = 8

_MOST_PAIRS = 4_000_000

Floats: TypeAlias = npt.NDArray[np.float64]
_Times: TypeAlias = tuple[Int64, Int64, Int64, Int64]
_NO_TIMES: _Times = (np.zeros(0, np.int64),) * 4


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
    """The leads of the ranks' clocks over the clock of the lowest rank connected with each by collectives."""

    ranks: Int64  # the ranks, ascending
    offsets: Int64  # leads in nanoseconds by position in `ranks`, at `middle_ns`; 0 without common collectives
    rates: Floats  # growth of the lead in nanoseconds per nanosecond; 0 unless the collectives span 10 s
    spreads: Int64  # the median deviation of ends of collectives from the estimate; -1 without common collectives
    collectives: Int64  # the number of ends compared
    references: Int64  # the position of each rank's reference: the lowest of the ranks that collectives connect
    middle_ns: int  # the time at which `offsets` holds

    def corrected(self, rank: Int64, times_ns: Int64) -> Int64:
        """Return times of ranks on the common clock."""
        place = np.searchsorted(self.ranks, rank)
        drifted = np.rint(self.rates[place] * (times_ns - self.middle_ns)).astype(np.int64)
        return times_ns - self.offsets[place] - drifted

    def recorded(self, rank: int, times_ns: Int64) -> Int64:
        """Return times of the common clock as the rank's clock recorded them."""
        at = int(np.searchsorted(self.ranks, rank))
        ahead = self.offsets[at] + np.rint(self.rates[at] * (times_ns - self.middle_ns)).astype(np.int64)
        return times_ns + ahead

    def lead(self, rank: int) -> Lead:
        """Return the lead of a rank's clock."""
        at = int(np.searchsorted(self.ranks, rank))
        return Lead(int(self.offsets[at]), float(self.rates[at]), self.middle_ns)


def clocks(rows: pd.DataFrame) -> Clocks:
    """Estimate clock offsets: all members of a collective end at the same time, and both sides of an unbuffered send.

    The offset of two ranks is the median difference of their ends; all offsets are fitted together by least squares,
    weighted by the number of collectives and the spread of the differences. If the collectives span more than 10 s, a
    line over time is fitted to the differences of two ranks instead of a constant.
    """
    ranks = np.unique(rows["rank"].to_numpy(np.int64))
    times = _pairs(rows, ranks)
    joined = _components(len(ranks), list(zip(times[0].tolist(), times[1].tolist(), strict=True)))
    of_sends = _sends(rows, ranks, joined) if len(joined) > 1 else _NO_TIMES
    first, second, ends, ahead = _and(times, of_sends)
    middle = int((int(ends.min()) + int(ends.max())) // 2) if len(ends) else 0
    span = int(ends.max() - ends.min()) if len(ends) else 0
    drifts = span > _DRIFT_SPAN_NS or _are_drifting(of_sends, len(ranks))
    fits, keys = [], []
    for pair, at, more in _of_each_pair(first * len(ranks) + second, ends, ahead):
        keys.append(pair)
        fits.append(_fit(at - middle, more, drifts=drifts, least_ns=min(_DRIFT_SPAN_NS, span) // 2))
    middles, slopes, spreads, counts = np.array(fits, np.float64).reshape(-1, 4).T
    pairs = np.array(keys, np.int64)
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


def _pairs(rows: pd.DataFrame, ranks: Int64) -> _Times:
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
    first, second, ends, ahead = (np.concatenate(column) for column in zip(_NO_TIMES, *pairs, strict=True))
    return first, second, ends, ahead


def _and(some: _Times, more: _Times) -> _Times:
    first, second, ends, ahead = (np.concatenate(each) for each in zip(some, more, strict=True))
    return first, second, ends, ahead


def _of_each_pair(key: Int64, ends: Int64, ahead: Int64) -> Iterator[tuple[int, Int64, Int64]]:
    """Yield each pair of ranks, with the ends on the first in order of time, and how much later the second ends."""
    order = np.lexsort((ends, key))
    pairs, begins = np.unique(key[order], return_index=True)
    for pair, rows in zip(pairs.tolist(), np.split(order, begins[1:]) if len(order) else [], strict=True):
        yield pair, ends[rows], ahead[rows]


def _sends(rows: pd.DataFrame, ranks: Int64, joined: Sequence[Sequence[int]]) -> _Times:
    """Return what :func:`_pairs` does, of sends between ranks that no collectives connect, where these ends tell.

    Both sides end together if no data is buffered. Sends of two ranks are joined in order. In a group of several, the
    offset of neighbours is the one by which by far most of their ends coincide.
    """
    component = np.zeros(len(ranks), np.int64)
    for number, members in enumerate(joined):
        component[list(members)] = number
    is_send = rows["op_type"].astype(str).str.contains(_SENDS, case=False, regex=True).to_numpy(bool)
    sent = pd.DataFrame(
        {
            "place": np.searchsorted(ranks, rows["rank"].to_numpy(np.int64)),
            "group": pd.factorize(rows["group"])[0],
            "step": rows["step"].to_numpy(np.int64, na_value=-1),
            "op": rows["op"].to_numpy(np.int64),
            "start": rows["start_ns"].to_numpy(np.int64),
            "end": (rows["start_ns"] + rows["duration_ns"]).to_numpy(np.int64),
        }
    )[is_send]
    found = _NO_TIMES
    for _, of_group in sent.groupby("group", sort=False):
        places = sorted(set(of_group["place"].tolist()))
        for low, high in itertools.pairwise(places):
            if component[low] != component[high]:
                sides = (of_group[(of_group["place"] == place).to_numpy(bool)] for place in (low, high))
                found = _and(found, _of_two(low, high, *sides, alone=len(places) == 2))
    return found


def _are_drifting(times: _Times, ranks: int) -> bool:
    """Return whether matched ends are far from one offset, so that only drift explains why they were matched."""
    first, second, ends, ahead = times
    pairs = _of_each_pair(first * ranks + second, ends, ahead)
    return any(_fit(at - at[0], more, drifts=False)[2] > _CLOSE_NS for _, at, more in pairs)


def _of_two(low: int, high: int, one: pd.DataFrame, other: pd.DataFrame, *, alone: bool) -> _Times:
    """Return the matched ends of two ranks; none where they do not tell the offset."""
    matched = _in_order(one, other) if alone else _coinciding(one, other)
    if len(matched) < _LEAST_SENDS:
        return _NO_TIMES
    start, end, start_other, end_other = matched.T
    ahead = end_other - end
    offset, slope, spread, _ = _fit(end - end[0], ahead, drifts=False)
    if spread > _CLOSE_NS or np.ptp(end) > _DRIFT_SPAN_NS:
        offset, slope, spread, _ = _fit(end - end[0], ahead, drifts=True, least_ns=0)
    drifted = np.nan_to_num(slope) * (end - end[0]) + offset
    # Neither side ends before the other begins: by a wrong offset one may.
    crosses = (end_other - drifted < start - _CLOSE_NS) | (end < start_other - drifted - _CLOSE_NS)
    if spread > _CLOSE_NS or crosses.any():
        return _NO_TIMES
    places = (np.full(len(end), place, np.int64) for place in (low, high))
    return (*places, end, ahead)


def _in_order(one: pd.DataFrame, other: pd.DataFrame) -> Int64:
    """Return start and end of the k-th send of one rank and of another; none if their numbers differ in a step."""
    others = dict(iter(other.groupby("step")))
    parts = [(part, others[step]) for step, part in one.groupby("step") if step in others]
    if any(len(mine) != len(of_other) for mine, of_other in parts):
        return np.zeros((0, 4), np.int64)
    columns = ["start", "end"]
    same = [np.hstack([each.sort_values("end")[columns].to_numpy(np.int64) for each in sides]) for sides in parts]
    return np.concatenate([np.zeros((0, 4), np.int64), *same])


def _coinciding(one: pd.DataFrame, other: pd.DataFrame) -> Int64:
    """Return what :func:`_in_order` does, of sends whose ends coincide by one offset much more often than by others."""
    both = one.merge(other, on="step", suffixes=("", "_other")) if len(one) * len(other) < _MOST_PAIRS else one[:0]
    if not len(both):
        return np.zeros((0, 4), np.int64)
    both = both.assign(ahead=both["end_other"] - both["end"]).sort_values("ahead", ignore_index=True)
    ahead = both["ahead"].to_numpy(np.int64)
    count = np.searchsorted(ahead, ahead + 2 * _CLOSE_NS, side="right") - np.arange(len(ahead))
    best = int(np.argmax(count))
    far = np.abs(ahead - ahead[best]) > 4 * _CLOSE_NS
    if count[best] < _MOSTLY * min(len(one), len(other)) or count[far].max(initial=0) > _SECOND * count[best]:
        return np.zeros((0, 4), np.int64)
    matched = both.iloc[best : best + int(count[best])].sort_values("end")
    return matched[["start", "end", "start_other", "end_other"]].to_numpy(np.int64)


def _steps(members: int) -> Sequence[int]:
    near = list(range(1, min(members, _ALL_PAIRS)))
    return near + [1 << power for power in range(3, members.bit_length()) if _ALL_PAIRS <= 1 << power < members]


def _fit(
    times: Int64, ahead: Int64, *, drifts: bool, least_ns: int = _DRIFT_SPAN_NS // 2
) -> tuple[float, float, float, float]:
    """Return offset at the middle, its growth (NaN if unknown), spread of residuals, and number of differences."""
    middle, slope = _median(ahead), np.nan
    left = ahead - middle
    if drifts and len(times) >= _DRIFT_OPS and np.ptp(times) > least_ns:
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
