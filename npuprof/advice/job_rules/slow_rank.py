"""Ranks that take longer between collectives than ranks with the same work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.wording import named_parts, ranks_called
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.rank_joint import Part
from npuprof.analysis.rank_suspects import Suspect
from npuprof.words.quantities import duration, formatted_ranks

NAME = "slow_rank"


def check(facts: JobFacts) -> Finding:
    """Fire if ranks take longer in each step than the others of their role, and the steps would be shorter without."""
    if facts.job is None or not any(len(role.ranks) > 1 for role in facts.roles):
        collect = "load the profiles of ranks with the same work, with collectives"
        return Finding(NAME, "cannot tell", collect=collect)
    parts = _parts(facts)
    hidden = [each for each in (facts.joint.hidden if facts.joint else ()) if _is_of_ranks(each) and each.surely]
    if parts:
        return _finding(facts, parts, hidden)
    return _hidden(hidden) if hidden else Finding(NAME, "clean")


def _parts(facts: JobFacts) -> list[Part]:
    return [
        part
        for part in facts.parts("slow", "late")
        if _is_of_ranks(part.suspect) and not set(part.suspect.ranks) <= facts.unseen
    ]


def _is_of_ranks(suspect: Suspect) -> bool:
    """Return whether a suspect is about ranks; a late host has a finding of its own."""
    late = suspect.kind == "late" and any(name.startswith("host ") for name in suspect.names)
    return suspect.kind in ("slow", "late") and not late


def _finding(facts: JobFacts, parts: Sequence[Part], hidden: Sequence[Suspect]) -> Finding:
    worst = max(parts, key=lambda part: part.suspect.extra_ns).suspect
    ranks = sorted({rank for part in parts for rank in part.suspect.ranks} - facts.unseen)
    rank = next(each for each in worst.ranks if each in ranks)
    part, reason = _cause(facts, rank)
    peers = _peers(facts, rank)
    own_ns = facts.own_ns()
    usual = duration(int(own_ns[peers].median()))
    times = f"Rank {rank} takes {duration(int(own_ns[rank]))} a step outside collectives, its peers {usual}{reason}"
    if not facts.is_serial:  # it computes during collectives, too
        extra = facts.extra_ns(worst)
        longer = "longer" if extra is None else f"{duration(extra)} longer"
        times = f"Rank {rank} takes {longer} a step than its peers, apart from waits{reason}"
    hidden_ranks = sorted({rank for suspect in hidden for rank in suspect.ranks})
    be, them = ("is", "it") if len(hidden_ranks) == 1 else ("are", "them")
    also = ranks_called(hidden_ranks) if hidden_ranks else ""
    return Finding(
        NAME,
        "fires",
        title=_title([part.suspect for part in parts]),
        cost_ns=max(
            sum(facts.extra_ns(part.suspect) or part.suspect.extra_ns for part in parts if each in part.suspect.ranks)
            for each in ranks
        ),
        **facts.gain_of(parts, of_host=part == "idle"),
        detail="; ".join(
            filter(
                None,
                (
                    times,
                    named_parts(parts),
                    also and f"{also} {be} slow too, but nobody waits for {them}",
                ),
            )
        ),
        action=f"Check the clock, temperature and power of its card; compare with rank {peers[0]}."
        if part == "computing"
        else f"See what its host does meanwhile: `runs[{rank}].advice()`.",
        place=ranks_called(ranks),
        table="communication",
        rows=facts.members[rank].tables["communication"],
        rank=rank,
    )


def _hidden(hidden: Sequence[Suspect]) -> Finding:
    """Return the risk of slow ranks that no step would be shorter without."""
    ranks = sorted(rank for suspect in hidden for rank in suspect.ranks)
    return Finding(
        NAME,
        "fires",
        title=f"{_title(hidden)}, but nobody waits for {'it' if len(ranks) == 1 else 'them'}",
        cost_ns=max(suspect.extra_ns for suspect in hidden),
        detail=f"Up to {duration(max(suspect.extra_ns for suspect in hidden))} a step longer than their peers; the "
        "others wait as long for each other",
        place=ranks_called(ranks),
        rank=ranks[0],
    )


def _title(suspects: Sequence[Suspect]) -> str:
    """Return ``Rank 5 is slow``, ``2 ranks are slow: 17, 20`` or ``8 ranks are slow: all of host 1 (8-15)``.

    Of a rank that is slower than its slow host: ``8 ranks are slow: all of host 1 (8-15), rank 11 slower still``.
    """
    ranks = {rank for suspect in suspects for rank in suspect.ranks}
    grouped = [suspect for suspect in suspects if suspect.names]
    of_groups = {rank for suspect in grouped for rank in suspect.ranks}
    alone = sorted({rank for suspect in suspects if not suspect.names for rank in suspect.ranks})
    single, slower = ([rank for rank in alone if (rank in of_groups) == inside] for inside in (False, True))
    if len(ranks) == 1:
        return f"Rank {min(ranks)} is slow"
    if not grouped:
        return f"{len(ranks)} ranks are slow: {formatted_ranks(single)}"
    of = [f"all of {' or '.join(suspect.names)} ({formatted_ranks(suspect.ranks)})" for suspect in grouped]
    still = f", {ranks_called(slower)} slower still" if slower else ""
    return f"{len(ranks)} ranks are slow: {' and '.join([*of, *([ranks_called(single)] if single else [])])}{still}"


def _peers(facts: JobFacts, rank: int) -> list[int]:
    """Return the healthy ranks of a rank's role; the others of it if all are slow."""
    role = next(role.ranks for role in facts.roles if rank in role.ranks)
    slow = {each for suspect in facts.suspects if suspect.kind in ("slow", "late") for each in suspect.ranks}
    return [each for each in role if each not in slow] or [each for each in role if each != rank]


def _cause(facts: JobFacts, rank: int) -> tuple[str, str]:
    """Return whether the rank computes longer or is idle longer than its peers, and by how much, as words."""

    def of(member: int, parts: Sequence[str]) -> int:
        accounting = facts.members[member].accounting
        rows = accounting.intervals
        return int(rows["duration_ns"][rows["part"].isin(parts)].sum()) // max(1, len(accounting.steps))

    peers = [peer for peer in _peers(facts, rank) if peer in facts.members]
    if not peers or rank not in facts.members:
        return "computing", ""
    more = {
        name: of(rank, parts) - int(np.median([of(peer, parts) for peer in peers]))
        for name, parts in (("computing", ("computing",)), ("idle", (*IDLE, "copy")))
    }
    most = max(more, key=lambda name: more[name])
    return most, f"; {duration(more[most])} more of it {most}" if more[most] > 0 else ""


def without(facts: JobFacts, times: Times) -> Times:
    """Return times in which slow ranks are as fast as others of their role."""
    return times.without([part.suspect for part in _parts(facts)])


RULE = JobRule(NAME, "ranks that are slower than those that do the same", check, without)
