"""How long the step that begins to record takes, with a step of warm-up before it and without.

Run by hand: ``python -m tests.benchmarks.bench_warmup [collector ...]``: every front end that this Python can use
when none is named. For torch_npu without an NPU, with the libraries of a stand-in for CANN in LD_LIBRARY_PATH. What
ranks differ in is skew between their timelines.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import npuprof
from npuprof.collectors import registry
from npuprof.errors import NpuprofError
from npuprof.options import Options

_CYCLES = 15
_COLLECTORS = ("torch_npu", "acl", "mindspore", "kineto", "simulator")


def main() -> None:
    """Print the times of each front end, the first cycle, which imports, left out."""
    for name in sys.argv[1:] or _COLLECTORS:
        try:
            registry.make(name).check(Options(collector=name))
        except NpuprofError as error:
            print(f"{name:10} skipped: {str(error).partition(':')[0]}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            warm, cold = [], []
            for _ in range(_CYCLES + 1):  # in turns, so that a slow moment of the machine meets both
                warm.append(_start_ms(name, Path(folder), warmup=1))
                cold.append(_start_ms(name, Path(folder), warmup=0))
        told = (f"{label} {_told(times[1:])}" for label, times in (("with", warm), ("without", cold)))
        print(f"{name:10} start at RECORD " + ", ".join(told))


def _start_ms(name: str, output: Path, warmup: int) -> float:
    """Return the milliseconds of the step() that begins to record."""
    plan = npuprof.schedule(wait=1, warmup=warmup, active=1, repeat=1)
    with npuprof.profile(collector=name, output=output, schedule=plan) as session:
        for _ in range(warmup):
            session.step()
        began_ns = time.perf_counter_ns()
        session.step()
        took_ns = time.perf_counter_ns() - began_ns
        assert session.collecting
        session.step()
    return took_ns / 1e6


def _told(times: list[float]) -> str:
    return f"{statistics.median(times):6.2f} ms ({min(times):.2f} to {max(times):.2f})"


if __name__ == "__main__":
    main()
