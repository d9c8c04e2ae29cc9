"""Work that the host launched in its steps and that the device had still to do when the last of them ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.correlation import launch_moments
from npuprof.analysis.step_windows import of_counted_kind
from npuprof.arrays import Int64

_LEAST_SHARE = 10  # a tenth of the time of the steps


@dataclass(frozen=True)
class Backlog:
    """How far the device was behind when the last step ended.

    Attributes
    ----------
    behind_ns
        The time from the end of the last step to the end of the last kernel that was launched in a step.
    host_ns
        The mean time of a step, which is that of launching it.
    device_ns
        The mean time of the device for the kernels of a step: from the first to the last of them, by the steps.
    """

    behind_ns: int
    host_ns: int
    device_ns: int


def backlog(tables: Mapping[str, pd.DataFrame]) -> Backlog | None:
    """Return how far the device with the most left to do was behind; None if the steps tell what the device took.

    Steps are marks of the host. A host that waits for nothing launches all steps and ends them before the device has
    done them, and their times are then those of launches. One step behind is usual, for a queue is what hides the time
    of launches; more than that, and a tenth of the time of all steps, is told.

    Parameters
    ----------
    tables
        Every table of a run by name, with times of devices on the host's clock; ``steps``, ``kernels``, ``api``,
        ``operators`` and ``links`` are read.
    """
    steps, kernels = tables["steps"], tables["kernels"]
    steps = steps[of_counted_kind(steps)]
    if not len(steps) or not len(kernels):
        return None
    begin, end = _edges(steps)
    begun_ns, ended_ns = int(begin.min()), int(end.max())
    host_ns = (ended_ns - begun_ns) // len(steps)
    launched = launch_moments(tables)
    moments = launched.to_numpy(np.int64, na_value=begun_ns - 1)
    in_steps = (moments >= begun_ns) & (moments < ended_ns)
    first, last = _edges(kernels)
    backlogs = [
        Backlog(int(last[rows].max()) - ended_ns, host_ns, int(last[rows].max() - first[rows].min()) // len(steps))
        for device in kernels["device_id"].unique()
        if len(rows := np.flatnonzero(in_steps & (kernels["device_id"] == device).to_numpy(bool)))
    ]
    late = max(backlogs, key=lambda backlog: backlog.behind_ns, default=None)
    return late if late is not None and late.behind_ns > max(host_ns, (ended_ns - begun_ns) // _LEAST_SHARE) else None


def _edges(table: pd.DataFrame) -> tuple[Int64, Int64]:
    start = table["start_ns"].to_numpy(np.int64)
    return start, start + table["duration_ns"].to_numpy(np.int64)
