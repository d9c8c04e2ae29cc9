"""Control files of a ``PROF_*`` directory: what ran where, what was asked for, and the anchors of its clocks.

Source: raw/FORMAT.md sections 1, 2.2 to 2.5.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npuprof.notes import Notes
from npuprof.texts import repaired

_MAX_BYTES = 4 << 20  # real ones hold a few kilobytes
_ANCHOR_LINE = re.compile(r"^\s*(clock_monotonic_raw|cntvct|cntvct_diff)\s*:\s*(-?\d{1,19})\b", re.MULTILINE)
_DECIMAL = re.compile(r"-?\d{1,19}")

CHIPS: Mapping[str, str] = {
    "0": "Ascend 310",
    "1": "Ascend 910A",
    "2": "Ascend 610",
    "4": "Ascend 310P",
    "5": "Ascend 910B",
    "7": "Ascend 310B",
    "8": "Ascend tiny",
    "9": "Ascend nano",
    "15": "Ascend 950",
}
"""Chip names by ``platform_version``; A2 and A3 cards are both 5. Source: raw/FORMAT.md section 1."""


@dataclass(frozen=True)
class Side:
    """The control files of ``host`` or of one ``device_N``.

    Attributes
    ----------
    directory
        The folder itself; its streams lie in ``data``.
    device_id
        The device, or None for the host.
    info, sample, start, end
        ``info.json``, ``sample.json``, ``start_info`` and ``end_info``; empty when missing or damaged.
    host_anchor, device_anchor
        Numbers of ``host_start.log`` and ``dev_start.log`` by name (nanoseconds and counter cycles).
    """

    directory: Path
    device_id: int | None
    info: Mapping[str, Any] = field(default_factory=dict)
    sample: Mapping[str, Any] = field(default_factory=dict)
    start: Mapping[str, Any] = field(default_factory=dict)
    end: Mapping[str, Any] = field(default_factory=dict)
    host_anchor: Mapping[str, int] = field(default_factory=dict)
    device_anchor: Mapping[str, int] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """Where the streams lie."""
        return self.directory / "data"

    @property
    def is_old(self) -> bool:
        """Whether it is a folder of an old chip's slices, beside which the control files need not lie."""
        return self.device_id is not None and self.directory.name != f"device_{self.device_id}"

    @property
    def label(self) -> str:
        """What notes call this side."""
        return self.directory.name

    def device_fact(self, key: str) -> Any:
        """Return a field of the first entry of ``DeviceInfo``, None when absent."""
        return _first_entry(self.info, "DeviceInfo").get(key)

    def cpu_fact(self, key: str) -> Any:
        """Return a field of the first entry of ``CPU``, None when absent."""
        return _first_entry(self.info, "CPU").get(key)


def read_sides(path: Path, notes: Notes) -> list[Side]:
    """Read the control files of the host and of every device below a ``PROF_*`` directory, host first.

    A missing or damaged file is noted and left empty; nothing is raised.
    """
    sides = []
    if (path / "host").is_dir():
        sides.append(_read_side(path / "host", None, notes))
    devices = sorted((int(match[1]), match[0]) for match in _device_folders(path))
    return sides + [_read_side(path / name, device_id, notes) for device_id, name in devices]


def read_old_sides(path: Path, devices: Iterable[int], notes: Notes) -> list[Side]:
    """Read the control files that lie beside the ``data`` folder of an old recording, as far as there are any."""
    return [_read_side(path, device_id, notes) for device_id in devices]


def _device_folders(path: Path) -> list[re.Match[str]]:
    names = (re.fullmatch(r"device_(\d{1,4})", entry.name) for entry in path.iterdir() if entry.is_dir())
    return [match for match in names if match]


def _read_side(directory: Path, device_id: int | None, notes: Notes) -> Side:
    suffix = "" if device_id is None else f".{device_id}"
    return Side(
        directory,
        device_id,
        info=_read_json(directory, f"info.json{suffix}", notes),
        sample=_read_json(directory, "sample.json", notes),
        start=_read_json(directory, f"start_info{suffix}", notes),
        end=_read_json(directory, f"end_info{suffix}", notes),
        host_anchor=_read_anchor(directory, f"host_start.log{suffix}", notes),
        device_anchor={} if device_id is None else _read_anchor(directory, f"dev_start.log{suffix}", notes),
    )


def _read_text(directory: Path, name: str, notes: Notes) -> str:
    path = directory / name
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("not a regular file")
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        notes.warning(directory.name, f"{name} is missing or cannot be read ({error.strerror or error})")
        return ""


def _read_json(directory: Path, name: str, notes: Notes) -> Mapping[str, Any]:
    text = _read_text(directory, name, notes)
    if not text:
        return {}
    try:
        plain = repaired(json.loads(text))
    except (ValueError, RecursionError) as error:
        notes.warning(directory.name, f"{name} is damaged ({error}); its facts are missing")
        return {}
    if not isinstance(plain, dict):
        notes.warning(directory.name, f"{name} is damaged (no JSON object); its facts are missing")
        return {}
    return plain


def _read_anchor(directory: Path, name: str, notes: Notes) -> Mapping[str, int]:
    return {key: int(value) for key, value in _ANCHOR_LINE.findall(_read_text(directory, name, notes))}


def _first_entry(info: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    entries = info.get(key)
    first = entries[0] if isinstance(entries, list) and entries else {}
    return first if isinstance(first, dict) else {}


def whole_number(value: Any) -> int | None:
    """Read an integer that may come as a number or as a string; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else None
    if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        number = int(value)
        return number if abs(number) < 1 << 63 else None
    return None
