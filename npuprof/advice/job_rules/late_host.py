"""Hosts whose ranks all arrive late, as with slow input."""

from __future__ import annotations

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.wording import named_parts, ranks_called
from npuprof.analysis.rank_joint import Part
from npuprof.words.quantities import duration

NAME = "late_host"
_MOST = 3


def check(facts: JobFacts) -> Finding:
    """Fire if all ranks of a host take longer before some collectives of each step than ranks of other hosts."""
    if facts.job is None or not facts.hosts:
        collect = "load the profiles of several hosts, with collectives, and the hosts of the ranks"
        return Finding(NAME, "cannot tell", collect=collect)
    parts = _parts(facts)
    if not parts:
        return _none(facts)
    worst = max(parts, key=lambda part: part.suspect.extra_ns).suspect
    called_name = ranks_called(worst.ranks)
    number = f"collective {worst.first + 1} of a step" if worst.first else "the first collective of a step"
    ranks = sorted(rank for part in parts for rank in part.suspect.ranks)
    late = (
        f"{called_name[0].upper()}{called_name[1:]}, of {' or '.join(worst.names)}, come "
        f"{duration(worst.extra_ns)} later to {number} than others"
    )
    return Finding(
        NAME,
        "fires",
        title=f"The host of {called_name} is late by {duration(worst.extra_ns)}"
        if len(parts) == 1
        else f"{len(parts)} hosts are late: those of {'; '.join(ranks_called(part.suspect.ranks) for part in parts)}",
        cost_ns=worst.extra_ns,
        **facts.gain_of(parts, of_host=True),
        detail="; ".join(filter(None, (f"{late} with the same collectives", named_parts(parts)))),
        action=f"See what it does meanwhile: `runs[{worst.ranks[0]}].advice()`; compare storage and load.",
        place=ranks_called(ranks),
        table="communication",
        rows=facts.members[worst.ranks[0]].tables["communication"],
        rank=worst.ranks[0],
    )


def _none(facts: JobFacts) -> Finding:
    """Return that no host is late, if each has a rank that is compared with one of another host."""
    compared = {
        facts.hosts[rank]
        for role in facts.roles
        if len({facts.hosts[rank] for rank in role.ranks if rank in facts.hosts}) > 1
        for rank in role.ranks
        if rank in facts.hosts
    }
    alone = sorted({str(host) for host in set(facts.hosts.values()) - compared})
    if not alone or (len(set(facts.hosts.values())) == 1 and not facts.absent):
        return Finding(NAME, "clean")
    collect = f"load profiles of other hosts whose ranks do the same as those of {' and '.join(alone[:_MOST])}"
    return Finding(NAME, "cannot tell", collect=collect + (" and others" if len(alone) > _MOST else ""))


def _parts(facts: JobFacts) -> list[Part]:
    return [part for part in facts.parts("late") if any(name.startswith("host ") for name in part.suspect.names)]


def without(facts: JobFacts, times: Times) -> Times:
    """Return times in which the late hosts are on time."""
    return times.without([part.suspect for part in _parts(facts)])


RULE = JobRule(NAME, "a host whose ranks all begin late", check, without)
