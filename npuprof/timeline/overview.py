"""Device activity over the whole run, in as many equal columns as the overview strip has pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.analysis.accounting import device_parts, devices_of
from npuprof.analysis.intervals import within

OVERVIEW_PARTS = ("computing", "waiting", "moving", "communication", "copy")
"""The parts shown; in the rest of the time the device was idle."""


@dataclass(frozen=True)
class PartsByColumn:
    """Shares of device time by part and column."""

    # Fractions of 1, averaged over the devices: a row for each of `OVERVIEW_PARTS`, a column for each interval.
    shares: npt.NDArray[np.float32]
    devices: int  # the number of devices with tasks


def overview(tables: Mapping[str, pd.DataFrame], start_ns: int, end_ns: int, columns: int) -> PartsByColumn:
    """Return the device activity in `columns` equal intervals of a run."""
    # Whole numbers, so that no nanosecond counts twice.
    edges = np.array([start_ns + (end_ns - start_ns) * at // columns for at in range(columns + 1)], np.int64)
    devices = devices_of(tables)
    sums = np.zeros((len(OVERVIEW_PARTS), columns), np.int64)
    for device in devices:
        for part, _, spans in device_parts(tables, device)[0]:
            sums[OVERVIEW_PARTS.index(part)] += within(spans, edges[:-1], edges[1:])
    whole = np.maximum(np.diff(edges), 1) * max(len(devices), 1)
    return PartsByColumn((sums / whole).astype(np.float32), len(devices))
