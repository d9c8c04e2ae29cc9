"""The number of processes that read runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from npuprof.sources.files.memory_limit import free_memory

MAX_PROCESSES = 16
WORTH_BYTES = 160 << 20
"""Minimum saving: a process takes over half a second to start, in which some 60 MB could be read."""

_MEMORY_FACTOR = 5  # a timeline of 200 MB takes up to 820 MB while it is read
_CGROUP = Path("/sys/fs/cgroup")


def processes_for(sizes: Sequence[int]) -> int:
    """Return the number of processes for runs of these sizes; 1 means reading them in this process.

    It is at most the number of runs and of cores, and fits into half of the free memory.
    """
    if len(sizes) < 2:
        return 1
    fitting = free_memory() // 2 // max(1, max(sizes) * _MEMORY_FACTOR)
    count = min(len(sizes), cores(), MAX_PROCESSES, fitting)
    if count < 2:
        return 1
    saved = sum(sizes) - max(max(sizes), sum(sizes) // count)
    return count if saved >= WORTH_BYTES else 1


def cores() -> int:
    """Return the number of usable cores, by CPU affinity and container quota."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        count = os.cpu_count() or 1
    for read in (_quota, _old_quota):
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = read()
            count = min(count, max(1, round(quota / period))) if quota > 0 else count
    return count


def _quota() -> tuple[int, int]:
    quota, _, period = (_CGROUP / "cpu.max").read_text().partition(" ")
    return int(quota), int(period)


def _old_quota() -> tuple[int, int]:
    quota, period = (int((_CGROUP / "cpu" / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    return quota, period  # -1 for none
