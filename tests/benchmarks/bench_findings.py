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

from npuprof.loading import load_set
from npuprof.simulator.jobs import Faults, Plan, simulate, text
from npuprof.simulator.jobs.model import Job
from tests.advice.generated import RULES, fired, plan_of

_MOST_OFF = 0.1
_FAULTS = {
    "": Faults(),
    "slow_rank": Faults(slow_rank=5),
    "slow_link": Faults(slow_link=(2, 3)),
    "late_host": Faults(late_host=0),
    "pipeline_imbalance": Faults(heavy_stage=1),
}


def errors_of(plan: Plan, seed: int, *, as_text: bool) -> Iterator[tuple[str, float | None, str]]:
    """Yield for a healthy job and each fault by how much its gain is off, None if it is not found alone; titles."""
    healthy = simulate(plan, seed=seed).duration_ns
    for rule, fault in _FAULTS.items():
        job = simulate(plan, fault, seed)
        found = _of_text(job) if as_text else {name: (one.title, one.gain_hi_ns) for name, one in fired(job).items()}
        titles = ", ".join(title for title, _ in found.values()) or "no finding"
        if set(found) != ({rule} if rule else set()):
            yield rule, None, titles
        else:
            true_ns = (job.duration_ns - healthy) / plan.steps
            yield rule, found[rule][1] / true_ns - 1 if rule else 0.0, titles


def _of_text(job: Job) -> dict[str, tuple[str, int]]:
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
        advice = load_set(text.write(job, Path(folder) / "job")).advice()
        found = {rule.name: advice[rule.name] for rule in RULES}
    return {name: (one.title, one.gain_hi_ns) for name, one in found.items() if one.state == "fires"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Faults planted in generated jobs, found and named.")
    parser.add_argument("ranks", nargs="*", type=int, help="8, 64, 512 and 1000; by default 8 and 64")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--text", action="store_true")
    options = parser.parse_args()
    failed = False
    for ranks in options.ranks or (8, 64):
        plan, began = plan_of(ranks), time.process_time()
        forms = [(seed, False) for seed in range(options.seeds)] + [(0, True)] * options.text
        results = [(as_text, *one) for seed, as_text in forms for one in errors_of(plan, seed, as_text=as_text)]
        for rule in _FAULTS:
            own = [(as_text, off, titles) for as_text, name, off, titles in results if name == rule]
            known = [abs(off) for _, off, _ in own if off is not None]
            right = len(known) == len(own) and max(known) <= _MOST_OFF
            failed |= not right
            wrong = [titles for _, off, titles in own if off is None]
            told = f"{len(known)} of {len(own)} right ({own[-1][2]}), gain off by {max(known, default=0):.1%} at most"
            print(f"{ranks:5,} ranks, {rule or 'healthy':18}: {told}{f'; not: {wrong}' if wrong else ''}")
        print(f"{ranks:5,} ranks: {time.process_time() - began:.0f} s of this process", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
