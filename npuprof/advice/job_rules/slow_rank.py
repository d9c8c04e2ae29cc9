"""A rank that takes longer between collectives than ranks with the same work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from npuprof.advice.finding import Finding
from npuprof.advice.job import WORTH, JobFacts, JobRule, Times
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.rank_hosts import rows_of_peers
from npuprof.analysis.rank_replay import Floats
from npuprof.quantities import duration

NAME = "slow_rank"
_FEW = 4  # ranks: median and spread of fewer ranks mean nothing
_OUTLIER = 3.5  # of the modified z-score
_OVER_MEAN = 1.05
_OVER_MEDIAN = 1.02  # among many equal ranks, one is always a slight outlier
_NORMAL = 0.6745  # of a standard deviation: the median deviation of normal values


def check(facts: JobFacts) -> Finding:
    """Fire if a rank's own time is far beyond that of its peers, the ranks with the same collectives."""
    if facts.job is None or facts.absent:
        return Finding(NAME, "cannot tell", collect="load the profiles of all ranks, with collectives")
    own_ns = facts.own_ns()
    slow = slow_ranks(facts)
    if not slow:
        return Finding(NAME, "clean")
    gains = [_gain(facts, rank, peers) for rank, peers in slow]
    at = int(np.argmax([own_ns[rank] - own_ns[peers].median() for rank, peers in slow]))
    (rank, peers), gain = slow[at], gains[at]
    beyond = int(own_ns[rank] - own_ns[peers].drop(rank).median())
    hidden = gain is not None and gain < WORTH * facts.step_ns
    part, reason = _cause(facts, rank, peers)
    usual = duration(int(own_ns[peers].drop(rank).median()))
    times = f"{duration(int(own_ns[rank]))} a step outside collectives, its peers {usual}"
    return Finding(
        NAME,
        "fires",
        title=f"Rank {rank} is slow" + (", hidden by noise" if hidden else ""),
        cost_ns=beyond,
        gain_lo_ns=0 if gain is None or hidden or (facts.stacks and part == "idle") else gain,
        gain_hi_ns=beyond if gain is None else 0 if hidden else gain,
        confidence="bounded" if gain is None or hidden else "measured",
        detail=f"{times}{reason}",
        action=f"compare its kernels with those of rank {next(peer for peer in peers if peer != rank)}; check clock, "
        "temperature and power of its card"
        if part == "computing"
        else f"runs[{rank}].advice() says what its host does meanwhile",
        place=f"rank {rank}",
        table="communication",
        rows=facts.members[rank].tables["communication"],
        rank=rank,
    )


def slow_ranks(facts: JobFacts) -> list[tuple[int, list[int]]]:
    """Return the ranks that are slower than their peers, each with its peers."""
    own_ns = facts.own_ns()
    return [(rank, peers) for peers in facts.peers for rank in _slow(own_ns[peers])]


def _slow(own_ns: pd.Series[int]) -> list[int]:
    if len(own_ns) < 2:
        return []
    times = own_ns.to_numpy(np.float64)
    if len(own_ns) < _FEW:
        return [int(rank) for rank in own_ns.index[times > _OVER_MEAN * times.mean()]]
    spread = float(np.median(np.abs(times - np.median(times))))
    far = _NORMAL * (times - np.median(times)) > _OUTLIER * max(spread, 1.0)
    return [int(rank) for rank in own_ns.index[far & (times > _OVER_MEDIAN * np.median(times))]]


def _gain(facts: JobFacts, rank: int, peers: Sequence[int]) -> int | None:
    """Return the gain of a replay in which the rank's times before each collective are the medians of its peers."""
    punctual = facts.punctual_ns
    return facts.gain_ns(as_peers(facts, rank, peers, punctual), than_ns=punctual)


def as_peers(facts: JobFacts, rank: int, peers: Sequence[int], own_ns: Floats) -> Floats:
    """Return the time before each row's collective, with the medians of its peers for the given rank."""
    others = [peer for peer in peers if peer != rank]
    if facts.job is None or not others:
        return own_ns
    medians = np.median(own_ns[rows_of_peers(facts.job, others)], axis=0)
    mine = rows_of_peers(facts.job, [rank])[0]
    changed: Floats = own_ns.copy()
    changed[mine] = np.minimum(changed[mine], medians)
    return changed


def _cause(facts: JobFacts, rank: int, peers: Sequence[int]) -> tuple[str, str]:
    """Return whether the rank computes longer or is idle longer than its peers, and by how much, as words."""

    def of(member: int, parts: Sequence[str]) -> int:
        rows = facts.members[member].accounting.intervals
        return int(rows["duration_ns"][rows["part"].isin(parts)].sum()) // max(1, facts.steps)

    more = {
        name: of(rank, parts) - int(np.median([of(peer, parts) for peer in peers if peer != rank]))
        for name, parts in (("computing", ("computing",)), ("idle", (*IDLE, "copy")))
    }
    most = max(more, key=lambda name: more[name])
    return most, f"; {duration(more[most])} more of it {most}" if more[most] > 0 else ""


def without(facts: JobFacts, times: Times) -> Times:
    """Return times in which slow ranks take the medians of their peers."""
    own_ns = times.own_ns
    for rank, peers in slow_ranks(facts):
        own_ns = as_peers(facts, rank, peers, own_ns)
    return Times(own_ns, times.moving_ns)


RULE = JobRule(NAME, "a rank that is slower than those that do the same", check, without)
