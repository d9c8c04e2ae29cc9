"""A host whose ranks all arrive late, as with slow input."""

from __future__ import annotations

import numpy as np

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.wording import ranks_called
from npuprof.quantities import duration

NAME = "late_host"


def check(facts: JobFacts) -> Finding:
    """Fire if all ranks of a host arrive at a collective of each step later than other hosts, by 1 % of the step."""
    if facts.job is None or facts.absent or not facts.hosts:
        return Finding(NAME, "cannot tell", collect="load the profiles of all ranks, with collectives, and their hosts")
    late = facts.late_host
    if late is None:
        return Finding(NAME, "clean")
    gain = facts.gain_ns(late.own_ns)
    called_name = ranks_called(late.ranks)
    number = f"collective {late.first + 1} of a step" if late.first else "the first collective of a step"
    return Finding(
        NAME,
        "fires",
        title=f"The host of {called_name} is late",
        cost_ns=late.late_ns,
        gain_lo_ns=0 if gain is None or facts.stacks else gain,
        gain_hi_ns=late.late_ns if gain is None else gain,
        confidence="bounded" if gain is None else "measured",
        detail=f"{called_name}, of host {late.host}, come {duration(late.late_ns)} later to {number} than the ranks of "
        "other hosts with the same collectives",
        action="compare its storage, data loading and other load with other hosts; "
        f"runs[{late.ranks[0]}].advice() says what the host does meanwhile",
        place=called_name,
        table="communication",
        rows=facts.members[late.ranks[0]].tables["communication"],
        rank=late.ranks[0],
    )


def without(facts: JobFacts, times: Times) -> Times:
    """Return times in which the late host is on time."""
    late_ns = facts.recorded.own_ns - facts.punctual_ns
    return Times(np.maximum(times.own_ns - late_ns, 0.0), times.moving_ns)


RULE = JobRule(NAME, "a host whose ranks all begin late", check, without)
