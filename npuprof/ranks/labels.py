"""Add rank and host columns to stacked tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.sources.columns.nullable import recoded

_TIMES = ("start_ns", "time_ns", "allocated_ns", "released_ns", "device_start_ns")


def labelled(
    frame: pd.DataFrame, *, run: int, rank: int | None, host: str | None, devices: Sequence[int], ahead_ns: int = 0
) -> pd.DataFrame:
    """Add the columns `run`, `rank` and `host`, and `device_id` to a table of the host's.

    Parameters
    ----------
    frame
        A table of one run; it stays as it is.
    run, rank, host
        The run's row in the set, its rank and host.
    devices
        The run's devices; `device_id` is absent where they are several.
    ahead_ns
        How far the run's clock was ahead, which is taken off its times.
    """
    count = len(frame)
    own: dict[str, Any] = {time: frame[time] - ahead_ns for time in _TIMES if ahead_ns and time in frame}
    if "device_id" not in frame:
        device = devices[0] if len(devices) == 1 else pd.NA
        own["device_id"] = pd.array([device] * count, dtype="Int64")
    own["run"] = np.full(count, run, np.int64)
    own["rank"] = pd.array([pd.NA if rank is None else rank] * count, dtype="Int64")
    own["host"] = recoded(np.zeros(count, np.int32), [host])
    added: pd.DataFrame = frame.assign(**own)
    return added


def nothing(name: str) -> pd.DataFrame:
    """Make the stacked table of runs that have no rows of it."""
    return labelled(tables.empty(name), run=0, rank=None, host=None, devices=())
