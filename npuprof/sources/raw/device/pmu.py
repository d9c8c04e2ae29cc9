"""Performance counters of compute kernels: records joined to tasks, and the vendor's metrics.

Times of metrics are estimates (cycles over a sampled frequency, spread over cores) and therefore float64 nanoseconds;
timestamps stay integers. Source: raw/FORMAT.md sections 5.2, 5.3, 8.8 and 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Bools, Float64, Int64, Records, Uint8
from npuprof.sources.raw.device.metrics import metric_columns, metrics_of
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.device.tasks import DeviceTasks, fix_up
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.metadata.clocks import parse_frequency
from npuprof.sources.raw.metadata.control_files import whole_number
from npuprof.sources.raw.records import layouts

_STREAM = "ffts_profile"
_MOST_MHZ = 10_000
_ROWS_AT_ONCE = 1 << 16
_CONTEXT, _BLOCK = 0b101000, 0b101001
_FFTS_PLUS, _MIX_AIC, _MIX_AIV = 4, 6, 7
_SQE_AIV = 2


@dataclass(frozen=True)
class Kernels:
    """Kernels to which counters are joined; the arrays are parallel."""

    tasks: DeviceTasks
    rows: Int64  # rows of `tasks`
    # blocks, mix_blocks: blocks on the kernel's main core, and on the other core of a MIX kernel; 0 where unknown.
    blocks: Int64
    mix_blocks: Int64
    is_part: bool = False  # whether the device ran further kernels, whose counters have no kernel here

    def near(self, records: Records) -> Records:
        """Return the records from the first kernel's start to the last kernel's end; all for a whole device."""
        if not self.is_part:
            return records
        if not len(self.rows):
            return records[:0]
        end = records["end"].astype(np.int64)
        first, last = self.tasks.begin[self.rows].min(), self.tasks.end[self.rows].max()
        return records[(end >= first) & (end <= last)]


@dataclass(frozen=True)
class Frequencies:
    """AI core frequency in MHz, from each device counter value on."""

    counters: Int64
    mhz: Int64

    def at(self, counters: Int64, rated_mhz: float) -> Float64:
        """Return the frequency at each counter value; the rated frequency without a sample or if the sample is zero.

        Source: raw/FORMAT.md section 9 (PMU).
        """
        if not len(self.mhz) or bool((self.mhz == 0).any()):
            return np.full(len(counters), rated_mhz)
        at = np.searchsorted(self.counters, counters, side="right") - 1
        return np.where(at >= 0, self.mhz[at].astype(np.float64), rated_mhz)


def read_frequencies(device: RawDevice) -> Frequencies:
    """Read ``lpmFreqConv``: changes of the AI core frequency. Source: raw/FORMAT.md section 5.3."""
    stream = f"lpmFreqConv.data.{device.id}"
    blocks = device.streams.read(stream, layouts.FREQUENCIES)
    counts = np.minimum(blocks["count"], layouts.FREQUENCIES_A_RECORD)
    values = blocks["values"][np.arange(layouts.FREQUENCIES_A_RECORD) < counts[:, None]]
    device.use("lpmFreqConv", len(blocks))
    is_timed = device.clock.counter.reaches(values["counter"])
    lost_count = int((blocks["count"] == 0).sum() + (~is_timed).sum())
    if lost_count:
        device.notes.warning(stream, "a change of the cores' clock has no possible time; left out", lost_count)
    values = values[is_timed]
    if device.streams.is_cut(stream):
        values = _changes_in(device.streams.read_bytes(stream), device)
    values = values[np.argsort(values["counter"], kind="stable")]
    # Samples before the anchor only set the initial frequency.
    counters = np.maximum(values["counter"].astype(np.int64), device.clock.counter.anchor_counter)
    last = np.concatenate((counters[1:] != counters[:-1], [True]))[: len(counters)]
    return Frequencies(counters[last], values["mhz"].astype(np.int64)[last])


def _changes_in(content: Uint8, device: RawDevice) -> Records:
    """Parse frequency changes in truncated blocks: pairs of a plausible timestamp and a plausible frequency.

    A block holds 55 changes and a run has few blocks, so a truncated block must not be dropped.
    """
    size = layouts.FREQUENCY.itemsize
    windows = np.ndarray((max(len(content) - size + 1, 0),), layouts.FREQUENCY_CHANGE, content.data, 0, (1,))
    good = device.clock.counter.reaches(windows["counter"]) & (windows["mhz"] > 0) & (windows["mhz"] <= _MOST_MHZ)
    changes = windows[good].copy()
    values = np.zeros(len(changes), layouts.FREQUENCY)
    values["counter"], values["mhz"] = changes["counter"], changes["mhz"]
    return values


def is_sampled(device: RawDevice) -> bool:
    """Return whether the cores were sampled over time, so that records have no task."""
    return device.side.sample.get("ai_core_profiling_mode") == "sample-based"


@dataclass(frozen=True)
class Counters:
    """The performance counters of a device."""

    device_id: int
    # Return the metrics of kernels: a value per kernel and metric.
    read: Callable[[Kernels], dict[str, npt.NDArray[Any]]]
    in_memory: bool = False  # whether all records that `read` needs were read


def read_counters(device: RawDevice, frequencies: Frequencies) -> Counters:
    """Read the records of performance counters; none where the cores were sampled over time."""
    records = np.empty(0, layouts.PMU) if is_sampled(device) else device.read(_STREAM, layouts.PMU, stamp="end")
    device.use(_STREAM, len(records))
    return Counters(device.id, partial(_join, device, records, frequencies), in_memory=True)


def _join(device: RawDevice, every: Records, frequencies: Frequencies, kernels: Kernels) -> dict[str, npt.NDArray[Any]]:
    """Join records of performance counters to kernels and derive their metrics.

    Returns
    -------
    Columns such as ``aic_total_cycles``, ``aic_mac_ratio``, ``aiv_vec_time_ns`` and ``cube_utilization_percent``, a
    value per kernel, NaN without a record.
    """
    records = kernels.near(every)
    if not len(records):
        return {}
    function = records["head"] & 0x3F
    owner = _owners(device, records, kernels)
    context = np.flatnonzero((function == _CONTEXT) & (owner >= 0))
    block = np.flatnonzero((function == _BLOCK) & (owner >= 0))
    lost_count = int(((function == _CONTEXT) & (owner < 0)).sum())
    if not kernels.is_part:
        device.skip(_STREAM, "counters of no compute kernel skipped", lost_count, info=True)
        device.use(_STREAM, -lost_count)
    on_vector = _on_vector(records)
    rated = float(parse_frequency(device.side.device_fact("aic_frequency")) or 0)
    columns: dict[str, npt.NDArray[Any]] = {}
    for core, is_wanted in (("aic", False), ("aiv", True)):
        masters = context[on_vector[context] == is_wanted]
        slaves = _slaves(block[on_vector[block] == is_wanted], owner, kernels, masters)
        totals = _sum_up(records, owner, masters, slaves, len(kernels.rows))
        blocks = kernels.blocks.copy()
        blocks[owner[slaves]] = kernels.mix_blocks[owner[slaves]]
        columns |= _core_columns(device, core, totals, blocks, frequencies, rated)
        del totals  # as large as the columns: not beside those of the other core
    return columns | cube_utilization(device, columns.get("aic_total_cycles"), kernels, rated)


@dataclass(frozen=True)
class _Totals:
    """Sums of a core type's counters by kernel, and the kernels with a record."""

    present: Bools
    cycles: Int64
    counters: Int64
    end: Int64


