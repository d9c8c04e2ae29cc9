"""A look at jobs of many ranks, cold and warm: run with ``python -m tests.benchmarks.bench_cluster [RANKS ...]``.

Jobs are generated (:mod:`npuprof.simulator.jobs`, with one slow card) and written in the vendor's text form into a
temporary directory, or into ``--keep DIRECTORY``, where the next run finds them. ``--steps 9`` gives 1,000 ranks some
3,000 operators each. Each look is a process of its own: the first with an empty cache, the second with what that left.
Growth is the ratio of times to the ratio of operators, from each size to the next: 1 is linear, below 1 is less.
Where ``NPUPROF_SAMPLES`` has four ranks of an LLM, the figure of steps of 64 copies of them is drawn too.
Where ``MSPROF_ANALYZE`` names a Python that has it, the cluster analysis of msprof-analyze is run on a copy of the
smallest job.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from npuprof.simulator.jobs import SIZES, Faults, simulate, text
from tests import samples

_RANKS = (8, 64, 512, 1000)
_NO_TIMES = ("peak_mb", "cores", "operators")


def look(folder: Path) -> dict[str, float]:
    """Load a job and answer; give the seconds of each, the cores' time, and the peak memory of this process."""
    from npuprof.loading import load_set

    seconds: dict[str, float] = {}

    def measure(name: str, work: Callable[[], object]) -> None:
        began = time.perf_counter()
        work()
        seconds[name] = time.perf_counter() - began

    began = time.perf_counter()
    runs = load_set(folder)
    seconds["load"] = time.perf_counter() - began
    if hasattr(runs, "overview"):
        measure("overview", runs.overview)
    measure("blame", runs.blame)
    measure("steps", lambda: runs._step_parts())
    measure("waits", runs.waits)
    measure("matrix", lambda: runs.plot_communication_matrix())
    seconds["all"] = time.perf_counter() - began
    seconds["cores"] = sum(os.times()[:4])
    seconds["operators"] = len(runs.waits())
    seconds["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return seconds


def _apart(folder: Path, cache: str, how: str = "--look") -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.bench_cluster", how, str(folder)]
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _write(ranks: int, steps: int, folder: Path) -> None:
    if folder.is_dir():
        return
    began = time.perf_counter()
    job = simulate(replace(SIZES[ranks], steps=steps), Faults(slow_ranks={ranks // 2: 0.08}), seed=1)
    text.write(job, folder)
    print(f"{ranks} ranks written in {time.perf_counter() - began:.1f} s", flush=True)


def _print(ranks: int, folder: Path) -> dict[str, dict[str, float]]:
    """Measure and print the first and the second look at a job; return both."""
    looks = {}
    size = sum(file.stat().st_size for file in folder.rglob("*.json"))
    print(f"{ranks:,} ranks, {size / 1e6:,.0f} MB of JSON, load of the machine {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as cache:
        for name in ("cold", "warm"):
            looks[name] = one = _apart(folder, cache)
            times = ", ".join(f"{what} {value:.2f}" for what, value in one.items() if what not in _NO_TIMES)
            each = one["cores"] / one["operators"] * 1e6
            cores = f"{one['cores']:.1f} s of cores, {each:.1f} us for each of {one['operators']:,} operators"
            print(f"  {name}: {times} s; {cores}, {one['peak_mb']:,.0f} MB peak", flush=True)
    return looks


def _print_growth(
    before: tuple[int, dict[str, dict[str, float]]], ranks: int, after: dict[str, dict[str, float]]
) -> None:
    """Print by how much the time of a look grows from one size to the next, and by how much the number of operators."""
    fewer, smaller = before
    more = after["cold"]["operators"] / smaller["cold"]["operators"]
    for name in ("cold", "warm"):
        ratios = {what: after[name][what] / smaller[name][what] for what in ("cores", "overview", "blame")}
        told = ", ".join(f"{what} {ratio:.1f} times ({ratio / more:.2f})" for what, ratio in ratios.items())
        size = f"{ranks / fewer:.1f} times the ranks, {more:.1f} times the operators"
        print(f"from {fewer:,} to {ranks:,} ranks, {name}: {size}, {told}", flush=True)


def draw(folder: Path) -> dict[str, float]:
    """Load ranks and draw their steps; give the seconds of each, and the cores' time of the figure."""
    from npuprof.loading import load_set

    began = time.perf_counter()
    runs = load_set(folder)
    loaded, spent = time.perf_counter(), sum(os.times()[:4])
    runs.plot_steps()
    drawn = time.perf_counter() - loaded
    return {"load": loaded - began, "plot_steps": drawn, "cores": sum(os.times()[:4]) - spent}


def _copies(sample: Path) -> None:
    """Draw the steps of 64 copies of real ranks, with an empty cache and with what that left."""
    ranks = sorted(path for path in sample.iterdir() if path.is_dir())
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as place:
        for number in range(64):
            folder = shutil.copytree(ranks[number % len(ranks)], Path(place) / "job" / f"rank{number}_ascend_pt")
            for file in folder.glob("profiler_info*.json"):
                facts = {**json.loads(file.read_text()), "rank_id": str(number)}
                file.unlink()
                (folder / f"profiler_info_{number}.json").write_text(json.dumps(facts))
        for name in ("cold", "warm"):
            times = _apart(Path(place) / "job", f"{place}/cache", "--draw")
            told = f"load {times['load']:.2f}, plot_steps {times['plot_steps']:.2f} s, {times['cores']:.1f} s of cores"
            print(f"64 ranks of {sample.name}, {name}: {told}", flush=True)


def _vendor(folder: Path) -> None:
    python = os.environ.get("MSPROF_ANALYZE")
    if not python:
        print("msprof-analyze: not measured, MSPROF_ANALYZE names no interpreter that has it")
        return
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as place:
        copied = shutil.copytree(folder, Path(place) / "job")  # it writes into its input
        began = time.perf_counter()
        program = "from msprof_analyze.cli.entrance import msprof_analyze_cli as run; run()"
        command = [python, "-c", program, "cluster", "-m", "all", "-d", str(copied)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        print(f"msprof-analyze cluster of {folder.name}: {seconds:.1f} s, status {done.returncode}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="A look at jobs of many ranks, cold and warm.")
    parser.add_argument("ranks", nargs="*", type=int, help=f"of {_RANKS}; by default all")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--look", type=Path)
    parser.add_argument("--draw", type=Path)
    options = parser.parse_args()
    if options.look or options.draw:
        print(json.dumps(look(options.look) if options.look else draw(options.draw)))
        return
    sizes = options.ranks or list(_RANKS)
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as temporary:
        parent = options.keep or Path(temporary)
        before = None
        for ranks in sizes:
            folder = parent / f"job{ranks}"
            _write(ranks, options.steps, folder)
            looks = _print(ranks, folder)
            if before:
                _print_growth(before, ranks, looks)
            before = ranks, looks
        _vendor(parent / f"job{min(sizes)}")
    sample = samples.FOLDER / "torch_npu/llm_4ranks"
    if sample.is_dir():
        _copies(sample)


if __name__ == "__main__":
    main()
