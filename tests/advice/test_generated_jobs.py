"""Faults that were planted in generated jobs are found and named, and none where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from npuprof import tables
from npuprof.advice.finding import Finding
from npuprof.advice.findings import advise
from npuprof.advice.job import JobFacts, Member
from npuprof.advice.job_rules import pipeline_imbalance, slow_rank, waiting
from npuprof.analysis.accounting import account
from npuprof.info import Info
from tests.jobs import SIZES, Faults, Plan, frames, simulate
from tests.jobs.model import Job

pytestmark = pytest.mark.slow

_PLANS = {8: SIZES[8], 64: replace(SIZES[64], steps=2)}


def facts_of(job: Job) -> JobFacts:
    """What rules read of a job's steps and collectives."""
    communication, steps = frames.communication(job), frames.step_times(job)
    empty = {name: tables.empty(name) for name in tables.NAMES}
    members = []
    for rank in range(job.plan.ranks):
        own = steps[(steps["rank"] == rank).to_numpy(bool)].drop(columns=["run", "rank", "host"])
        run = empty | {"step_times": own.reset_index(drop=True)}
        accounting = account(run, rank)
        members.append(Member(rank, run, accounting, advise(run, Info(rank=rank), accounting)))
    return JobFacts(members, communication, [], simulated=False)


def fired(job: Job) -> dict[str, Finding]:
    """The findings that fire about ranks and stages."""
    facts = facts_of(job)
    found = [rule.RULE.check(facts) for rule in (pipeline_imbalance, slow_rank, waiting)]
    assert all(one.state != "cannot tell" for one in found)
    return {one.rule: one for one in found if one.state == "fires"}


def step_ns(plan: Plan, faults: Faults, seed: int) -> float:
    """How long a step of a job takes."""
    return simulate(plan, faults, seed).duration_ns / plan.steps


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ranks", [8, 64])
def test_a_healthy_job_has_no_finding(ranks: int, seed: int) -> None:
    assert not fired(simulate(_PLANS[ranks], seed=seed))


@pytest.mark.parametrize("ranks", [8, 64])
def test_a_slow_card_is_named_with_what_the_same_job_takes_without_it(ranks: int) -> None:
    plan, fault = _PLANS[ranks], Faults(slow_rank=5)
    found = fired(simulate(plan, fault, 1))
    assert "pipeline_imbalance" not in found
    card = found["slow_rank"]
    assert (card.rank, card.title) == (5, "Rank 5 is slow")
    assert card.gain_hi_ns == pytest.approx(step_ns(plan, fault, 1) - step_ns(plan, Faults(), 1), rel=0.1)


@pytest.mark.parametrize("ranks", [8, 64])
def test_a_stage_with_more_work_is_named(ranks: int) -> None:
    found = fired(simulate(_PLANS[ranks], Faults(heavy_stage=1), 1))
    job = simulate(_PLANS[ranks], seed=1)
    stage = [str(rank) for rank in range(ranks) if job.place(rank)[0] == 1]
    assert found["pipeline_imbalance"].place == f"ranks {', '.join(stage)}"
    assert "slow_rank" not in found
