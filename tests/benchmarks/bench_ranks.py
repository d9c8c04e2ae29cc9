"""Ranks of one run to tables: one after another in this process, and side by side in several.

By hand: ``python -m tests.benchmarks.bench_ranks [--ranks 4] [--megabytes 100] [--processes N] [--runs 3]``

Each rank is the level 1 sample (the folder that ``NPUPROF_SAMPLES`` names), its timeline repeated with fresh ids, moved
in time, in a temporary directory. The two ways take turns, each in a process of its own; of several runs the
fastest counts. Without ``--processes`` it is the number that the set would choose.
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
from pathlib import Path
from typing import Any

from tests import samples
from tests.benchmarks.bench_trace_json import write_big

_SAMPLE = "torch_npu/text/level1/rank0_ascend_pt"
_TRACE = "ASCEND_PROFILER_OUTPUT/trace_view.json"


def write_ranks(sample: Path, parent: Path, ranks: int, megabytes: int) -> int:
    """Write the ranks' results; give the bytes of their timelines."""
    first = parent / "rank0_ascend_pt"
    (first / _TRACE).parent.mkdir(parents=True)
    write_big(sample / _TRACE, first / _TRACE, megabytes)
    for rank in range(ranks):
        folder = parent / f"rank{rank}_ascend_pt"
        if rank:
            shutil.copytree(first, folder, ignore=shutil.ignore_patterns("profiler_info*"))
        (folder / f"profiler_info_{rank}.json").write_text(json.dumps({"rank_id": rank}))
    return ranks * (first / _TRACE).stat().st_size


def read_once(parent: Path, processes: int | None) -> dict[str, Any]:
    """Read all ranks; give seconds, the cores' time, and the peak memory here and in the largest process started."""
    from npuprof.loading import open_path
    from npuprof.ranks import parallelism
    from npuprof.ranks.profile_set import ProfileSet

    runs = open_path(parent)
    assert isinstance(runs, ProfileSet)
    chosen = processes or parallelism.processes_for(
        [entry.run.source.size_bytes(entry.run.path) for entry in runs._runs.entries]
    )
    began, spent = time.perf_counter(), _cores_s()
    runs.read(chosen)
    seconds, cores_s = time.perf_counter() - began, _cores_s() - spent
    assert not runs.failed
    own, started = (
        resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    rows = sum(len(frame) for run in runs for frame in run.tables.values())
    return {
        "seconds": seconds,
        "cores_s": cores_s,
        "peak_mb": own,
        "child_mb": started,
        "rows": rows,
        "processes": chosen,
    }


def _cores_s() -> float:
    """Return the time that this process and its children have kept a core busy, which a busy machine leaves."""
    return sum(os.times()[:4])


def _apart(parent: Path, processes: int | None) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.bench_ranks", "--read", str(parent)]
    command += ["--processes", str(processes)] if processes else []
    output: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--read", type=Path)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read_once(options.read, options.processes)))
        return
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
        size = write_ranks(samples.FOLDER / _SAMPLE, Path(folder), options.ranks, options.megabytes)
        print(f"{options.ranks} ranks, {size / 1e6:.0f} MB of timelines; fastest of {options.runs}")
        rounds = [[_apart(Path(folder), how) for how in (1, options.processes)] for _ in range(options.runs)]
    best = [min(results, key=lambda one: one["seconds"]) for results in zip(*rounds, strict=True)]
    for one in best:
        times = f"{one['seconds']:6.2f} s {one['cores_s']:6.2f} s of cores"
        memory = f"{one['peak_mb']:6.0f} MB peak here, {one['child_mb']:6.0f} MB in the largest process started"
        print(f"{one['processes']:2} processes {times}  {memory}  {one['rows']:9,} rows")
    print(f"sequential / parallel: {best[0]['seconds'] / best[1]['seconds']:.2f}")


if __name__ == "__main__":
    main()
