"""A package like pyACL's ``acl``, on the simulated machine of this process.

It has the calls that a program with its own operators needs, and those of the profiler. They return what pyACL's
return: a code, or a tuple with the code last; handles are integers, 0 for failure.
"""

from __future__ import annotations

import json
from pathlib import Path

from npuprof.simulator import codes
from npuprof.simulator.acl import mdl, prof, rt, util
from npuprof.simulator.collection import Configured, understand
from npuprof.simulator.machine import current

__all__ = ["finalize", "get_soc_name", "get_version", "init", "is_simulated", "mdl", "prof", "rt", "util"]

is_simulated = True
_MAX_CONFIG_BYTES = 1 << 20


def init(config_path: str | None = None) -> int:
    """Initialise acl; with a configuration file that switches profiling on, record until :func:`finalize`."""
    runtime = current().runtime
    if runtime.initialised:
        return codes.REPEAT_INITIALIZE
    if config_path:
        configured, code = _read_config(Path(config_path))
        if code == codes.SUCCESS and configured is not None:
            output, mask, metric = configured.output, configured.mask, configured.metric
            code = current().profiler.begin_by_file(output, mask, metric, configured.settings)
        if code != codes.SUCCESS:
            return code
    runtime.initialised, runtime.finalised = True, False
    return codes.SUCCESS


def _read_config(path: Path) -> tuple[Configured | None, int]:
    try:
        with path.open("rb") as file:
            plain = json.loads(file.read(_MAX_CONFIG_BYTES) or b"{}")
    except (OSError, ValueError, RecursionError):
        return None, codes.INVALID_FILE
    return understand(plain)


def finalize() -> int:
    """End acl."""
    runtime = current().runtime
    if not runtime.initialised:
        return codes.REPEAT_FINALIZE if runtime.finalised else codes.UNINITIALIZE
    runtime.initialised, runtime.finalised = False, True
    return current().profiler.end_by_file()


def get_soc_name() -> str:
    """Return the chip's name."""
    return current().chip.soc_name


def get_version() -> tuple[int, int, int, int]:
    """Return major, minor and patch version of acl, and a return code."""
    return 1, 0, 0, codes.SUCCESS
