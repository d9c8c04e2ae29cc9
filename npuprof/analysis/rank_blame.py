"""The root causes of waits in a job: time outside collectives on some rank, or transfers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.rank_replay import Floats, Job, job
from npuprof.analysis.rank_waits import counts
from npuprof.arrays import Bools, Int32, Int64

MOVING = "moving"
"""The cause of waits that only transfers of earlier collectives explain."""
SMALL = "small"
"""The cause of waits that are too short, or too few, to name a rank for."""

ABSENT = "absent"
"""The cause of waits in operators whose last member is not here."""

_WORTH = 0.01  # of the time: what a rank is named for

_ROUNDING = 1e-6  # of a sum of waits: what is beyond it is no error of floats
_AT_ONCE = 1 << 18  # rows that are looked up together: intermediate results of millions take as much memory as the job
_MOST_RANKS = 64  # in larger jobs, waits are not split by the rank that waited


def blame(communication: pd.DataFrame) -> pd.DataFrame:
    """Return the root causes of the waits of all ranks, traced through the ranks that waited in between.

    A rank waits for the rank that arrives last. Since their previous common collective, that rank spent more time
    outside collectives, in waits, or in transfers, and the wait is split in proportion. Time outside collectives is a
    root cause; a wait is attributed to the rank that it was for, and so on.

    Parameters
    ----------
    communication
        Stacked ``communication`` tables, see :func:`npuprof.analysis.rank_waits.collectives`.

    Returns
    -------
    pandas.DataFrame
        ``rank`` (the rank that waited; <NA> for all ranks together in a job of more than 64), ``cause`` (``own``: time
        outside collectives, or ``moving``: transfers), ``root_rank`` (<NA> for ``moving``) and ``wait_ns``, whose sum
        over a rank is exactly its waiting time.
    """
    return blame_of(job(communication))


def blame_of(played: Job, counted: Bools | None = None, absent: Bools | None = None) -> pd.DataFrame:
    """Return the result of :func:`blame` for a job.

    Waits of rows that do not count are :data:`SMALL`, those for members that are not here :data:`ABSENT`.
    """
    apart = len(played.ranks) <= _MOST_RANKS
    number = {rank: place if apart else 0 for place, rank in enumerate(played.ranks)}
    waited_rows = played.rows["wait_ns"].to_numpy(np.int64)
    counted = np.ones(len(waited_rows), bool) if counted is None else counted
    absent = np.zeros(len(waited_rows), bool) if absent is None else absent & counted
    counted = counted & ~absent
    roots = blamed(played, number, counted)
    victims = played.rows["rank"].map(number).to_numpy(np.int64)
    waits, small, late = np.zeros((3, len(roots)), np.int64)
    np.add.at(waits, victims, waited_rows * counted)
    np.add.at(small, victims, waited_rows * ~(counted | absent))
    np.add.at(late, victims, waited_rows * absent)
    ranks = played.ranks
    records = [
        (
            ranks[row] if apart else pd.NA,
            "own" if place < len(ranks) else MOVING,
            ranks[place] if place < len(ranks) else pd.NA,
            int(time),
        )
        for row, exact in enumerate(roots)
        for place, time in enumerate(_whole(exact, int(waits[row])))
        if time
    ]
    records += [
        (ranks[row] if apart else pd.NA, cause, pd.NA, time)
        for cause, times in ((SMALL, small), (ABSENT, late))
        for row, time in enumerate(times.tolist())
        if time
    ]
    frame: pd.DataFrame = pd.DataFrame(records, columns=["rank", "cause", "root_rank", "wait_ns"])
    return frame.astype({"rank": "Int64", "root_rank": "Int64", "wait_ns": "int64"})


def certain_blame(played: Job, absent: Bools | None = None) -> pd.DataFrame:
    """Return the result of :func:`blame` for a job, without naming anyone for little.

    Returns
    -------
    pandas.DataFrame
        As :func:`blame_of`, with the cause :data:`SMALL` for waits in operators that do not count
        (:func:`npuprof.analysis.rank_waits.counts`), and for those whose root makes no rank wait 1 % of the job's time
        (in a job of more than 64 ranks: all ranks 1 % on average).
    """
    counted = counts(played.rows, played.clocks)[played.rows["op"].to_numpy(np.int64)]
    roots = blame_of(played, counted, absent)
    waiting = 1 if len(played.ranks) <= _MOST_RANKS else len(played.ranks)
    most = roots.groupby("root_rank")["wait_ns"].max()
    worth = most.index[(most >= _WORTH * played.window_ns * waiting).to_numpy(bool)]
    is_small = ((roots["cause"] == "own") & ~roots["root_rank"].isin(worth)).to_numpy(bool)
    small = roots.assign(
        cause=roots["cause"].where(~is_small, SMALL), root_rank=roots["root_rank"].mask(is_small, pd.NA)
    )
    keys = ["rank", "cause", "root_rank"]
    return small.groupby(keys, dropna=False, sort=False)["wait_ns"].sum().reset_index()


def _whole(exact: Floats, total: int) -> Int64:
    """Round to integers that add up to a total.

    Where ranks run their operators in conflicting orders, a wait may be passed on in a circle: times that do not add up
    are scaled, and if nothing is left to scale, all of them are the last one's, transfers.
    """
    exact = np.maximum(np.nan_to_num(exact, nan=0.0, posinf=0.0), 0.0)
    summed = float(exact.sum())
    if abs(summed - total) > len(exact) + _ROUNDING * total:
        exact = exact * (total / summed) if summed > 0 else np.append(np.zeros(len(exact) - 1), float(total))
    whole = np.floor(exact).astype(np.int64)
    remaining = total - int(whole.sum())
    np.add.at(whole, np.resize(np.argsort(whole - exact, kind="stable"), abs(remaining)), int(np.sign(remaining)))
    return whole


def blamed(played: Job, victims: Mapping[int, int], counted: Bools) -> Floats:
    """Return the waits of groups of ranks by their root causes.

    Returns
    -------
    ndarray of shape (groups, ranks + 1)
        Nanoseconds by position of the root rank; the last column is transfers.
    """
    rows = played.rows
    rank, waited_rows = (rows[name].to_numpy(np.int64) for name in ("rank", "wait_ns"))
    origin = _Origins.trace(played)
    count = max(victims.values(), default=-1) + 1
    sums = np.zeros((len(played.ranks) + 1, count))
    place = np.searchsorted(np.array(played.ranks), rank).astype(np.int32)
    victim = np.array([victims[rank_id] for rank_id in played.ranks], np.int32)[place]
    # The waits attributed to waits of a rank between two rows are a density per nanosecond that it waited there:
    # begun[slot[row]] is the density that ends before that row, looking back in time; most rows share slot 0, of zeros.
    ends = np.append(rank[1:] != rank[:-1], True)
    bounds = np.zeros(len(rows) + 1, bool)
    bounds[origin.until[waited_rows > 0]] = bounds[origin.since[waited_rows > 0]] = True
    slot = np.where(bounds, np.cumsum(bounds, dtype=np.int32), np.int32(0))
    density, begun = np.zeros((len(played.ranks), count)), np.zeros((int(slot.max()) + 1, count))
    order = played.waves
    runs = order.rows if order.blocked < 0 else np.argsort(rows["start_ns"].to_numpy(np.int64), kind="stable")
    begins = order.begins if order.blocked < 0 else list(range(len(runs) + 1))
    for begin, end in zip(begins[-2::-1], begins[:0:-1], strict=True):
        here = runs[begin:end]
        density[place[here]] += np.where(ends[here, None], 0.0, begun[slot[here + 1]])
        amount = density[place[here]] * waited_rows[here, None]
        amount[np.arange(len(here)), victim[here]] += waited_rows[here] * counted[here]
        ill = waited_rows[here] > 0
        here, amount = here[ill], amount[ill]
        culprit = origin.culprit[here]
        np.add.at(sums, culprit, amount * origin.own_ns[here, None])
        sums[-1] += (amount * origin.moving[here, None]).sum(axis=0)
        passed = amount * origin.passed[here, None]
        np.add.at(begun, slot[origin.until[here]], passed)
        np.add.at(begun, slot[origin.since[here]], -passed)
    return sums.T


@dataclass(frozen=True)
class _Origins:
    """Why the last rank of each row's operator arrived late: fractions of its time, and the rows that they span."""

    culprit: Int32  # the last rank, by position
    # own_ns, moving: the fractions spent outside collectives and in transfers.
    own_ns: Floats
    moving: Floats
    passed: Floats  # the fraction spent in waits, per nanosecond that the rank waited from row `since` to row `until`
    since: Int32
    until: Int32

    @classmethod
    def trace(cls, played: Job) -> _Origins:
        """Trace each late arrival of a last rank back to the last operator that it shares with the waiting rank."""
        rows = played.rows
        culprit, until, victim_since, since = _stretches(played)

        def more(name: str, further: int) -> Floats:
            total = np.append(0, np.cumsum(rows[name].to_numpy(np.int64)))
            difference = total[until + further]
            difference -= total[since]
            difference -= total[further : len(rows) + further]
            difference += total[victim_since]
            return np.maximum(0, difference, out=difference).astype(np.float64)

        # A rank arrives after its time before the collective, which is therefore part of the interval.
        own_ns, moving, waiting = more("own_ns", 1), more("moving_ns", 0), more("wait_ns", 0)
        own_ns += moving
        own_ns += waiting
        explained = own_ns
        explained[explained <= 0] = 1.0
        moving /= explained
        sums = np.append(0, np.cumsum(rows["wait_ns"].to_numpy(np.int64)))
        between = (sums[until] - sums[since]).astype(np.float64)
        del sums
        waiting /= explained
        waiting[between <= 0] = 0.0
        outside = np.subtract(1 - moving, waiting, out=explained)
        between[between <= 0] = 1.0
        waiting /= between
        return cls(culprit, outside, moving, waiting, since, until)


