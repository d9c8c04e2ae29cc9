"""Runs whose devices have a wrong clock: what a right recording becomes, without its marks and host rows changing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.arrays import Int64

ON_DEVICE_CLOCK = ("tasks", "kernels", "communication", "communication_tasks", "overlap")


def with_device_clock(
    tables: Mapping[str, pd.DataFrame], ahead_ns: int, drift_ppm: int = 0, device: int | None = None
) -> dict[str, pd.DataFrame]:
    """The tables as recorded with device times that are later by so much, and by a drift since the first task.

    With `device`, only the clock of this device is wrong.
    """
    starts = [int(tables[name]["start_ns"].min()) for name in ON_DEVICE_CLOCK if len(tables[name])]
    moved = dict(tables)
    for name in ON_DEVICE_CLOCK:
        frame = tables[name]
        begin = frame["start_ns"].to_numpy(np.int64, copy=True)
        end = begin + frame["duration_ns"].to_numpy(np.int64)
        if device is not None:
            frame = frame[(frame["device_id"] == device).to_numpy(bool)]
        rows = frame.index.to_numpy()
        wrong = [_read(moments, min(starts, default=0), ahead_ns, drift_ppm) for moments in (begin, end)]
        begin[rows], end[rows] = wrong[0][rows], wrong[1][rows]
        moved[name] = tables[name].assign(start_ns=begin, duration_ns=end - begin)
    return moved


def _read(moments: Int64, origin: int, ahead_ns: int, drift_ppm: int) -> Int64:
    wrong: Int64 = moments + ahead_ns + (moments - origin) * drift_ppm // 1_000_000
    return wrong
