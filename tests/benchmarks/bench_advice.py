"""How long advice takes: run with ``python -m tests.benchmarks.bench_advice [KERNELS]``.

First of a run of a million kernels, or as many as are given, in processor seconds, with the memory at the peak beyond
the tables, and the timeline after that; then of the samples. Where
``MSPROF_ANALYZE`` names a Python interpreter with msprof-analyze and samples are there, of real results against
``msprof-analyze advisor all`` on the same data, as whole processes: seconds of each, and their ratio.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import npuprof
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.samples import FOLDER as SAMPLES

_KERNELS = 1_000_000
_RESULTS = ("torch_npu/text/level1/rank0_ascend_pt", "torch_npu/db/level1/rank0_ascend_pt", "torch_npu/llm_4ranks")
_OURS = "import sys, npuprof; print(npuprof.load(sys.argv[1]).advice())"

_T = TypeVar("_T")


def _timed(what: str, work: Callable[[], _T]) -> _T:
    made, _ = _measured(what, work)
    return made


def _measured(what: str, work: Callable[[], _T]) -> tuple[_T, float]:
    busy = time.process_time()
    made = work()
    took = time.process_time() - busy
    print(f"{what:<64} {took:6.2f} s CPU")
    return made, took


def _resident_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _large(kernels: int) -> None:
    run = Profile(Decoded(factories.profile(kernels), factories.info(), Notes()))
    tables_kib = _resident_kib()
    _timed(f"{kernels:,} kernels: accounting", lambda: run.accounting)
    _timed(f"{kernels:,} kernels: advice, after that", run.advice)
    print(f"{'at the peak, beyond the tables':<64} {(_peak_kib() - tables_kib) / 1e6:6.2f} GB")
    Profile(Decoded(factories.profile(1), factories.info(), Notes())).timeline()  # imports plotly
    before_kib = _resident_kib()
    _, whole = _measured(f"{kernels:,} kernels: timeline", run.timeline)
    print(f"{'at the peak, beyond what was there':<64} {(_peak_kib() - before_kib) / 1e6:6.2f} GB")
    half = Profile(Decoded(factories.profile(kernels // 2), factories.info(), Notes()))
    _, fewer = _measured(f"{kernels // 2:,} kernels: timeline", half.timeline)
    more = (whole - fewer) / (kernels - kernels // 2) * 1e6
    print(f"{'timeline, each further million kernels':<64} {more:6.2f} s CPU (beside {2 * fewer - whole:.2f})")
    again = Profile(Decoded(run.tables, run.info, Notes()))
    _timed(f"{kernels:,} kernels: whole advice", again.advice)
    _timed(f"{kernels:,} kernels: critical path", again.critical_path)


def _samples() -> None:
    for name in _RESULTS:
        run = npuprof.load(SAMPLES / name)
        for _ in run if isinstance(run, npuprof.ProfileSet) else ():
            pass  # reads every rank
        _timed(f"{name}: whole advice", run.advice)


def _seconds(command: list[str], folder: str) -> tuple[float, int]:
    """Run a process; return its seconds, those of its children included, and its exit status."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=False, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.returncode


def _against_the_vendor(python: str) -> None:
    vendors = str(Path(python).parent / "msprof-analyze")
    for name in _RESULTS:
        path = str(SAMPLES / name)
        with tempfile.TemporaryDirectory() as folder:
            theirs, their_status = _seconds([vendors, "advisor", "all", "-d", path, "-o", folder], folder)
        ours, our_status = _seconds([sys.executable, "-c", _OURS, path], str(Path.cwd()))
        print(
            f"{name}, read and advised: {ours:.2f} s CPU (exit {our_status}), msprof-analyze advisor {theirs:.2f} s "
            f"(exit {their_status}): {theirs / ours:.1f} times"
        )


def main() -> None:
    """Measure and print."""
    _large(int(sys.argv[1].replace(",", "")) if len(sys.argv) > 1 else _KERNELS)
    python = os.environ.get("MSPROF_ANALYZE")
    if SAMPLES.is_dir():
        _samples()
    if python and SAMPLES.is_dir():
        _against_the_vendor(python)
    else:
        print("msprof-analyze is not compared: set MSPROF_ANALYZE to a Python interpreter that has it")


if __name__ == "__main__":
    main()
