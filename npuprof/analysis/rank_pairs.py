"""Sends and receives in groups of several ranks: which two ranks each is of.

Ranks of a pipeline of more than two stages may exchange data in one group. The k-th operator of such a group is another
one on each rank: the stages at its ends have one neighbour, those between them two. Where operators name the other
rank, that tells (:func:`by_peers`), else the moments at which both sides end (:func:`pairs`).
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64

POINT_TO_POINT = r"send|recv|receive"
"""What the types of sends and receives have in common."""

CLOSE_NS = 100_000
"""Both sides of a transfer end within this time, by clocks that are aligned: 30 us were measured."""
_MOSTLY = 0.5  # of the operators of a group: joined in their order, they end together
_PAIR = ", ranks {} and {}"
_PART = re.compile(r", pair \d+$")
_OF_PAIR = re.compile(r", ranks (\d+) and (\d+)$")
_NO_WAY, _UP, _DOWN = -1, -2, -3  # kinds of operators that are joined in their order: which way they move data


def ranks_of_pair(group: str) -> tuple[int, ...]:
    """Return the two ranks of a group that :func:`by_peers` made; none for other groups."""
    match = _OF_PAIR.search(group)
    return (int(match[1]), int(match[2])) if match else ()


def group_of_pair(group: str) -> str:
    """Return the group that one of :func:`pairs` is a part of, as it is called there; itself of any other."""
    return _PART.sub("", group)


def by_peers(named: pd.DataFrame) -> tuple[pd.Series[str], Int64]:
    """Return the groups of sends and receives that name the rank at their other side, each a group of these two.

    A group stays as it is where the names cannot be meant so: a rank names another one that is here, and this one does
    not name it.

    Parameters
    ----------
    named
        Operators with ``rank``, ``group``, ``src_rank`` and ``dst_rank``, ``Int64``; the latter two of sends and
        receives only, numbered as ``rank``.

    Returns
    -------
    tuple
        The group of each, and the kind that the operators joined with it have in common: which way data moves, -1
        where that is not known. Both sides may call themselves sends, since they exchange data.
    """
    rank = named["rank"].astype("Int64")
    peer = named["dst_rank"].fillna(named["src_rank"]).mask(lambda other: other == rank)
    rows = pd.DataFrame({"group": named["group"].astype(object), "rank": rank, "peer": peer})[peer.notna()]
    rows = rows.assign(
        low=rows[["rank", "peer"]].min(axis=1),
        high=rows[["rank", "peer"]].max(axis=1),
        is_up=named["dst_rank"][rows.index].notna() == (rows["rank"] < rows["peer"]),
    )
    groups, ways = named["group"].astype(object), pd.Series(_NO_WAY, named.index, dtype="int64")
    here = set(rank.tolist())
    for name, of_group in rows.groupby("group", sort=False, observed=True):
        sides = set(of_group[["rank", "peer"]].drop_duplicates().itertuples(index=False, name=None))
        if any(other in here and (other, member) not in sides for member, other in sides):
            continue
        for (low, high), of_pair in of_group.groupby(["low", "high"]):
            groups[of_pair.index] = f"{name}{_PAIR.format(low, high)}"
            is_low, is_up = (of_pair["rank"] == low), of_pair["is_up"]
            counts = [int((side & way).sum()) for side in (is_low, ~is_low) for way in (is_up, ~is_up)]
            if counts[:2] == counts[2:]:
                ways[of_pair.index] = np.where(is_up, _UP, _DOWN)
    return groups, ways.to_numpy(np.int64)


def pairs(group: Int64, op: Int64, rank: Int64, ends_ns: Int64, reference: Int64) -> Int64:
    """Return a number for each operator and its other side: equal for both, and different for all others.

    Parameters
    ----------
    group, op, rank, ends_ns, reference
        Of sends and receives: the number of the group, that of the operator where the k-th ones of a group are joined,
        the rank, the end, and the clock that it is on.

    Returns
    -------
    numpy.ndarray
        -1 in groups whose operators end together as they are joined; elsewhere a number from 0 on for each pair of
        ranks of a group, and one of its own for an operator without another side.
    """
    numbers = np.full(len(group), -1, np.int64)
    joined, together = _together(op, ends_ns)
    several, pair = (np.bincount(group[rows], minlength=int(group.max(initial=-1)) + 1) for rows in (joined, together))
    count = 0
    for key in np.flatnonzero(pair < _MOSTLY * several).tolist():
        rows = np.flatnonzero(group == key)
        of_pair = _of_group(rank[rows], ends_ns[rows], reference[rows])
        numbers[rows] = of_pair + count
        count += int(of_pair.max()) + 1
    return numbers


def _together(op: Int64, ends_ns: Int64) -> tuple[Bools, Bools]:
    """Return which operators are of several ranks, and which of these end at the same time, as in a ring."""
    _, number = np.unique(op, return_inverse=True)
    first = np.full(int(number.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    last = np.full(len(first), np.iinfo(np.int64).min)
    np.minimum.at(first, number, ends_ns)
    np.maximum.at(last, number, ends_ns)
    size = np.bincount(number, minlength=len(first))
    return (size > 1)[number], ((size > 1) & (last - first <= CLOSE_NS))[number]


def _of_group(rank: Int64, ends_ns: Int64, reference: Int64) -> Int64:
    """Return the numbers of one group: each rank is paired with the next one first, and the last one with the first.

    Ends on clocks that nothing joins coincide by chance: they count only if most of them do.
    """
    ranks = np.unique(rank).tolist()
    numbers = np.full(len(rank), -1, np.int64)
    neighbours = [*itertools.pairwise(ranks), *([(ranks[0], ranks[-1])] if len(ranks) > 2 else [])]
    for number, (low, high) in enumerate(neighbours):
        left, right = (np.flatnonzero((rank == each) & (numbers < 0)) for each in (low, high))
        if not len(left) or not len(right):
            continue
        left, right = left[np.argsort(ends_ns[left], kind="stable")], right[np.argsort(ends_ns[right], kind="stable")]
        nearest = _nearest(ends_ns[left], ends_ns[right])
        back = _nearest(ends_ns[right], ends_ns[left])
        mutual = np.flatnonzero(back[nearest] == np.arange(len(left)))
        close = mutual[np.abs(ends_ns[left[mutual]] - ends_ns[right[nearest[mutual]]]) <= CLOSE_NS]
        if reference[left[0]] != reference[right[0]] and len(close) < _MOSTLY * min(len(left), len(right)):
            continue
        numbers[left[close]] = numbers[right[nearest[close]]] = number
    alone = np.flatnonzero(numbers < 0)
    numbers[alone] = len(neighbours) + np.arange(len(alone))
    return numbers


def _nearest(moments: Int64, of_others: Int64) -> Int64:
    """Return the position of the nearest of other moments, ascending, for each of some."""
    after = np.clip(np.searchsorted(of_others, moments), 1, max(len(of_others) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(of_others) - 1)
    return np.where(np.abs(of_others[after] - moments) < np.abs(of_others[before] - moments), after, before)
