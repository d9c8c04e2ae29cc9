"""Jobs whose gradient buckets overlap the backward pass: who is named, and what is said to be gained.

By hand: ``python -m tests.benchmarks.bench_overlapped [--jobs 95]``

Each job has 4 to 8 ranks and up to two slow ones, drawn at random. Jobs count whose faults cost 2 % of the step.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from npuprof.advice.finding import Finding
from npuprof.loading import load_set
from npuprof.profiles.profile import Profile
from npuprof.simulator.jobs.overlapped import OverlappedJob, OverlappedPlan, simulate_overlapped
from npuprof.sources.base import Decoded

_WORTH = 0.02  # of the step


def _drawn(random: np.random.Generator) -> OverlappedPlan:
    ranks = int(random.choice([4, 6, 8]))
    slow = random.choice(ranks, int(random.integers(0, min(3, ranks // 2))), replace=False).tolist()
    return OverlappedPlan(
        ranks=ranks,
        buckets=int(random.integers(2, 6)),
        jitter=float(random.choice([0.01, 0.02, 0.05])),
        uneven=float(random.choice([0, 0.05])),
        slow_ranks={int(rank): float(random.choice([0.06, 0.1, 0.15, 0.3])) for rank in slow},
    )


def _found(job: OverlappedJob) -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(job.plan.ranks):
            Profile(Decoded(job.tables(rank), job.info(rank))).save(Path(folder) / f"rank{rank}")
        return load_set(folder).advice()["slow_rank"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Jobs whose collectives overlap computing.")
    parser.add_argument("--jobs", type=int, default=95)
    options = parser.parse_args()
    random = np.random.default_rng(7)
    ranks = innocent = costly = named = inside = 0
    offs: list[float] = []
    for seed in range(options.jobs):
        plan = _drawn(random)
        job = simulate_overlapped(plan, seed)
        truth = job.step_ns - simulate_overlapped(replace(plan, slow_ranks={}), seed).step_ns
        found = _found(job)
        fires = found.state == "fires" and found.gain_hi_ns > 0
        said = set(map(int, re.findall(r"\d+", found.place))) if fires else set()
        ranks, innocent = ranks + plan.ranks, innocent + len(said - set(plan.slow_ranks))
        if truth >= _WORTH * job.step_ns:
            costly += 1
            named += max(plan.slow_ranks, key=lambda rank: plan.slow_ranks[rank]) in said
            offs += [found.gain_hi_ns / truth - 1] if said else []
            inside += bool(said) and found.gain_lo_ns <= truth <= 1.05 * found.gain_hi_ns
    print(f"{options.jobs} jobs, {costly} with faults of 2 %: slowest rank named in {named}, bounds hold in {inside}")
    print(f"{innocent} innocent of {ranks} ranks")
    if offs:
        size = np.abs(offs)
        print(f"upper end off: median {np.median(size):.1%}, 95 % {np.quantile(size, 0.95):.1%}, most {size.max():.1%}")


if __name__ == "__main__":
    main()
