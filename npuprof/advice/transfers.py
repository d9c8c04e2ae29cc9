"""Transfers between ranks that a run has: what moves data in ``communication_tasks``, with sizes and rates."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.analysis.accounting import moves_data


def transfers_between_ranks(facts: Facts) -> pd.DataFrame:
    """Return the tasks of collectives that move data to or from another rank and have a size, by row of the table.

    Returns
    -------
    pandas.DataFrame
        ``op_id``, ``dst``, ``transport`` (empty if unknown), ``size_bytes``, ``start_ns`` and ``duration_ns``.
    """
    tasks = facts.tables["communication_tasks"]
    is_known = tasks[["op_id", "size_bytes"]].notna().all(axis=1).to_numpy(bool)
    is_other = ~(tasks["src_rank"] == tasks["dst_rank"]).fillna(value=False).to_numpy(bool)
    moves = tasks[moves_data(tasks) & is_known & is_other & (tasks["duration_ns"] > 0).to_numpy(bool)]
    moves = moves[(moves["size_bytes"] > 0).to_numpy(bool)]
    return pd.DataFrame(
        {
            "op_id": moves["op_id"].astype("int64"),
            "dst": moves["dst_rank"].fillna(-1).astype("int64"),
            "transport": moves["transport"].astype(object).fillna("").astype(str),
            "size_bytes": moves["size_bytes"].astype("int64"),
            "start_ns": moves["start_ns"].astype("int64"),
            "duration_ns": moves["duration_ns"].astype("int64"),
        }
    )


def size_class(sizes: pd.Series[int]) -> pd.Series[int]:
    """Return the power of two at or below each size: rates of sizes within a factor of two can be compared."""
    return pd.Series(np.log2(sizes.to_numpy(np.float64)).astype(np.int64), sizes.index)