def _sum_up(records: Records, owner: Int64, masters: Int64, slaves: Int64, count: int) -> _Totals:
    totals = _Totals(
        np.zeros(count, bool), np.zeros(count, np.int64), np.zeros((count, 8), np.int64), np.zeros(count, np.int64)
    )
    rows = owner[masters]
    totals.present[rows] = True
    totals.cycles[rows] = records["cycles"][masters]
    for low in range(0, len(masters), _ROWS_AT_ONCE):  # a copy of all counters would double time and memory
        some = slice(low, low + _ROWS_AT_ONCE)
        totals.counters[rows[some]] = records["counters"][masters[some]]
    totals.end[rows] = records["end"][masters]
    if len(slaves):
        rows = owner[slaves]
        totals.present[rows] = True
        np.add.at(totals.cycles, rows, records["cycles"][slaves].astype(np.int64))
        np.add.at(totals.counters, rows, records["counters"][slaves].astype(np.int64))
        np.maximum.at(totals.end, rows, records["end"][slaves].astype(np.int64))
    return totals


def _owners(device: RawDevice, records: Records, kernels: Kernels) -> Int64:
    """Return the kernel number of each record, or -1. Source: section 8.8."""
    stream, task = fix_up(device, records)
    context = np.where(records["ffts"] >> 13 == _FFTS_PLUS, records["sub_task"].astype(np.int64), -1)
    tasks, rows = kernels.tasks, kernels.rows
    record_keys = stream << 40 | task << 20 | (context + 1)
    kernel_keys = tasks.stream[rows] << 40 | tasks.task[rows] << 20 | (tasks.context[rows] + 1)
    end = records["end"].astype(np.int64)
    owner = joins.latest(record_keys, end, kernel_keys, tasks.begin[rows])
    if not len(rows):
        return owner
    return np.where((owner >= 0) & (end <= tasks.end[rows][owner]), owner, -1)


