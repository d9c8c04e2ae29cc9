"""Performance counters of the stars v6 family (950 and later): ten counters, a record per task and core type.

Source: raw/FORMAT.md sections 5.7, 8.8 and 9.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Float64, Int64, Records
from npuprof.sources.raw.chips.stars_v6 import BLOCK_PMU, CONTEXT_PMU
from npuprof.sources.raw.device.metrics import METRICS_V6, metric_columns
from npuprof.sources.raw.device.pmu import Frequencies, Kernels, cube_utilization, is_sampled, profiling_events
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.metadata.clocks import parse_frequency
from npuprof.sources.raw.metadata.control_files import whole_number
from npuprof.sources.raw.records import chip_layouts

Columns: TypeAlias = dict[str, npt.NDArray[Any]]

COUNTERS = 10
_STREAM = "ffts_profile"
_MAIN, _MIX, _OVERFLOW = 1, 2, 4


def read_counters(device: RawDevice, kernels: Kernels, frequencies: Frequencies) -> Columns:
    """Read performance counters of a device and derive kernel metrics, like ``device/pmu.py``.

    The time of a MIX kernel's first core comes from its timestamps, that of the other core from its cycles.
    """
    if is_sampled(device):
        return {}
    records = device.read(_STREAM, chip_layouts.PMU_V6, stamp="end")
    function = records["head"] & 0x3F
    other = int((~np.isin(function, (CONTEXT_PMU, BLOCK_PMU))).sum())
    device.skip(_STREAM, "records of other types skipped", other, info=True)
    device.use(_STREAM, int((function == BLOCK_PMU).sum()))
    records = records[function == CONTEXT_PMU]
    overflown = (records["flags"] & _OVERFLOW) != 0
    if bool(overflown.any()):
        device.skip(_STREAM, "counters that overflowed skipped", int(overflown.sum()))
        records = records[~overflown]
    owner = _owners(records, kernels)
    lost_count = int((owner < 0).sum())
    device.skip(_STREAM, "counters of no compute kernel skipped", lost_count, info=True)
    device.use(_STREAM, len(records) - lost_count)
    rated = float(parse_frequency(device.side.device_fact("aic_frequency")) or 0)
    columns: Columns = {}
    for number, core in enumerate(("aic", "aiv")):
        at = np.flatnonzero((owner >= 0) & (records["core_type"] & 1 == number))
        if len(at):
            for name, values in _metrics(device, core, records[at], kernels, owner[at], frequencies, rated).items():
                columns[name] = np.full(len(kernels.rows), np.nan)
                columns[name][owner[at]] = values
    return columns | cube_utilization(device, columns.get("aic_total_cycles"), kernels, rated)


def _owners(records: Records, kernels: Kernels) -> Int64:
    """Return the kernel number of each record, -1 without a kernel."""
    tasks, rows = kernels.tasks, kernels.rows
    end = records["end"].astype(np.int64)
    owner = joins.latest(records["task"].astype(np.int64), end, tasks.task[rows], tasks.begin[rows])
    if not len(rows):
        return owner
    return np.where((owner >= 0) & (end <= tasks.end[rows][owner]), owner, -1)


def _metrics(
    device: RawDevice,
    core: str,
    records: Records,
    kernels: Kernels,
    owner: Int64,
    frequencies: Frequencies,
    rated_mhz: float,
) -> Columns:
    cycles = records["cycles"].astype(np.float64)
    mhz = frequencies.at(records["end"].astype(np.int64), rated_mhz)
    ticks = (records["end"] - np.minimum(records["start"], records["end"])).astype(np.float64)
    total_ns = ticks * float(device.clock.counter.ns_per_tick)
    is_slave = (records["flags"] & (_MAIN | _MIX)) == _MIX
    total_ns[is_slave] = _by_cycles(device, core, cycles, mhz, kernels.mix_blocks[owner])[is_slave]
    events = profiling_events(device, core, COUNTERS)
    counters = records["counters"].astype(np.float64)
    derived = metric_columns(core, events, counters, cycles, total_ns, mhz, METRICS_V6)
    return {f"{core}_total_time_ns": total_ns, f"{core}_total_cycles": cycles, **derived}


def _by_cycles(device: RawDevice, core: str, cycles: Float64, mhz: Float64, blocks: Int64) -> Float64:
    """Estimate the time of a MIX kernel's second core from its cycles; the vendor has no estimate for a cube core."""
    cores = whole_number(device.side.device_fact("aiv_num")) or 0
    if core == "aic" or not cores:
        return np.full(len(cycles), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        total_ns = cycles * 1e3 / mhz / blocks * np.ceil(blocks / cores)
    total_ns[~np.isfinite(total_ns)] = np.nan
    return total_ns
