"""Sampled device values: memory in use, HBM traffic, AI core frequency.

Source: formats/raw.md sections 3 (sample files), 5.3 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.sources.raw import layouts
from npuprof.sources.raw.device import Device
from npuprof.sources.raw.dictionaries import Names
from npuprof.sources.raw.pmu import Frequencies

Int64: TypeAlias = npt.NDArray[np.int64]

_HBM_BYTES = 256 // 8
_COMPONENTS = {0: "APP", 1: "Device"}
_LAYOUT_VERSION = "1.0"
_REACH_US = 366 * 86_400_000_000  # as for counters: no profile is a year long


def memory_table(devices: Sequence[Device]) -> pd.DataFrame:
    """Read ``npu_mem``: what the application and the whole device hold of HBM and DDR, in bytes.

    `reserved_bytes` is the sum that the vendor shows; `hbm_bytes` and `ddr_bytes` are its parts.
    """
    parts = [part for device in devices for part in _memory_of(device)]
    names = list(_COMPONENTS.values())
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]} if parts else {}
    if not joined:
        return tables.empty("memory")
    event = joined.pop("event")
    columns = {**joined, "component": tables.categorical(np.minimum(event, 1), names)}
    return tables.sort_by_time(tables.build("memory", columns))


def _memory_of(device: Device) -> list[dict[str, Int64]]:
    parts = []
    for stream in (f"npu_mem.data.{device.id}", f"npu_mem.app.{device.id}"):
        records = _sampled(device, stream, layouts.NPU_MEMORY)
        sound = (records["ddr"] < 1 << 62) & (records["hbm"] < 1 << 62)
        if not bool(sound.all()):
            device.notes.warning(f"device {device.id}", f"{stream}: impossible sizes skipped", int((~sound).sum()))
            records = records[sound]
        ddr, hbm = records["ddr"].astype(np.int64), records["hbm"].astype(np.int64)
        part = {
            "time_ns": device.clock.start_ns + records["stamp_us"].astype(np.int64) * 1000,
            "device_id": np.full(len(records), device.id),
            "reserved_bytes": ddr + hbm,
            "hbm_bytes": hbm,
            "ddr_bytes": ddr,
            "event": records["event"].astype(np.int64),
        }
        parts.append(part)
    return parts


def counters_table(devices: Sequence[Device], frequencies: Sequence[Frequencies]) -> pd.DataFrame:
    """Read the sampled counters of all devices.

    ``AI Core Freq`` (MHz) holds a row a change. ``HBM read`` and ``HBM write`` (the vendor's MB/s, 2**20 bytes a
    second) hold a row a sample, by HBM; the first has no interval before it and is NaN.
    """
    parts = [_frequency_rows(device, one) for device, one in zip(devices, frequencies, strict=True)]
    parts += [_hbm_rows(device) for device in devices]
    parts = [part for part in parts if len(part["time_ns"])]
    if not parts:
        return tables.empty("counters")
    columns: dict[str, Any] = {}
    for key in ("time_ns", "device_id", "value"):
        columns[key] = np.concatenate([part[key] for part in parts])
    for key in ("counter", "instance", "unit"):
        columns[key] = reduce(Names.append, [part[key] for part in parts]).categorical()
    return tables.sort_by_time(tables.build("counters", columns))


def _frequency_rows(device: Device, frequencies: Frequencies) -> dict[str, Any]:
    count = len(frequencies.mhz)
    return {
        "time_ns": device.clock.counter.to_ns(frequencies.counters.astype(np.uint64)),
        "device_id": np.full(count, device.id),
        "value": frequencies.mhz.astype(np.float64),
        "counter": _constant("AI Core Freq", count),
        "instance": Names.absent(count),
        "unit": _constant("MHz", count),
    }


def _hbm_rows(device: Device) -> dict[str, Any]:
    records = _sampled(device, f"hbm.data.{device.id}", layouts.HBM)
    writes = (records["event"] != 0).astype(np.int64)
    series = records["instance"].astype(np.int64) << 1 | writes
    order = np.lexsort((records["stamp_us"], series))
    records, series = records[order], series[order]
    passed_us = np.diff(records["stamp_us"].astype(np.int64), prepend=0).astype(np.float64)
    first = np.concatenate(([True], series[1:] != series[:-1]))[: len(series)]
    passed_us[first | (passed_us <= 0)] = np.nan
    return {
        "time_ns": device.clock.start_ns + records["stamp_us"].astype(np.int64) * 1000,
        "device_id": np.full(len(records), device.id),
        "value": records["count"].astype(np.float64) * _HBM_BYTES / 2**20 / (passed_us / 1e6),
        "counter": Names.distinct(series & 1, ["HBM read", "HBM write"]),
        "instance": Names.lookup(records["instance"], str),
        "unit": _constant("MB/s", len(records)),
    }


def _sampled(device: Device, stream: str, record: np.dtype[Any]) -> Any:
    """Read a file sampled in microseconds since the device's start, if it has the layout that is known."""
    version = str(device.side.info.get("version") or _LAYOUT_VERSION)
    if version != _LAYOUT_VERSION and stream in device.streams.names():
        device.notes.info(f"device {device.id}", f"{stream}: layout version {version} is not decoded")
        return np.empty(0, record)
    records = device.streams.read(stream, record)
    possible = records["stamp_us"] <= _REACH_US
    if not bool(possible.all()):
        device.notes.warning(f"device {device.id}", f"{stream}: impossible time stamps skipped", int((~possible).sum()))
        records = records[possible]
    return records


def _constant(name: str, count: int) -> Names:
    return Names(np.zeros(count, np.int64), [name])
