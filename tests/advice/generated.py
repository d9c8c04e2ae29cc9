"""What rules find in generated jobs."""

from __future__ import annotations

from dataclasses import replace

from npuprof import tables
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice
from npuprof.advice.job import JobFacts
from npuprof.advice.job_member import Member
from npuprof.advice.job_rules import (
    absent_ranks,
    late_host,
    pipeline_imbalance,
    slow_link,
    slow_rank,
    stall,
    waiting,
)
from npuprof.analysis.accounting import account
from npuprof.ranks.job import recorded_groups
from npuprof.simulator.jobs import SIZES, Faults, Plan, frames, simulate
from npuprof.simulator.jobs.model import Job
from npuprof.tables.info import Info

RULES = (
    pipeline_imbalance.RULE,
    slow_rank.RULE,
    late_host.RULE,
    stall.RULE,
    slow_link.RULE,
    waiting.RULE,
    absent_ranks.RULE,
)
"""Those about faults; that transfers are exposed is no fault of these jobs."""


def plan_of(ranks: int) -> Plan:
    """Return a small plan: two steps from 64 ranks on, and 8 ranks on four hosts."""
    return replace(SIZES[8], ranks_per_host=2) if ranks == 8 else replace(SIZES[ranks], steps=2)


def facts_of(job: Job) -> JobFacts:
    """Return what rules read of a job's steps and collectives."""
    steps = frames.step_times(job)
    empty = {name: tables.empty(name) for name in tables.NAMES}
    members = []
    for rank in job.recorded_ranks:
        own = steps[(steps["rank"] == rank).to_numpy(bool)]
        run = empty | {"step_times": own.drop(columns=["run", "rank", "host"]).reset_index(drop=True)}
        accounting = account(run, rank)
        alone = Advice(Facts(run, Info(rank=rank), accounting), [])
        members.append(Member(rank, run, accounting, alone, job.host(rank)))
    return JobFacts(
        members,
        frames.communication(job),
        sorted(job.faults.absent),
        simulated=False,
        matrix=frames.matrix(job),
        groups=recorded_groups(frames.info(job, rank) for rank in job.recorded_ranks),
    )


def fired(job: Job) -> dict[str, Finding]:
    """Return the findings that fire, by rule; every rule can tell."""
    facts = facts_of(job)
    found = [rule.check(facts) for rule in RULES]
    assert all(one.state != "cannot tell" for one in found if one.rule != stall.NAME)  # which needs more steps
    return {one.rule: one for one in found if one.state == "fires"}


def step_ns(plan: Plan, faults: Faults, seed: int) -> float:
    """Return how long a step of a job takes."""
    return simulate(plan, faults, seed).duration_ns / plan.steps