def _on_vector(records: Records) -> Bools:
    """Return a mask of the records of vector cores. Source: raw/FORMAT.md section 5.2 (core selection)."""
    ffts, sub = records["ffts"] >> 13, records["sub_type"]
    plain = (ffts == 0) & (records["head"] >> 10 != _SQE_AIV)
    cube = plain | ((ffts == _FFTS_PLUS) & ((sub == _MIX_AIC) | (sub == 0)))
    is_block = records["head"] & 0x3F == _BLOCK
    return np.where(is_block, (records["ffts"] & 1).astype(bool), ~cube)


def _slaves(blocks: Int64, owner: Int64, kernels: Kernels, masters: Int64) -> Int64:
    """Return the block records of a MIX kernel's other core, at most its number of blocks."""
    if not len(blocks):
        return blocks
    has_master = np.zeros(len(kernels.rows), bool)
    has_master[owner[masters]] = True
    blocks = blocks[~has_master[owner[blocks]]]
    return blocks[joins.turns(owner[blocks]) < kernels.mix_blocks[owner[blocks]]]


def _core_columns(
    device: RawDevice, core: str, totals: _Totals, blocks: Int64, frequencies: Frequencies, rated_mhz: float
) -> dict[str, npt.NDArray[Any]]:
    if not bool(totals.present.any()):
        return {}
    cores = whole_number(device.side.device_fact("ai_core_num" if core == "aic" else "aiv_num")) or 0
    mhz = np.where(totals.present, frequencies.at(totals.end, rated_mhz), np.nan)
    cycles = np.where(totals.present, totals.cycles.astype(np.float64), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        rounds = np.ceil(blocks / cores) if cores else np.full(len(blocks), np.nan)
        total_ns = cycles * 1e3 / mhz / blocks * rounds
        total_ns[~np.isfinite(total_ns)] = np.nan
        metrics = metrics_of(device.family, device.side.info.get("platform_version"))
        derived = metric_columns(core, profiling_events(device, core), totals.counters, cycles, total_ns, mhz, metrics)
    return {f"{core}_total_time_ns": total_ns, f"{core}_total_cycles": cycles, **derived}


def profiling_events(device: RawDevice, core: str, limit: int = 8) -> list[int]:
    """Return up to `limit` events that a core (``aic`` or ``aiv``) counted, in the order of its counters."""
    key = "ai_core_profiling_events" if core == "aic" else "aiv_profiling_events"
    words = str(device.side.sample.get(key) or "").split(",")
    try:
        return [int(word, 16) for word in words if word.strip()][:limit]
    except ValueError:
        device.notes.warning(device.side.label, f"sample.json: {key} is damaged; {core} counters are not named")
        return []


def cube_utilization(
    device: RawDevice, cycles: npt.NDArray[Any] | None, kernels: Kernels, rated_mhz: float
) -> dict[str, npt.NDArray[Any]]:
    """Return ``cube_utilization_percent`` per kernel from total cycles. Source: raw/FORMAT.md section 9 (PMU)."""
    cores = whole_number(device.side.device_fact("ai_core_num"))
    if cycles is None or not cores or not rated_mhz:
        return {}
    duration_us = kernels.tasks.duration_ns[kernels.rows] / 1e3
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = cycles / (rated_mhz * cores * duration_us) * 100
    percent[~np.isfinite(percent)] = np.nan
    return {"cube_utilization_percent": percent}
