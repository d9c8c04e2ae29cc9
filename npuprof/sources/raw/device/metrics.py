"""The vendor's performance counter metrics, by event number and chip; one metric per line.

Source: raw/FORMAT.md section 9 (PMU); for the v6 family and the nano, the vendor's own parser (``ai_core_config``).
Only PipeUtilization of the 910B family is checked against the vendor's results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Float64
from npuprof.sources.raw.metadata.chip_families import Family


@dataclass(frozen=True)
class Metric:
    """A metric of performance counters."""

    name: str  # column name between the core prefix and the unit
    # `pipe`: a share of the cycles, and the corresponding time; `ratio`: a share; `bandwidth`: bytes over time;
    # `count`: a weighted sum; `kb`: the same in kilobytes; `quotient`: first event over second.
    form: Literal["pipe", "ratio", "bandwidth", "count", "kb", "quotient"]
    events: Mapping[int, float]  # weight by event number; a metric needs all its events
    cores: tuple[str, ...] = ("aic", "aiv")  # the cores for which the vendor shows it


_AIC, _AIV = ("aic",), ("aiv",)

METRICS: tuple[Metric, ...] = (
    # PipeUtilization and PipeUtilizationExct
    Metric("vec", "pipe", {0x8: 1}, _AIV),
    Metric("mac", "pipe", {0xA: 1}, _AIC),
    Metric("mac", "pipe", {0x416: 1, 0x417: 1}, _AIC),
    Metric("scalar", "pipe", {0x9: 1}),
    Metric("mte1", "pipe", {0xB: 1}, _AIC),
    Metric("mte1", "pipe", {0x302: 1}, _AIC),
    Metric("mte2", "pipe", {0xC: 1}),
    Metric("mte3", "pipe", {0xD: 1}),
    Metric("fixpipe", "pipe", {0x303: 1}, _AIC),
    Metric("icache_miss_rate", "quotient", {0x55: 1, 0x54: 1}),
    # ArithmeticUtilization
    Metric("mac_fp16", "ratio", {0x49: 1}, _AIC),
    Metric("mac_int8", "ratio", {0x4A: 1}, _AIC),
    Metric("cube_fops", "count", {0x49: 8192, 0x4A: 16384}, _AIC),
    Metric("vec_fp32", "ratio", {0x4B: 1}, _AIV),
    Metric("vec_fp16", "ratio", {0x4C: 1, 0x4D: 1}, _AIV),
    Metric("vec_int32", "ratio", {0x4E: 1}, _AIV),
    Metric("vec_misc", "ratio", {0x4F: 1}, _AIV),
    Metric("vector_fops", "count", {0x4C: 128, 0x4D: 64, 0x4B: 64, 0x4E: 64, 0x4F: 32}, _AIV),
    # Memory
    Metric("ub_read_bw", "bandwidth", {0x15: 256 * 4}),
    Metric("ub_write_bw", "bandwidth", {0x16: 256 * 4}),
    Metric("l1_read_bw", "bandwidth", {0x31: 256 * 16}),
    Metric("l1_write_bw", "bandwidth", {0x32: 128 * 8}),
    Metric("main_mem_read_bw", "bandwidth", {0x12: 8 * 8}),
    Metric("main_mem_write_bw", "bandwidth", {0x13: 8 * 8}),
    Metric("l2_read_bw", "bandwidth", {0xF: 256 * 8}),
    Metric("l2_write_bw", "bandwidth", {0x10: 256 * 8}),
    # MemoryL0
    Metric("l0a_read_bw", "bandwidth", {0x1B: 256 * 16}),
    Metric("l0a_write_bw", "bandwidth", {0x1C: 256 * 16}),
    Metric("l0b_read_bw", "bandwidth", {0x21: 256 * 16}),
    Metric("l0b_write_bw", "bandwidth", {0x22: 256 * 8}),
    Metric("l0c_read_bw", "bandwidth", {0x27: 256 * 8}),
    Metric("l0c_write_bw", "bandwidth", {0x29: 256 * 8}),
    Metric("l0c_read_bw_cube", "bandwidth", {0x28: 256 * 32}),
    Metric("l0c_write_bw_cube", "bandwidth", {0x2A: 256 * 32}),
    # MemoryUB
    Metric("ub_read_bw_vector", "bandwidth", {0x43: 128 * 2}),
    Metric("ub_write_bw_vector", "bandwidth", {0x44: 128 * 2}),
    Metric("ub_read_bw_scalar", "bandwidth", {0x37: 128}),
    Metric("ub_write_bw_scalar", "bandwidth", {0x38: 128}),
    # ResourceConflictRatio
    Metric("vec_bankgroup_cflt", "ratio", {0x64: 1}, _AIV),
    Metric("vec_bank_cflt", "ratio", {0x65: 1}, _AIV),
    Metric("vec_resc_cflt", "ratio", {0x66: 1}, _AIV),
    # L2Cache
    Metric("write_cache_hit", "count", {0x500: 1}),
    Metric("write_cache_miss_allocate", "count", {0x502: 1}),
    Metric("r0_read_cache_hit", "count", {0x504: 1}),
    Metric("r0_read_cache_miss_allocate", "count", {0x506: 1}),
    Metric("r1_read_cache_hit", "count", {0x508: 1}),
    Metric("r1_read_cache_miss_allocate", "count", {0x50A: 1}),
    # MemoryAccess
    Metric("read_main_memory", "kb", {0x50D: 1 / 8, 0x50E: 1 / 8}),
    Metric("write_main_memory", "kb", {0x50C: 1 / 8}),
    Metric("gm_to_l1", "kb", {0x32: 1 / 4, 0x206: -1 / 4}, _AIC),
    Metric("l0c_to_l1", "kb", {0x206: 1 / 8}, _AIC),
    Metric("l0c_to_gm", "kb", {0x20C: 1 / 8, 0x206: -1 / 8}, _AIC),
    Metric("gm_to_ub", "kb", {0x3E: 1 / 8}, _AIV),
    Metric("ub_to_gm", "kb", {0x3D: 1 / 8}, _AIV),
)
"""Every metric, in the order of its columns."""


def metric_columns(
    core: str,
    events: Sequence[int],
    counters: npt.NDArray[Any],
    cycles: Float64,
    total_ns: Float64,
    mhz: Float64,
    metrics: Sequence[Metric] = METRICS,
) -> dict[str, Float64]:
    """Return the metrics whose events were all counted."""
    prefix = f"{core}_" if core else ""
    place = {event: column for column, event in enumerate(events)}
    columns: dict[str, Float64] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for metric in metrics:
            if core in metric.cores and all(event in place for event in metric.events):
                for suffix, values in _values(metric, place, counters, cycles, total_ns, mhz):
                    columns[f"{prefix}{metric.name}{suffix}"] = values
    return columns


def _values(
    metric: Metric,
    place: Mapping[int, int],
    counters: npt.NDArray[Any],
    cycles: Float64,
    total_ns: Float64,
    mhz: Float64,
) -> Iterator[tuple[str, Float64]]:
    present = np.where(np.isnan(cycles), np.nan, 1.0)
    columns = [counters[:, place[event]] * weight * present for event, weight in metric.events.items()]
    if metric.form == "quotient":
        yield "", _finite(columns[0] / columns[1])
        return
    value = columns[0] if len(columns) == 1 else np.sum(columns, axis=0)
    if metric.form == "pipe":
        ratio = _finite(value / cycles)
        yield "_time_ns", ratio * total_ns
        yield "_ratio", ratio
    elif metric.form == "ratio":
        yield "_ratio", _finite(value / cycles)
    elif metric.form == "bandwidth":
        yield "_gb_s", _finite(value / (cycles / (mhz * 1e6)) / 2**33)
    else:
        yield "_kb" if metric.form == "kb" else "", value


def _finite(values: Float64) -> Float64:
    values[np.isinf(values)] = np.nan
    return values


UNSPLIT = ""
"""The core of chips whose cores do not differ in their counters: its columns have no prefix."""


_WITHOUT_VECTOR_FOPS = tuple(metric for metric in METRICS if metric.name != "vector_fops")
_VECTOR_FOPS = next(metric for metric in METRICS if metric.name == "vector_fops")
_V3_VECTOR_FOPS = replace(_VECTOR_FOPS, events={0x4C: 128, 0x4D: 64, 0x4B: 64, 0x4E: 16, 0x4F: 16})
_V3_CHIPS = ("2", "3", "4")

_MINI_V3 = (
    Metric("vec_exe", "pipe", {0x12C: 1}, _AIV),
    Metric("ub_read_bw_vector", "bandwidth", {0x17F: 128 * 2, 0x180: 128 * 2}),
    Metric("ub_write_bw_vector", "bandwidth", {0x191: 128 * 2}),
    Metric("ub_read_bw_mte", "bandwidth", {0x1A5: 128}),
    Metric("ub_write_bw_mte", "bandwidth", {0x1A6: 128}),
)
_MINI_V3_CHIPS = ("7", "8", "11")

METRICS_V6: tuple[Metric, ...] = (
    # PipeUtilization
    Metric("vec", "pipe", {0x501: 1}, _AIV),
    Metric("mac", "pipe", {0x301: 1}, _AIC),
    Metric("scalar", "pipe", {0x1: 1}),
    Metric("mte1", "pipe", {0x701: 1}, _AIC),
    Metric("mte2", "pipe", {0x202: 1}),
    Metric("mte3", "pipe", {0x203: 1}),
    Metric("fixpipe", "pipe", {0x714: 1}, _AIC),
    Metric("icache_miss_rate", "quotient", {0x35: 1, 0x34: 1}),
    # ArithmeticUtilization
    Metric("mac_fp16", "ratio", {0x323: 1}, _AIC),
    Metric("mac_int8", "ratio", {0x324: 1}, _AIC),
    Metric("cube_fops", "count", {0x323: 8192, 0x324: 16384}, _AIC),
    # Memory
    Metric("ub_read_bw", "bandwidth", {0x56F: 256 * 4, 0x571: 256 * 4}, _AIV),
    Metric("ub_write_bw", "bandwidth", {0x570: 256 * 4, 0x572: 256 * 4}, _AIV),
    Metric("l1_read_bw", "bandwidth", {0x707: 256 * 16}, _AIC),
    Metric("l1_write_bw", "bandwidth", {0x709: 256 * 8}, _AIC),
    Metric("main_mem_read_bw", "bandwidth", {0x422: 128 * 8}),
    Metric("main_mem_write_bw", "bandwidth", {0x423: 128 * 8}),
    Metric("main_mem_read_bw", "bandwidth", {0x400: 128 * 8}),
    Metric("main_mem_write_bw", "bandwidth", {0x401: 128 * 8}),
    # MemoryL0
    Metric("l0a_read_bw", "bandwidth", {0x304: 256 * 16}, _AIC),
    Metric("l0a_write_bw", "bandwidth", {0x703: 256 * 16}, _AIC),
    Metric("l0b_read_bw", "bandwidth", {0x306: 256 * 8}, _AIC),
    Metric("l0b_write_bw", "bandwidth", {0x705: 256 * 8}, _AIC),
    Metric("l0c_read_bw", "bandwidth", {0x712: 256 * 8}, _AIC),
    Metric("l0c_read_bw_cube", "bandwidth", {0x30A: 256 * 8}, _AIC),
    Metric("l0c_write_bw_cube", "bandwidth", {0x308: 256 * 8}, _AIC),
    # MemoryUB
    Metric("ub_read_bw_mte", "bandwidth", {0x204: 128}),
    Metric("ub_write_bw_mte", "bandwidth", {0x206: 128}),
    Metric("ub_read_bw_vector", "bandwidth", {0x571: 128 * 2}, _AIV),
    Metric("ub_write_bw_vector", "bandwidth", {0x572: 128 * 2}, _AIV),
    Metric("ub_read_bw_scalar", "bandwidth", {0x3: 128}),
    Metric("ub_write_bw_scalar", "bandwidth", {0x5: 128}),
    Metric("fixp2ub_write_bw", "bandwidth", {0x70C: 256 * 8}, _AIC),
    # ResourceConflictRatio
    Metric("vec_bank_cflt", "ratio", {0x540: 1, 0x556: 1}, _AIV),
    Metric("vec_resc_cflt_ratio", "quotient", {0x528: 1, 0x502: 1}, _AIV),
    # L2Cache
    Metric("read_local_l2_hit", "count", {0x424: 1}),
    Metric("read_local_l2_miss", "count", {0x425: 1}),
    Metric("read_local_l2_victim", "count", {0x426: 1}),
    Metric("write_local_l2_hit", "count", {0x42A: 1}),
    Metric("write_local_l2_miss", "count", {0x42B: 1}),
    Metric("write_local_l2_victim", "count", {0x42C: 1}),
)

METRICS_NANO: tuple[Metric, ...] = (
    Metric("vec_exe", "pipe", {0x300: 1}),
    Metric("mac_exe", "pipe", {0x400: 1}),
    Metric("scalar", "pipe", {0x100: 1}),
    Metric("mte1", "pipe", {0x200: 1}),
    Metric("mte2", "pipe", {0x201: 1}),
    Metric("mte3", "pipe", {0x202: 1}),
    Metric("fixpipe", "pipe", {0x302: 1}),
    Metric("mte_preload", "pipe", {0x203: 1}),
    Metric("icache_miss_rate", "quotient", {0x102: 1, 0x101: 1}),
    Metric("acess_stack", "pipe", {0x103: 1}),
    Metric("control_flow_mis_prediction_rate", "quotient", {0x105: 1, 0x104: 1}),
    Metric("main_mem_read_bw", "bandwidth", {0x204: 8 * 8}),
    Metric("main_mem_write_bw", "bandwidth", {0x205: 8 * 8}),
    Metric("ub_read_bw_mte2", "bandwidth", {0x206: 128}),
    Metric("ub_write_bw_mte2", "bandwidth", {0x207: 128}),
    Metric("ub_read_bw_mte", "bandwidth", {0x208: 128}),
    Metric("ub_write_bw_mte", "bandwidth", {0x209: 128}),
    Metric("ub_read_bw_vector", "bandwidth", {0x303: 128 * 2}),
    Metric("ub_write_bw_vector", "bandwidth", {0x304: 128 * 2}),
    Metric("ub_read_bw_scalar", "bandwidth", {0x106: 128}),
    Metric("ub_write_bw_scalar", "bandwidth", {0x107: 128}),
    Metric("vec_self_stall_cycles", "count", {0x305: 1}),
    Metric("cube_self_stall_cycles", "count", {0x406: 1}),
    Metric("cube_mte2_cflt_stall_cycles", "count", {0x600: 1}),
    Metric("cube_mte3_cflt_stall_cycles", "count", {0x601: 1}),
    Metric("cube_mte1_cflt_stall_cycles", "count", {0x602: 1}),
    Metric("vec_mte2_cflt_stall_cycles", "count", {0x603: 1}),
    Metric("vec_mte3_cflt_stall_cycles", "count", {0x604: 1}),
    Metric("vec_mte1_cflt_stall_cycles", "count", {0x605: 1}),
    Metric("mte1_mte2_stall_cycles", "count", {0x606: 1}),
    Metric("mte1_mte3_stall_cycles", "count", {0x607: 1}),
)


def _unsplit(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    return tuple(replace(metric, cores=(UNSPLIT,)) for metric in metrics)


_METRICS: Mapping[Family, tuple[Metric, ...]] = {
    Family.STARS: METRICS,
    Family.TIMELINE: METRICS,
    Family.HWTS: _unsplit(METRICS),
    Family.STARS_V6: METRICS_V6,
    Family.NANO: _unsplit(METRICS_NANO),
}
_METRICS_V3 = _unsplit((*_WITHOUT_VECTOR_FOPS, _V3_VECTOR_FOPS))
_METRICS_MINI_V3 = (*METRICS, *_MINI_V3)


def metrics_of(family: Family, platform_version: object) -> tuple[Metric, ...]:
    """Return the metrics of a chip, in the order of their columns."""
    version = str(platform_version)
    if version in _V3_CHIPS:
        return _METRICS_V3
    if version in _MINI_V3_CHIPS:
        return _METRICS_MINI_V3
    return _METRICS[family]
