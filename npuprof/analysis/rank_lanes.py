"""Replays of ranks whose collectives overlap computing: a lane of kernels and one of collectives per rank.

A collective begins on a rank when the kernels that it needs have ended and the one before it has; it moves data when
all members have begun. Some kernels wait for a collective. Nothing here records these dependencies, so that they are
inferred: from what happens in all steps of all ranks at the same place of the program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from npuprof.analysis.intervals import covering, intersection, total
from npuprof.analysis.prediction import TOLERANCE
from npuprof.analysis.rank_replay import Floats
from npuprof.arrays import Bools, Int64

_NEAR_NS = 20_000
"""What follows a collective sooner than that may have waited for it."""

_HIDDEN = 0.01  # of the time of collectives: more of it beside kernels makes their order no replay

Tables = Mapping[str, pd.DataFrame]


def overlaps(tables: Tables) -> bool:
    """Return whether kernels of a rank run during its collectives, for more than 1 % of the time of these.

    Of a rank without kernels the vendor's breakdown of its steps tells.
    """
    if not len(tables["kernels"]):
        sums = tables["step_times"][["overlapped_ns", "communication_ns"]].sum()
        return bool(sums["overlapped_ns"] > _HIDDEN * sums["communication_ns"])
    spans = [
        covering(rows["start_ns"].to_numpy(np.int64), rows["duration_ns"].to_numpy(np.int64))
        for rows in (tables["kernels"], tables["communication"])
    ]
    return total(intersection(*spans)) > _HIDDEN * total(spans[1])


@dataclass(frozen=True)
class Lanes:
    """Ranks that run the same kernels and collectives in each step, on a clock that begins at a common end.

    Attributes
    ----------
    ranks
        The ranks, in order; arrays have a row for each.
    steps
        The number of steps.
    start_ns, length_ns
        Start and duration of each kernel.
    arrive_ns, end_ns
        Start and end of each collective.
    needs
        The number of kernels that end before each collective begins.
    gates
        The kernel that waits for each collective; -1 for none.
    is_sure
        Whether that was seen in a step.
    """

    ranks: tuple[int, ...]
    steps: int
    start_ns: Floats
    length_ns: Floats
    arrive_ns: Floats
    end_ns: Floats
    needs: Int64
    gates: Int64
    is_sure: Bools

    @property
    def error(self) -> float:
        """The share by which a replay with the lags of other steps misses the recorded time; infinite for one step."""
        if self.steps < 2:
            return float("inf")
        lags = _lags(self)
        of_others = map(self._of_other_steps, (lags.kernels, lags.collectives, lags.moving))
        usual, recorded = _Lags(lags.begin, *of_others), _replay(self, lags, self.length_ns)
        return abs(_replay(self, usual, self.length_ns) - recorded) / recorded

    @property
    def is_right(self) -> bool:
        """Whether a replay with the lags of other steps misses the recorded time by at most 1 %."""
        return self.error <= TOLERANCE

    def extra_ns(self, ranks: Collection[int]) -> int:
        """Return how much longer the slowest of some ranks takes in a step, apart from waits."""
        slower = self._without(ranks)
        if slower is None:
            return 0
        lags, lengths = slower
        before = self.length_ns.sum(axis=1) + _lags(self).kernels.sum(axis=1)
        after = lengths.sum(axis=1) + lags.kernels.sum(axis=1)
        return max(0, round(float((before - after).max()) / self.steps))

    def gains_ns(self, ranks: Collection[int]) -> tuple[int, int] | None:
        """Return limits of what a step gains if some ranks take as long as the others; None if there are no others.

        Dependencies that were not seen are replayed with and without. What a replay misses of a step is not sure.
        """
        gains = []
        for each in (self, replace(self, gates=np.where(self.is_sure, self.gates, -1))):
            faster = each._without(ranks)
            if faster is None:
                return None
            gain = _replay(each, _lags(each), each.length_ns) - _replay(each, *faster)
            gains.append(max(0, round(gain / self.steps)))
        missed = round(self.error * self.step_ns) if self.is_right else max(gains)
        return max(0, min(gains) - missed), max(gains)

    @property
    def step_ns(self) -> float:
        """The mean time of a step."""
        return float(max(self.end_ns.max(), (self.start_ns + self.length_ns).max()) - self.start_ns.min()) / self.steps

    def _without(self, ranks: Collection[int]) -> tuple[_Lags, Floats] | None:
        """Return lags and durations in which some ranks take as long as the others in sum."""
        slow = np.isin(self.ranks, list(ranks))
        if slow.all() or not slow.any():
            return None
        lags = _lags(self)
        kernels, lengths = (_paced(times, slow) for times in (lags.kernels, self.length_ns))
        begin = np.where(slow, np.minimum(lags.begin, np.median(lags.begin[~slow])), lags.begin)
        return replace(lags, begin=begin, kernels=kernels), lengths

    def _of_other_steps(self, times: Floats) -> Floats:
        """Return the median of each time in the other steps."""
        by_step = times.reshape(len(times), self.steps, -1)
        others = [np.median(np.delete(by_step, step, axis=1), axis=1) for step in range(self.steps)]
        usual: Floats = np.stack(others, axis=1).reshape(times.shape)
        return usual


@dataclass(frozen=True)
class _Lags:
    """When ranks begin, what passes before each piece of work beyond what it waits for, and how long data moves."""

    begin: Floats
    kernels: Floats
    collectives: Floats
    moving: Floats


def _paced(times: Floats, slow: Bools) -> Floats:
    """Return times in which slow ranks take as long in sum as the median of the others."""
    usual = np.median(times[~slow], axis=0).sum()
    factors = np.where(slow, np.minimum(usual / np.maximum(times.sum(axis=1), 1.0), 1.0), 1.0)
    paced: Floats = times * factors[:, None]
    return paced


def lanes(members: Mapping[int, Tables]) -> Lanes | None:
    """Return the lanes of ranks that all have the same collectives; None if they are not of one program.

    Parameters
    ----------
    members
        The tables of each rank.
    """
    ranks = tuple(sorted(members))
    recorded = [_in_steps(members[rank]) for rank in ranks]
    if len(ranks) < 2 or any(of_rank is None for of_rank in recorded):
        return None
    first = recorded[0]
    same = [of_rank for of_rank in recorded if of_rank is not None and first is not None and of_rank.like(first)]
    if len(same) < len(ranks):
        return None
    start, length, arrive, end = (
        np.stack([getattr(each, name) for each in same]) for name in ("start_ns", "length_ns", "arrive_ns", "end_ns")
    )
    origin = end[:, :1]  # a collective ends on all members at once
    start, arrive, end = (times - origin for times in (start, arrive, end))
    steps, count, ops = same[0].steps, start.shape[1], end.shape[1]
    of_op = np.arange(ops) // (ops // steps)
    ended = np.stack([np.searchsorted(each, at, side="right") for each, at in zip(start + length, arrive, strict=True)])
    begun = np.stack([np.searchsorted(each, at, side="left") for each, at in zip(start, end, strict=True)])
    base = of_op * (count // steps)
    needs = np.tile((ended - base).min(axis=0).reshape(steps, -1).min(axis=0), steps) + base
    gates = np.tile((begun - base).max(axis=0).reshape(steps, -1).max(axis=0), steps) + base
    inside = (gates > 0) & (gates < count)
    kernel = np.where(inside, gates, 1)
    free = (start + length)[:, kernel - 1] < end
    near = (start[:, kernel] >= end) & (start[:, kernel] - end <= _NEAR_NS)
    seen = (free & near & inside).any(axis=0).reshape(steps, -1).any(axis=0)
    return Lanes(
        ranks,
        steps,
        start,
        length,
        arrive,
        end,
        np.maximum(needs, 0),
        np.where(inside, gates, -1),
        np.tile(seen, steps),
    )


@dataclass(frozen=True)
class _Recorded:
    """Kernels and collectives of a rank in order, as many in each step."""

    steps: int
    kinds: tuple[str, ...]
    start_ns: Floats
    length_ns: Floats
    arrive_ns: Floats
    end_ns: Floats

    def like(self, other: _Recorded) -> bool:
        """Return whether another rank runs the same."""
        return (self.steps, len(self.start_ns), self.kinds) == (other.steps, len(other.start_ns), other.kinds)


def _in_steps(tables: Tables) -> _Recorded | None:
    """Return what a rank ran; None if its steps differ, or kernels or collectives run beside each other."""
    parts = []
    for name in ("kernels", "communication"):
        rows = tables[name].sort_values("start_ns", kind="stable")
        steps = rows["step"]
        if not len(rows) or steps.isna().any():
            return None
        numbers, counts = np.unique(steps.to_numpy(np.int64), return_counts=True)
        start, length = (rows[column].to_numpy(np.int64) for column in ("start_ns", "duration_ns"))
        if len(set(counts.tolist())) > 1 or (np.diff(start) < length[:-1]).any():
            return None
        if (np.diff(steps.to_numpy(np.int64)) < 0).any():
            return None
        parts.append((rows, numbers, start, length))
    (_, numbers, start, length), (operators, others, arrive, moved) = parts
    if not np.array_equal(numbers, others) or operators["group"].nunique(dropna=False) > 1:
        return None
    origin = int(start[0])
    kinds = tuple(operators["op_type"].astype(str))
    relative = [(times - origin).astype(np.float64) for times in (start, arrive, arrive + moved)]
    return _Recorded(len(numbers), kinds, relative[0], length.astype(np.float64), relative[1], relative[2])


def _lags(played: Lanes) -> _Lags:
    """Return what passes before kernels and collectives beyond what they wait for, and the time to move data."""
    ends = played.start_ns + played.length_ns
    ready = np.concatenate([played.start_ns[:, :1], ends[:, :-1]], axis=1)
    gated = np.flatnonzero(played.gates >= 0)
    for op in gated.tolist():
        kernel = played.gates[op]
        ready[:, kernel] = np.maximum(ready[:, kernel], played.end_ns[:, op])
    kernels = np.maximum(played.start_ns - ready, 0.0)
    needed = np.where(played.needs > 0, ends[:, np.maximum(played.needs - 1, 0)], played.start_ns[:, :1])
    free = np.concatenate([needed[:, :1], played.end_ns[:, :-1]], axis=1)
    collectives = np.maximum(played.arrive_ns - np.maximum(needed, free), 0.0)
    moving = (played.end_ns - played.arrive_ns).min(axis=0, keepdims=True)
    return _Lags(played.start_ns[:, 0], kernels, collectives, moving)


def _replay(played: Lanes, lags: _Lags, length_ns: Floats) -> float:
    """Return the time from the first kernel to the last end with other lags and durations."""
    work = np.concatenate([np.zeros((len(length_ns), 1)), np.cumsum(lags.kernels + length_ns, axis=1)], axis=1)
    clock, place, free = lags.begin.copy(), 0, np.full(len(length_ns), -np.inf)
    begun = played.start_ns.min()
    ends = np.zeros(len(played.needs))
    events = sorted(
        [(int(needed), 0, op) for op, needed in enumerate(played.needs)]
        + [(int(gate), 1, op) for op, gate in enumerate(played.gates) if gate >= 0]
    )
    for at, is_gate, op in events:
        clock = clock + work[:, at] - work[:, place]
        place = at
        if is_gate:
            clock = np.maximum(clock, ends[op])
        else:
            arrived = np.maximum(clock, free) + lags.collectives[:, op]
            ends[op] = float(arrived.max()) + float(lags.moving[0, op])
            free = np.full(len(clock), ends[op])
    clock = clock + work[:, -1] - work[:, place]
    return float(max(clock.max(), free.max()) - begun)
