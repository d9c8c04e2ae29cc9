"""The effect of time saved on ranks, such as that of faster kernels, on the time before their collectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from npuprof.analysis.rank_replay import Job
from npuprof.arrays import Float64, Int64
from npuprof.errors import NpuprofError


class Savings(NamedTuple):
    """Disjoint intervals of a rank's recorded clock, in order, and the fraction of each that would be saved."""

    starts: Int64
    ends: Int64
    fractions: Float64


def of_kernels(kernels: pd.DataFrame, factors: Float64) -> Savings:
    """Return what faster kernels save: time in which no other kernel runs."""
    starts, count = kernels["start_ns"].to_numpy(np.int64), len(kernels)
    moments = np.concatenate([starts, starts + kernels["duration_ns"].to_numpy(np.int64)])
    order = np.argsort(moments, kind="stable")
    is_started = order < count
    running = np.cumsum(np.where(is_started, 1, -1))
    numbers = order % max(count, 1)
    kernel = np.cumsum(np.where(is_started, numbers, -numbers))  # the one that runs, if only one does
    moments = moments[order]
    alone = np.flatnonzero((running[:-1] == 1) & (moments[1:] > moments[:-1])) if count else order
    fractions = 1 - factors[kernel[alone]]
    alone, fractions = alone[fractions != 0], fractions[fractions != 0]
    return Savings(moments[alone], moments[alone + 1], fractions)


def of_ranks(kernels: pd.DataFrame, factors: Float64) -> dict[int, Savings]:
    """Return what faster kernels save on each rank; see :func:`of_kernels`. `kernels` are stacked, with ``rank``."""
    ranks = kernels["rank"].to_numpy(np.int64, na_value=-1)
    rows = {int(rank): ranks == rank for rank in np.unique(ranks)}
    return {rank: of_kernels(kernels[chosen], factors[chosen]) for rank, chosen in rows.items()}


def together(parts: Iterable[Savings]) -> Savings:
    """Return savings of different causes of one rank as one; what overlaps counts for the first to start."""
    starts, ends, fractions = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    starts = np.maximum(starts, np.maximum.accumulate(np.append(starts[:1], ends))[:-1])
    return Savings(starts, np.maximum(ends, starts), fractions[order])


def saved_ns(savings: Mapping[int, Savings], played: Job) -> Int64:
    """Return how much shorter the time before each collective would be.

    A rank without savings gets those of a rank with the same collectives in the same order, which is in the same
    pipeline stage.
    """
    rows = played.rows
    ranks, own_ns = rows["rank"].to_numpy(np.int64), rows["own_ns"].to_numpy(np.int64)
    starts = rows["start_ns"].to_numpy(np.int64)
    saved = np.zeros(len(rows), np.int64)
    for alike in played.peers:
        known_ranks = [rank for rank in alike if rank in savings]
        if not known_ranks:
            raise NpuprofError(
                f"rank {alike[0]} has no kernels, and no rank with the same collectives has any: collect kernels on "
                "one rank of each pipeline stage"
            )
        of_rank = {}
        for rank in known_ranks:
            segments = slice(*np.searchsorted(ranks, (rank, rank + 1)))
            ends = played.clocks.recorded(rank, starts[segments])
            of_rank[rank] = _saved_within(savings[rank], ends - own_ns[segments], ends)
        for rank in alike:
            segments = slice(*np.searchsorted(ranks, (rank, rank + 1)))
            saved[segments] = np.minimum(of_rank.get(rank, of_rank[known_ranks[0]]), own_ns[segments])
    return saved


def _saved_within(savings: Savings, starts: Int64, ends: Int64) -> Int64:
    """Return the time saved in each of some intervals."""
    if not len(savings.starts):
        return np.zeros(len(starts), np.int64)
    begin = savings.starts[0]
    edges = np.column_stack([savings.starts, savings.ends]).ravel() - begin
    sums = np.cumsum(np.column_stack([0 * savings.fractions, np.diff(savings[:2], axis=0)[0] * savings.fractions]))
    before = [np.interp(moments - begin, edges, sums) for moments in (starts, ends)]
    return np.rint(before[1] - before[0]).astype(np.int64)
