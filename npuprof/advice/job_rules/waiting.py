"""Ranks that arrive at collectives at different times."""

from __future__ import annotations

from npuprof.advice.finding import Finding
from npuprof.advice.gains import gain_of
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.analysis.rank_blame import certain_blame
from npuprof.analysis.rank_waits import costliest
from npuprof.words.quantities import duration

NAME = "waiting"
_THRESHOLD = 0.02  # of the step
_MOST = 2
_MUCH = 0.2  # of all waits: what a rank is named for


def check(facts: JobFacts) -> Finding:
    """Fire if a rank waits for other ranks for more than 2 % of the step, and name the ranks that cause the waits."""
    if facts.job is None or facts.absent:
        return Finding(NAME, "cannot tell", collect="load the profiles of all ranks, with collectives")
    if facts.unmatched:
        return Finding(NAME, "cannot tell", collect=facts.unmatched)
    cost = facts.job.waiting_ns()
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    gain = _even_gain(facts)
    if gain is not None and gain <= _THRESHOLD * facts.usual_ns:  # stages or single ranks cause the difference
        return Finding(NAME, "clean", cost_ns=cost)
    roots = certain_blame(facts.job).dropna(subset="root_rank").groupby("root_rank")["wait_ns"].sum()
    most = roots.sort_values(ascending=False)[:_MOST]
    whole = int(facts.job.rows["wait_ns"].sum())
    shares = ", ".join(
        f"rank {rank} {100 * time / whole:.0f} %" for rank, time in most.items() if time >= _MUCH * whole
    )
    return Finding(
        NAME,
        "fires",
        title="Ranks arrive at collectives at different times",
        cost_ns=cost,
        **gain_of(0, cost if gain is None else gain),
        detail=f"A rank waits {duration(cost)} a step; "
        + (f"of all waits, these ranks cause {shares}" if shares else "many ranks cause the waits"),
        action="Give every rank the same batch shapes, data loading and logging.",
        place=f"rank {most.index[0]}" if shares else "",
        table="waits",
        rows=costliest(facts.job.rows, "wait_ns").drop(columns="moving_ns"),
    )


def _even_gain(facts: JobFacts) -> int | None:
    """Return the gain of a replay in which ranks take equal time before equal collectives.

    Late hosts, slow ranks and what happened once have their own findings, and are left out here.
    """
    punctual = facts.punctual
    return facts.gain_ns(without(facts, punctual).own_ns, than_ns=punctual.own_ns)


def without(facts: JobFacts, times: Times) -> Times:
    """Return times with the same time before each collective on ranks with the same collectives."""
    even = times.own_ns.copy()
    for role in facts.roles:
        even[role.rows] = times.own_ns[role.rows].mean(axis=0)
    return Times(even, times.moving_ns)


RULE = JobRule(NAME, "ranks that arrive at different times", check, without)
