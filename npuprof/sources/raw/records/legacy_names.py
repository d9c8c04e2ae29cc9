"""Names of slices before 2021, and folders of them without the control files of a ``PROF_*`` directory.

Source: raw/FORMAT.md section 2.1 (real old names).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_OLD = re.compile(r"(?P<stream>[A-Za-z_.]+?)(\.\d+)?\.(dev|host)\.profiler_default_tag\.(?P<device>\d{1,4})")
_RENAMED: Mapping[str, str] = {
    "hwts.log.data": "hwts.data",
    "hwts.log.aiv.data": "hwts.aiv_data",
    "training_trace": "training_trace.data",
}
_SLICE_OF_OLD_CHIP = re.compile(r"(hwts|aicore|aiVectorCore|training_trace)\.[\w.]+\.slice_\d{1,9}")
_DEVICE = re.compile(r"(?:hwts|aicore|aiVectorCore|training_trace|ts_track)\.[\w.]+\.(\d{1,4})")
_MAX_LISTED = 100_000


def modern_name(stream: str) -> str:
    """Return the name that a stream has today: ``hwts.log.data.45.dev.profiler_default_tag.1`` is ``hwts.data.1``."""
    match = _OLD.fullmatch(stream)
    return f"{_RENAMED.get(match['stream'], match['stream'])}.{match['device']}" if match else stream


def old_folder(path: Path) -> Path | None:
    """Find the folder around a ``data`` folder of an old chip's slices: `path`, or the one above; None without any.

    Raises
    ------
    OSError
        If a folder cannot be listed.
    """
    if _holds_old_slices(path / "data"):
        return path
    return path.parent if path.name == "data" and _holds_old_slices(path) else None


def devices_of(streams: Iterable[str]) -> list[int]:
    """Return the devices whose records an old folder holds, from the (modern) names of its streams."""
    return sorted({int(match[1]) for match in map(_DEVICE.fullmatch, streams) if match})


def _holds_old_slices(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    for number, entry in enumerate(folder.iterdir()):
        if _SLICE_OF_OLD_CHIP.fullmatch(entry.name):
            return True
        if number > _MAX_LISTED:
            break
    return False
