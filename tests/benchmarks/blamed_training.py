"""Jobs whose buckets overlap computing, with one to six faults at once: who is named, and what is said to be gained.

By hand: ``python -m tests.benchmarks.bench_blame --training [--seeds 10] [--faults 1 2 3 4 5 6]``

Each job has tensor, pipeline and data parallel groups of 4 to 16 ranks on hosts with clocks apart, no barrier, and,
drawn at random, accumulated gradients, batches that are loaded before or between steps, evaluations, checkpoints,
sequences of different lengths, and a noise of 1, 2 or 5 %. Its faults are slow ranks, ranks that become slow, and hosts
that begin late. Nothing tells the hosts of ranks. The cost of a fault is the step of the job with it alone, minus that
of the job with none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from npuprof.loading import load_set
from npuprof.profiles.profile import Profile
from npuprof.simulator.jobs.training import TrainingJob, TrainingPlan, simulate_training
from npuprof.sources.base import Decoded
from tests.benchmarks.ranks_of_words import ranks_in

_SHAPES = ((1, 1, 8), (2, 1, 4), (1, 2, 4), (1, 4, 2), (2, 2, 2), (2, 2, 4))
_NOISES = (0.01, 0.02, 0.05)
_RULES = ("slow_rank", "late_host", "pipeline_imbalance")
_WORTH = 0.02  # of the step
_MS = 1_000_000
_NEAR = 0.05


@dataclass(frozen=True)
class Judged:
    """What was found in a job, and what is true: faults by whom they are about, and what each costs."""

    plan: TrainingPlan
    faults: int
    costs: Sequence[tuple[frozenset[int], float]]
    said: frozenset[int]
    innocent: frozenset[int]
    gain: tuple[float, float]
    is_measured: bool
    true_gain: float
    step_ns: float

    @property
    def costly(self) -> list[frozenset[int]]:
        """The subjects of faults that cost 2 % of the step."""
        return [subject for subject, cost in self.costs if cost >= _WORTH * self.step_ns]


def _plan(random: np.random.Generator) -> TrainingPlan:
    tensor, pipeline, data = _SHAPES[int(random.integers(len(_SHAPES)))]
    return TrainingPlan(
        tensor,
        pipeline,
        data,
        steps=int(random.choice([4, 6, 8])),
        microbatches=int(random.choice([1, 2, 4])) * pipeline,
        buckets=int(random.integers(2, 6)),
        prefetches=bool(random.random() < 0.5),
        evaluate_every=int(random.choice([0, 2, 3])),
        checkpoint_every=int(random.choice([0, 3])),
        uneven=float(random.choice([0.0, 0.0, 0.05])),
        jitter=float(random.choice(_NOISES)),
    )


def _with_faults(plan: TrainingPlan, count: int, random: np.random.Generator) -> list[TrainingPlan]:
    """Return the job with each of some faults alone."""
    alone: list[TrainingPlan] = []
    ranks = random.permutation(plan.ranks).tolist()
    hosts = random.permutation(plan.ranks // plan.ranks_per_host).tolist()
    for _ in range(count):
        kind, by = str(random.choice(["slow", "slow", "thermal", "late"])), float(random.uniform(0.06, 0.3))
        if kind == "late" and len(hosts) > 1:
            alone.append(replace(plan, late_hosts={hosts.pop(): int(random.integers(3, 15)) * _MS}))
        elif kind == "thermal":
            alone.append(replace(plan, thermal={ranks.pop(): by}))
        else:
            alone.append(replace(plan, slow_ranks={ranks.pop(): by}))
    return alone


def _subject(plan: TrainingPlan) -> frozenset[int]:
    on_hosts = [rank for rank in range(plan.ranks) if rank // plan.ranks_per_host in plan.late_hosts]
    return frozenset((*plan.slow_ranks, *plan.thermal, *on_hosts))


def judged(count: int, seed: int) -> Judged:
    """Make a job with some faults, and judge it."""
    random = np.random.default_rng((count, seed))
    plan = _plan(random)
    alone = _with_faults(plan, count, random)
    every = replace(
        plan,
        slow_ranks={rank: by for one in alone for rank, by in one.slow_ranks.items()},
        thermal={rank: by for one in alone for rank, by in one.thermal.items()},
        late_hosts={host: late for one in alone for host, late in one.late_hosts.items()},
    )
    job, none = simulate_training(every, seed), simulate_training(plan, seed).step_ns
    found = _found(job)
    guilty = _subject(every)
    return Judged(
        every,
        count,
        [(_subject(one), simulate_training(one, seed).step_ns - none) for one in alone],
        frozenset().union(*(ranks for rule, (ranks, *_) in found.items() if rule != "pipeline_imbalance")),
        frozenset().union(*(ranks for ranks, *_ in found.values())) - guilty,
        (sum(low for _, low, *_ in found.values()), sum(high for _, _, high, _ in found.values())),
        all(confidence == "measured" for *_, confidence in found.values()),
        job.step_ns - none,
        job.step_ns,
    )


def _found(job: TrainingJob) -> dict[str, tuple[frozenset[int], int, int, str]]:
    """Return whom each rule names, the limits of the gain, and its confidence."""
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
        for rank in range(job.plan.ranks):
            Profile(Decoded(job.tables(rank), job.info(rank))).save(Path(folder) / f"rank{rank}")
        advice = load_set(folder).advice()
    fired = [advice[rule] for rule in _RULES if advice[rule].state == "fires" and advice[rule].gain_hi_ns]
    return {one.rule: (frozenset(ranks_in(one.place)), one.gain_lo_ns, one.gain_hi_ns, one.confidence) for one in fired}


def show(job: Judged, seed: int) -> str:
    """Return what is wrong about a verdict, in a line."""
    plan = job.plan
    low, high = (round(gain / _MS, 2) for gain in job.gain)
    missed = [sorted(subject) for subject in job.costly if not subject <= job.said]
    wrong = [f"missed {missed}"] if missed else []
    wrong += [f"innocent {sorted(job.innocent)}"] if job.innocent else []
    shape = f"{plan.tensor} x {plan.pipeline} x {plan.data}"
    gain = f"gain {low}-{high} ms, true {job.true_gain / _MS:.2f} of {job.step_ns / _MS:.0f}"
    return "; ".join([f"{job.faults} faults, seed {seed}, {shape}, noise {plan.jitter:.0%}: {gain}", *wrong])


def table(jobs: Sequence[Judged]) -> list[str]:
    """Return the results as rows of a Markdown table."""
    groups: dict[str, list[Judged]] = {}
    for job in jobs:
        groups.setdefault(f"{job.faults} fault{'s' * (job.faults > 1)}", []).append(job)
    for noise in _NOISES:
        groups[f"noise {noise:.0%}"] = [job for job in jobs if job.plan.jitter == noise]
    for name in ("tensor", "pipeline"):
        groups[f"{name} parallel"] = [job for job in jobs if getattr(job.plan, name) > 1]
    groups["data parallel only"] = [job for job in jobs if job.plan.tensor == job.plan.pipeline == 1]
    groups["sequences differ"] = [job for job in jobs if job.plan.uneven]
    groups["all"] = list(jobs)
    head = "| jobs | faults of 2 % of the step | named | innocent ranks | ranks | upper end off: median, 95 % "
    return [
        head + "| within 5 % | bounds hold |",
        "|---|---|---|---|---|---|---|---|",
        *(f"| {len(some)}, {name} | " + " | ".join(_cells(some)) + " |" for name, some in groups.items() if some),
    ]


def blame_cells(costly: int, named: int, innocent: int, ranks: int, offs: npt.NDArray[np.float64]) -> list[str]:
    """Return cells of a table: costly faults, the share named, innocent ranks named, all ranks, and errors of gains."""
    return [
        f"{costly}",
        f"{named / max(1, costly):.1%}",
        f"{innocent}",
        f"{ranks:,}",
        f"{np.median(offs):.1%}, {np.quantile(offs, 0.95):.1%}" if len(offs) else "",
    ]


def _cells(jobs: Sequence[Judged]) -> list[str]:
    costly = [(job, subject) for job in jobs for subject in job.costly]
    named = sum(subject <= job.said for job, subject in costly)
    told = [job for job in jobs if job.true_gain >= _WORTH * job.step_ns]
    offs = np.array([abs(job.gain[1] / job.true_gain - 1) for job in told])
    holds = sum(
        job.gain[0] <= (1 + _NEAR) * job.true_gain and job.true_gain <= (1 + _NEAR) * job.gain[1] for job in told
    )
    innocent, ranks = sum(len(job.innocent) for job in jobs), sum(job.plan.ranks for job in jobs)
    return [
        *blame_cells(len(costly), named, innocent, ranks, offs),
        f"{int((offs <= _NEAR).sum())} of {len(told)}",
        f"{holds} of {len(told)}",
    ]
