"""Where CANN lies on this machine, and which versions of it and of the driver there are, without loading any of it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

_HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_USUAL_HOME = Path("/usr/local/Ascend/ascend-toolkit/latest")
_VERSION_FILES = ("ascend_toolkit_install.info", "version.cfg", "*/ascend_toolkit_install.info", "runtime/version.info")
_DRIVER_FILE = Path("/usr/local/Ascend/driver/version.info")
_TOOL_PLACES = ("bin", "tools/profiler/bin")
_VERSION = re.compile(r"^\s*(?:Version|version|runtime_running_version)\s*=\s*\[?([^\s\]]+)", re.MULTILINE)
_MAX_BYTES = 1 << 16


def home() -> Path | None:
    """Return the directory of the CANN toolkit that the environment names, or the usual one; None without it."""
    named = [Path(os.environ[name]) for name in _HOMES if os.environ.get(name)]
    return next((place for place in (*named, _USUAL_HOME) if place.is_dir()), None)


def toolkit_version(place: Path | None = None) -> str:
    """Return the version of the CANN toolkit; empty where it does not tell."""
    place = place if place is not None else home()
    if place is None:
        return ""
    for pattern in _VERSION_FILES:
        for path in sorted(place.glob(pattern)):
            if version := _version_in(path):
                return version
    return ""


def driver_version(path: Path = _DRIVER_FILE) -> str:
    """Return the version of the NPU's driver; empty where there is none."""
    return _version_in(path)


def msprof() -> Path | None:
    """Return the path of the vendor's tool msprof; None where it is not installed."""
    if found := shutil.which("msprof"):
        return Path(found)
    place = home()
    tools = [] if place is None else [place / folder / "msprof" for folder in _TOOL_PLACES]
    return next((tool for tool in tools if os.access(tool, os.X_OK)), None)


def _version_in(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            found = _VERSION.search(file.read(_MAX_BYTES))
    except OSError:
        return ""
    return found[1] if found else ""
