"""Waits of ranks for each other in collectives: operators joined across ranks on one clock."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from npuprof.arrays import Int64

_TOGETHER = r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier"
"""Collectives that end on all members at once; a send may end early."""

_LEAST_SPREAD_NS = 100
_MOST_PAIRS = 64  # members of which all pairs are compared; of more, each with the first and the next one
_KEY = ["step", "group", "k"]


def collectives(communication: pd.DataFrame) -> pd.DataFrame:
    """Join the collectives of all ranks: members of the same one have the same number.

    The k-th operator of a group in a step is the same one on each rank. In a group whose operators then differ in type,
    the k-th of the same type and count is.

    Parameters
    ----------
    communication
        Stacked ``communication`` tables: ``rank``, ``step``, ``group``, ``op_type``, ``count``, ``start_ns``,
        ``duration_ns``. Rows without rank or group are left out.

    Returns
    -------
    pandas.DataFrame
        The rows with ``k`` and ``op``, ordered by rank and start; ``members`` is how many ranks have the operator.
    """
    known = communication["rank"].notna() & communication["group"].notna()
    rows = communication[known.to_numpy(bool)].sort_values(["rank", "start_ns"], kind="stable").reset_index(drop=True)
    rows = rows.assign(
        step=rows["step"].fillna(-1).astype("int64"),
        rank=rows["rank"].astype("int64"),
        group=rows["group"].astype(str),
        op_type=rows["op_type"].astype(object).fillna("").astype(str),
        kind="",
    )
    rows["k"] = rows.groupby(["rank", "step", "group"]).cumcount()
    differ = rows.groupby(_KEY)["op_type"].transform("nunique").to_numpy() > 1
    mixed = set(rows.loc[differ, "group"])
    if mixed:
        apart = rows["group"].isin(mixed).to_numpy(bool)
        kinds = rows["op_type"] + "|" + rows["count"].astype(str)
        rows.loc[apart, "kind"] = kinds[apart]
        rows["k"] = rows.groupby(["rank", "step", "group", "kind"]).cumcount()
    rows["op"] = rows.groupby(["step", "group", "kind", "k"], sort=False).ngroup()
    rows["members"] = rows.groupby("op")["rank"].transform("size")
    joined: pd.DataFrame = rows.drop(columns="kind")
    return joined


def clock_offsets(rows: pd.DataFrame) -> dict[int, int]:
    """Estimate how far each rank's clock is ahead of that of the lowest rank which it shares collectives with.

    Members of a collective end together. The offset of two ranks is the median difference of their ends; all of them
    together are fitted by least squares, weighted by the number of collectives and the spread of the differences.

    Parameters
    ----------
    rows
        As :func:`collectives` returns them.

    Returns
    -------
    dict[int, int]
        Nanoseconds by rank; ranks without common collectives have 0.
    """
    ranks = sorted(rows["rank"].unique().tolist())
    place = {rank: at for at, rank in enumerate(ranks)}
    together = rows[(rows["members"] > 1) & rows["op_type"].str.contains(_TOGETHER, case=False, regex=True)]
    differences: dict[tuple[int, int], list[Int64]] = {}
    for _, own in together.groupby("group"):
        members = sorted(own["rank"].unique().tolist())
        by_rank = {
            rank: part.set_index("op")["start_ns"] + part.set_index("op")["duration_ns"]
            for rank, part in own.drop_duplicates(["op", "rank"]).groupby("rank")
        }
        for first, second in _pairs(members):
            common = by_rank[first].index.intersection(by_rank[second].index)
            if len(common):
                ahead = by_rank[second].loc[common].to_numpy(np.int64) - by_rank[first].loc[common].to_numpy(np.int64)
                differences.setdefault((first, second), []).append(ahead)
    return _fitted(ranks, place, {pair: np.concatenate(parts) for pair, parts in differences.items()})


def _pairs(members: Sequence[int]) -> list[tuple[int, int]]:
    if len(members) <= _MOST_PAIRS:
        return list(itertools.combinations(members, 2))
    return list(itertools.pairwise(members)) + [(members[0], member) for member in members[2:]]


def _fitted(
    ranks: Sequence[int], place: Mapping[int, int], differences: Mapping[tuple[int, int], Int64]
) -> dict[int, int]:
    normal, right = np.zeros((len(ranks), len(ranks))), np.zeros(len(ranks))
    for (first, second), values in differences.items():
        middle = _median(values)
        spread = max(_LEAST_SPREAD_NS, _median(np.abs(values - middle)))
        weight = len(values) / spread**2
        a, b = place[first], place[second]
        normal[[a, b], [a, b]] += weight
        normal[[a, b], [b, a]] -= weight
        right[b] += weight * middle
        right[a] -= weight * middle
    offsets = np.zeros(len(ranks))
    for component in _components(len(ranks), [(place[a], place[b]) for a, b in differences]):
        free = component[1:]  # the lowest rank is the reference
        if len(free):
            scale = normal[free, free].max()
            offsets[free] = np.linalg.solve(normal[np.ix_(free, free)] / scale, right[free] / scale)
    return {rank: round(float(offset)) for rank, offset in zip(ranks, offsets, strict=True)}


def _components(count: int, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the connected parts of a graph, each in order."""
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


def waits(communication: pd.DataFrame) -> pd.DataFrame:
    """Return how long each rank waited in each collective, and for whom.

    Starts are corrected by :func:`clock_offsets`. A member waits until the last one starts, at most for its own
    duration; what is left of the duration moves data. An operator with one profiled member has no wait.

    Parameters
    ----------
    communication
        Stacked ``communication`` tables, see :func:`collectives`.

    Returns
    -------
    pandas.DataFrame
        ``rank``, ``step``, ``group``, ``k``, ``op_type``, ``start_ns`` (on the common clock),
        ``wait_ns``, ``moving_ns``, ``last_rank`` (of several at once, the lowest) and ``op``.
    """
    rows = collectives(communication)
    offsets = clock_offsets(rows)
    rows["start_ns"] = rows["start_ns"] - rows["rank"].map(offsets).astype("int64")
    latest = rows.sort_values(["op", "start_ns", "rank"], ascending=[True, False, True], kind="stable")
    latest = latest.drop_duplicates("op").set_index("op")
    last_start = rows["op"].map(latest["start_ns"])
    duration = rows["duration_ns"].astype("int64")
    wait = np.minimum((last_start - rows["start_ns"]).to_numpy(np.int64), duration.to_numpy(np.int64))
    frame: pd.DataFrame = rows.assign(
        step=rows["step"].astype("Int64").mask(rows["step"] < 0),
        wait_ns=wait,
        moving_ns=duration - wait,
        last_rank=rows["op"].map(latest["rank"]).astype("int64"),
    )[["rank", "step", "group", "k", "op_type", "start_ns", "wait_ns", "moving_ns", "last_rank", "op"]]
    return frame
