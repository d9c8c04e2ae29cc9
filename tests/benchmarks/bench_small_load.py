"""Loading a small recording, of which most tables are empty: with empty tables that are copied, and built each time.

Run by hand: ``python -m tests.benchmarks.bench_small_load``.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import npuprof
from npuprof import tables
from npuprof.simulator import synthesise

_ROUNDS = 15


def _built(name: str) -> object:
    return tables._empty.__wrapped__(name)


def _all_empty() -> None:
    for name in tables.NAMES:
        tables.empty(name)


def median_ms(work: Callable[[], object]) -> tuple[float, float]:
    """Return the median processor time of some work in milliseconds, with tables copied and with tables built."""
    copied, built = [], []
    for _ in range(_ROUNDS):  # in turns, so that a slow moment of the machine meets both
        copied.append(_cpu_ms(work))
        with mock.patch.object(tables, "empty", _built):
            built.append(_cpu_ms(work))
    return statistics.median(copied), statistics.median(built)


def _cpu_ms(work: Callable[[], object]) -> float:
    began = time.process_time_ns()
    work()
    return (time.process_time_ns() - began) / 1e6


def main() -> None:
    """Print both times of every empty table once, and of a load."""
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
        recording = synthesise(Path(folder), launches=50)
        npuprof.load(recording)
        for name, work in {"empty tables": _all_empty, "a small load": lambda: npuprof.load(recording)}.items():
            copied, built = median_ms(work)
            print(f"{name:14} copied {copied:7.2f} ms, built {built:7.2f} ms, {built / copied:5.2f} times")


if __name__ == "__main__":
    main()
