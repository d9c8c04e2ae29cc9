"""Waits of ranks for each other in collectives: operators joined across ranks on a common clock."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.rank_clocks import Clocks, clocks
from npuprof.analysis.rank_numbers import renumbered
from npuprof.analysis.rank_pairs import POINT_TO_POINT, by_peers, pairs
from npuprof.arrays import Bools, Int32, Int64

Texts: TypeAlias = np.ndarray[tuple[int], np.dtype[np.object_]]

LEAST_WAIT_NS = 100_000
"""An operator in which nobody waited longer does not tell who came last."""

_MOST_COSTLY = 10_000
_CLOCK_ERRORS = 3  # times the error of the clocks: what is shorter may be that error
_NEEDED = ("rank", "step", "group", "op_type", "count", "start_ns", "duration_ns", "name", "src_rank", "dst_rank")
_OF_ONE_RANK = r"Group \d+"
_GROUP_END = r"__(\d{3})(?:_\d+){2,4}$"


def collectives(communication: pd.DataFrame) -> pd.DataFrame:
    """Join the collectives of all ranks: members of the same collective get the same number.

    The k-th operator of a group in a step is the same on every rank. In a group where operators joined this way differ
    in type, the k-th operator of the same type and count is the same; a send and its receive are of one type. Sends and
    receives that name the other rank are of a group of these two. Where those joined this way do not end together, the
    two ranks of each are a group of their own too, as far as their ends tell (:mod:`npuprof.analysis.rank_pairs`).
    Ranks without steps have those of others with as many operators of a group, and ranks that number their steps
    otherwise than most have the numbers of the others where the ends of collectives tell them
    (:mod:`npuprof.analysis.rank_numbers`).

    Parameters
    ----------
    communication
        Stacked ``communication`` tables: ``rank``, ``step``, ``group``, ``op_type``, ``count``, ``start_ns``,
        ``duration_ns``, and ``src_rank`` and ``dst_rank`` where sends name them. Rows without rank or group are left
        out. ``Group 0`` of a timeline is a different group on each rank: it is identified by the end of the group's
        hash in ``name``.

    Returns
    -------
    pandas.DataFrame
        The rows with ``k`` and ``op``, ordered by rank and start; ``members`` is the number of ranks of the operator.
    """
    rows = _named_groups(communication)
    is_known = (rows["rank"].notna() & rows["group"].notna()).to_numpy(bool)
    rows = rows if is_known.all() else rows[is_known]
    rank, start = rows["rank"].to_numpy(np.int64), rows["start_ns"].to_numpy(np.int64)
    if (
        (rank[1:] < rank[:-1]) | ((rank[1:] == rank[:-1]) & (start[1:] < start[:-1]))
    ).any():  # avoids a copy if the rows are in order
        rows = rows.iloc[np.lexsort((start, rank))]
        rank = rows["rank"].to_numpy(np.int64)
    rows = rows.reset_index(drop=True)
    kind, kinds = _encode(_types(rows))
    is_send = pd.Series(kinds, dtype=object).str.contains(POINT_TO_POINT, case=False).to_numpy(bool)[kind]
    group, groups, way = _of_peers(rows, is_send, *_encode(rows["group"]))
    step = _steps_of_others(rank, group, rows["step"].fillna(-1).to_numpy(np.int64))
    ends = (rows["start_ns"] + rows["duration_ns"]).to_numpy(np.int64)
    recorded_ends = {"rank": rank, "step": step, "group": group, "kind": kind, "end_ns": ends, "is_send": is_send}
    step = renumbered(pd.DataFrame(recorded_ends, copy=False))
    k, op = _joined(rows, rank, step, group, np.where(is_send, way, kind))
    texts = {"group": _decode(group, groups), "op_type": _decode(kind, kinds)}
    members = np.bincount(op)[op] if len(op) else op
    recorded = {str(name): rows[name].array for name in rows}
    columns = {**recorded, "rank": rank, "step": step, **texts, "k": k, "op": op, "members": members}
    joined_rows: pd.DataFrame = pd.DataFrame(
        columns, copy=False
    )  # of thousands of ranks each copy takes a tenth of a GB
    return _by_pairs(joined_rows, is_send, group, way) if is_send.any() else joined_rows


def _of_peers(rows: pd.DataFrame, is_send: Bools, group: Int32, groups: Texts) -> tuple[Int32, Texts, Int64]:
    """Return groups in which sends that name the other rank are of two ranks, and which way each moves data."""
    way = np.full(len(rows), -1, np.int64)
    sides = [name for name in ("src_rank", "dst_rank") if name in rows]
    if not sides:
        return group, groups, way
    named = np.flatnonzero(is_send & rows[sides].notna().any(axis=1).to_numpy(bool))
    if not len(named):
        return group, groups, way
    ranks = rows.reindex(columns=["rank", "src_rank", "dst_rank"]).iloc[named].astype("Int64").reset_index(drop=True)
    of_pairs, way[named] = by_peers(ranks.assign(group=groups[group[named]]))
    names = groups[group]
    names[named] = of_pairs.to_numpy(object)
    return *_encode(pd.Series(names)), way


def _joined(rows: pd.DataFrame, rank: Int64, step: Int64, group: Int32, kind: Int32) -> tuple[Int64, Int64]:
    """Return the number of each operator within its group and step, and a number for each joined operator."""
    k = _count_earlier(rank, step, group)
    op = _group_numbers(step, group, k)
    first = np.zeros(int(op.max(initial=-1)) + 1, np.int64)
    first[op[::-1]] = kind[::-1]
    mixed = np.unique(group[kind != first[op]])
    if len(mixed):
        counts = pd.factorize(rows.get("count", kind))[0]
        inside = np.isin(group, mixed)
        keys = tuple(np.where(inside, values, -2) for values in (kind, counts))
        k = _count_earlier(rank, step, group, *keys)
        op = _group_numbers(step, group, *keys, k)
    return k, op


def _steps_of_others(rank: Int64, group: Int32, step: Int64) -> Int64:
    """Return steps in which ranks that have none get those of a rank with as many operators of a group."""
    lacking = set(np.setdiff1d(rank, rank[step >= 0]).tolist())
    if not lacking or (step < 0).all():
        return step
    filled: Int64 = step.copy()
    numbered = pd.DataFrame({"group": group, "rank": rank, "row": np.arange(len(rank))})
    rows_of: dict[int, dict[int, Int64]] = {}
    for (number, member), rows in numbered.groupby(["group", "rank"])["row"]:
        rows_of.setdefault(int(number), {})[int(member)] = rows.to_numpy(np.int64)
    is_growing = True
    while lacking and is_growing:
        is_growing = False
        for members in rows_of.values():
            like = {len(rows): rows for member, rows in members.items() if member not in lacking}
            for member in lacking & set(members):
                other = like.get(len(members[member]))
                if other is not None and (filled[other] >= 0).all():
                    filled[members[member]] = filled[other]
                    is_growing = True
        for member in sorted(lacking):  # the rest are of the step of the next one
            here = slice(*np.searchsorted(rank, (member, member + 1)))
            if (filled[here] >= 0).any():
                of_member = pd.Series(filled[here]).replace(-1, pd.NA).astype("Int64")
                filled[here] = of_member.bfill().ffill().to_numpy(np.int64)
                lacking.discard(member)
    return filled


def _by_pairs(joined: pd.DataFrame, is_send: Bools, group: Int32, way: Int64) -> pd.DataFrame:
    """Return operators in which sends that do not end together are of groups of two ranks, by their ends."""
    rows = np.flatnonzero(is_send)
    rank = joined["rank"].to_numpy(np.int64)
    estimated = clocks(joined)
    ends = estimated.corrected(rank, (joined["start_ns"] + joined["duration_ns"]).to_numpy(np.int64))[rows]
    reference = estimated.references[np.searchsorted(estimated.ranks, rank[rows])].astype(np.int64)
    of_pair = pairs(group.astype(np.int64)[rows], joined["op"].to_numpy(np.int64)[rows], rank[rows], ends, reference)
    if (of_pair < 0).all():
        return joined
    changed = rows[of_pair >= 0]
    names = joined["group"].astype(object).to_numpy(copy=True)
    names[changed] = [
        f"{name}, pair {number}" for name, number in zip(names[changed], of_pair[of_pair >= 0], strict=True)
    ]
    codes, texts = _encode(pd.Series(names))
    step = joined["step"].to_numpy(np.int64)
    k, op = _joined(joined, rank, step, codes, np.where(is_send, way, _encode(joined["op_type"])[0]))
    return joined.assign(group=_decode(codes, texts), k=k, op=op, members=np.bincount(op)[op])


def _named_groups(communication: pd.DataFrame) -> pd.DataFrame:
    """Return operators whose group name means the same on every rank; absent if it is unknown."""
    group = communication["group"].astype("category")
    names = group.cat.categories.astype(str)
    local = np.append(names.str.fullmatch(_OF_ONE_RANK), False)[group.cat.codes.to_numpy()].astype(bool)
    if not local.any() or "name" not in communication:
        return communication
    ends = communication["name"].astype(str).str.extract(_GROUP_END, expand=False)
    return communication.assign(group=group.astype(object).mask(local, ends.astype(object)))


def _types(rows: pd.DataFrame) -> pd.Series[str]:
    """Return the type of each operator; for an ``hcom_allReduce__586_0_1`` without a type it is ``hcom_allReduce_``."""
    types: pd.Series[str] = rows["op_type"]
    if not types.isna().any() or "name" not in rows:
        return types
    named_rows = rows["name"].astype(str).str.replace(r"__.*", "_", regex=True)
    return types.astype(object).where(types.notna(), named_rows)


def _encode(texts: pd.Series[str]) -> tuple[Int32, Texts]:
    """Return a number for each text, and the distinct texts; an absent text is empty."""
    column = texts.astype("category")
    names = np.array([*map(str, column.cat.categories), ""], object)
    codes = column.cat.codes.to_numpy(np.int32)
    return np.where(codes < 0, np.int32(len(names) - 1), codes), names


def _decode(codes: Int32, names: Texts) -> pd.Categorical:
    """Return a column of the names; the last name, which is empty, is no category unless it occurs."""
    chosen = names if (codes == len(names) - 1).any() else names[:-1]
    return tables.categorical(codes, chosen.tolist())


def _group_numbers(*keys: Int64 | Int32) -> Int64:
    """Return a number for each row's combination of keys, in the order of first occurrence."""
    number = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        codes = pd.factorize(key)[0].astype(np.int64)
        number = pd.factorize(number * (int(codes.max(initial=0)) + 1) + codes)[0].astype(np.int64)
    return number


