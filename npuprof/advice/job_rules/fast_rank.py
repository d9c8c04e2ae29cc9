"""A few ranks that are faster than all others with the same work: either these are slow, or the few have less to do."""

from __future__ import annotations

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.wording import ranks_called
from npuprof.analysis.rank_suspects import WORTH
from npuprof.analysis.rank_variants import without as times_without
from npuprof.words.quantities import duration

NAME = "fast_rank"


def check(facts: JobFacts) -> Finding:
    """Fire if a quarter of a role or less takes less time than all others, and steps may be shorter by 1 % as fast."""
    if facts.job is None or not any(len(role.ranks) > 1 for role in facts.roles):
        collect = "load the profiles of ranks with the same work, with collectives"
        return Finding(NAME, "cannot tell", collect=collect)
    if not facts.faster:
        return Finding(NAME, "clean")
    usual = facts.usual.without(facts.suspects)
    gain = facts.gain_ns(without(facts, usual).own_ns, than_ns=usual.own_ns)
    most = facts.faster[0]
    gain = most.less_ns if gain is None else gain
    if gain <= WORTH * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=most.less_ns)
    fast, others = ranks_called(most.ranks), ranks_called(most.others)
    takes, has = ("takes", "has") if len(most.ranks) == 1 else ("take", "have")
    more = "".join(
        f"; {ranks_called(each.ranks)} {duration(each.less_ns)} less than {ranks_called(each.others)}"
        for each in facts.faster[1:]
    )
    return Finding(
        NAME,
        "fires",
        title=f"{fast[0].upper()}{fast[1:]} {takes} {duration(most.less_ns)} less than {others}",
        cost_ns=most.less_ns,
        gain_hi_ns=gain,
        detail=f"The work is the same. Either {others} are all slow, or {fast} {has} less to do; times alone do not "
        f"tell{more}",
        action=f"Compare their kernels: `runs.side_by_side([{most.ranks[0]:d}, {most.others[0]:d}])`.",
        place=fast,
        table="communication",
        rows=facts.members[most.ranks[0]].tables["communication"],
        rank=most.ranks[0],
    )


def without(facts: JobFacts, times: Times) -> Times:
    """Return times in which all ranks of a role are as fast as the few."""
    return Times(*times_without(times.own_ns, times.moving_ns, [each.less for each in facts.faster]))


RULE = JobRule(NAME, "a few ranks that are faster than those that do the same", check, without)
