"""What the devices did over a whole run, in as many equal columns as a strip has pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.analysis.accounting import device_parts, devices_of
from npuprof.analysis.intervals import within
from npuprof.arrays import Int64

OVERVIEW_PARTS = ("computing", "waiting", "moving", "communication", "copy")
"""What is shown; the rest of the time the device was idle."""


@dataclass(frozen=True)
class Overview:
    """Shares of device time.

    Attributes
    ----------
    shares
        A row for each of :data:`OVERVIEW_PARTS`, a column for each stretch of the run: parts of 1, the average of the
        devices.
    devices
        The number of devices with tasks.
    """

    shares: npt.NDArray[np.float32]
    devices: int


def overview(tables: Mapping[str, pd.DataFrame], start_ns: int, end_ns: int, columns: int) -> Overview:
    """Return what the devices did in each of that many equal stretches of a run."""
    edges = _edges(start_ns, end_ns, columns)
    devices = devices_of(tables)
    sums = np.zeros((len(OVERVIEW_PARTS), columns), np.int64)
    for device in devices:
        for part, _, spans in device_parts(tables, device)[0]:
            sums[OVERVIEW_PARTS.index(part)] += within(spans, edges[:-1], edges[1:])
    whole = np.maximum(np.diff(edges), 1) * max(len(devices), 1)
    return Overview((sums / whole).astype(np.float32), len(devices))


def _edges(start_ns: int, end_ns: int, columns: int) -> Int64:
    """Return the bounds of the stretches; whole numbers, so that no nanosecond is in two."""
    return np.array([start_ns + (end_ns - start_ns) * at // columns for at in range(columns + 1)], np.int64)