def _stretches(played: Job) -> tuple[Int32, Int32, Int32, Int32]:
    """Return the position of the last rank of each row's operator, its row there, and the rows of :func:`_since`.

    Numbers of rows take four bytes, because jobs of thousands of ranks have many rows.
    """
    rows = played.rows
    ranks = np.array(played.ranks)
    place = np.searchsorted(ranks, rows["rank"].to_numpy(np.int64)).astype(np.int32)
    culprit = np.searchsorted(ranks, rows["last_rank"].to_numpy(np.int64)).astype(np.int32)
    find = _Finder(place, rows["op"].to_numpy(np.int64), len(ranks))
    until = find(rows["op"].to_numpy(np.int64), culprit)
    return culprit, until, *_rows_after_operator(rows, place, culprit, find)


class _Finder:
    """Finds the row of a rank in an operator."""

    def __init__(self, place: Int32, op: Int64, ranks: int) -> None:
        self._ranks = ranks
        key = op * ranks + place
        order = np.argsort(key, kind="stable")
        self._sorted, self._order = key[order], order.astype(np.int32)

    def __call__(self, op: Int64, place: Int32) -> Int32:
        """Return the rows; -1 if the rank does not take part in the operator."""
        rows = np.empty(len(op), np.int32)
        for begin in range(0, len(op), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            key = op[part].astype(np.int64) * self._ranks + place[part]
            at = np.minimum(np.searchsorted(self._sorted, key), len(self._sorted) - 1)
            rows[part] = np.where((op[part] >= 0) & (self._sorted[at] == key), self._order[at], np.int32(-1))
        return rows


def _rows_after_operator(rows: pd.DataFrame, place: Int32, culprit: Int32, find: _Finder) -> tuple[Int32, Int32]:
    """Return the rows after the last common operator of each row's rank and its culprit, on both ranks."""
    op = rows["op"].to_numpy(np.int64)
    group = pd.factorize(rows["group"])[0].astype(np.int64)
    of_row = place * (int(group.max(initial=0)) + np.int64(1)) + group
    first_of = np.searchsorted(place, np.arange(int(place.max(initial=0)) + 1)).astype(np.int32)
    first, other = first_of[place], first_of[culprit]
    pairs = np.unique(of_row)
    of_rank = pairs // (int(group.max(initial=0)) + 1)
    slot = np.arange(len(pairs)) - np.searchsorted(of_rank, of_rank)  # the number of the group within its rank
    number = np.arange(len(rows), dtype=np.int32)
    slot_of_row = slot.astype(np.int32)[np.searchsorted(pairs, of_row)]
    del of_row, group
    for group_slot in range(int(slot.max(initial=-1)) + 1):
        before = np.where(slot_of_row == group_slot, number, np.int32(-1))
        last = np.append(np.int32(-1), np.maximum.accumulate(before)[:-1])
        last = np.where(last >= first_of[place], last, np.int32(-1))
        theirs = find(np.where(last >= 0, op[last], -1), culprit)
        later = (theirs >= 0) & (last + 1 > first)
        first, other = np.where(later, last + 1, first), np.where(later, theirs + 1, other)
    return first, other
