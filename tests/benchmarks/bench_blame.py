"""Jobs with one to eight faults at once: what is named, who is named without a fault, what is said to be gained.

By hand: ``python -m tests.benchmarks.bench_blame [--seeds 20] [--faults 1 2 3 4 5 6 7 8] [--memory] [--training]``

Each job of 64 ranks and four steps has slow ranks, slow hosts, late hosts, slow links, an uneven stage, stalls, absent
ranks, files that are cut off and clocks that differ, drawn at random, and a noise of 1 to 20 %. It is written in the
vendor's text form, loaded and judged as by ``npuprof advise``; with ``--memory`` its tables are judged without files.
The cost of a fault is the step of the same job with this fault alone, minus that of the job with none. The true gain is
the step of the job without its stalls minus that of the job with no fault. Where a finding says that it cannot tell
between two ("a stage with more work, or its hosts are slow", "rank 49 or 50" of absent ones), it is right if one is.
With ``--training`` they are jobs whose collectives overlap computing: see :mod:`tests.benchmarks.blamed_training`.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from npuprof.advice.finding import Finding
from npuprof.loading import load_set
from npuprof.simulator.jobs import SIZES, Faults, Job, Plan, simulate, text
from tests.advice.generated import RULES, facts_of
from tests.benchmarks import blamed_training
from tests.benchmarks.ranks_of_words import ranks_in

PLAN = replace(SIZES[64], steps=4)
_NOISES = (0.01, 0.02, 0.05, 0.1, 0.2)
_KINDS = ("rank", "host", "late", "link", "stage", "stall", "absent", "cut", "clock")
_ONCE = {"stage", "clock"}  # at most one of a kind
_WORTH = 0.02  # of the step
_MS = 1_000_000
_GAINING = ("slow_rank", "late_host", "slow_link", "pipeline_imbalance")


@dataclass(frozen=True)
class Fault:
    """One fault: its kind, whom it is about, and the faults of a job that has it alone."""

    kind: str
    subject: tuple[int, ...]
    alone: Faults = field(compare=False)


@dataclass(frozen=True)
class Judged:
    """What was found in a job, and what is true."""

    noise: float
    faults: Sequence[Fault]
    costs: Mapping[Fault, float]
    named: frozenset[Fault]
    innocent: Mapping[str, frozenset[int]]
    gain: tuple[float, float]
    true_gain: float
    step_ns: float
    complete: bool

    @property
    def tells_gain(self) -> bool:
        """Whether the gain is one number, and no bounds: of a job with all ranks, whose causes can be told apart."""
        return self.complete and self.gain[0] == self.gain[1]


def drawn(plan: Plan, count: int, seed: int) -> list[Fault]:
    """Return some faults at random; no two of a kind have the same subject."""
    random = np.random.default_rng((count, seed))
    healthy = simulate(replace(plan, steps=1), seed=seed)
    found: list[Fault] = []
    while len(found) < count:
        kind = str(random.choice(_KINDS))
        fault = _fault(kind, healthy, random)
        taken = {(one.kind, one.subject) for one in found}
        if (kind in _ONCE and any(one.kind == kind for one in found)) or (fault.kind, fault.subject) in taken:
            continue
        found.append(fault)
    return found


def _fault(kind: str, job: Job, random: np.random.Generator) -> Fault:
    plan = job.plan
    rank = int(random.integers(plan.ranks))
    host = int(random.integers(plan.ranks // plan.ranks_per_host))
    on_host = tuple(range(host * plan.ranks_per_host, (host + 1) * plan.ranks_per_host))
    by = float(random.uniform(0.05, 0.3))
    if kind == "rank":
        return Fault(kind, (rank,), Faults(slow_ranks={rank: by}))
    if kind == "host":
        return Fault(kind, on_host, Faults(slow_hosts={host: by}))
    if kind == "late":
        return Fault(kind, on_host, Faults(late_hosts={host: int(random.integers(10, 60)) * _MS}))
    if kind == "link":
        group = job.groups(rank)["dp" if random.random() < 0.5 else "tp"]
        low, high = sorted((rank, group.after(rank)))
        return Fault(kind, (low, high), Faults(slow_links={(low, high): float(random.uniform(2, 6))}))
    if kind == "stage":
        stage = int(random.integers(plan.pipeline))
        of_stage = plan.ranks // plan.pipeline
        members = tuple(range(stage * of_stage, (stage + 1) * of_stage))
        return Fault(kind, members, Faults(heavy_stages={stage: float(random.uniform(0.15, 0.4))}))
    if kind == "stall":
        step = 10 + int(random.integers(plan.steps))
        return Fault(kind, (rank, step), Faults(stalls={(rank, step): int(random.integers(100, 400)) * _MS}))
    if kind == "clock":
        return Fault(kind, (), Faults(clock_ms=float(random.uniform(5, 200)), drift=1e-5))
    unseen = frozenset({rank})
    return Fault(kind, (rank,), Faults(absent=unseen) if kind == "absent" else Faults(truncated=unseen))


def together(faults: Sequence[Fault]) -> Faults:
    """Return several faults as those of one job."""
    clocks = next((one.alone for one in faults if one.kind == "clock"), Faults())
    every = [one.alone for one in faults]
    return Faults(
        {rank: by for one in every for rank, by in one.slow_ranks.items()},
        {host: by for one in every for host, by in one.slow_hosts.items()},
        {pair: factor for one in every for pair, factor in one.slow_links.items()},
        {host: late for one in every for host, late in one.late_hosts.items()},
        {stage: more for one in every for stage, more in one.heavy_stages.items()},
        {stalled: still for one in every for stalled, still in one.stalls.items()},
        frozenset().union(*(one.absent for one in every)),
        frozenset().union(*(one.truncated for one in every)),
        clocks.clock_ms,
        clocks.drift,
    )


def judged(count: int, seed: int, plan: Plan = PLAN, *, as_text: bool = True) -> Judged:
    """Make a job with some faults, and judge it."""
    noise = _NOISES[seed % len(_NOISES)]
    plan = replace(plan, jitter=noise)
    faults = drawn(plan, count, seed)
    job = simulate(plan, together(faults), seed)
    found = _found(job, as_text=as_text)
    none = simulate(plan, seed=seed).duration_ns
    costs = {one: (simulate(plan, one.alone, seed).duration_ns - none) / plan.steps for one in faults}
    lasting = simulate(plan, together([one for one in faults if one.kind != "stall"]), seed).duration_ns
    fired = [found[rule] for rule in _GAINING if rule in found]
    return Judged(
        noise,
        faults,
        costs,
        frozenset(one for one in faults if _is_named(one, found, job.faults.absent | job.faults.truncated)),
        dict(_innocent(faults, found)),
        (sum(one.gain_lo_ns for one in fired), sum(one.gain_hi_ns for one in fired)),
        (lasting - none) / plan.steps,
        job.duration_ns / plan.steps,
        not any(one.kind in ("absent", "cut") for one in faults),
    )


def _found(job: Job, *, as_text: bool) -> dict[str, Finding]:
    if not as_text:
        facts = facts_of(job)
        found = [rule.check(facts) for rule in RULES]
    else:
        with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
            advice = load_set(text.write(job, Path(folder) / "job")).advice()
            found = [advice[rule.name] for rule in RULES]
    return {one.rule: one for one in found if one.state == "fires"}


def _named_by(found: Mapping[str, Finding], rule: str) -> set[int]:
    one = found.get(rule)
    return ranks_in(one.place) if one is not None and (one.gain_hi_ns or rule == "stall") else set()


def _slow_or_stage(found: Mapping[str, Finding]) -> set[int]:
    """Return the ranks of stages of which a finding says that their hosts may be slow instead."""
    title = found["pipeline_imbalance"].title if "pipeline_imbalance" in found else ""
    return {rank for places in re.findall(r"slow \((ranks? [^)]*)\)", title) for rank in ranks_in(places)}


def _stalls(found: Mapping[str, Finding]) -> list[tuple[int, set[int]]]:
    """Return the steps in which something happened once, each with the ranks that may have done it."""
    told = found["stall"].title + "; " + found["stall"].detail if "stall" in found else ""
    once = re.findall(r"[Ii]n step (\d+): rank (\d+(?: or \d+)*)", told)
    return [(int(step), ranks_in(ranks)) for step, ranks in once]


def _is_named(fault: Fault, found: Mapping[str, Finding], missing: frozenset[int]) -> bool:
    slow = _named_by(found, "slow_rank") | _named_by(found, "late_host") | _slow_or_stage(found)
    if fault.kind in ("rank", "host", "late"):
        recorded = set(fault.subject) - missing
        return recorded <= slow if recorded else set(fault.subject) <= _named_by(found, "absent_ranks")
    if fault.kind == "link":
        return (
            f"{fault.subject[0]} and {fault.subject[1]}" in found["slow_link"].place if "slow_link" in found else False
        )
    if fault.kind == "stage":
        return set(fault.subject) - missing <= _named_by(found, "pipeline_imbalance")
    if fault.kind == "stall":
        rank, step = fault.subject
        return any(step == told and rank in ranks for told, ranks in _stalls(found))
    return True


def _innocent(faults: Sequence[Fault], found: Mapping[str, Finding]) -> Iterator[tuple[str, frozenset[int]]]:
    guilty = {rank for one in faults if one.kind in ("rank", "host", "late") for rank in one.subject}
    stages = {rank for one in faults if one.kind == "stage" for rank in one.subject}
    links = {rank for one in faults if one.kind == "link" for rank in one.subject}
    stalled = {one.subject[0] for one in faults if one.kind == "stall"}
    for rule, true in (
        ("slow_rank", guilty),
        ("late_host", guilty),
        ("pipeline_imbalance", stages | (guilty & _slow_or_stage(found))),
        ("slow_link", links),
    ):
        yield rule, frozenset(_named_by(found, rule) - true)
    yield "stall", frozenset().union(*(ranks for _, ranks in _stalls(found) if not ranks & stalled))


def _show(count: int, seed: int, job: Judged) -> None:
    missed = [one for one in job.faults if one not in job.named and job.costs[one] >= _WORTH * job.step_ns]
    wrong = {rule: sorted(ranks) for rule, ranks in job.innocent.items() if ranks}
    low, high = (round(gain / _MS, 2) for gain in job.gain)
    words = f"gain {low}-{high} ms, true {job.true_gain / _MS:.2f} of {job.step_ns / _MS:.0f}"
    problems = [f"missed {one.kind} {one.subject} of {job.costs[one] / _MS:.1f} ms" for one in missed]
    problems += [f"innocent {wrong}"] if wrong else []
    print(f"{count} faults, seed {seed}, noise {job.noise:.0%}: {words}{'; '.join(['', *problems])}", flush=True)


def table(jobs: Sequence[Judged]) -> list[str]:
    """Return the results as rows of a Markdown table: by number of faults or kind, and of all."""
    lines = [
        "| jobs | faults of 2 % of the step | named | innocent ranks | ranks | gain off: median, 95 % | bounds hold |",
        "|---|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[Judged]] = {}
    for job in jobs:
        groups.setdefault(f"{len(job.faults)} faults", []).append(job)
    for noise in _NOISES:
        groups[f"noise {noise:.0%}"] = [job for job in jobs if job.noise == noise]
    groups["all"] = list(jobs)
    for name, some in groups.items():
        lines.append(f"| {len(some)}, {name} | " + " | ".join(_cells(some)) + " |")
    return lines


def _cells(jobs: Sequence[Judged]) -> list[str]:
    costly = [(job, one) for job in jobs for one in job.faults if job.costs[one] >= _WORTH * job.step_ns]
    named = sum(one in job.named for job, one in costly)
    innocent = sum(len(frozenset().union(*job.innocent.values())) for job in jobs)
    told = [job for job in jobs if job.tells_gain and job.true_gain >= _WORTH * job.step_ns]
    offs = np.array([abs(job.gain[1] / job.true_gain - 1) for job in told])
    others = [job for job in jobs if not job.tells_gain]
    inside = sum(
        job.gain[0] <= 1.05 * job.true_gain and job.true_gain <= 1.05 * job.gain[1] + 0.01 * job.step_ns
        for job in others
    )
    return [
        *blamed_training.blame_cells(len(costly), named, innocent, PLAN.ranks * len(jobs), offs),
        f"{inside} of {len(others)}",
    ]


def _train(faults: Sequence[int], seeds: int) -> None:
    """Measure and print jobs whose collectives overlap computing."""
    jobs = []
    for count in faults:
        for seed in range(seeds):
            jobs.append(blamed_training.judged(count, seed))
            print(blamed_training.show(jobs[-1], seed), flush=True)
    print("\n".join(blamed_training.table(jobs)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Jobs with several faults at once.")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--faults", type=int, nargs="*", default=list(range(1, 9)))
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--training", action="store_true")
    options = parser.parse_args()
    if options.training:
        _train(options.faults, options.seeds)
        return
    began, jobs = time.process_time(), []
    for count in options.faults:
        for seed in range(options.seeds):
            jobs.append(judged(count, seed, as_text=not options.memory))
            _show(count, seed, jobs[-1])
    missed = Counter(
        one.kind
        for job in jobs
        for one in job.faults
        if one not in job.named and job.costs[one] >= _WORTH * job.step_ns
    )
    print("\n".join(table(jobs)))
    print(f"missed by kind: {dict(missed)}; {time.process_time() - began:.0f} s of this process")


if __name__ == "__main__":
    main()
