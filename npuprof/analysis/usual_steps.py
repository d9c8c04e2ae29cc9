"""The usual steps of a run: those that figures of findings are means of."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.arrays import Bools

LEAST_STEPS = 3
"""From here on, steps that took longer once can be told."""

_ONCE = 3  # fewer than one of so many steps
_WORTH = 0.01  # of the time of all steps
_OVER = 0.2  # of the median step
_SPREADS = 5  # of the other steps
_SIGMA = 1.4826  # ratio of standard deviation to median absolute deviation of a normal distribution


def longer_once(steps: pd.DataFrame) -> Bools:
    """Return which steps took longer once, as a mask.

    A step did if it is longer than the median of its rank and device by a fifth, and by five times the spread, and if
    that is so of fewer than a third of at least three steps. If all of them together take less than 1 % of the time
    longer, none did.

    Parameters
    ----------
    steps
        ``rank``, ``device_id`` and ``duration_ns`` of the steps that figures per step are of.
    """
    times = steps["duration_ns"].astype("int64")
    owner = steps.groupby(["rank", "device_id"], dropna=False, sort=False).ngroup()
    usual = times.groupby(owner).transform("median")
    extra = times - usual
    spread = _SIGMA * extra.abs().groupby(owner).transform("median")
    long = extra > np.maximum(_SPREADS * spread, _OVER * usual)
    count = times.groupby(owner).transform("size")
    long &= (count >= LEAST_STEPS) & (_ONCE * long.groupby(owner).transform("sum") < count)
    if float(extra[long].sum()) < _WORTH * float(times.sum()):
        long[:] = False
    mask: Bools = long.to_numpy(bool)
    return mask


def all_open(steps: pd.DataFrame) -> bool:
    """Return whether there are several steps of a device, and none of them lasts to the start of another.

    Parameters
    ----------
    steps
        ``rank``, ``device_id``, ``basis`` and ``closed`` of the steps that figures per step are of.
    """
    known = steps[steps["basis"].isin(["steps", "kernels"]).to_numpy(bool)]
    return bool(known.duplicated(["rank", "device_id"]).any() and not known["closed"].any())
