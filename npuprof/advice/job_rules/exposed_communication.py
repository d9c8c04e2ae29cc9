"""Exposed transfers between ranks, in a job whose collectives are joined across ranks."""

from __future__ import annotations

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.rules.exposed_communication import ACTION, NAME
from npuprof.advice.wording import shares_of
from npuprof.analysis.rank_waits import costliest
from npuprof.words.quantities import duration

_THRESHOLD = 0.05  # of the step
_MOST = 3


def check(facts: JobFacts) -> Finding:
    """Fire if a job without transfers would be more than 5 % of a step faster."""
    if facts.unmatched:
        return Finding(NAME, "cannot tell", collect=facts.unmatched)
    gain = None if facts.absent else _free(facts)
    if facts.job is None or gain is None:
        return Finding(NAME, "cannot tell", collect="load the profiles of all ranks, with collectives")
    if gain <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=gain)
    rows = facts.job.rows
    kinds = shares_of(rows.groupby("op_type", observed=True)["moving_ns"].sum(), _MOST)
    return Finding(
        NAME,
        "fires",
        title="Data moves between ranks while nothing computes",
        cost_ns=gain,
        gain_hi_ns=gain,
        detail=f"Without transfers a step would be {duration(gain)} shorter; they are {kinds}",
        action=ACTION,
        table="waits",
        rows=costliest(rows, "moving_ns"),
    )


def _free(facts: JobFacts) -> int | None:
    """Return the gain of a replay without transfer time."""
    return facts.gain_ns(moving_ns=without(facts, facts.recorded).moving_ns)


def without(_: JobFacts, times: Times) -> Times:
    """Return times without transfers."""
    return Times(times.own_ns, 0 * times.moving_ns)


RULE = JobRule(NAME, "transfers that the job waits for", check, without)
