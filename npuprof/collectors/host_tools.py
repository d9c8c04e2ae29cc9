"""The programs with which the native collector samples the host: without them it records nothing, and says nothing.

It runs them by ``sudo`` and a script of the vendor's, which an administrator installs once.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from npuprof.errors import OptionsError
from npuprof.options import Options

_SCRIPT = Path("/usr/bin/msprof_data_collection.sh")
_TOOLS: Mapping[str, tuple[str, ...]] = {"disk": ("iotop",), "osrt": ("perf", "ltrace"), "numa": ("perf",)}
_BY_SCRIPT = ("disk", "osrt")
_WHERE = "/usr/bin:/usr/sbin"  # where the collector looks, whatever PATH is


def missing(kind: str) -> list[str]:
    """Return what this machine lacks for a kind of ``host_sys``."""
    needed = (*_TOOLS.get(kind, ()), *("sudo",) * (kind in _TOOLS))
    lacking = [tool for tool in needed if shutil.which(tool, path=_WHERE) is None]
    return lacking + [str(_SCRIPT)] * (kind in _BY_SCRIPT and not _SCRIPT.exists())


def check(options: Options) -> None:
    """Check that this machine has what the host samples asked for are taken with.

    Raises
    ------
    OptionsError
        If it lacks something: the native collector would start, and record nothing of it.
    """
    for kind in options.host_sys:
        if lacking := missing(kind):
            raise OptionsError(
                f"CANN samples the host's {kind} with {' and '.join(_TOOLS[kind])}, and this machine lacks "
                f"{', '.join(lacking)}: install what is missing (the script, and the right to use it by sudo, are in "
                f"CANN's page on configuring user permissions), or leave {kind} out of host_sys",
                "host_sys",
                remaining={"host_sys": tuple(other for other in options.host_sys if other != kind)},
            )
