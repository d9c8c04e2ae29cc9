"""Tasks of the nano (platform version 9): a record per task, with its times and ten counters.

Its records hold a model and a task id, no stream; host records of such tasks are not decoded.
Source: raw/FORMAT.md section 1 names the format; its layout is read in the vendor's own parser (``V5StarsBean``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Records, Uint64
from npuprof.sources.raw.device.metrics import UNSPLIT, metric_columns, metrics_of
from npuprof.sources.raw.device.pmu import Kernels, profiling_events
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.device.tasks import DeviceTasks, join
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.metadata.clocks import parse_frequency
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import chip_layouts, enums
from npuprof.tables.notes import Notes

_STREAM = "nano_stars_profile"
_COUNTERS = 10
_TYPE_BITS = 7


def read_tasks(device: RawDevice) -> DeviceTasks:
    records, begin = _read(device, device.notes)
    end = begin + records["duration"].astype(np.uint64)
    start_ns = device.clock.counter.to_ns(begin)
    absent = np.full(len(records), -1, np.int64)
    tasks = DeviceTasks(
        device=np.full(len(records), device.id),
        start_ns=start_ns,
        duration_ns=device.clock.counter.to_ns(end) - start_ns,
        begin=begin.astype(np.int64),
        end=end.astype(np.int64),
        stream=absent,
        batch=absent,
        task=records["task"].astype(np.int64),
        context=absent,
        kind=NameColumn.lookup(
            records["type"] >> 1 & _TYPE_BITS, lambda value: enums.GE_TASK_TYPES.get(value) or str(value)
        ),
    )
    device.keep(_STREAM, "tasks", len(records))
    return join([tasks])


def read_counters(device: RawDevice, kernels: Kernels) -> dict[str, npt.NDArray[Any]]:
    """Return kernel metrics without a core prefix; times are NaN, as the number of blocks is unknown."""
    records, begin = _read(device, Notes())  # damage is noted when the tasks are read
    tasks, rows = kernels.tasks, kernels.rows
    at = joins.latest(tasks.task[rows], tasks.begin[rows], records["task"].astype(np.int64), begin.astype(np.int64))
    with_record = np.flatnonzero(at >= 0)
    if not len(with_record):
        return {}
    records = records[at[with_record]]
    cycles = (records["cycles"].astype(np.int64) | records["cycles_high"].astype(np.int64) << 32).astype(np.float64)
    mhz = np.full(len(with_record), float(parse_frequency(device.side.device_fact("aic_frequency")) or 0))
    absent = np.full(len(with_record), np.nan)
    events = profiling_events(device, "aic", _COUNTERS)
    metrics = metrics_of(device.family, device.side.info.get("platform_version"))
    counters = records["counters"].astype(np.float64)
    metrics_by_name = metric_columns(UNSPLIT, events, counters, cycles, absent, mhz, metrics)
    columns: dict[str, npt.NDArray[Any]] = {}
    for name, values in {"total_cycles": cycles, **metrics_by_name}.items():
        columns[name] = np.full(len(rows), np.nan)
        columns[name][with_record] = values
    return columns


def _read(device: RawDevice, notes: Notes) -> tuple[Records, Uint64]:
    """Read the records with valid timestamps, and their starts in device counter ticks."""
    records = device.streams.read(f"{_STREAM}.data.{device.id}", chip_layouts.NANO)
    begin = records["low"].astype(np.uint64)
    begin |= records["middle"].astype(np.uint64) << np.uint64(32) | records["high"].astype(np.uint64) << np.uint64(48)
    sound = device.clock.counter.reaches(begin) & device.clock.counter.reaches(
        begin + records["duration"].astype(np.uint64)
    )
    if not bool(sound.all()):
        replace(device, notes=notes).skip(_STREAM, "records with an impossible time stamp skipped", int((~sound).sum()))
    return records[sound], begin[sound]
