"""The time from the end of the last process of a job to its report, and what npuprof takes at the start of a rank.

Run by hand: ``python -m tests.benchmarks.bench_processes [RANKS] [KERNELS]``.
"""

from __future__ import annotations

import importlib.util
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import npuprof
from npuprof.notebook.preloading import preload
from npuprof.notebook.report import show_session
from npuprof.recordings import job_folder

_WORK = """
from npuprof.simulator import npu
import npuprof, sys
x = npu.ones((8, 8))
for step in range(10):
    for _ in range(int(sys.argv[1]) // 10):
        x + x
    npuprof.step()
"""
_STARTS = {
    "no front end": "pass",
    "the simulated NPU": "from npuprof.simulator import npu",
    "torch": "import torch",
}
_KINETO = """
import os, time
os.environ["KINETO_LOG_LEVEL"] = "99"
from torch.profiler import ProfilerActivity, profile
begun = time.process_time()
running = profile(activities=[ProfilerActivity.CPU])
running.start()
print(time.process_time() - begun)
running.stop()
"""


_FOUR_KERNELS = "from npuprof.simulator import npu\nx = npu.ones((16, 16))\nfor _ in range(3):\n    x @ x\n"


def _least_s(code: str, folder: Path) -> float:
    """Return the least number that a program prints in five processes."""
    times = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=True)
        times.append(float(done.stdout.split()[-1]))
    return min(times)


def _starts(folder: Path) -> None:
    """Print what npuprof takes at the start of a rank, of CPU time, and what torch's own profiler takes."""
    has_torch = importlib.util.find_spec("torch") is not None
    starts = {
        name: f"import time\n{code}\nprint(time.process_time())"
        for name, code in _STARTS.items()
        if name != "torch" or has_torch
    }
    plain_s = {name: _least_s(code, folder) for name, code in starts.items()}
    kineto_s = _least_s(_KINETO, folder) if has_torch else 0.0
    for name, code in starts.items():
        with npuprof.profile(
            processes=True, collector="kineto" if name == "torch" else "auto", output=folder / "starts"
        ):
            profiled_s = _least_s(code, folder)
        of_torch_s = kineto_s if name == "torch" else 0.0
        print(
            f"start of a process with {name}: {plain_s[name]:.3f} s of CPU without a profiler, of npuprof's own", end=""
        )
        print(f" {profiled_s - plain_s[name] - of_torch_s:.3f} s more, of torch's profiler {of_torch_s:.3f} s")


def _whole(folder: Path) -> None:
    """Print the CPU time of simulated processes from their start to their end, profiled and alone."""

    def least_s() -> float:
        spent_s = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", _FOUR_KERNELS], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(spent_s)

    alone_s = least_s()
    with npuprof.profile(processes=True, output=folder / "whole"):
        profiled_s = least_s()
    print(f"a simulated process from start to end: {alone_s:.3f} s of CPU alone, {profiled_s - alone_s:.3f} s more")


def _additions_s() -> float:
    """Return the CPU time of ten million additions, which tells how fast this machine is while others use it."""
    begun, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - begun


def main(ranks: int = 8, kernels: int = 10_000) -> None:
    """Measure and print."""
    preload(report=True, of_set=True)  # as a cell does before it begins
    with tempfile.TemporaryDirectory() as output:
        folder = Path(output)
        _starts(folder)
        _whole(folder)
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
            ended, used = time.monotonic(), time.process_time()
        stopped = time.monotonic()
        result: Any = session.result
        runs = result.read()
        read = time.monotonic()
        with redirect_stdout(io.StringIO()):
            show_session(session)
        print(f"{ranks} ranks of {[len(run.kernels) for run in runs]} kernels")
        print(f"stop {stopped - ended:.2f} s, read {read - stopped:.2f} s, report {time.monotonic() - read:.2f} s")
        print(f"{time.process_time() - used:.2f} s of CPU in all; ten million additions take {_additions_s():.2f} s")
        ends = [each.last_ns for each in job_folder.processes(runs.root)]
        print(f"the last process ended {(max(ends) - min(ends)) / 1e9:.2f} s after the first")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
