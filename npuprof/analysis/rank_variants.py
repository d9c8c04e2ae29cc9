"""Replays of a job in several variants at once: which of some changes are made, and how long each step then takes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from npuprof.analysis.rank_replay import Floats, Job, checked_waves
from npuprof.arrays import Bools, Int64

_AT_ONCE = 1 << 16  # rows whose times in all variants are in memory


def _no_rows() -> Int64:
    return np.zeros(0, np.int64)


def _no_times() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True)
class Less:
    """How much less time a job takes without a fault: nothing by default."""

    # rows, own_ns: rows of the job, each once, and how much shorter the time of the rank before each is; negative where
    # longer.
    rows: Int64 = field(default_factory=_no_rows)
    own_ns: Floats = field(default_factory=_no_times)
    # ops, moving_ns: operators, and how much sooner the data of each has moved.
    ops: Int64 = field(default_factory=_no_rows)
    moving_ns: Floats = field(default_factory=_no_times)


def without(own_ns: Floats, moving_ns: Floats, faults: Sequence[Less]) -> tuple[Floats, Floats]:
    """Return the times before each row and of each operator without some faults."""
    own_times, moving = own_ns.copy(), moving_ns.copy()
    for fault in faults:
        own_times[fault.rows] = _less(own_times[fault.rows], fault.own_ns)
        moving[fault.ops] = _less(moving[fault.ops], fault.moving_ns)
    return own_times, moving


def step_times(played: Job, own_ns: Floats, moving_ns: Floats, faults: Sequence[Less], variants: Bools) -> Floats:
    """Return how long each step takes in each variant of a job, by replays of all of them together.

    Parameters
    ----------
    own_ns, moving_ns
        The time of each row's rank before it arrives, and of each operator to move data, with all faults.

    Returns
    -------
    ndarray of shape (variants, steps)
        Nanoseconds from the last end of a step to that of the next one; those of a variant add up to its duration.
    """
    order = checked_waves(played)
    place = np.searchsorted(np.array(played.ranks), played.rows["rank"].to_numpy(np.int64))[order.rows]
    op = played.rows["op"].to_numpy(np.int64)[order.rows]
    step_of = played.step_places[order.rows]
    moving = _in_variants(moving_ns, [(fault.ops, fault.moving_ns) for fault in faults], variants)
    position = np.empty(len(order.rows), np.int64)
    position[order.rows] = np.arange(len(order.rows))
    changed = [_in_order(position[fault.rows], fault.own_ns) for fault in faults]
    own_times = np.asarray(own_ns, np.float64)[order.rows]
    clock = np.zeros((len(played.ranks), len(variants)))
    ends = np.zeros((len(played.steps), len(variants)))
    waves = np.array(order.begins)
    for first_wave, last_wave in _blocks(waves):
        low, high = int(waves[first_wave]), int(waves[last_wave])
        before = _in_variants(own_times[low:high], _within(changed, low, high), variants)
        for begin, end in itertools.pairwise(waves[first_wave : last_wave + 1].tolist()):
            ranks, ops = place[begin:end], op[begin:end]
            first = np.flatnonzero(np.append(True, ops[1:] != ops[:-1]))
            arrived = clock[ranks] + before[begin - low : end - low]
            finished = np.maximum.reduceat(arrived, first, axis=0) + moving[ops[first]]
            clock[ranks] = np.repeat(finished, np.diff(np.append(first, end - begin)), axis=0)
            np.maximum.at(ends, step_of[begin:end][first], finished)
    return np.diff(np.maximum.accumulate(ends, axis=0), axis=0, prepend=0).T


def _in_variants(times_ns: Floats, changed: Sequence[tuple[Int64, Floats]], variants: Bools) -> Floats:
    """Return times in each variant, of shape (rows, variants)."""
    whole = np.repeat(np.asarray(times_ns, np.float64)[:, None], len(variants), axis=1)
    for (rows, less_ns), chosen in zip(changed, variants.T, strict=True):
        if len(rows):
            whole[rows] = _less(whole[rows], less_ns[:, None] * chosen)
    return whole


def _less(times_ns: Floats, less_ns: Floats) -> Floats:
    """Return less time, never below 0; ends that differ between clocks leave times that are negative by themselves."""
    return np.maximum(times_ns - less_ns, np.minimum(times_ns, 0.0))


def _in_order(rows: Int64, less_ns: Floats) -> tuple[Int64, Floats]:
    order = np.argsort(rows)
    return rows[order], less_ns[order]


def _within(changed: Sequence[tuple[Int64, Floats]], low: int, high: int) -> list[tuple[Int64, Floats]]:
    inside = [slice(*np.searchsorted(rows, (low, high))) for rows, _ in changed]
    return [(rows[here] - low, less_ns[here]) for (rows, less_ns), here in zip(changed, inside, strict=True)]


def _blocks(waves: Int64) -> list[tuple[int, int]]:
    """Return the first and the last wave of stretches of few rows."""
    block = waves[:-1] // _AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(waves) - 1]
    return [pair for pair in itertools.pairwise(cuts) if pair[0] < pair[1]]
