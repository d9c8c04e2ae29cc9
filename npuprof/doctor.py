"""What this machine can profile with, and what is missing: the checks behind ``npuprof doctor``."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeAlias

from npuprof.collectors.acl import AclCollector
from npuprof.errors import NpuprofError
from npuprof.options import DEFAULT_OUTPUT

State: TypeAlias = Literal["ok", "absent", "problem"]

_LOW_DISK_BYTES = 1 << 30  # a minute of training at level 2 fills about that much
_PACKAGES = ("npuprof", "ipython", "ipykernel", "jupyterlab", "ipywidgets", "plotly", "pandas", "numpy", "pyarrow")


@dataclass(frozen=True)
class Finding:
    """One thing looked at: its state, and what was seen or what to do."""

    subject: str
    state: State
    detail: str


def diagnose(output: Path = DEFAULT_OUTPUT) -> list[Finding]:
    """Look at the front ends, the packages and the output directory; nothing is changed.

    Parameters
    ----------
    output
        The directory that recordings would go to.
    """
    return [_packages(), *_front_ends(), _environment(), _directory(output), _disk(output)]


def _packages() -> Finding:
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} absent")
    return Finding("packages", "ok", f"Python {platform.python_version()}, " + ", ".join(found))


def _front_ends() -> list[Finding]:
    collector = AclCollector()
    try:
        acl = collector.load()
        count, code = acl.rt.get_device_count()
    except NpuprofError as error:
        native = Finding("front end acl", "absent", str(error))
    else:
        seen = f"pyACL at {getattr(acl, '__file__', '?')}, {count} device(s), code {code}"
        native = Finding("front end acl", "ok" if count and not code else "problem", seen)
    return [native, Finding("front end simulator", "ok", "the embedded simulated NPU; its times are estimates")]


def _environment() -> Finding:
    """Look for variables that change how the native profiler behaves."""
    mode = os.environ.get("PROFILING_MODE")
    if mode:
        return Finding(
            "environment",
            "problem",
            f"PROFILING_MODE={mode} reserves the native profiler for msprof: unset it and restart the kernel",
        )
    home = os.environ.get("ASCEND_HOME_PATH")
    return Finding("environment", "ok", f"ASCEND_HOME_PATH={home}" if home else "ASCEND_HOME_PATH is not set")


def _directory(output: Path) -> Finding:
    place = _existing(output)
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Finding("recordings", "ok", f"{output.absolute()} can be written to")
    return Finding("recordings", "problem", f"{place} cannot be written to: choose another directory with --output")


def _disk(output: Path) -> Finding:
    free = shutil.disk_usage(_existing(output)).free
    if free < _LOW_DISK_BYTES:
        return Finding("free disk", "problem", f"{free / 1e9:.1f} GB are left: free some, or choose another --output")
    return Finding("free disk", "ok", f"{free / 1e9:.1f} GB are left")


def _existing(path: Path) -> Path:
    """Give the path, or the closest one above it that this user can see."""
    path = path.absolute()
    while not os.path.exists(path):  # noqa: PTH110 - Path.exists() raises below a directory that is closed to the user
        path = path.parent
    return path
