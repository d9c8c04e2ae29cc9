"""The software and the machine, as described in a recording."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from importlib import metadata

ASKING = ("NPUPROF_OPTIONS", "MS_PROFILER_OPTIONS")
"""The variables that start a session when npuprof is imported."""
OF_JOB = "NPUPROF_JOB"
"""The variable that holds the folder to which the processes that a cell starts record."""
OF_WORKERS = "NPUPROF_WORKERS"
"""The variable that holds the folder in which workers that outlive a cell listen."""
_HOST_VARIABLES = ("ASCEND_LAUNCH_BLOCKING", "ASCEND_GLOBAL_LOG_LEVEL", "PYTORCH_NPU_ALLOC_CONF", "TASK_QUEUE_ENABLE")


def of_own_process() -> dict[str, str]:
    """Return the environment for a worker process of npuprof, which must not be profiled."""
    return {name: value for name, value in os.environ.items() if name not in (*ASKING, OF_JOB, OF_WORKERS)}


@cache
def own_version() -> str:
    """Return the version of npuprof; of a checkout that is on the path and not installed, ``0+checkout``."""
    try:
        return metadata.version("npuprof")
    except metadata.PackageNotFoundError:
        return "0+checkout"


def versions() -> dict[str, str]:
    """Return the versions of npuprof, Python and an imported torch; a collector adds those of its front end."""
    torch = getattr(sys.modules.get("torch"), "__version__", None)
    of_torch = {} if torch is None else {"torch": str(torch)}
    return {"npuprof": own_version(), "python": platform.python_version(), **of_torch}


def describe() -> dict[str, str]:
    """Return facts about this machine and process, and variables that affect the speed of the host, if set."""
    variables = {name: os.environ[name] for name in _HOST_VARIABLES if os.environ.get(name)}
    return variables | {
        "hostname": platform.node(),
        "os": platform.platform(),
        "cpus": str(os.cpu_count()),
        "pid": str(os.getpid()),
        "executable": sys.executable,
    }
