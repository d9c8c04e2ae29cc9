"""Work that the host launched in its steps and that the device had still to do when the last of them ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.correlation import launch_moments
from npuprof.analysis.step_windows import of_counted_kind
from npuprof.arrays import Int64

_LONGER = 1.1  # than the step of the host: below that the figures of steps are right enough


@dataclass(frozen=True)
class Backlog:
    """How far the device was behind when the last step ended."""

    behind_ns: int  # the time from the end of the last step to the end of the last kernel that was launched in a step
    host_ns: int  # the mean time to launch a step
    # The device's median time for a step: from its last kernel's end to the last kernel's end of the next step.
    device_ns: int


def backlog(tables: Mapping[str, pd.DataFrame], host_ns: int) -> Backlog | None:
    """Return how far the device with the most left to do was behind; None if the steps tell what the device took.

    Steps are marks of the host. A host that waits for nothing launches all steps and ends them before the device has
    done them, and their times are then those of launches. A host that waits for the step before, as a queue of limited
    length makes it, ends steps as fast as the device does them, and only the last one early: that is no backlog.
    """
    steps, kernels = tables["steps"], tables["kernels"]
    steps = steps[of_counted_kind(steps)]
    if len(steps) < 2 or not len(kernels):
        return None
    begin, end = (np.sort(edges) for edges in _edges(steps))
    moments = launch_moments(tables).to_numpy(np.int64, na_value=int(begin[0]) - 1)
    step_of = np.where(moments < end[-1], np.searchsorted(begin, moments, side="right") - 1, -1)
    last = _edges(kernels)[1]
    backlogs = []
    for device in kernels["device_id"].unique():
        rows = np.flatnonzero((step_of >= 0) & (kernels["device_id"] == device).to_numpy(bool))
        done = np.full(len(begin), np.iinfo(np.int64).min)
        np.maximum.at(done, step_of[rows], last[rows])
        done = np.maximum.accumulate(done[done > np.iinfo(np.int64).min])
        if len(done) > 1:
            backlogs.append(Backlog(int(done[-1] - end[-1]), host_ns, int(np.median(np.diff(done)))))
    late = max(backlogs, key=lambda backlog: backlog.behind_ns, default=None)
    return late if late and late.behind_ns > host_ns and late.device_ns > _LONGER * host_ns else None


def _edges(table: pd.DataFrame) -> tuple[Int64, Int64]:
    start = table["start_ns"].to_numpy(np.int64)
    return start, start + table["duration_ns"].to_numpy(np.int64)
