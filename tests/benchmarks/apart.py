"""Readers of one file, each in a process of its own, in turns: what the benchmarks of large files share."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def measured(work: Callable[[], int]) -> dict[str, Any]:
    """Do the work in this process; give seconds, those of the processor, the process's peak memory and rows."""
    began, began_cpu = time.perf_counter(), time.process_time()
    rows = work()
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu_s": cpu_s, "peak_mb": peak_mb, "rows": rows}


def compare(
    module: str, readers: Sequence[str], path: Path, runs: int, pythons: Mapping[str, str] | None = None
) -> None:
    """Print each reader's fastest run, and its ratio to that of npuprof.

    Parameters
    ----------
    module
        The benchmark; with ``--read READER PATH`` it prints what :func:`measured` gives as JSON, or ``absent`` with
        the reason why that reader cannot be measured here.
    readers
        Their names, ``npuprof`` among them.
    path, runs
        What to read, and how often.
    pythons
        The interpreter of a reader that needs another one than this.
    """
    # In turns, so that a slow moment of the machine meets every reader.
    rounds = [{reader: _read(module, reader, path, pythons or {}) for reader in readers} for _ in range(runs)]
    best = {reader: min((one[reader] for one in rounds), key=lambda one: one.get("seconds", 0)) for reader in readers}
    ours = best["npuprof"]
    for reader, one in best.items():
        if "absent" in one:
            print(f"{reader:14} skipped: {one['absent']}")
            continue
        time_ratio, cpu_ratio = one["seconds"] / ours["seconds"], one["cpu_s"] / ours["cpu_s"]
        print(
            f"{reader:14} {one['seconds']:6.2f} s  {one['cpu_s']:6.2f} s of processor  {one['peak_mb']:6.0f} MB peak  "
            f"{one['rows']:9,} rows  {time_ratio:5.2f} x npuprof's time  {cpu_ratio:5.2f} x its processor time"
        )


def _read(module: str, reader: str, path: Path, pythons: Mapping[str, str]) -> dict[str, Any]:
    command = [pythons.get(reader, sys.executable), "-m", module, "--read", reader, str(path)]
    output: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return output
