"""The fields that are read from control files, and their types; in some versions numbers are text.

Source: raw/FORMAT.md sections 2.2 to 2.4.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

_Fact: TypeAlias = str | int | None
_Whole: TypeAlias = int | Annotated[str, msgspec.Meta(pattern=r"^\s*(-?\d{1,19})?\s*$")] | None
_Megahertz: TypeAlias = int | float | Annotated[str, msgspec.Meta(pattern=r"^\s*(\d+(\.\d*)?)?\s*$")] | None


class InfoFile(msgspec.Struct):
    """``info.json``: the host or device, and the software."""

    platform_version: _Fact = None
    version: _Fact = None
    rank_id: _Whole = None
    simulated: bool | None = None
    cannVersion: _Fact = None  # noqa: N815 - the vendor's name
    drvVersion: _Fact = None  # noqa: N815
    hostname: _Fact = None
    OS: _Fact = None
    hwtype: _Fact = None
    pid: _Fact = None
    pid_name: _Fact = None
    cpuNums: _Whole = None  # noqa: N815
    memoryTotal: _Whole = None  # noqa: N815
    sysClockFreq: _Whole = None  # noqa: N815
    netCard: list[Any] = []  # noqa: N815
    DeviceInfo: list[Any] = []
    CPU: list[Any] = []


class DeviceFacts(msgspec.Struct):
    """An entry of ``DeviceInfo``."""

    ai_core_num: _Whole = None
    aiv_num: _Whole = None
    aic_frequency: _Megahertz = None
    hwts_frequency: _Megahertz = None
    soc_name: _Fact = None


class CpuFacts(msgspec.Struct):
    """An entry of ``CPU``."""

    Type: _Fact = None
    Frequency: _Megahertz = None


class SampleFile(msgspec.Struct):
    """``sample.json``: the options of the collection."""

    app: _Fact = None
    profLevel: _Fact = None  # noqa: N815
    prof_level: _Fact = None
    ai_core_metrics: str | None = None
    ai_core_profiling_mode: str | None = None
    ai_core_profiling_events: str | None = None
    aiv_profiling_events: str | None = None
    l2CacheTaskProfilingEvents: str | None = None  # noqa: N815
    npuEvents: str | None = None  # noqa: N815
    llc_profiling: str | None = None
    qosEvents: str | None = None  # noqa: N815
    host_disk_freq: _Megahertz = None
    l2CacheTaskProfiling: str | None = None  # noqa: N815
    hbmProfiling: str | None = None  # noqa: N815
    hccsProfiling: str | None = None  # noqa: N815
    nicProfiling: str | None = None  # noqa: N815
    roceProfiling: str | None = None  # noqa: N815
    pcieProfiling: str | None = None  # noqa: N815
    host_cpu_profiling: str | None = None
    host_mem_profiling: str | None = None


class MomentFile(msgspec.Struct):
    """``start_info`` or ``end_info``: one point in time on two clocks."""

    clockMonotonicRaw: _Whole = None  # noqa: N815
    collectionTimeBegin: _Whole = None  # noqa: N815
    collectionTimeEnd: _Whole = None  # noqa: N815
