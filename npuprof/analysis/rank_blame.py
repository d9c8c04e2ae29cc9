"""Whose own time the waits of a job come from."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.analysis.rank_replay import Floats, job
from npuprof.arrays import Int64

MOVING = "moving"
"""The cause of a wait that only the transfers of earlier collectives explain."""


def blame(communication: pd.DataFrame) -> pd.DataFrame:
    """Return which rank's own time the waits of all ranks come from, through all ranks that waited in between.

    A rank waits for the one that arrives last. Between their last common collective and this one, that rank spent more
    time of its own, more time waiting, or more time in transfers; the wait is split in proportion. Its own time is
    where the blame stays. Its waiting is passed on to whom it waited for there, and so on.

    Parameters
    ----------
    communication
        Stacked ``communication`` tables, see :func:`npuprof.analysis.rank_waits.collectives`.

    Returns
    -------
    pandas.DataFrame
        ``rank`` (that waited), ``cause`` (``own`` or ``moving``), ``root_rank`` (whose own time it is; <NA> for
        ``moving``) and ``wait_ns``. The sum is that of all waits, to the nanosecond for each rank.
    """
    rows = job(communication).rows
    ranks, ops = rows["rank"].to_numpy(np.int64), rows["op"].to_numpy(np.int64)
    waited, last = rows["wait_ns"].to_numpy(np.int64), rows["last_rank"].to_numpy(np.int64)
    sums = {name: np.append(0, np.cumsum(rows[name].to_numpy(np.int64))) for name in ("own_ns", "wait_ns", "moving_ns")}
    first_row = {int(rank): int(np.argmax(ranks == rank)) for rank in np.unique(ranks)}
    number = {rank: place for place, rank in enumerate(first_row)}
    roots = np.zeros((len(rows), len(number) + 1))  # for each row with a wait the shares of the roots; the last: moving
    after: dict[tuple[int, int], tuple[int, int]] = {}  # the rows that follow the last common collective of two ranks
    for members in _in_order(ops, rows["start_ns"].to_numpy(np.int64)):
        row_of = {int(ranks[row]): row for row in members}
        for victim in (row for row in members if waited[row] > 0):
            culprit = row_of[int(last[victim])]
            pair = (int(ranks[victim]), int(ranks[culprit]))
            since = after.get(pair, (first_row[pair[0]], first_row[pair[1]]))
            roots[victim] = _shares(sums, since, (victim, culprit), waited, roots, number[pair[1]])
        for one, other in itertools.permutations(members, 2):
            after[int(ranks[one]), int(ranks[other])] = (one + 1, other + 1)
    return _blamed(rows, waited, roots, list(number))


def _in_order(ops: Int64, starts: Int64) -> list[list[int]]:
    """Return the rows of each collective, those whose last member starts first before the others."""
    members: dict[int, list[int]] = {}
    for row, op in enumerate(ops.tolist()):
        members.setdefault(op, []).append(row)
    return sorted(members.values(), key=lambda rows: max(starts[row] for row in rows))


def _shares(
    sums: Mapping[str, Int64],
    since: tuple[int, int],
    until: tuple[int, int],
    waited: Int64,
    roots: Floats,
    culprit: int,
) -> Floats:
    """Return how the wait of the first of two ranks is shared among the roots, given where their intervals begin."""
    shares = np.zeros(roots.shape[1])
    more = {}
    for name, total in sums.items():
        # A rank arrives after its own time before the collective, which is therefore part of the interval.
        further = 1 if name == "own_ns" else 0
        victim, other = (int(total[end + further] - total[begin]) for begin, end in zip(since, until, strict=True))
        more[name] = max(0, other - victim)
    whole = sum(more.values())
    if not whole:
        shares[culprit] = 1.0
        return shares
    shares[culprit] += more["own_ns"] / whole
    shares[-1] += more["moving_ns"] / whole
    passed = np.arange(since[1], until[1])
    passed = passed[waited[passed] > 0]
    if len(passed):
        weights = waited[passed] / waited[passed].sum()
        shares += more["wait_ns"] / whole * (weights @ roots[passed])
    else:
        shares[culprit] += more["wait_ns"] / whole
    return shares


def _blamed(rows: pd.DataFrame, waited: Int64, roots: Floats, ranks: list[int]) -> pd.DataFrame:
    """Sum the shares of each rank's waits in whole nanoseconds."""
    blamed = []
    for rank, own in rows.groupby("rank"):
        places = own.index.to_numpy()
        exact = waited[places] @ roots[places]
        whole = np.floor(exact).astype(np.int64)
        left = int(waited[places].sum() - whole.sum())
        whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
        blamed += [
            (rank, "own" if place < len(ranks) else MOVING, ranks[place] if place < len(ranks) else pd.NA, int(time))
            for place, time in enumerate(whole)
            if time
        ]
    frame: pd.DataFrame = pd.DataFrame(blamed, columns=["rank", "cause", "root_rank", "wait_ns"])
    typed: pd.DataFrame = frame.astype({"root_rank": "Int64", "wait_ns": "int64"})
    return typed
