"""Readers of one file, each in a process of its own, in turns: what the benchmarks of large files share."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def compare(module: str, readers: Sequence[str], path: Path, runs: int) -> None:
    """Print each reader's fastest run, and its ratio to that of npuprof.

    Parameters
    ----------
    module
        The benchmark; with ``--read READER PATH`` it prints ``seconds``, ``peak_mb`` and ``rows`` as JSON.
    readers
        Their names, ``npuprof`` among them.
    path, runs
        What to read, and how often.
    """
    # In turns, so that a slow moment of the machine meets every reader.
    rounds = [{reader: _read(module, reader, path) for reader in readers} for _ in range(runs)]
    results = {reader: min((one[reader] for one in rounds), key=lambda one: one["seconds"]) for reader in readers}
    ours = results["npuprof"]["seconds"]
    for reader, one in results.items():
        ratio = f"{one['seconds'] / ours:5.2f} x npuprof's time"
        print(f"{reader:14} {one['seconds']:6.2f} s  {one['peak_mb']:6.0f} MB peak  {one['rows']:9,} rows  {ratio}")


def _read(module: str, reader: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", module, "--read", reader, str(path)]
    output: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return output
