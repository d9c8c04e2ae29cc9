"""The effect of faster kernels on the time of ranks between their collectives."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.analysis.intervals import covering, subtract, within
from npuprof.analysis.rank_clocks import clocks
from npuprof.analysis.rank_replay import Job
from npuprof.analysis.rank_waits import collectives
from npuprof.arrays import Float64, Int64
from npuprof.errors import NpuprofError


def saved_ns(played: Job, communication: pd.DataFrame, kernels: pd.DataFrame, factors: Float64) -> Int64:
    """Return the reduction of the time before each collective if kernels were faster by given factors.

    Only time in which no other kernel ran is reduced. A rank without kernels gets the reduction of a rank with the same
    collectives in the same order, which is in the same pipeline stage.

    Parameters
    ----------
    played
        The job.
    communication
        The stacked ``communication`` tables of the job.
    kernels
        Stacked ``kernels`` tables, with ``rank``.
    factors
        Factors on the duration of each kernel.

    Raises
    ------
    NpuprofError
        If a rank has no kernels, and no rank with the same collectives has any.
    """
    clock = clocks(collectives(communication))
    rows = played.rows
    ranks, own_ns = rows["rank"].to_numpy(np.int64), rows["own_ns"].to_numpy(np.int64)
    of_kernel = kernels["rank"].to_numpy(np.int64, na_value=-1)
    orders = {rank: tuple(rows["op_type"][ranks == rank]) for rank in played.ranks}
    saved = np.zeros(len(rows), np.int64)
    for rank in played.ranks:
        source = rank if (of_kernel == rank).any() else _stand_in(orders, rank, set(of_kernel.tolist()))
        chosen = np.flatnonzero(of_kernel == source)
        segments = np.flatnonzero(ranks == source)
        ends = clock.recorded(source, rows["start_ns"].to_numpy(np.int64)[segments])
        less = _exposed(kernels.iloc[chosen], factors[chosen], ends - own_ns[segments], ends)
        saved[ranks == rank] = np.minimum(less, own_ns[ranks == rank])
    return saved


def _stand_in(orders: dict[int, tuple[str, ...]], rank: int, with_kernels: set[int]) -> int:
    for other, order in orders.items():
        if other in with_kernels and order == orders[rank]:
            return other
    raise NpuprofError(
        f"rank {rank} has no kernels, and no rank with the same collectives has any: collect kernels on one rank of "
        "each pipeline stage"
    )


def _exposed(kernels: pd.DataFrame, factors: Float64, starts: Int64, ends: Int64) -> Int64:
    """Return the reduction of the time covered by kernels, in each segment."""
    begin, length = (kernels[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
    less = np.zeros(len(starts))
    for factor in np.unique(factors[factors != 1]).tolist():
        scaled = factors == factor
        alone = subtract(covering(begin[scaled], length[scaled]), covering(begin[~scaled], length[~scaled]))
        less += within(alone, starts, ends) * (1 - factor)
    saved: Int64 = np.rint(less).astype(np.int64)
    return saved
