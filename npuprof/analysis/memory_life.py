"""Operators whose memory blocks were in use at a given time, and blocks that were never released."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd


def alive_at(allocations: pd.DataFrame, time_ns: int, device_id: int | None) -> pd.DataFrame:
    """Sum the blocks that were in use at a given time, by name.

    Parameters
    ----------
    allocations
        The table ``allocations``. A block without an allocation time existed before the run, a block without a release
        time after it.
    time_ns
        Epoch nanoseconds or, of blocks in the history of an allocator, the number of its entry.

    Returns
    -------
    pandas.DataFrame
        ``name, blocks, size_bytes``, largest size first; blocks without a name form a group with an absent name.
    """
    unit = "sequence" if "allocated_sequence" in allocations else "ns"
    alive = _before(allocations[f"allocated_{unit}"], time_ns, absent=True)
    alive &= ~_before(allocations[f"released_{unit}"], time_ns, absent=False)
    if device_id is not None:
        on_device = allocations["device_id"].isin([device_id]).to_numpy(dtype=bool)
        alive &= on_device | allocations["device_id"].isna().to_numpy()
    return _by_name(allocations[alive & _occupies(allocations)])


def unreleased(allocations: pd.DataFrame) -> pd.DataFrame:
    """Return the blocks that were allocated but not released during the run, in order of time."""
    allocated = allocations["allocated_ns"].notna().to_numpy()
    kept = allocated & allocations["released_ns"].isna().to_numpy() & _occupies(allocations)
    return allocations[kept].sort_values("allocated_ns", kind="stable").reset_index(drop=True)


def _by_name(blocks: pd.DataFrame) -> pd.DataFrame:
    groups = blocks.groupby("name", observed=True, dropna=False, sort=False)["size_bytes"]
    sums: pd.DataFrame = groups.agg(blocks="size", size_bytes="sum").reset_index()
    return sums.sort_values("size_bytes", ascending=False, kind="stable").reset_index(drop=True)


def _before(times: pd.Series, moment_ns: int, *, absent: bool) -> npt.NDArray[np.bool_]:
    return (times <= moment_ns).to_numpy(dtype=bool, na_value=absent)


def _occupies(allocations: pd.DataFrame) -> npt.NDArray[np.bool_]:
    return (allocations["size_bytes"] > 0).to_numpy(dtype=bool)
