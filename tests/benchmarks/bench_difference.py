"""How long ``a - b`` takes: run with ``python -m tests.benchmarks.bench_difference [KERNELS]``.

First of two runs of a million kernels each, or as many as are given, in processor seconds. Then, where
``MSPROF_ANALYZE`` names a Python interpreter with msprof-analyze and samples are there, of two real results against
``msprof-analyze compare`` on the same data, as whole processes: seconds of each, and their ratio.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.samples import FOLDER as SAMPLES

_KERNELS = 1_000_000
_PAIR = ("torch_npu/text/level1/rank0_ascend_pt", "torch_npu/text/level1/rank1_ascend_pt")
_OURS = "import sys, npuprof; print(npuprof.compare(*sys.argv[1:]))"


def _large(kernels: int) -> None:
    runs = [Profile(Decoded(factories.profile(count), factories.info(), Notes())) for count in (kernels, kernels - 999)]
    busy = time.process_time()
    rows = (runs[0] - runs[1]).rows
    print(f"{kernels:,} kernels a side: {time.process_time() - busy:.2f} s CPU for {len(rows):,} rows, steps included")


def _seconds(command: list[str], folder: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _against_the_vendor(python: str) -> None:
    paths = [str(SAMPLES / name) for name in _PAIR]
    with tempfile.TemporaryDirectory() as folder:
        vendors = str(Path(python).parent / "msprof-analyze")
        theirs = _seconds([vendors, "compare", "-d", paths[0], "-bp", paths[1], "-o", folder], folder)
        ours = _seconds([sys.executable, "-c", _OURS, *paths], str(Path.cwd()))
    print(f"two results of a rank: {ours:.2f} s CPU, msprof-analyze compare {theirs:.2f} s: {theirs / ours:.1f} times")


def main() -> None:
    """Measure and print."""
    _large(int(sys.argv[1].replace(",", "")) if len(sys.argv) > 1 else _KERNELS)
    python = os.environ.get("MSPROF_ANALYZE")
    if python and SAMPLES.is_dir():
        _against_the_vendor(python)
    else:
        print("msprof-analyze is not compared: set MSPROF_ANALYZE to a Python interpreter that has it")


if __name__ == "__main__":
    main()
