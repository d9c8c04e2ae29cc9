"""What this machine can profile with, and what is missing: the checks behind ``npuprof doctor``."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from npuprof.machine import cann, front_ends
from npuprof.machine.front_ends import State
from npuprof.options import DEFAULT_OUTPUT

_LOW_DISK_BYTES = 1 << 30  # a minute of training at level 2 fills about that much
_DEVICES = Path("/dev")
_PACKAGES = ("npuprof", "ipython", "ipykernel", "jupyterlab", "ipywidgets", "plotly", "pandas", "numpy", "pyarrow")


@dataclass(frozen=True)
class Finding:
    """One thing looked at: its state, and what was seen or what to do."""

    subject: str
    state: State
    detail: str


def diagnose(output: Path = DEFAULT_OUTPUT) -> list[Finding]:
    """Look at the hardware, the front ends, the packages and the output directory; nothing is changed.

    Front ends are imported in processes of their own.

    Parameters
    ----------
    output
        The directory that recordings would go to.
    """
    return [_packages(), _hardware(), *_front_ends(), _environment(), _directory(output), _disk(output)]


def _packages() -> Finding:
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} absent")
    return Finding("packages", "ok", f"Python {platform.python_version()}, " + ", ".join(found))


def _front_ends() -> list[Finding]:
    return [Finding(f"front end {found.name}", found.state, found.detail) for found in front_ends.look()]


def _hardware() -> Finding:
    """Look for the driver, the devices and CANN, which every native front end needs."""
    nodes = sorted(path.name for path in _DEVICES.glob("davinci[0-9]*"))
    driver, toolkit = cann.driver_version(), cann.toolkit_version()
    seen = [
        f"devices {', '.join(nodes)}" if nodes else "no NPU",
        f"driver {driver}" if driver else "no driver",
        f"CANN {toolkit}" if toolkit else "no CANN toolkit",
    ]
    if not nodes:
        return Finding("hardware", "absent", f"{'; '.join(seen)}: runs are simulated, or read from disk")
    missing = [what for what, there in (("the driver", driver), ("the CANN toolkit", toolkit)) if not there]
    if missing:
        return Finding("hardware", "problem", f"{'; '.join(seen)}: install {' and '.join(missing)}")
    closed = [name for name in nodes if not os.access(_DEVICES / name, os.R_OK | os.W_OK)]
    if closed:
        return Finding("hardware", "problem", f"{', '.join(closed)} are closed to this user: join the driver's group")
    return Finding("hardware", "ok", "; ".join(seen))


def _environment() -> Finding:
    """Look for variables that change how the native profiler behaves."""
    mode = os.environ.get("PROFILING_MODE")
    if mode:
        return Finding(
            "environment",
            "problem",
            f"PROFILING_MODE={mode} reserves the native profiler for msprof: use --collector msprof, or unset it and "
            "restart the kernel",
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
    """Return the path, or the closest one above it that this user can see."""
    path = path.absolute()
    while not os.path.exists(path):  # noqa: PTH110 - Path.exists() raises below a directory that is closed to the user
        path = path.parent
    return path
