"""The operators that allocated blocks of memory, and the lifetime of the blocks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.arrays import Int64


def allocating(tables: Mapping[str, pd.DataFrame], blocks: Int64) -> Int64:
    """Return the rows of ``operators`` that allocated the given rows of ``allocations``, ascending.

    An operator allocated a block if it has the block's name and was running then; the innermost of nested calls counts.
    """
    operators = tables["operators"]
    some = tables["allocations"].iloc[blocks]
    wanted = pd.DataFrame(
        {"name": some["name"].astype(object).to_numpy(), "at": some["allocated_ns"].to_numpy(np.int64, na_value=-1)}
    )
    names = operators["name"]
    is_known = names.isin(set(wanted["name"].dropna())).to_numpy(bool)
    start = operators["start_ns"].to_numpy(np.int64)
    calls = pd.DataFrame(
        {
            "name": names.astype(object).to_numpy()[is_known],
            "at": start[is_known],
            "end": (start + operators["duration_ns"].to_numpy(np.int64))[is_known],
            "row": np.flatnonzero(is_known),
        }
    )
    wanted = wanted[wanted["name"].notna() & (wanted["at"] >= 0)]
    if not len(calls) or not len(wanted):
        return np.zeros(0, np.int64)
    calls_of_blocks = pd.merge_asof(
        wanted.astype({"name": str}).sort_values("at", kind="stable"),
        calls.astype({"name": str}).sort_values("at", kind="stable"),
        on="at",
        by="name",
    )
    inside = calls_of_blocks["end"].notna() & (calls_of_blocks["at"] <= calls_of_blocks["end"])
    return np.unique(calls_of_blocks.loc[inside, "row"].to_numpy(np.int64))


def lifetime(allocations: pd.DataFrame, blocks: Int64, end_ns: int) -> tuple[int, int] | None:
    """Return the interval from the first allocation to the last release, or `end_ns`; None for unknown allocations."""
    some = allocations.iloc[blocks]
    begun = some["allocated_ns"].dropna()
    if not len(begun):
        return None
    released = some["released_ns"]
    end = end_ns if released.isna().any() else int(released.max())
    return int(begun.min()), max(int(begun.min()), end)
