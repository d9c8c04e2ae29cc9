"""What sampling the Python stacks costs: run by hand, ``python tests/benchmarks/bench_python_stacks.py``.

Each workload runs in pairs, once sampled and once not, in alternating order. The figure is the median over the
pairs of the ratio of their times, with the quartiles beside it: ratios of one run on one machine. The target is
a median below 1.05 at the default interval. ``--hook`` adds a sampler built on a profile hook (pyinstrument) for
comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import json.decoder
import json.scanner
import os
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np

from npuprof.collectors.python_stacks import DEFAULT_INTERVAL_S, PythonStacks

TARGET = 1.05
_ARRAY = np.ones(200)
_DOCUMENT = json.dumps([{"a": i, "b": [1, 2, {"c": "x" * 10}]} for i in range(300)])


def _fibonacci(n: int) -> int:
    return n if n < 2 else _fibonacci(n - 1) + _fibonacci(n - 2)


def numpy_calls() -> None:
    """Many small operations of an array library."""
    for _ in range(2_000):
        np.mean(_ARRAY)
        np.add(_ARRAY, _ARRAY)


def python_calls() -> None:
    """Nothing but Python calls."""
    _fibonacci(22)


def json_in_python() -> None:
    """A parser written in Python: many small functions."""
    decoder = json.JSONDecoder()
    decoder.parse_string = json.decoder.py_scanstring  # type: ignore[attr-defined]  # the pure-Python half of json
    decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]  # as above
    decoder.decode(_DOCUMENT)


async def _leaf() -> int:
    await asyncio.sleep(0)
    return sum(range(50))


async def _branch() -> None:
    for _ in range(100):
        await _leaf()


async def _tree() -> None:
    await asyncio.gather(*(_branch() for _ in range(20)))


def coroutines() -> None:
    """Twenty tasks that take turns."""
    asyncio.run(_tree())


def threads() -> None:
    """Four threads with Python and array work."""

    def work() -> None:
        _fibonacci(18)
        for _ in range(200):
            np.mean(_ARRAY)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


WORKLOADS: tuple[Callable[[], None], ...] = (numpy_calls, python_calls, json_in_python, coroutines, threads)


def _timed(workload: Callable[[], None], repeats: int) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        workload()
    return time.perf_counter() - began


def _sampled(workload: Callable[[], None], repeats: int, interval_s: float) -> float:
    stacks = PythonStacks(interval_s=interval_s)
    stacks.start()
    try:
        return _timed(workload, repeats)
    finally:
        stacks.stop()


def _hooked(workload: Callable[[], None], repeats: int, interval_s: float) -> float:
    os.environ["PYINSTRUMENT_IGNORE_OVERHEAD_WARNING"] = "1"
    from pyinstrument import Profiler

    profiler = Profiler(interval=interval_s)
    profiler.start()
    try:
        return _timed(workload, repeats)
    finally:
        profiler.stop()


def ratios(
    workload: Callable[[], None],
    profiled: Callable[[Callable[[], None], int, float], float],
    interval_s: float,
    pairs: int,
    seconds: float,
) -> list[float]:
    """Give the ratio of profiled to plain time of each pair."""
    workload()
    repeats = max(1, round(seconds / _timed(workload, 1)))
    found = []
    for pair in range(pairs):
        if pair % 2:
            plain = _timed(workload, repeats)
            found.append(profiled(workload, repeats, interval_s) / plain)
        else:
            with_it = profiled(workload, repeats, interval_s)
            found.append(with_it / _timed(workload, repeats))
    return found


def main() -> None:
    """Print one line a workload and interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals-ms", type=float, nargs="+", default=[DEFAULT_INTERVAL_S * 1e3])
    parser.add_argument("--pairs", type=int, default=81)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of one run of a pair")
    parser.add_argument("--hook", action="store_true", help="also measure pyinstrument")
    options = parser.parse_args()
    # A kernel always has threads besides the one that runs cells; so has the plain run here.
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    methods = {"sampled": _sampled, **({"hooked": _hooked} if options.hook else {})}
    for interval_ms in options.intervals_ms:
        for workload in WORKLOADS:
            for name, method in methods.items():
                found = ratios(workload, method, interval_ms / 1e3, options.pairs, options.seconds)
                low, middle, high = statistics.quantiles(found, n=4)
                verdict = "within" if middle < TARGET else "ABOVE"
                print(
                    f"{name:8} {interval_ms:4g} ms  {workload.__name__:15} {middle:.3f} "
                    f"[{low:.3f} .. {high:.3f}]  {verdict} {TARGET}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
