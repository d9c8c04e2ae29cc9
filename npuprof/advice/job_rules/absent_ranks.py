"""What ranks without a result may be responsible for, as far as the others of their groups tell."""

from __future__ import annotations

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.wording import ranks_called
from npuprof.analysis.rank_suspects import WORTH
from npuprof.words.quantities import counted, duration

NAME = "absent_ranks"
_MOSTLY = 0.5  # of the limit


def check(facts: JobFacts) -> Finding:
    """Fire if steps may be shorter by 1 % without what ranks that have no collectives here take longer than others.

    Where collectives take as long in each step, and nothing is recorded that tells how long their transfers take, that
    may be waiting in a healthy job too: it is a limit of what is known, and no finding.
    """
    if facts.job is None and not len(facts.lacking.ops):
        return Finding(NAME, "cannot tell", collect="load the profiles of ranks with collectives")
    if not facts.missing:
        return Finding(NAME, "clean")
    called_name = ranks_called(facts.missing)
    late = int((facts.lacking.absent_ns > 0).sum())
    if not len(facts.lacking.ops):
        return Finding(NAME, "cannot tell", collect=f"load {called_name}: nothing here names the ranks of groups")
    faster = without(facts, facts.usual)
    gain = facts.gain_ns(faster.own_ns, faster.moving_ns, than_ns=facts.usual.own_ns)
    alike = int(facts.lacking.alike_ns.sum()) // facts.steps
    limit = int(facts.lacking.absent_ns.sum()) // facts.steps + alike if gain is None else gain
    if limit <= WORTH * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=limit)
    seen = _seen_ns(facts)
    slow = [part.suspect.ranks for part in facts.parts("slow", "late") if set(part.suspect.ranks) <= facts.unseen]
    if not slow and seen <= WORTH * facts.usual_ns:
        unknown = f"0 to {duration(limit)} a step may be transfers, or waits for {called_name}"
        return Finding(
            NAME, "cannot tell", cost_ns=limit, collect=f"load {called_name}: no transfers are recorded, so {unknown}"
        )
    verb = "arrive" if sum(map(len, slow)) > 1 else "arrives"
    named = f"; {', '.join(map(ranks_called, slow))} {verb} later than ranks alike" if slow else ""
    is_here = facts.job is not None and bool(facts.job.rows["rank"].isin(facts.missing).any())  # with some of them
    lack = "absent from some collectives" if is_here else "whose collectives are not here"
    action = f"Load the whole results of {called_name} too."
    return Finding(
        NAME,
        "fires",
        title=_title(facts, called_name, alike)
        if alike > _MOSTLY * limit
        else f"The ranks wait for {called_name}, {lack}",
        cost_ns=limit,
        gain_hi_ns=limit,
        detail=f"Others may wait for absent members, 0 to {duration(limit)} a step: {counted(late, 'collective')} "
        f"took longer than others alike{_in_each_step(facts, alike)}{named}",
        action=f"See what {called_name} did instead, or whether it hung or ended." if is_here else action,
        place=called_name,
    )


def _title(facts: JobFacts, called_name: str, alike_ns: int) -> str:
    """Return that absent ranks are late, or may be late, in each step alike."""
    late_ranks = called_name if len(facts.missing) == 1 else f"one of {called_name}"
    moves = int(facts.lacking.surely_ns.sum()) // facts.steps
    surely = 0 < moves < alike_ns
    return f"{late_ranks[0].upper()}{late_ranks[1:]}, not here, {'is' if surely else 'may be'} late in every step"


def _in_each_step(facts: JobFacts, alike_ns: int) -> str:
    """Return what others may wait in each step alike, which looks like moving data."""
    if alike_ns <= WORTH * facts.usual_ns:
        return ""
    moves = int(facts.lacking.surely_ns.sum()) // facts.steps
    known = f"transfers take {duration(moves)}" if moves else "no transfers were recorded"
    return f"; {duration(alike_ns + moves)} of every step are transfers or waits: {known}"


def _seen_ns(facts: JobFacts) -> int:
    """Return the gain of a step if nobody waits for absent ranks, as far as collectives or transfers show."""
    lacking, tells = facts.lacking, facts.lacking.surely_ns > 0
    gain = None
    if facts.completed is not None:
        faster = without(facts, facts.usual)
        moving, unknown = faster.moving_ns.copy(), lacking.ops[~tells]
        moving[unknown] = facts.without_absent(facts.usual).moving_ns[unknown]
        gain = facts.gain_ns(faster.own_ns, moving, than_ns=facts.usual.own_ns)
    return int(lacking.absent_ns.sum() + lacking.alike_ns[tells].sum()) // facts.steps if gain is None else gain


def without(facts: JobFacts, times: Times) -> Times:
    """Return times in which nobody waits for absent ranks."""
    return facts.without_absent(times, alike=True)


RULE = JobRule(NAME, "what ranks without a result may be responsible for", check, without)
