"""What single ranks took longer in single steps: a stall that no other step has."""

from __future__ import annotations

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.quantities import counted, duration

NAME = "stall"
_MOST = 8
_LEAST_STEPS = 3


def check(facts: JobFacts) -> Finding:
    """Fire if a rank took longer in fewer than a third of at least three steps; the usual step gains nothing."""
    if facts.job is None or len(facts.job.steps) < _LEAST_STEPS or not any(len(role.ranks) > 1 for role in facts.roles):
        return Finding(NAME, "cannot tell", collect="record at least three steps on ranks with the same work")
    if not facts.once:
        return Finding(NAME, "clean")
    texts = [
        f"in step {stall.step}: rank {stall.rank} "
        + (f"stood still for {duration(stall.extra_ns)}" if stall.still else f"took {duration(stall.extra_ns)} longer")
        for stall in facts.once
    ]
    more = f"; {counted(len(texts) - _MOST, 'more time')}" if len(texts) > _MOST else ""
    longest = facts.once[0]
    return Finding(
        NAME,
        "fires",
        title=f"Once, {texts[0]}",
        detail=("; ".join(texts[1:_MOST]) + more or "the other steps have nothing like it")
        + ", so a usual step gains 0",
        action=f"look at what ran on the host of rank {longest.rank} then: runs[{longest.rank}].advice(), its logs, a "
        "checkpoint, garbage collection",
        place=f"rank {longest.rank}",
        rank=longest.rank,
    )


def without(facts: JobFacts, times: Times) -> Times:  # noqa: ARG001 - every rule of a job has it
    """Return the times as they are: those of a usual step have nothing that happened once."""
    return times


RULE = JobRule(NAME, "what a rank took longer once", check, without)
