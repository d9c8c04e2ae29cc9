"""Free memory: a file that cannot fit is refused before memory is allocated for it, and what was freed is given back.

A file may claim any size: collectors preallocate sparse files that are larger than their data.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from npuprof.errors import SourceError
from npuprof.words.quantities import size

ALWAYS_BYTES = 64 << 20
"""Bytes that are read without a check of the free memory."""

_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = (
    ("memory.max", "memory.current", "memory.stat"),
    # cgroup v1
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)
_CACHED = ("inactive_file", "active_file")  # counted as used, and freed when memory is needed
_MEMINFO = Path("/proc/meminfo")
_STATUS = Path("/proc/self/status")


def free_memory() -> int:
    """Return the free memory of the machine in bytes, within the limits of its container and of this process."""
    free = 1 << 62
    with suppress(OSError, ValueError, KeyError):
        free = _kilobytes(_MEMINFO, "MemAvailable:")
    for limit, used, *other_names in _LIMITS:
        with suppress(OSError, ValueError):
            bound = int((_CGROUP / limit).read_text()) - int((_CGROUP / used).read_text())
            free = min(free, max(0, bound + _cached_bytes(_CGROUP / other_names[0])))
    with suppress(ImportError, OSError, ValueError, KeyError):
        import resource  # not on every system

        bound = resource.getrlimit(resource.RLIMIT_AS)[0]
        if bound != resource.RLIM_INFINITY:
            free = min(free, max(0, bound - _kilobytes(_STATUS, "VmSize:")))
    return free


def give_back() -> None:
    """Return freed memory to the system: of arrays of millions of rows, glibc and Arrow keep hundreds of megabytes."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def too_large(size_bytes: int) -> str:
    """Return a message if that many bytes do not fit into memory; empty otherwise."""
    if size_bytes <= ALWAYS_BYTES or size_bytes <= (free := free_memory()):
        return ""
    return f"{size_bytes >> 20} MiB do not fit into the {free >> 20} MiB of memory that are free"


def left_out(what: str, needed_bytes: int) -> str:
    """Return that something is left out, since its memory does not suffice, and how to have it; empty if it does."""
    if needed_bytes <= ALWAYS_BYTES or needed_bytes <= (free := free_memory()):
        return ""
    return (
        f"{what} left out: they take about {size(needed_bytes)} of memory, and {size(free)} are free. Free some, or "
        "load a part of the run: npuprof.load(path, steps=...), or with start= and end="
    )


def refuse_too_large(path: Path, size_bytes: int) -> None:
    """Check that the data to read from a file fits into memory."""
    if problem := too_large(size_bytes):
        raise SourceError(f"{path} is too large: {problem}; free some, or load it on a larger machine")


def _kilobytes(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    raise KeyError(name)


def _cached_bytes(path: Path) -> int:
    with suppress(OSError, ValueError):
        counts = dict(line.split(maxsplit=1) for line in path.read_text().splitlines() if " " in line)
        return sum(int(counts.get(f"total_{name}", counts.get(name, "0"))) for name in _CACHED)
    return 0


def written_parts(file: BinaryIO) -> list[tuple[int, int]]:
    """Return the written ranges of a file; the whole file if it is small or the system does not say."""
    size = os.fstat(file.fileno()).st_size
    if size <= ALWAYS_BYTES or not hasattr(os, "SEEK_DATA"):
        return [(0, size)]
    parts: list[tuple[int, int]] = []
    end = 0
    while end < size:
        try:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                break
            return [(0, size)]
        parts.append((start, end))
    return parts


def read_without_holes(path: Path) -> bytes | None:
    """Return the written bytes of a text file without the zeros at its holes; None for a file without holes."""
    with path.open("rb") as file:
        parts = written_parts(file)
        if sum(end - start for start, end in parts) == os.fstat(file.fileno()).st_size:
            return None
        texts = []
        for start, end in parts:
            file.seek(start)
            texts.append(file.read(end - start).strip(b"\0"))
    return b"".join(texts)
