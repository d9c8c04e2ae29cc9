"""Raw data or the vendor's result of it, where a directory holds both."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from npuprof.notes import Notes
from npuprof.sources.raw.control import STARS_CHIPS, read_sides

_DEVICE = re.compile(r"device_\d{1,4}")
_MAX_LISTED = 100_000


def raw_is_complete(path: Path) -> bool:
    """Tell whether a ``PROF_*`` directory has data of the host and of a device, of a chip whose records are decoded.

    Then raw data is the better source: its digits are exact, and nothing was summed or left out.
    """
    try:
        if not _has_data(path / "host"):
            return False
        devices = [entry for entry in islice(path.iterdir(), _MAX_LISTED) if _DEVICE.fullmatch(entry.name)]
        if not any(map(_has_data, devices)):
            return False
        sides = read_sides(path, Notes())  # its notes are told when, and if, the raw data is read
    except OSError:
        return False
    chips = {str(side.info.get("platform_version")) for side in sides if side.device_id is not None}
    return chips <= STARS_CHIPS


def _has_data(side: Path) -> bool:
    folder = side / "data"
    if not folder.is_dir():
        return False
    slices = (entry for entry in islice(folder.iterdir(), _MAX_LISTED) if re.search(r"\.slice_\d+$", entry.name))
    return any(entry.is_file() and entry.stat().st_size > 0 for entry in slices)
