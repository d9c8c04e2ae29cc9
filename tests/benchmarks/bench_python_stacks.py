"""What sampling the Python stacks costs: run by hand, ``python tests/benchmarks/bench_python_stacks.py``.

Each workload runs in pairs, once sampled and once not, in alternating order. The figure is the median over the
pairs of the ratio of their times, with the quartiles beside it: ratios of one run on one machine. The target is
a median below 1.05 at the default interval. ``--peers`` adds two libraries for comparison: pyinstrument, which samples
from a profile hook in the process, and py-spy, which reads the process from outside (stopping it for each look, and
without stopping it). It also tells what each saw of half a second that a coroutine spent in an ``await``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import json.decoder
import json.scanner
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

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


async def awaited_for_long() -> None:
    """Wait, in a coroutine that a task awaits; a sampler that follows coroutines names this function."""
    await asyncio.sleep(0.5)


async def _awaiting() -> None:
    await asyncio.create_task(awaited_for_long())


def _wait() -> None:
    asyncio.run(_awaiting())


Profiled = Callable[[Callable[[], None], int, float, Path], float]


def _sampled(workload: Callable[[], None], repeats: int, interval_s: float, output: Path) -> float:
    stacks = PythonStacks(interval_s=interval_s)
    stacks.start()
    try:
        return _timed(workload, repeats)
    finally:
        stacks.stop()
        stacks.write(output)


def _hooked(workload: Callable[[], None], repeats: int, interval_s: float, output: Path) -> float:
    os.environ["PYINSTRUMENT_IGNORE_OVERHEAD_WARNING"] = "1"
    from pyinstrument import Profiler

    profiler = Profiler(interval=interval_s)
    profiler.start()
    try:
        return _timed(workload, repeats)
    finally:
        profiler.stop()
        output.write_text(profiler.output_text(show_all=True))


def _attached(
    workload: Callable[[], None],
    repeats: int,
    interval_s: float,
    output: Path,
    *,
    command: str,
    options: tuple[str, ...],
) -> float:
    rate = str(round(1 / interval_s))
    arguments = [
        command,
        "record",
        *options,
        "--rate",
        rate,
        "--format",
        "raw",
        "--output",
        str(output),
        "--duration",
        "600",
    ]
    peer = subprocess.Popen([*arguments, "--pid", str(os.getpid())], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        time.sleep(0.5)  # it reads the symbols of the process first
        if peer.poll() is not None:
            raise SystemExit(f"py-spy could not attach: {peer.communicate()[1].decode(errors='replace')}")
        return _timed(workload, repeats)
    finally:
        peer.send_signal(signal.SIGINT)
        peer.communicate()


def peers() -> dict[str, Profiled]:
    """Return the libraries that are installed, each in the way to run it."""
    found: dict[str, Profiled] = {"pyinstrument": _hooked}
    command = shutil.which("py-spy", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if command is None:
        print("py-spy is not installed: left out")
    else:
        found["py-spy"] = partial(_attached, command=command, options=())
        found["py-spy, process not stopped"] = partial(_attached, command=command, options=("--nonblocking", "--idle"))
    return found


def follows_awaits(profiled: Profiled, interval_s: float) -> bool:
    """Return whether the function that waits in an ``await`` is among what was recorded."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "stacks"
        profiled(_wait, 1, interval_s, output)
        recorded = output.read_bytes()
        if recorded.startswith(b"PAR1"):
            recorded = str(pq.read_table(output, columns=["frame_function"]).to_pydict()).encode()
        return awaited_for_long.__name__.encode() in recorded


def ratios(
    workload: Callable[[], None],
    profiled: Profiled,
    interval_s: float,
    pairs: int,
    seconds: float,
) -> list[float]:
    """Return the ratio of profiled to plain time of each pair."""
    workload()
    repeats = max(1, round(seconds / _timed(workload, 1)))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "stacks"
        for pair in range(pairs):
            if pair % 2:
                plain = _timed(workload, repeats)
                found.append(profiled(workload, repeats, interval_s, output) / plain)
            else:
                with_it = profiled(workload, repeats, interval_s, output)
                found.append(with_it / _timed(workload, repeats))
    return found


def main() -> None:
    """Print one line a workload and interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals-ms", type=float, nargs="+", default=[DEFAULT_INTERVAL_S * 1e3])
    parser.add_argument("--pairs", type=int, default=81)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of one run of a pair")
    parser.add_argument("--peers", action="store_true", help="also measure pyinstrument and py-spy")
    options = parser.parse_args()
    # A kernel always has threads besides the one that runs cells; so has the plain run here.
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    methods = {"npuprof": _sampled, **(peers() if options.peers else {})}
    for name, method in methods.items():
        print(f"{name:27} follows awaits: {'yes' if follows_awaits(method, DEFAULT_INTERVAL_S) else 'no'}", flush=True)
    for interval_ms in options.intervals_ms:
        for workload in WORKLOADS:
            for name, method in methods.items():
                found = ratios(workload, method, interval_ms / 1e3, options.pairs, options.seconds)
                low, middle, high = statistics.quantiles(found, n=4)
                verdict = "within" if middle < TARGET else "ABOVE"
                print(
                    f"{name:27} {interval_ms:4g} ms  {workload.__name__:15} {middle:.3f} "
                    f"[{low:.3f} .. {high:.3f}]  {verdict} {TARGET}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
