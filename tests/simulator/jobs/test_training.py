"""Simulated training with overlapped buckets: what each feature adds to a job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npuprof.simulator.jobs.training import TrainingPlan, simulate_training
from npuprof.tables import check

_PLAN = TrainingPlan(tensor=2, pipeline=2, data=2, microbatches=2, steps=4, jitter=0.0)


@pytest.mark.parametrize(
    "change",
    [
        {"overlapped": False},
        {"microbatches": 4},
        {"evaluate_every": 2},
        {"checkpoint_every": 2},
        {"prefetches": False},
        {"barrier": True},
        {"slow_ranks": {3: 0.1}},
        {"thermal": {3: 0.2}},
        {"late_hosts": {0: 9_000_000}},
    ],
)
def test_each_feature_makes_steps_longer(change: dict[str, object]) -> None:
    assert simulate_training(replace(_PLAN, **change)).step_ns > simulate_training(_PLAN).step_ns  # type: ignore[arg-type]


def test_sequences_differ_between_replicas_only() -> None:
    job = simulate_training(replace(_PLAN, uneven=0.2, pipeline=1))
    lengths = [[end - start for start, end, *_ in job.kernels[rank]] for rank in range(job.plan.ranks)]
    assert lengths[0] == lengths[1] != lengths[2] == lengths[3]


def test_members_of_a_group_end_together() -> None:
    job = simulate_training(_PLAN)
    for group in ((0, 1), (2, 3)):
        of_ranks = [
            [(start, end) for start, end, kind, *_ in sorted(job.collectives[rank]) if kind == "tp"] for rank in group
        ]
        begun, ended = np.moveaxis(np.array(of_ranks), 2, 0)
        assert np.ptp(ended, axis=0).max() < 2_000
        assert (begun.max(axis=0) < ended.min(axis=0)).all()


def test_tables_are_on_the_clocks_of_hosts() -> None:
    job = simulate_training(replace(_PLAN, clock_ns=50_000_000))
    starts = []
    for rank in range(job.plan.ranks):
        tables = job.tables(rank)
        for name, table in tables.items():
            check(name, table)
        starts.append(int(tables["kernels"]["start_ns"].iloc[0]))
    assert abs(starts[0] - starts[1]) < 1_000_000 < abs(starts[0] - starts[4])
