"""What a recording tells of the software and the machine that it was made on."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

ASKING = ("NPUPROF_OPTIONS", "MS_PROFILER_OPTIONS")
"""The variables that ask for a session when npuprof is imported."""


def of_own_process() -> dict[str, str]:
    """Return the environment for a process of npuprof's own, which collects nothing whatever the user's says."""
    return {name: value for name, value in os.environ.items() if name not in ASKING}


def versions() -> dict[str, str]:
    """Return the versions of npuprof and Python; a collector adds those of its front end."""
    return {"npuprof": metadata.version("npuprof"), "python": platform.python_version()}


def describe() -> dict[str, str]:
    """Return the facts about this machine and process that help to read a recording elsewhere."""
    return {
        "hostname": platform.node(),
        "os": platform.platform(),
        "cpus": str(os.cpu_count()),
        "pid": str(os.getpid()),
        "executable": sys.executable,
    }
