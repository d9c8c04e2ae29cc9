"""The control files of a recording.

Source: raw/FORMAT.md sections 2.2 to 2.5 and 11 (traps 3, 14 and 19: required keys, and values that must be strings).
"""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from npuprof.simulator.collection import Collection
from npuprof.simulator.cost_model import Chip
from npuprof.simulator.pmu import L2_EVENTS, METRICS

HOST_DEVICE_ID = 64
# Versions of the driver and of CANN with these layouts; parsers choose a layout by them.
_DRIVER_VERSION = 467993
_CANN_VERSION = "8.3.0"


def info(chip: Chip, device_id: int | None, monotonic_ns: int, rank_id: int = -1) -> dict[str, Any]:
    """Return ``info.json`` of the host (`device_id` is ``None``) or of a device, with ``"simulated": true``."""
    cpus = os.cpu_count() or 1
    return {
        "version": "1.0",
        "simulated": True,
        "jobInfo": "NA",
        "OS": platform.platform(),
        "hostname": platform.node() or "localhost",
        "hwtype": platform.machine(),
        "devices": str(HOST_DEVICE_ID if device_id is None else device_id),
        "platform": "",
        "platform_version": str(chip.platform_version),
        "pid": str(os.getpid()),
        "pid_name": Path(sys.executable or "python3").name,
        "upTime": f"{monotonic_ns // 10**9}.00 0.00",
        "memoryTotal": os.sysconf("SC_PHYS_PAGES") * (os.sysconf("SC_PAGE_SIZE") // 1024),  # KiB
        "cpuNums": cpus,
        "sysClockFreq": os.sysconf("SC_CLK_TCK"),
        "cpuCores": 1,
        "netCardNums": 0,
        "rank_id": rank_id,
        "drvVersion": _DRIVER_VERSION,
        "cannVersion": _CANN_VERSION,
        "hostUid": "0",
        "netCard": [{"netCardName": "simulated", "speed": 1000}],
        # Without a frequency, host timestamps are nanoseconds, as on x86.
        "CPU": [{"Id": 0, "Name": "simulated", "Frequency": "", "Logical_CPU_Count": str(cpus), "Type": "simulated"}],
        "DeviceInfo": [] if device_id is None else [_device_info(chip, device_id)],
    }


def _device_info(chip: Chip, device_id: int) -> dict[str, Any]:
    return {
        "id": device_id,
        "env_type": 3,
        "ctrl_cpu_id": "ARMv8_Cortex_A55",
        "ctrl_cpu_core_num": 1,
        "ctrl_cpu_endian_little": 1,
        "ts_cpu_core_num": 0,
        "ai_cpu_core_num": 7,
        "ai_core_num": chip.ai_core_count,
        "ai_cpu_core_id": 1,
        "ai_core_id": 0,
        "aicpu_occupy_bitmap": 254,
        "ctrl_cpu": "0",
        "ai_cpu": "1,2,3,4,5,6,7",
        "aiv_num": chip.aiv_count,
        "hwts_frequency": f"{chip.counter_mhz}.000000",
        "aic_frequency": str(chip.core_mhz),
        "aiv_frequency": str(chip.core_mhz),
        "soc_name": f"{chip.soc_name} (simulated)",
    }


def sample(collection: Collection, device_id: int | None, result_dir: str) -> dict[str, Any]:
    """Return ``sample.json``: the configuration of the collection."""
    number = str(HOST_DEVICE_ID if device_id is None else device_id)
    metric = METRICS[collection.metric] if collection.counters else None
    name, events = ("", "") if metric is None else (metric.name, metric.events)
    asked: dict[str, Any] = {
        "devices": number,
        "job_id": number,
        "ai_core_profiling": _switch(metric is not None),
        "ai_core_metrics": name,
        "ai_core_profiling_events": events,
        "ai_core_profiling_mode": "task-based",
        "aicore_sampling_interval": 10,
        "aiv_profiling": _switch(metric is not None),
        "aiv_metrics": name,
        "aiv_profiling_events": events,
        "aiv_profiling_mode": "task-based",
        "aiv_sampling_interval": 10,
        "prof_level": "off" if collection.level == "off" else f"level{collection.level[1:]}",
        "profLevel": collection.level,
        "llc_profiling": "",
        "msprofBinPid": -1,
        "stars_acsq_task": _switch(collection.tasks),
        "ts_memcpy": "off",
        "msproftx": _switch(collection.marks),
        "acl": _switch(collection.acl_api),
        "runtimeApi": _switch(collection.runtime_api),
        "hcclTrace": _switch(collection.communication),
        "taskMemory": _switch(collection.allocations),
        "qosEvents": "",
        "instrProfilingFreq": 1000,
        "result_dir": result_dir,
    }
    if collection.l2_cache:
        asked |= {"l2CacheTaskProfiling": "on", "l2CacheTaskProfilingEvents": L2_EVENTS}
    if collection.memory_hz:
        interval_ms = 1_000 // collection.memory_hz
        asked |= {"hbmProfiling": "on", "hbm_profiling_events": "read,write", "hbmInterval": interval_ms}
        asked |= {"memProfiling": "on", "memInterval": interval_ms}
    return asked


def _switch(on: bool) -> str:
    return "on" if on else "off"


def moment(label: str, realtime_ns: int, monotonic_ns: int) -> dict[str, str]:
    """Return ``start_info`` (`label` is ``Begin``) or ``end_info`` (``End``)."""
    date = datetime.fromtimestamp(realtime_ns // 10**9, timezone.utc)
    return {
        f"collectionDate{label}": f"{date:%Y-%m-%d %H:%M:%S}.{realtime_ns // 1000 % 10**6:06d}",
        f"collectionTime{label}": str(realtime_ns // 1000),
        "clockMonotonicRaw": str(monotonic_ns),
    }


def anchor(monotonic_ns: int, counter: int, section: str = "") -> bytes:
    """Return a ``*_start.log``: simultaneous monotonic clock and counter; `section` is for the host's files."""
    lines = [f"clock_monotonic_raw: {monotonic_ns}", f"cntvct: {counter}"]
    if section:
        lines = [f"[{section}]", *lines, "cntvct_diff: 0"]
    return "".join(f"{line}\n" for line in lines).encode()


def to_json(content: dict[str, Any]) -> bytes:
    """Return JSON on one line, as the collector writes it."""
    return json.dumps(content, separators=(",", ":")).encode()
