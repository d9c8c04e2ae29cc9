"""What single ranks took longer in single steps: a stall that no other step has."""

from __future__ import annotations

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.wording import ranks_called
from npuprof.analysis.rank_suspects import Once
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
    whole = _whose(facts)
    texts = [
        f"in step {stall.step}: rank {' or '.join(map(str, ranks))} "
        + (f"stood still for {duration(stall.extra_ns)}" if stall.still else f"took {duration(stall.extra_ns)} longer")
        for stall, ranks in whole
    ]
    more = f"; {counted(len(texts) - _MOST, 'more time')}" if len(texts) > _MOST else ""
    longest, ranks = whole[0]
    return Finding(
        NAME,
        "fires",
        title=f"Once, {texts[0]}",
        detail=("; ".join(texts[1:_MOST]) + more or "the other steps have nothing like it")
        + ", so a usual step gains 0",
        action=f"look at what ran on the host of rank {longest.rank} then: runs[{longest.rank}].advice(), its logs, a "
        "checkpoint, garbage collection",
        place=ranks_called(ranks),
        rank=longest.rank,
    )


def _whose(facts: JobFacts) -> list[tuple[Once, list[int]]]:
    """Return what happened once, with the ranks that may have done it.

    Of several absent members of a collective the others cannot tell for which they waited.
    """
    if facts.played is None:
        return []
    ops = facts.played.rows["op"]
    those: dict[tuple[int, int], list[int]] = {}
    first: dict[tuple[int, int], Once] = {}
    for stall in facts.once:
        unseen = stall.still and stall.rank in facts.missing
        key = (stall.step, int(ops.iloc[stall.less.rows[0]])) if unseen else (-1, -1 - len(those))
        first.setdefault(key, stall)
        those.setdefault(key, []).append(stall.rank)
    return [(first[key], sorted(those[key])) for key in those]


def without(facts: JobFacts, times: Times) -> Times:  # noqa: ARG001 - every rule of a job has it
    """Return the times as they are: those of a usual step have nothing that happened once."""
    return times


RULE = JobRule(NAME, "what a rank took longer once", check, without)
