"""How much memory there is, so that what cannot fit is refused before it is asked for.

A file may claim any size: one that was set up for writing and never filled, or was made to do harm.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from npuprof.errors import SourceError

ALWAYS_BYTES = 64 << 20
"""What is read without a look at how much memory is free."""

_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = (
    ("memory.max", "memory.current", "memory.stat"),
    # of the first version
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)
_CACHED = ("inactive_file", "active_file")  # counted as used, and given up when memory is asked for
_MEMINFO = Path("/proc/meminfo")
_STATUS = Path("/proc/self/status")


def free_memory() -> int:
    """Return the free bytes of memory: of the machine, within the limits of its container and of this process."""
    free = 1 << 62
    with suppress(OSError, ValueError, KeyError):
        free = _kilobytes(_MEMINFO, "MemAvailable:")
    for limit, used, *others in _LIMITS:
        with suppress(OSError, ValueError):
            bound = int((_CGROUP / limit).read_text()) - int((_CGROUP / used).read_text())
            free = min(free, max(0, bound + _cached(_CGROUP / others[0])))
    with suppress(ImportError, OSError, ValueError, KeyError):
        import resource  # not on every system

        bound = resource.getrlimit(resource.RLIMIT_AS)[0]
        if bound != resource.RLIM_INFINITY:
            free = min(free, max(0, bound - _kilobytes(_STATUS, "VmSize:")))
    return free


def too_large(size_bytes: int) -> str:
    """Return in words that so many bytes do not fit into memory; empty where they do."""
    if size_bytes <= ALWAYS_BYTES or size_bytes <= (free := free_memory()):
        return ""
    return f"{size_bytes >> 20} MiB do not fit into the {free >> 20} MiB of memory that are free"


def refuse_too_large(path: Path, size_bytes: int) -> None:
    """Check that what is to be read of a file fits into memory.

    Raises
    ------
    SourceError
        If it does not.
    """
    if problem := too_large(size_bytes):
        raise SourceError(f"{path} is too large: {problem}; free some, or load it on a larger machine")


def _kilobytes(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    raise KeyError(name)


def _cached(path: Path) -> int:
    with suppress(OSError, ValueError):
        counts = dict(line.split(maxsplit=1) for line in path.read_text().splitlines() if " " in line)
        return sum(int(counts.get(f"total_{name}", counts.get(name, "0"))) for name in _CACHED)
    return 0
