"""Faults planted in generated jobs: found, named, and gains against the same job without the fault.

By hand: ``python -m tests.benchmarks.bench_findings [8 64 512 1000] [--seeds 20]``

For each size and seed a healthy job, and one with each fault (a card 8 % slower, a link with a quarter of its rate, a
host 20 ms late in each step, a stage with a quarter more work), as tables in memory. With ``--text`` each job of the
first seed is written in the vendor's text form as well, and found by ``load_set(...).advice()``. Ends with status 1 if
a fault is not the only finding, a healthy job has one, or a gain is more than 10 % off.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from npuprof.loading import load_set
from npuprof.simulator.jobs import Faults, Plan, simulate, text
from npuprof.simulator.jobs.model import Job
from tests.advice.generated import RULES, fired, plan_of

_MOST_OFF = 0.1
_FAULTS = {
    "": Faults(),
    "slow_rank": Faults(slow_ranks={5: 0.08}),
    "slow_link": Faults(slow_links={(2, 3): 4}),
    "late_host": Faults(late_hosts={0: 20_000_000}),
    "pipeline_imbalance": Faults(heavy_stages={1: 0.25}),
}


def errors_of(plan: Plan, seed: int, *, as_text: bool) -> Iterator[tuple[str, float | None, str]]:
    """Yield for a healthy job and each fault by how much its gain is off, None if it is not found alone; titles."""
    healthy = simulate(plan, seed=seed)
    for rule, fault in _FAULTS.items():
        job = simulate(plan, fault, seed) if rule else healthy
        found = _of_text(job) if as_text else {name: (one.title, one.gain_hi_ns) for name, one in fired(job).items()}
        titles = ", ".join(title for title, _ in found.values()) or "no finding"
        if set(found) != ({rule} if rule else set()):
            yield rule, None, titles
        else:
            true_ns = (job.duration_ns - healthy.duration_ns) / plan.steps
            yield rule, found[rule][1] / true_ns - 1 if rule else 0.0, titles


def _of_text(job: Job) -> dict[str, tuple[str, int]]:
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
        advice = load_set(text.write(job, Path(folder) / "job")).advice()
        found = {rule.name: advice[rule.name] for rule in RULES}
    return {name: (one.title, one.gain_hi_ns) for name, one in found.items() if one.state == "fires"}


def _size(ranks: int, seeds: int, *, as_text: bool) -> bool:
    """Measure and print one size; return whether each fault is found alone, and no healthy job has a finding."""
    plan, began = plan_of(ranks), time.process_time()
    offs: dict[str, list[float | None]] = {rule: [] for rule in _FAULTS}
    for seed, written in [(seed, False) for seed in range(seeds)] + [(0, True)] * as_text:
        for rule, off, titles in errors_of(plan, seed, as_text=written):
            offs[rule].append(off)
            told = "WRONG" if off is None else f"gain off by {off:+.1%}" if rule else "right"
            form = "as text" if written else f"seed {seed}"
            print(f"{ranks:5,} ranks, {form}, {rule or 'healthy':18}: {told} ({titles})", flush=True)
    for rule, own in offs.items():
        known = [abs(off) for off in own if off is not None]
        gains = f", gain off by {median(known):.1%} (median), {max(known):.1%} (worst)" if rule and known else ""
        print(f"{ranks:5,} ranks: {rule or 'healthy':18} {len(known)} of {len(own)} right{gains}")
    print(f"{ranks:5,} ranks: {time.process_time() - began:.0f} s of this process", flush=True)
    return all(off is not None and abs(off) <= _MOST_OFF for own in offs.values() for off in own)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Faults planted in generated jobs, found and named.")
    parser.add_argument("ranks", nargs="*", type=int, help="8, 64, 512 and 1000; by default 8 and 64")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--text", action="store_true")
    options = parser.parse_args()
    wrong = [not _size(ranks, options.seeds, as_text=options.text) for ranks in options.ranks or (8, 64)]
    sys.exit(any(wrong))


if __name__ == "__main__":
    main()
