"""Steps of all ranks: communication split into waiting and moving by when the ranks arrived at their collectives."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, NOT_RECORDED


def with_waiting(parts: pd.DataFrame, waits: pd.DataFrame) -> pd.DataFrame:
    """Split the communication of steps where the files of a single rank cannot separate waiting from moving.

    The fractions are those of the step's collectives, whose starts on all ranks show how long each rank waited. If
    computing overlaps some of them, the exposed part is assumed to have the same fractions.

    Returns
    -------
    pandas.DataFrame
        The steps, with ``joined``: whether their communication was split here. Parts still add up to each step.
    """
    if not len(parts):
        return parts.assign(joined=np.zeros(0, bool))
    whole = parts["communication"].to_numpy(np.int64)
    sums = waits.groupby(["rank", "step"], dropna=False)[["wait_ns", "moving_ns"]].sum()
    keys = pd.MultiIndex.from_arrays([parts["rank"].astype("Int64"), parts["step"].astype("Int64")])
    index = pd.MultiIndex.from_arrays([sums.index.get_level_values(at).astype("Int64") for at in (0, 1)])
    of_step = sums.set_axis(index).reindex(keys).fillna(0)
    wait, moving = of_step["wait_ns"].to_numpy(np.float64), of_step["moving_ns"].to_numpy(np.float64)
    is_known = (wait + moving > 0) & (whole > 0)
    waiting = np.where(is_known, np.rint(whole * (wait / np.maximum(wait + moving, 1))), 0).astype(np.int64)
    return parts.assign(
        waiting=parts["waiting"] + waiting,
        moving=parts["moving"] + np.where(is_known, whole - waiting, 0),
        communication=np.where(is_known, 0, whole),
        joined=is_known,
    )


def ranks_by_step(parts: pd.DataFrame) -> pd.DataFrame:
    """Return the steps of ranks with fewer parts: the idle parts are summed.

    Returns
    -------
    pandas.DataFrame
        ``rank``, ``step`` (numbered from 0 if the run has no numbers), ``duration_ns``, ``computing_ns``,
        ``waiting_ns``, ``moving_ns``, ``communication_ns`` (not known to be either), ``copy_ns``, ``idle_ns``,
        ``between_steps_ns`` and ``not_recorded_ns``, which add up to the step, in order. Several devices of a rank are
        summed. Where the steps of some ranks are of marks and those of others of kernels, all time without work is
        ``idle_ns``.
    """
    names = ("duration_ns", "computing", "waiting", "moving", "communication", "copy")
    columns = ["rank", "step", *(f"{name.removesuffix('_ns')}_ns" for name in names), "idle_ns", "between_steps_ns"]
    columns.append(f"{NOT_RECORDED}_ns")
    if not len(parts):
        return pd.DataFrame({name: pd.Series(dtype="int64") for name in columns})
    known = parts[parts["rank"].notna().to_numpy(bool)]
    place = known.groupby(["rank", "device_id"], dropna=False).cumcount()
    apart = int(not {"steps", "kernels"} <= set(known.get("basis", ())))  # one, or nothing of the time between steps
    by_device: pd.DataFrame = pd.DataFrame(
        {
            "rank": known["rank"].astype("int64"),
            "step": known["step"].astype("Int64").fillna(place).astype("int64"),
            **{f"{name.removesuffix('_ns')}_ns": known[name].astype("int64") for name in names},
            "idle_ns": (known[list(IDLE)].sum(axis=1) + (1 - apart) * known[BETWEEN_STEPS]).astype("int64"),
            "between_steps_ns": apart * known[BETWEEN_STEPS].astype("int64"),
            f"{NOT_RECORDED}_ns": known[NOT_RECORDED].astype("int64"),
        }
    )
    summed: pd.DataFrame = by_device.groupby(["rank", "step"], sort=True).sum().reset_index()
    return summed[columns]
