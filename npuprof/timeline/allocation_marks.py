"""Which operators allocated blocks of memory, so that a block can be shown where time is shown."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.arrays import Int64


def allocating(tables: Mapping[str, pd.DataFrame], blocks: Int64) -> Int64:
    """Find the operators in which blocks were allocated: those of the block's name that ran at that moment.

    Parameters
    ----------
    tables
        Every table of the schema by name.
    blocks
        Rows of ``allocations``, counted from 0.

    Returns
    -------
    Rows of ``operators``, each once, ascending; of calls that are nested in each other the innermost. Blocks whose
    operator was not recorded have none.
    """
    operators = tables["operators"]
    some = tables["allocations"].iloc[blocks]
    wanted = pd.DataFrame(
        {"name": some["name"].astype(object).to_numpy(), "at": some["allocated_ns"].to_numpy(np.int64, na_value=-1)}
    )
    names = operators["name"]
    known = names.isin(set(wanted["name"].dropna())).to_numpy(bool)
    start = operators["start_ns"].to_numpy(np.int64)
    calls = pd.DataFrame(
        {
            "name": names.astype(object).to_numpy()[known],
            "at": start[known],
            "end": (start + operators["duration_ns"].to_numpy(np.int64))[known],
            "row": np.flatnonzero(known),
        }
    )
    wanted = wanted[wanted["name"].notna() & (wanted["at"] >= 0)]
    if not len(calls) or not len(wanted):
        return np.zeros(0, np.int64)
    found = pd.merge_asof(
        wanted.astype({"name": str}).sort_values("at", kind="stable"),
        calls.astype({"name": str}).sort_values("at", kind="stable"),
        on="at",
        by="name",
    )
    inside = found["end"].notna() & (found["at"] <= found["end"])
    return np.unique(found.loc[inside, "row"].to_numpy(np.int64))


def lifetime(allocations: pd.DataFrame, blocks: Int64, end_ns: int) -> tuple[int, int] | None:
    """Return the stretch from the first allocation of some blocks to the last release.

    Parameters
    ----------
    allocations
        The table of that name.
    blocks
        Its rows, counted from 0.
    end_ns
        The end of the run, to which those live that were not released.

    Returns
    -------
    Epoch nanoseconds; None where no block tells when it was allocated.
    """
    some = allocations.iloc[blocks]
    begun = some["allocated_ns"].dropna()
    if not len(begun):
        return None
    released = some["released_ns"]
    end = end_ns if released.isna().any() else int(released.max())
    return int(begun.min()), max(int(begun.min()), end)
