"""Control files of a ``PROF_*`` directory: hosts and devices, options, clock anchors, and the run's ``Info``.

Source: raw/FORMAT.md sections 1, 2.2 to 2.5.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npuprof.files.small_files import decode, read_fields
from npuprof.sources.raw.metadata.control_types import CpuFacts, DeviceFacts, InfoFile, MomentFile, SampleFile
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

_MAX_BYTES = 4 << 20  # control files hold a few kilobytes
_ANCHOR_LINE = re.compile(r"^\s*(clock_monotonic_raw|cntvct|cntvct_diff)\s*:\s*(-?\d{1,19})\b", re.MULTILINE)
_DECIMAL = re.compile(r"-?\d{1,19}")

CHIPS: Mapping[str, str] = {
    "0": "Ascend 310",
    "1": "Ascend 910",
    "2": "Ascend 610",
    "4": "Ascend 310P",
    "5": "Ascend 910B",
    "7": "Ascend 310B",
    "8": "Ascend tiny",
    "9": "Ascend nano",
    "15": "Ascend 950",
}
"""Names of chips, or of families, by ``platform_version``; A2 and A3 cards are both 5.

Source: raw/FORMAT.md section 1.
"""


@dataclass(frozen=True)
class RecordedSide:
    """The control files of ``host`` or of a ``device_N``."""

    directory: Path  # the folder itself; its streams are in `data`
    device_id: int | None  # the device, or None for the host
    # info, sample, start, end: the fields of `info.json`, `sample.json`, `start_info` and `end_info` that
    # `control_types` names; none of a missing or damaged file.
    info: Mapping[str, Any] = field(default_factory=dict)
    sample: Mapping[str, Any] = field(default_factory=dict)
    start: Mapping[str, Any] = field(default_factory=dict)
    end: Mapping[str, Any] = field(default_factory=dict)
    # device, cpu: the fields of the first entries of `DeviceInfo` and `CPU` in `info.json`.
    device: Mapping[str, Any] = field(default_factory=dict)
    cpu: Mapping[str, Any] = field(default_factory=dict)
    # host_anchor, device_anchor: numbers of `host_start.log` and `dev_start.log` by name (nanoseconds and counter
    # cycles).
    host_anchor: Mapping[str, int] = field(default_factory=dict)
    device_anchor: Mapping[str, int] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """Return the folder of the streams."""
        return self.directory / "data"

    @property
    def is_old(self) -> bool:
        """Return whether it is a folder of an old chip's slices, which may lack control files."""
        return self.device_id is not None and self.directory.name != f"device_{self.device_id}"

    @property
    def label(self) -> str:
        """Return the name of this side in notes."""
        return self.directory.name

    def device_fact(self, key: str) -> Any:
        """Return a field of the first entry of ``DeviceInfo``, None when absent."""
        return self.device.get(key)

    def cpu_fact(self, key: str) -> Any:
        """Return a field of the first entry of ``CPU``, None when absent."""
        return self.cpu.get(key)


def read_sides(path: Path, notes: Notes) -> list[RecordedSide]:
    """Read the control files of the host and of every device below a ``PROF_*`` directory, host first.

    A missing or damaged file is noted and left empty; nothing is raised.
    """
    sides = []
    if (path / "host").is_dir():
        sides.append(_read_side(path / "host", None, notes))
    devices = sorted((int(match[1]), match[0]) for match in _device_folders(path))
    return sides + [_read_side(path / name, device_id, notes) for device_id, name in devices]


def read_old_sides(path: Path, devices: Iterable[int], notes: Notes) -> list[RecordedSide]:
    """Read the control files next to the ``data`` folder of an old recording."""
    return [_read_side(path, device_id, notes) for device_id in devices]


def _device_folders(path: Path) -> list[re.Match[str]]:
    names = (re.fullmatch(r"device_(\d{1,4})", entry.name) for entry in path.iterdir() if entry.is_dir())
    return [match for match in names if match]


def _read_side(directory: Path, device_id: int | None, notes: Notes) -> RecordedSide:
    suffix = "" if device_id is None else f".{device_id}"
    name = f"info.json{suffix}"
    info = _read_json(directory, name, InfoFile, notes)
    device, cpu = ((info.get(key) or [{}])[0] for key in ("DeviceInfo", "CPU"))
    return RecordedSide(
        directory,
        device_id,
        info=info,
        sample=_read_json(directory, "sample.json", SampleFile, notes),
        start=_read_json(directory, f"start_info{suffix}", MomentFile, notes),
        end=_read_json(directory, f"end_info{suffix}", MomentFile, notes),
        device=_typed_fields(device, DeviceFacts, f"{name}: DeviceInfo", directory, notes),
        cpu=_typed_fields(cpu, CpuFacts, f"{name}: CPU", directory, notes),
        host_anchor=_read_anchor(directory, f"host_start.log{suffix}", notes),
        device_anchor={} if device_id is None else _read_anchor(directory, f"dev_start.log{suffix}", notes),
    )


