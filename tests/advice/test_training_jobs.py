"""Jobs with several kinds of groups whose buckets overlap computing: who is named, and what is said to be gained."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from npuprof.advice.findings import Advice
from npuprof.loading import load_set
from npuprof.profiles.profile import Profile
from npuprof.simulator.jobs.training import TrainingPlan, simulate_training
from npuprof.sources.base import Decoded

pytestmark = pytest.mark.slow

_DATA = TrainingPlan()
_TENSOR = TrainingPlan(tensor=2, data=4)
_PIPELINE = TrainingPlan(pipeline=4, data=2, microbatches=4, ranks_per_host=2)
_ALL = TrainingPlan(tensor=2, pipeline=2, data=2, microbatches=4)
_REST = TrainingPlan(
    pipeline=2, data=4, microbatches=4, steps=8, evaluate_every=2, checkpoint_every=3, prefetches=False
)
_LONG = pytest.mark.long


def advised(plan: TrainingPlan, seed: int, folder: Path) -> tuple[Advice, float]:
    """Return the advice on a job, and what a step would gain without its faults."""
    job = simulate_training(plan, seed)
    healthy = simulate_training(replace(plan, slow_ranks={}, thermal={}, late_hosts={}), seed)
    for rank in range(plan.ranks):
        Profile(Decoded(job.tables(rank), job.info(rank))).save(folder / f"rank{rank}")
    return load_set(folder).advice(), job.step_ns - healthy.step_ns


@pytest.mark.parametrize(
    "plan",
    [
        replace(_TENSOR, slow_ranks={2: 0.06}),
        replace(_ALL, slow_ranks={5: 0.1}),
        pytest.param(replace(_TENSOR, slow_ranks={3: 0.3}), marks=_LONG),
        pytest.param(replace(_PIPELINE, slow_ranks={2: 0.15}), marks=_LONG),
        pytest.param(replace(_PIPELINE, slow_ranks={7: 0.1}), marks=_LONG),
        pytest.param(replace(_DATA, microbatches=4, slow_ranks={1: 0.1}), marks=_LONG),
        pytest.param(replace(_DATA, data=8, late_hosts={1: 5_000_000}), marks=_LONG),
        pytest.param(replace(_REST, thermal={2: 0.15}), marks=_LONG),
        pytest.param(replace(_ALL, slow_ranks={2: 0.15, 7: 0.1}), marks=_LONG),
    ],
)
def test_names_who_is_slow_and_bounds_the_gain(plan: TrainingPlan, tmp_path: Path) -> None:
    advice, truth = advised(plan, 1, tmp_path)
    found = advice["slow_rank"]
    on_late_hosts = {rank for rank in range(plan.ranks) if rank // plan.ranks_per_host in plan.late_hosts}
    guilty = {*plan.slow_ranks, *plan.thermal, *on_late_hosts}
    said = {
        rank
        for low, high in re.findall(r"(\d+)(?:-(\d+))?", found.place)
        for rank in range(int(low), int(high or low) + 1)
    }
    assert (found.state, said, found.confidence) == ("fires", guilty, "bounded")
    assert found.gain_lo_ns <= 1.05 * truth
    assert found.gain_hi_ns == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize(
    "plan", [_TENSOR, _ALL, *(pytest.param(plan, marks=_LONG) for plan in (_DATA, _PIPELINE, _REST))]
)
def test_blames_nobody_in_healthy_jobs(plan: TrainingPlan, tmp_path: Path) -> None:
    for seed in range(3):
        advice, _ = advised(plan, seed, tmp_path / str(seed))
        for rule in ("slow_rank", "fast_rank", "pipeline_imbalance"):
            assert advice[rule].state != "fires", (seed, rule, advice[rule].title)
