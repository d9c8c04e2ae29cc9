"""Sampled values of a run: memory, and the counters of all sampled streams.

Source: raw/FORMAT.md sections 3 (sample files), 5.3, 5.5 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.sources.columns.builders import ABSENT, module_component, optional
from npuprof.sources.raw.device.pmu import Frequencies
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.metadata.clocks import CounterClock
from npuprof.sources.raw.metadata.control_files import RecordedSide
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import layouts
from npuprof.sources.raw.records.enums import MEMORY_MODULES
from npuprof.sources.raw.samples import chip_monitors as core_samples
from npuprof.sources.raw.samples import host_usage, traffic
from npuprof.sources.raw.samples.counter_rows import CounterRows, joined_rows, rows
from npuprof.sources.raw.samples.streams import impossible, layout_version, read_host_ns, read_us

_COMPONENTS = ["APP", "Device"]
_MAX_BYTES = 1 << 62


def memory_table(devices: Sequence[RawDevice], host_clock: CounterClock) -> pd.DataFrame:
    """Read device memory in bytes: ``npu_mem`` and ``npu_module_mem``.

    The components APP and Device are the application and the whole device: `reserved_bytes` is the vendor's sum of
    `hbm_bytes` and `ddr_bytes`. Other components are software modules, such as ``HCCL (module)``.
    """
    parts = [part for device in devices for part in (*_memory_of(device), _modules_of(device, host_clock))]
    parts = [part for part in parts if len(part["time_ns"])]
    if not parts:
        return tables.empty("memory")
    columns: dict[str, Any] = {
        key: np.concatenate([part[key] for part in parts])
        for key in ("time_ns", "device_id", "reserved_bytes", "hbm_bytes", "ddr_bytes")
    }
    for key in ("hbm_bytes", "ddr_bytes"):
        columns[key] = optional(columns[key])
    columns["component"] = reduce(NameColumn.append, [part["component"] for part in parts]).categorical()
    return tables.sort_by_time(tables.build("memory", columns))


def _memory_of(device: RawDevice) -> list[dict[str, Any]]:
    version = layout_version(device, "npu_mem")
    parts = []
    for stream in (f"npu_mem.data.{device.id}", f"npu_mem.app.{device.id}") if version else ():
        if version == "1.0":
            records, time_ns = read_us(device, stream, layouts.NPU_MEMORY)
        else:
            records, time_ns = read_host_ns(device, stream, layouts.NPU_MEMORY_V2)
        sound = (records["ddr"] < _MAX_BYTES) & (records["hbm"] < _MAX_BYTES) & (records["event"] < len(_COMPONENTS))
        impossible(device, stream, "impossible sizes or components", ~sound)
        records, time_ns = records[sound], time_ns[sound]
        device.keep(stream, "memory", len(records))
        ddr, hbm = records["ddr"].astype(np.int64), records["hbm"].astype(np.int64)
        part = {
            "time_ns": time_ns,
            "device_id": np.full(len(records), device.id),
            "reserved_bytes": ddr + hbm,
            "hbm_bytes": hbm,
            "ddr_bytes": ddr,
            "component": NameColumn(records["event"].astype(np.int32), _COMPONENTS),
        }
        parts.append(part)
    return parts


def _modules_of(device: RawDevice, host_clock: CounterClock) -> dict[str, Any]:
    """Read the memory of each software module; timestamps are host counter values."""
    stream = f"npu_module_mem.data.{device.id}"
    records = device.streams.read(stream, layouts.MODULE_MEMORY)
    sound = host_clock.reaches(records["stamp"])
    impossible(device, stream, "impossible time stamps", ~sound)
    large = sound & (records["size"] >= _MAX_BYTES)  # -1 where a module has no value
    impossible(device, stream, "impossible sizes", large)
    records = records[sound & ~large]
    time_ns = host_clock.to_ns(records["stamp"])
    early = time_ns < device.started_ns
    if bool(early.any()):  # as the vendor does; samples of a sampler that ran earlier need no warning
        message = "samples from before the collection began skipped"
        device.skip("npu_module_mem", message, int(early.sum()), info=True)
        records, time_ns = records[~early], time_ns[~early]
    device.keep(stream, "memory", len(records))
    absent = np.full(len(records), ABSENT)
    return {
        "time_ns": time_ns,
        "device_id": np.full(len(records), device.id),
        "reserved_bytes": records["size"].astype(np.int64),
        "hbm_bytes": absent,
        "ddr_bytes": absent,
        "component": NameColumn.lookup(
            records["module"], lambda value: module_component(MEMORY_MODULES.get(value) or str(value))
        ),
    }


def held_rows(memory: pd.DataFrame) -> list[CounterRows]:
    """Return the APP and Device samples of `memory` as counters ``NPU MEM HBM``, ``DDR`` and ``Memory`` in KB."""
    sampled = memory["hbm_bytes"].notna() if "hbm_bytes" in memory else np.zeros(len(memory), np.bool_)
    in_memory = memory[sampled]
    parts = []
    for device, frame in in_memory.groupby("device_id"):
        component = frame["component"].cat
        names = NameColumn(component.codes.to_numpy(np.int32), list(component.categories))
        for name, column in (("DDR", "ddr_bytes"), ("HBM", "hbm_bytes"), ("Memory", "reserved_bytes")):
            value = frame[column].to_numpy(np.float64) / 1024
            parts.append(rows(frame["time_ns"].to_numpy(), int(str(device)), value, f"NPU MEM {name}", "KB", names))
    return parts


def counters_table(
    devices: Sequence[RawDevice],
    frequencies: Sequence[Frequencies],
    host: RawHost,
    side: RecordedSide | None,
    held: Sequence[CounterRows] = (),
) -> pd.DataFrame:
    """Read the sampled counters of all devices and of the host, with its control files `side`; append `held`.

    ``AI Core Freq`` (MHz) has a row per change; see the readers for the others.
    """
    parts = [*held]
    if held:
        host.notes.ledger.make("memory", "counters", sum(map(len, held)))
    parts += [_frequency_rows(device, frequency) for device, frequency in zip(devices, frequencies, strict=True)]
    for device, frequency in zip(devices, frequencies, strict=True):
        parts += traffic.read_hbm(device)
        parts += traffic.read_ddr(device)
        parts += traffic.read_llc(device)
        parts += traffic.read_pcie(device)
        parts += traffic.read_hccs(device)
        parts += traffic.read_network(device, "nic", "NIC")
        parts += traffic.read_network(device, "roce", "RoCE")
        parts += traffic.read_qos(device)
        parts += core_samples.read_soc_profile(device)
        parts += core_samples.read_voltages(device)
        parts += core_samples.read_core_samples(device, frequency)
    parts += host_usage.read_host_usage(host, side)
    return joined_rows(parts)


def _frequency_rows(device: RawDevice, frequencies: Frequencies) -> CounterRows:
    time_ns = device.clock.counter.to_ns(frequencies.counters.astype(np.uint64))
    changes = rows(time_ns, device.id, frequencies.mhz, "AI Core Freq", "MHz")
    device.notes.ledger.make(device.streams.account("lpmFreqConv"), "counters", len(changes))
    return changes
