"""CANN on this machine: its directory, and the versions of toolkit and driver, without loading CANN."""

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
    """Return the directory of the CANN toolkit from the environment, or the default one; None if absent."""
    named_paths = [Path(os.environ[name]) for name in _HOMES if os.environ.get(name)]
    return next((place for place in (*named_paths, _USUAL_HOME) if place.is_dir()), None)


def toolkit_version(place: Path | None = None) -> str:
    """Return the version of the CANN toolkit; empty if unknown."""
    place = place if place is not None else home()
    if place is None:
        return ""
    for pattern in _VERSION_FILES:
        for path in sorted(place.glob(pattern)):
            if version := _version_in(path):
                return version
    return ""


def driver_version(path: Path = _DRIVER_FILE) -> str:
    """Return the version of the NPU driver; empty if absent."""
    return _version_in(path)


def msprof() -> Path | None:
    """Return the path of msprof; None if it is not installed."""
    if tool := shutil.which("msprof"):
        return Path(tool)
    place = home()
    tools = [] if place is None else [place / folder / "msprof" for folder in _TOOL_PLACES]
    return next((tool for tool in tools if os.access(tool, os.X_OK)), None)


def _version_in(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            match = _VERSION.search(file.read(_MAX_BYTES))
    except OSError:
        return ""
    return match[1] if match else ""
