"""Performance counters of chips with a hardware task scheduler: ``aicore`` and ``aiVectorCore``, a record per task.

The records have no time: the n-th record with a stream and task id belongs to the n-th kernel with these ids. Source:
raw/FORMAT.md sections 7 and 9.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64, Records
from npuprof.sources.raw.chips.hwts import STREAM_MASK, note_gaps
from npuprof.sources.raw.device.metrics import UNSPLIT, metric_columns, metrics_of
from npuprof.sources.raw.device.pmu import Frequencies, Kernels, cube_utilization, is_sampled, profiling_events
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.metadata.clocks import parse_frequency
from npuprof.sources.raw.metadata.control_files import whole_number
from npuprof.sources.raw.records import chip_layouts

Columns: TypeAlias = dict[str, npt.NDArray[Any]]

_STREAMS = (("aicore", "aic", "ai_core_num"), ("aiVectorCore", "aiv", "aiv_num"))
_VECTOR_CORE = "AI_VECTOR_CORE"


def read_counters(device: RawDevice, kernels: Kernels, frequencies: Frequencies) -> Columns:
    """Read performance counters of a device and derive the metrics of its kernels.

    Returns
    -------
    Columns without a core prefix (``total_cycles``, ``aicore_time_ns``, ``vec_ratio`` ...), a value per kernel, NaN
    without a record; times are NaN where the number of blocks is unknown.
    """
    if is_sampled(device):
        return {}
    kinds = kernels.tasks.kind
    is_vector = np.array([*(name == _VECTOR_CORE for name in kinds.names), False])[kinds.codes[kernels.rows]]
    columns: Columns = {}
    for stream, core, cores_fact in _STREAMS:
        records = device.streams.read(f"{stream}.data.{device.id}", chip_layouts.CORE_PMU)
        if not len(records):
            continue
        note_gaps(device, stream, records)
        among = np.flatnonzero(is_vector == (core == "aiv"))
        at, owner = _match_in_order(device, stream, records, kernels, among)
        cores = whole_number(device.side.device_fact(cores_fact)) or 0
        for name, values in _metrics(device, core, cores, records[at], kernels, owner, frequencies).items():
            columns.setdefault(name, np.full(len(kernels.rows), np.nan))[owner] = values
    rated = _rated_mhz(device)
    columns |= _memory_bound(columns)
    on_cube = np.where(is_vector, np.nan, columns["total_cycles"]) if columns else None
    return columns | cube_utilization(device, on_cube, kernels, rated)


def _match_in_order(
    device: RawDevice, stream: str, records: Records, kernels: Kernels, among: Int64
) -> tuple[Int64, Int64]:
    """Match records with kernels in order, for the ids with equally many of both; return the rows of both."""
    tasks, rows = kernels.tasks, kernels.rows[among]
    ids = (records["stream"].astype(np.int64) & STREAM_MASK) << 16 | records["task"]
    kernel_ids = tasks.stream[rows] << 16 | tasks.task[rows]
    distinct, codes = np.unique(np.concatenate((ids, kernel_ids)), return_inverse=True)
    codes_of_records, codes_of_kernels = codes[: len(ids)], codes[len(ids) :]
    count = len(distinct)
    even = np.bincount(codes_of_records, minlength=count) == np.bincount(codes_of_kernels, minlength=count)
    record_order = np.argsort(codes_of_records, kind="stable")
    kernel_order = np.lexsort((tasks.begin[rows], codes_of_kernels))
    at = record_order[even[codes_of_records[record_order]]]
    lost_count = len(records) - len(at)
    device.skip(stream, "counters of no kernel, or not as many as its ids ran, skipped", lost_count)
    device.use(stream, len(at))
    return at, among[kernel_order[even[codes_of_kernels[kernel_order]]]]


def _metrics(
    device: RawDevice,
    core: str,
    cores: int,
    records: Records,
    kernels: Kernels,
    owner: Int64,
    frequencies: Frequencies,
) -> Columns:
    cycles = records["cycles"].astype(np.float64)
    mhz = frequencies.at(kernels.tasks.end[kernels.rows[owner]], _rated_mhz(device))
    blocks = kernels.blocks[owner]
    with np.errstate(divide="ignore", invalid="ignore"):
        total_ns = cycles * 1e3 / mhz / blocks * (np.ceil(blocks / cores) if cores else np.nan)
    total_ns[~np.isfinite(total_ns)] = np.nan
    counters = records["counters"].astype(np.float64)
    metrics = metrics_of(device.family, device.side.info.get("platform_version"))
    derived = metric_columns(UNSPLIT, profiling_events(device, core), counters, cycles, total_ns, mhz, metrics)
    return {"aicore_time_ns": total_ns, "total_cycles": cycles, **derived}


def _memory_bound(columns: Columns) -> Columns:
    """Return the ratio of load time to the busier compute unit, as the vendor defines it for these chips."""
    shares = [columns.get(f"{name}_ratio") for name in ("mte2", "mac", "vec")]
    if any(share is None for share in shares):
        return {}
    loading, cube, vector = (np.asarray(share, np.float64) for share in shares)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = loading / np.maximum(cube, vector)
    bound[~np.isfinite(bound)] = np.nan
    return {"memory_bound": bound}


def _rated_mhz(device: RawDevice) -> float:
    return float(parse_frequency(device.side.device_fact("aic_frequency")) or 0)
