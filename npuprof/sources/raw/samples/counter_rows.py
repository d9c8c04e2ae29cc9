"""Rows of the `counters` table from sampled streams.

All sources use the same names and units: raw data (here), timelines (:mod:`npuprof.sources.trace.counters`) and
databases (:mod:`npuprof.sources.database.counters`).

- `counter` is the name in the vendor's timeline, its process first: ``HBM read``, ``NIC Port Rx Packets``,
  ``PCIe post Tx`` (the average; ``PCIe post Tx min`` and ``max`` beside it), ``CPU Usage CPU``.
- `instance` is the number of the controller, port, core or accelerator, ``die 0`` of inter-die traffic, the class of
  ``QoS``, ``APP`` or ``Device`` of ``NPU MEM``.
- Bandwidths are in the vendor's ``MB/s`` of 2**20 bytes a second, rates of the host and memory in ``KB/s`` and ``KB``
  of 2**10 bytes, latencies in ``us``, frequencies in ``MHz``. Shares, hit rates and usages are in percent (``%``).
- A value relative to the previous sample is NaN in a first row, where the vendor shows 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Float64, Int64
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.sources.raw.metadata.dictionaries import NameColumn


@dataclass(frozen=True)
class CounterRows:
    """Rows of `counters`; the arrays are parallel."""

    time_ns: Int64  # UTC epoch nanoseconds
    device: int | None  # the device, None for the host
    value: Float64  # the value, or NaN
    # counter, instance, unit: names; instance and unit may be absent.
    counter: NameColumn
    instance: NameColumn
    unit: NameColumn

    def __len__(self) -> int:
        return len(self.time_ns)


def rows(
    time_ns: Int64,
    device: int | None,
    value: npt.NDArray[Any],
    counter: NameColumn | str,
    unit: NameColumn | str | None,
    instance: NameColumn | str | None = None,
) -> CounterRows:
    """Build rows; a single text is the name in all rows, None means absent."""
    count = len(time_ns)
    return CounterRows(
        time_ns,
        device,
        value.astype(np.float64),
        _names(counter, count),
        _names(instance, count),
        _names(unit, count),
    )


def _names(name: NameColumn | str | None, count: int) -> NameColumn:
    if isinstance(name, NameColumn):
        return name
    return NameColumn.absent(count) if name is None else NameColumn(np.zeros(count, np.int32), [name])


def passed_ns(series: Int64, time_ns: Int64) -> Float64:
    """Return the time since the previous row of the series; NaN in a first row and where no time passed."""
    passed = np.diff(time_ns, prepend=0).astype(np.float64)
    first = np.concatenate(([True], series[1:] != series[:-1]))[: len(series)]
    passed[first | (passed <= 0)] = np.nan
    return passed


def joined_rows(parts: Sequence[CounterRows]) -> pd.DataFrame:
    """Build `counters` from all rows in order of time."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return tables.empty("counters")
    devices = [np.full(len(part), ABSENT if part.device is None else part.device) for part in parts]
    columns: dict[str, Any] = {
        "time_ns": np.concatenate([part.time_ns for part in parts]),
        "device_id": optional(np.concatenate(devices)),
        "value": np.concatenate([part.value for part in parts]),
    }
    for key in ("counter", "instance", "unit"):
        columns[key] = reduce(NameColumn.append, [getattr(part, key) for part in parts]).categorical()
    return tables.sort_by_time(tables.build("counters", columns))
