"""The time from the end of the last process of a job to its report, and what npuprof takes at the start of a rank.

Run by hand: ``python -m tests.benchmarks.bench_processes [RANKS] [KERNELS]``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import npuprof
from npuprof import job_folder
from npuprof.notebook.report import show_session

_WORK = """
from npuprof.simulator import npu
import npuprof, sys
x = npu.ones((8, 8))
for step in range(10):
    for _ in range(int(sys.argv[1]) // 10):
        x + x
    npuprof.step()
"""
_START = """
import json, time
begun = time.process_time()
from npuprof.simulator import npu
print(json.dumps(time.process_time() - begun))
"""


def _start_s(folder: Path) -> float:
    """Return the least CPU time of the import of the simulated NPU in five processes."""
    times = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", _START], cwd=folder, capture_output=True, check=True)
        times.append(float(json.loads(done.stdout)))
    return min(times)


def main(ranks: int = 8, kernels: int = 10_000) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as output:
        folder = Path(output)
        plain_s = _start_s(folder)
        with npuprof.profile(processes=True, output=folder / "starts"):
            profiled_s = _start_s(folder)
        print(f"CPU of npuprof at the start of a rank: {profiled_s - plain_s:.2f} s")
        with npuprof.profile(processes=True, output=folder / "ranks") as session:
            started = [
                subprocess.Popen(
                    [sys.executable, "-c", _WORK, str(kernels)],
                    env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks)},
                )
                for rank in range(ranks)
            ]
            for process in started:
                process.wait()
            ended = time.monotonic()
        stopped = time.monotonic()
        result: Any = session.result
        runs = result.read()
        read = time.monotonic()
        show_session(session)
        print(f"{ranks} ranks of {[len(run.kernels) for run in runs]} kernels")
        print(f"stop {stopped - ended:.2f} s, read {read - stopped:.2f} s, report {time.monotonic() - read:.2f} s")
        ends = [each.last_ns for each in job_folder.processes(runs.root)]
        print(f"the last process ended {(max(ends) - min(ends)) / 1e9:.2f} s after the first")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