def _count_earlier(*keys: Int64 | Int32) -> Int64:
    """Return the number of earlier rows with the same keys, for each row."""
    number = pd.Series(_group_numbers(*keys))
    return number.groupby(number).cumcount().to_numpy(np.int64)


def waits(communication: pd.DataFrame) -> pd.DataFrame:
    """Return how long each rank waited in each collective, and for which rank.

    Starts are corrected by :func:`npuprof.analysis.rank_clocks.clocks`. A member waits until the last member starts, at
    most for its own duration; the rest of the duration moves data. An operator with a single profiled member has no
    wait, nor has one of members whose clocks nothing synchronises: how long they waited is not known.

    Returns
    -------
    pandas.DataFrame
        ``rank``, ``step``, ``group``, ``k``, ``op_type``, ``start_ns`` (on the common clock),
        ``wait_ns``, ``moving_ns``, ``last_rank`` (the lowest of several), ``op``, and ``count`` if all rows have it.
    """
    return aligned(communication)[0]


def aligned(communication: pd.DataFrame) -> tuple[pd.DataFrame, Clocks]:
    """Return the result of :func:`waits`, and the clocks by which starts were corrected."""
    rows = collectives(communication[[name for name in communication if name in _NEEDED]])
    rank, op = rows["rank"].to_numpy(np.int64), rows["op"].to_numpy(np.int64)
    estimated = clocks(rows)
    sizes = {"count": rows["count"]} if "count" in rows and rows["count"].notna().all() else {}
    rows = rows[["step", "group", "k", "op_type", "start_ns", "duration_ns"]]
    start = estimated.corrected(rank, rows["start_ns"].to_numpy(np.int64))
    latest = np.full(int(op.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, op, start)
    at_last = np.flatnonzero(start == latest[op])[::-1]  # rows are ordered by rank: the lowest stays
    last_rank = np.zeros(len(latest), np.int64)
    last_rank[op[at_last]] = rank[at_last]
    duration = rows["duration_ns"].to_numpy(np.int64)
    wait = np.minimum(latest[op] - start, duration)
    wait[of_two_clocks(op, estimated.references[np.searchsorted(estimated.ranks, rank)].astype(np.int64))] = 0
    step = rows["step"].to_numpy(np.int64)
    columns = {
        "rank": rank,
        "step": pd.arrays.IntegerArray(np.maximum(step, 0), step < 0),
        **{name: rows[name] for name in ("group", "k", "op_type")},
        "start_ns": start,
        "wait_ns": wait,
        "moving_ns": duration - wait,
        "last_rank": last_rank[op],
        "op": op,
        **sizes,
    }
    frame: pd.DataFrame = pd.DataFrame(columns, copy=False)
    return frame, estimated


def of_two_clocks(op: Int64, reference: Int64) -> Bools:
    """Return which rows are of operators whose members are on several clocks, by the clock that each row is on."""
    first, last = np.full((2, int(op.max(initial=-1)) + 1), [[np.iinfo(np.int64).max], [-1]])
    np.minimum.at(first, op, reference)
    np.maximum.at(last, op, reference)
    return (first < last)[op]


def counts(rows: pd.DataFrame, estimated: Clocks) -> Bools:
    """Return of each operator whether its waits count, by number: the longest is beyond 0.1 ms and three clock errors.

    Parameters
    ----------
    estimated
        The clocks by which starts were corrected; the error of an operator is the greatest spread of its members.
    """
    op = rows["op"].to_numpy(np.int64)
    spread = estimated.spreads[np.searchsorted(estimated.ranks, rows["rank"].to_numpy(np.int64))]
    error, longest = np.zeros((2, int(op.max(initial=-1)) + 1), np.int64)
    np.maximum.at(error, op, spread)
    np.maximum.at(longest, op, rows["wait_ns"].to_numpy(np.int64))
    return longest > np.maximum(LEAST_WAIT_NS, _CLOCK_ERRORS * error)


def costliest(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the costliest rows of a job, in table order, up to a limit."""
    largest = np.sort(np.argsort(-rows[column].to_numpy(np.int64), kind="stable")[:_MOST_COSTLY])
    return rows.iloc[largest] if len(rows) > _MOST_COSTLY else rows
