"""What single ranks took longer in single steps: a stall that no other step has."""

from __future__ import annotations

from collections.abc import Sequence

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.wording import ranks_called
from npuprof.analysis.rank_suspects import LEAST_STEPS, Once
from npuprof.words.quantities import counted, duration

NAME = "stall"
_MOST = 8


def check(facts: JobFacts) -> Finding:
    """Fire if a rank took longer in one of at least three steps, or in fewer than a third of them."""
    if facts.job is None or len(facts.job.steps) < LEAST_STEPS or not any(len(role.ranks) > 1 for role in facts.roles):
        seen = "; ".join(text for text, _ in _stalls(facts, facts.perhaps_once)[:_MOST])
        collect = "record at least three steps on ranks with the same work"
        return Finding(NAME, "cannot tell", collect=collect + (f" ({seen}, which is usual or not)" if seen else ""))
    return _told(facts, facts.once)


def beside_outliers(facts: JobFacts) -> Finding:
    """Return the finding about steps that are no outliers, which have findings of their own."""
    outliers = facts.accounting.steps["step"].iloc[facts.basis.outlier_rows].dropna().tolist()
    return _told(facts, [stall for stall in facts.once if stall.step not in outliers])


def _told(facts: JobFacts, within: Sequence[Once]) -> Finding:
    if not within:
        return Finding(NAME, "clean")
    stalls = _stalls(facts, within)
    texts = [text for text, _ in stalls]
    more = f"; {counted(len(texts) - _MOST, 'more time')}" if len(texts) > _MOST else ""
    longest, (_, ranks) = within[0], stalls[0]
    return Finding(
        NAME,
        "fires",
        title=texts[0][0].upper() + texts[0][1:],
        detail="; ".join(texts[1:_MOST]) + more or "the other steps have nothing like it",
        action=f"look at what ran on the host of rank {longest.rank} then: runs[{longest.rank}].advice(), its logs, a "
        "checkpoint, garbage collection",
        place=ranks_called(ranks),
        rank=longest.rank,
    )


def _stalls(facts: JobFacts, every: Sequence[Once]) -> list[tuple[str, list[int]]]:
    """Return what happened once, the longest first, as words and with the ranks that may have done it.

    Of several absent members of a collective the others cannot tell for which they waited.
    """
    if facts.played is None:
        return []
    ops = facts.played.rows["op"]
    those: dict[tuple[int, int], list[int]] = {}
    first: dict[tuple[int, int], Once] = {}
    for stall in every:
        unseen = stall.still and stall.rank in facts.missing
        key = (stall.step, int(ops.iloc[stall.less.rows[0]])) if unseen else (-1, -1 - len(those))
        first.setdefault(key, stall)
        those.setdefault(key, []).append(stall.rank)
    return [(_words(first[key], sorted(those[key])), sorted(those[key])) for key in those]


def _words(stall: Once, ranks: Sequence[int]) -> str:
    longer = duration(stall.extra_ns)
    did = f"stood still for {longer}" if stall.still else f"took {longer} longer"
    return f"in step {stall.step}: rank {' or '.join(map(str, ranks))} {did}"


def without(facts: JobFacts, times: Times) -> Times:  # noqa: ARG001 - every rule of a job has it
    """Return the times unchanged: a usual step has no single stalls."""
    return times


RULE = JobRule(NAME, "what a rank took longer once", check, without)
