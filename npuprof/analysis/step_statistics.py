"""Statistics of steps: median, 95th percentile and outliers, for the whole step and each of its parts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import PARTS, Accounting
from npuprof.arrays import Bools, Int64

WHOLE = "step"
"""The part that is the whole step."""

_SCORE = 3.5  # modified z-score from which a value is an outlier
_LEAST_STEPS = 5
_LEAST_SHARE = 0.01  # of the median step: smaller differences do not matter
_SIGMA = 1.4826  # ratio of standard deviation to median absolute deviation of a normal distribution
_MAX_NAMED = 20


def step_statistics(accounting: Accounting) -> pd.DataFrame:
    """Compare the steps of each rank and device that figures per step are of.

    Parameters
    ----------
    accounting
        The steps, from :func:`npuprof.analysis.accounting.account`; those of its
        :attr:`~npuprof.analysis.accounting.Accounting.basis` count.

    Returns
    -------
    pandas.DataFrame
        ``rank``, ``device_id``, ``part`` (:data:`WHOLE`, or a part of :data:`npuprof.analysis.accounting.PARTS` that
        occurs), ``steps``, ``median_ns``, ``p95_ns``, ``max_ns``, and ``outliers``: the numbers of the steps that took
        unusually long or short, given at least five steps, the furthest first. A run without steps is one step without
        a number. The median is rounded down, and the 95th percentile is a time that occurred (nearest rank).
    """
    wide_rows = accounting.by_part().iloc[accounting.basis.rows]
    rows = []
    for (rank, device), of_device in wide_rows.groupby(["rank", "device_id"], dropna=False, sort=True):
        typical = float(np.median(of_device["duration_ns"].to_numpy(np.int64)))
        for part in (WHOLE, *PARTS):
            times = of_device["duration_ns" if part == WHOLE else part].to_numpy(np.int64)
            if part == WHOLE or times.any():
                rows.append((rank, device, part, *_spread(times), _outliers(times, typical, of_device["step"])))
    names = ["rank", "device_id", "part", "steps", "median_ns", "p95_ns", "max_ns", "outliers"]
    table: pd.DataFrame = pd.DataFrame(rows, columns=names).astype(
        {"rank": "Int64", "device_id": "Int64", **dict.fromkeys(names[3:7], "int64")}
    )
    table["part"] = pd.Categorical(table["part"], [WHOLE, *PARTS])
    return table


def _spread(times: Int64) -> tuple[int, int, int, int]:
    ordered = np.sort(times)
    count = len(ordered)
    low, high = int(ordered[(count - 1) // 2]), int(ordered[count // 2])
    return count, low + (high - low) // 2, int(ordered[count - 1 - count // 20]), int(ordered[-1])


def _outliers(times: Int64, typical: float, step: pd.Series[int]) -> str:
    """Return the numbers of the outliers, the furthest from the median first."""
    if len(times) < _LEAST_STEPS:
        return ""
    distance = np.abs(times - np.median(times))
    far: Bools = distance > np.maximum(_SCORE * _SIGMA * np.median(distance), _LEAST_SHARE * typical)
    rows = np.flatnonzero(far & step.notna().to_numpy(bool))
    rows = rows[np.argsort(-distance[rows], kind="stable")]
    named_name = ", ".join(str(number) for number in step.iloc[rows[:_MAX_NAMED]].tolist())
    return f"{named_name} and {len(rows) - _MAX_NAMED} more" if len(rows) > _MAX_NAMED else named_name
