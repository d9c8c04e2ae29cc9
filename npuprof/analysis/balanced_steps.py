"""Balanced tables of steps: the steps that all ranks have, in which noise can be told."""

from __future__ import annotations

import numpy as np
import pandas as pd

_MOST = 0.5  # of the ranks: a step that more of them lack is no common step


def numbered(steps: pd.DataFrame) -> pd.Series[int]:
    """Return a number for each step, the same on all ranks and devices: its own, or its place if any lacks one."""
    if len(steps) == 1:
        return steps["step"].astype("Int64").fillna(0).astype("int64")
    who = steps[["rank", "device_id"]].astype("Int64").fillna(-1)
    number = steps["step"].astype("Int64")
    if number.isna().any() or steps.assign(**who).duplicated(["rank", "device_id", "step"]).any():
        number = steps.groupby([who["rank"], who["device_id"]]).cumcount()
    return number.astype("int64")


def by_rank(steps: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each rank and device and a column for each step: its row in `steps`, else NaN."""
    who = steps[["rank", "device_id"]].astype("Int64").fillna(-1)
    frame = pd.DataFrame({"rank": who["rank"], "device": who["device_id"], "step": numbered(steps)}).astype("int64")
    if frame.groupby("rank")["device"].nunique().max() == 1 and frame["rank"].min() >= 0:
        frame["device"] = 0  # a rank may be on another device in the other run
    frame["unit"] = np.arange(len(frame))
    return frame.pivot_table(index=["rank", "device"], columns="step", values="unit", aggfunc="first")


def complete(table: pd.DataFrame) -> pd.DataFrame:
    """Return the ranks that have all of the common steps, and these steps."""
    present = table.notna()
    common = present.loc[:, present.mean() > _MOST]
    if common.shape[1]:
        complete: pd.DataFrame = table.loc[common.all(axis=1), common.columns]
        if len(complete):
            return complete
    return table.loc[:, present.all()]