def _read_text(directory: Path, name: str, notes: Notes) -> str:
    path = directory / name
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("not a regular file")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES)
        if not content:
            notes.warning(directory.name, f"{name} is empty: its facts are missing")
        return content.decode("utf-8", "replace")
    except OSError as error:
        notes.warning(directory.name, f"{name} is missing or cannot be read ({error.strerror or error})")
        return ""


def _read_json(directory: Path, name: str, kind: type[Any], notes: Notes) -> Mapping[str, Any]:
    text = _read_text(directory, name, notes)
    if not text:
        return {}
    try:
        plain = decode(text.encode())
    except ValueError as error:
        notes.warning(directory.name, f"{name} is damaged ({error}); its facts are missing")
        return {}
    if not isinstance(plain, dict):
        notes.warning(directory.name, f"{name} is damaged (no JSON object); its facts are missing")
        return {}
    return _typed_fields(plain, kind, name, directory, notes)


def _typed_fields(plain: Any, kind: type[Any], name: str, directory: Path, notes: Notes) -> Mapping[str, Any]:
    """Return the fields of a JSON object with the names and types of a Struct; notes report invalid fields."""
    values, problems = read_fields(kind, plain) if isinstance(plain, dict) else ({}, ["it is no object"])
    for problem in problems:
        notes.warning(directory.name, f"{name}: {problem}, and is left out")
    return values


def _read_anchor(directory: Path, name: str, notes: Notes) -> Mapping[str, int]:
    return {key: int(value) for key, value in _ANCHOR_LINE.findall(_read_text(directory, name, notes))}


def whole_number(value: Any) -> int | None:
    """Return an integer given as a number or a string; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else None
    if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        number = int(value)
        return number if abs(number) < 1 << 63 else None
    return None


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


def read_info(path: Path, sides: Sequence[RecordedSide], utc_ns: int) -> Info:
    """Return the known facts of the run.

    The collector is known if the msprof command started the program, since it then writes the program's name. pyACL and
    TensorFlow use the same library, whose files do not tell them apart: the collector is unknown.
    """
    merged = {key: value for side in reversed(sides) for key, value in side.info.items()}
    rank = whole_number(merged.get("rank_id"))
    return Info(
        name=path.name,
        collector="msprof" if any(side.sample.get("app") for side in sides) else "",
        source="raw",
        simulated=any(side.info.get("simulated") is True for side in sides),
        chip=next(filter(None, map(_simulated_chip, sides)), chip_name(merged.get("platform_version"))),
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
    """Return the chip name for a ``platform_version``; empty if unknown."""
    version = "" if platform_version is None else str(platform_version)
    return CHIPS.get(version) or (f"Ascend (platform version {version})" if version else "")


def _simulated_chip(side: RecordedSide) -> str:
    """Return the name of a simulated chip, such as ``Ascend 910B2``; the vendor's collector names only the family."""
    match = re.fullmatch(r"Ascend ?(\w+) \(simulated\)", str(side.device_fact("soc_name")))
    return f"Ascend {match[1]}" if match and side.info.get("simulated") is True else ""


def _moment(sides: Sequence[RecordedSide], attribute: str, key: str, utc_ns: int) -> int | None:
    for side in sides:
        facts = getattr(side, attribute)
        mono, utc_us = whole_number(facts.get("clockMonotonicRaw")), whole_number(facts.get(key))
        if mono is not None and utc_us is not None:
            # The time on the run's clock; the microseconds in the file are rounded.
            return mono + utc_ns if mono >= 0 else utc_us * 1000
    return None


def _environment(merged: dict[str, object], sides: Sequence[RecordedSide]) -> dict[str, str]:
    known = {name: str(merged[key]) for key, name in _ENVIRONMENT.items() if merged.get(key) not in (None, "")}
    cpus = [str(side.cpu_fact("Type")) for side in sides if side.cpu_fact("Type")]
    return known | ({"cpu": cpus[0]} if cpus else {})


def _options(sides: Sequence[RecordedSide]) -> dict[str, object]:
    options: dict[str, object] = {}
    for side in sides:
        level = _LEVELS.get(str(side.sample.get("profLevel") or side.sample.get("prof_level") or ""))
        if level is not None:
            options.setdefault("level", level)
        metrics = side.sample.get("ai_core_metrics")
        if isinstance(metrics, str) and metrics:
            options.setdefault("aic_metrics", metrics)
    return options
