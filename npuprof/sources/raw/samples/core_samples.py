"""Counters of AI cores sampled by time instead of by task (``ai_core_profiling_mode`` "sample-based").

Source: raw/FORMAT.md section 6 (aicore sample mode).
"""

from __future__ import annotations

import numpy as np

from npuprof.sources.raw.device.chip_metrics import UNSPLIT, metrics_of
from npuprof.sources.raw.device.metrics import metric_columns
from npuprof.sources.raw.device.pmu import Frequencies, is_sampled, profiling_events
from npuprof.sources.raw.device.reader import Device
from npuprof.sources.raw.metadata.chip_families import Family
from npuprof.sources.raw.metadata.clocks import parse_frequency
from npuprof.sources.raw.metadata.dictionaries import Names
from npuprof.sources.raw.records import chip_layouts, layouts
from npuprof.sources.raw.samples.counter_rows import CounterRows, rows
from npuprof.sources.raw.samples.streams import read_device_ns

_LAST_CUBE_CORE = 24  # cores above it are vector cores
_LAST_CUBE_CORES = {**dict.fromkeys(("7", "8", "11"), 0), "15": 35, "16": 69, "19": 35}  # by platform version
_VECTOR_STREAM = "aiVectorCore"
_STREAMS = ("aicore", "ffts_profile", _VECTOR_STREAM)  # the second is where stars chips put them
_UNITS = {"_time_ns": "ns", "_gb_s": "GB/s", "_kb": "KB"}


def read_core_samples(device: Device, frequencies: Frequencies) -> list[CounterRows]:
    """Read samples and derive the metrics of their events: ``aic_mac_ratio``, ``aiv_vec_time_ns`` ... by core.

    What a sample counted, it counted since the one before. Stamps are the device's CLOCK_MONOTONIC_RAW.
    """
    if not is_sampled(device):
        return []
    rated = float(parse_frequency(device.side.device_fact("aic_frequency")) or 0) or np.nan
    version = device.side.info.get("platform_version")
    is_v6, is_split = device.family is Family.STARS_V6, device.family is not Family.HWTS
    table = metrics_of(device.family, version)
    parts: list[CounterRows] = []
    for stream in _STREAMS:
        before = len(parts)
        layout = chip_layouts.CORE_SAMPLE_V6 if is_v6 else layouts.CORE_SAMPLE
        records, time_ns = read_device_ns(device, f"{stream}.data.{device.id}", layout)
        last = _LAST_CUBE_CORES.get(str(version), _LAST_CUBE_CORE)
        on_vector = records["core"] > last if is_split else np.full(len(records), stream == _VECTOR_STREAM)
        for core, wanted in (("aic", False), ("aiv", True)):
            at = np.flatnonzero(on_vector == wanted)
            if not len(at):
                continue
            cycles = records["cycles"][at].astype(np.float64)
            mhz = np.full(len(at), float(frequencies.mhz[-1]) if len(frequencies.mhz) else rated)
            counted = records["counters"][at].astype(np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                total_ns = cycles * 1e3 / mhz
            events = profiling_events(device, core, counted.shape[1])
            kind = core if is_split else UNSPLIT
            metrics = metric_columns(kind, events, counted, cycles, total_ns, mhz, table)
            instance = Names.lookup(records["core"][at], str)
            prefix = f"{kind}_" if kind else ""
            for name, values in {f"{prefix}total_cycles": cycles, **metrics}.items():
                unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), None)
                parts.append(rows(time_ns[at], device.id, values, name, unit, instance))
        device.keep_counters(stream, len(records), parts[before:])
    return parts
