"""How long tables of answers take: run with ``python -m tests.benchmarks.bench_answers [KERNELS ...]``.

For runs of a million kernels, or as many as are given: the join of kernels and their launches, which is made once, then
each table; beside the processor's time the wall clock's, which tells how busy the machine was.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

import pandas as pd

from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories

_KERNELS = (1_000_000,)


def _measure(name: str, work: Callable[[], object]) -> None:
    wall, busy = time.perf_counter(), time.process_time()
    work()
    busy_ms, wall_ms = (time.process_time() - busy) * 1e3, (time.perf_counter() - wall) * 1e3
    print(f"{name:<38} {busy_ms:7,.0f} ms, by the clock {wall_ms:7,.0f} ms")


def _measure_run(run: Profile) -> None:
    _measure("launches (once)", lambda: run.launches)
    _measure('by("line")', lambda: run.by("line"))
    _measure('by("op", "shapes")', lambda: run.by("op", "shapes"))
    _measure('by("line", "module", "kernel", "step")', lambda: run.by("line", "module", "kernel", "step"))
    _measure("efficiency()", lambda: run.efficiency())
    _measure('efficiency("kernel")', lambda: run.efficiency("kernel"))
    _measure("memory_peak()", lambda: run.memory_peak())
    _measure("step_statistics()", lambda: run.step_statistics())
    _measure_replay(_on_one_thread(run.tables))


def _measure_replay(run: Profile) -> None:
    _measure("a run to replay (once)", lambda: run.what_if())
    _measure('what_if(kernel={"Add": 0})', lambda: run.what_if(kernel={"Add": 0}))
    _measure('what_if(cause={"python": 0})', lambda: run.what_if(cause={"python": 0}))
    _measure("critical_path()", lambda: run.critical_path())


def _on_one_thread(tables: Mapping[str, pd.DataFrame]) -> Profile:
    """The same run with all calls on one thread, as a training script has them."""
    own = {name: tables[name].assign(thread_id=100) for name in ("operators", "api")}
    return Profile(Decoded({**tables, **own}, factories.info(), Notes()))


def main() -> None:
    """Measure and print."""
    for kernels in [int(word.replace(",", "")) for word in sys.argv[1:]] or _KERNELS:
        print(f"{kernels:,} kernels")
        _measure_run(Profile(Decoded(factories.profile(kernels), factories.info(), Notes())))


if __name__ == "__main__":
    main()
