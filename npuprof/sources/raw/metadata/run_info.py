"""What the control files tell of a run, as :class:`npuprof.info.Info`.

Source: raw/FORMAT.md sections 1 and 2.2 to 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from npuprof.info import Info
from npuprof.sources.raw.metadata.control_files import CHIPS, Side, whole_number

_VERSIONS = {"cannVersion": "cann", "drvVersion": "driver"}
_ENVIRONMENT = {
    "hostname": "hostname",
    "OS": "os",
    "hwtype": "architecture",
    "cpuNums": "cpus",
    "memoryTotal": "memory_kb",
    "pid": "pid",
    "pid_name": "process",
}
_LEVELS = {f"l{number}": number for number in range(4)} | {f"level{number}": number for number in range(4)}


def read_info(path: Path, sides: Sequence[Side], utc_ns: int) -> Info:
    """Gather what is known; what no file tells is left out.

    The collector is known where the msprof command started the program, since it then writes the program's name. pyACL
    and TensorFlow call the same library, and nothing that it writes tells them apart: they stay unknown.
    """
    merged = {key: value for side in reversed(sides) for key, value in side.info.items()}
    rank = whole_number(merged.get("rank_id"))
    return Info(
        name=path.name,
        collector="msprof" if any(side.sample.get("app") for side in sides) else "",
        source="raw",
        simulated=any(side.info.get("simulated") is True for side in sides),
        chip=chip_name(merged.get("platform_version")),
        rank=rank if rank is not None and rank >= 0 else None,
        devices=[side.device_id for side in sides if side.device_id is not None],
        started_ns=_moment(sides, "start", "collectionTimeBegin", utc_ns),
        stopped_ns=_moment(sides, "end", "collectionTimeEnd", utc_ns),
        versions={name: str(merged[key]) for key, name in _VERSIONS.items() if merged.get(key)},
        options=_options(sides),
        environment=_environment(merged, sides),
        recording=path,
    )


def chip_name(platform_version: object) -> str:
    """Name the chip of a ``platform_version``; empty when there is none."""
    version = "" if platform_version is None else str(platform_version)
    return CHIPS.get(version) or (f"Ascend (platform version {version})" if version else "")


def _moment(sides: Sequence[Side], attribute: str, key: str, utc_ns: int) -> int | None:
    for side in sides:
        facts = getattr(side, attribute)
        mono, utc_us = whole_number(facts.get("clockMonotonicRaw")), whole_number(facts.get(key))
        if mono is not None and utc_us is not None:
            # The moment on the run's own clock; the microseconds beside it are rounded.
            return mono + utc_ns if mono >= 0 else utc_us * 1000
    return None


def _environment(merged: dict[str, object], sides: Sequence[Side]) -> dict[str, str]:
    known = {name: str(merged[key]) for key, name in _ENVIRONMENT.items() if merged.get(key) not in (None, "")}
    cpus = [str(side.cpu_fact("Type")) for side in sides if side.cpu_fact("Type")]
    return known | ({"cpu": cpus[0]} if cpus else {})


def _options(sides: Sequence[Side]) -> dict[str, object]:
    options: dict[str, object] = {}
    for side in sides:
        level = _LEVELS.get(str(side.sample.get("profLevel") or side.sample.get("prof_level") or ""))
        if level is not None:
            options.setdefault("level", level)
        metrics = side.sample.get("ai_core_metrics")
        if isinstance(metrics, str) and metrics:
            options.setdefault("aic_metrics", metrics)
    return options
