"""A few ranks that are faster than the rest of their role.

Whether most ranks of a role are slow, or a few of them have less to do, no time tells: the others are compared with
each other, and what they take longer than these few is told apart from what is slow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuprof.analysis.rank_replay import Floats
from npuprof.analysis.rank_roles import BEYOND, FEW, Role, lower_median, spread
from npuprof.analysis.rank_variants import Less
from npuprof.arrays import Bools, Int64
from npuprof.noise.ratios import of_ranks

_APART = 0.5  # of what they take less: no rank takes so much more than the slowest of them, and less than the others
_MORE = 0.02  # of the time of a rank: less is no difference
_MORE_OF_FEW = 0.05
_MOSTLY = 0.5  # of the ranks of a host
_RARE = 0.01  # of roles without a cause: how often any rank seems fast


@dataclass(frozen=True)
class Faster:
    """A few ranks of a role that are faster than all others."""

    # ranks, others: the ranks, and the rest of their role, ascending.
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    less_ns: int  # how much less time one of them takes in a step
    less: Less  # the job if the others were as fast


def few_fast(times: Floats) -> Bools:
    """Return the ranks that are faster than all others of a role, and so few that they do not tell what is usual.

    Parameters
    ----------
    times
        Ranks x steps. A quarter of the ranks at most, which are less than half of the faster half, may be so few.
    """
    count, steps = times.shape
    mean, few = times.mean(axis=1), np.zeros(count, bool)
    order = np.argsort(mean, kind="stable")
    gaps = np.diff(mean[order])[: (count + 1) // 4]
    if not len(gaps) or count < FEW - 1:
        return few
    few[order[: int(np.argmax(gaps)) + 1]] = True
    less = np.median(times[~few], axis=0) - np.median(times[few], axis=0)
    mean_less = float(less.mean())
    noise = spread(times, ~few) / np.sqrt(steps) if count >= FEW else 0.0
    enough = max(BEYOND * noise, (_MORE if count >= FEW else _MORE_OF_FEW) * float(mean.mean()))
    is_apart = float(gaps.max()) > _APART * mean_less > _APART * enough
    is_usual = float(lower_median(less[None], axis=1)[0]) > _APART * mean_less
    p_values = of_ranks(np.maximum(times, 1.0), ~few).p_values()[few]
    is_noise = bool((p_values > _RARE / count).any())  # of any rank
    return few if is_apart and is_usual and not is_noise else np.zeros(count, bool)


def are_of_two_hosts(ranks: Int64, few: Bools, groups: Mapping[str, Sequence[int]]) -> bool:
    """Return whether a few fast ranks are most of one of two hosts of a role: the faster host is the usual one then."""
    hosts = [np.isin(ranks, members) for name, members in groups.items() if name.startswith("host ")]
    hosts = [here for here in hosts if here.any()]
    if not few.any() or len(hosts) != 2 or not (hosts[0] ^ hosts[1]).all():
        return False
    return any(bool((few[here].mean() > _MOSTLY) and not few[~here].any()) for here in hosts)


def faster(roles: Sequence[Role], own_ns: Floats, unseen: Collection[int] = ()) -> list[Faster]:
    """Return the few ranks of each role that are faster than all others of it, those with the most less first."""
    faster_ranks = []
    for role in roles:
        ranks, times = np.array(role.ranks), role.by_step(own_ns)
        seen, few = ~np.isin(ranks, list(unseen)), np.zeros(len(ranks), bool)
        few[seen] = few_fast(times[seen])
        if few.any():
            rows, rest = role.rows[~few], seen & ~few  # one that is not seen is as slow as most of the others
            more = np.maximum(own_ns[rows] - np.median(own_ns[role.rows[few]], axis=0), 0.0)
            less_ns = float(np.median(times[rest].mean(axis=1)) - np.median(times[few].mean(axis=1)))
            less = Less(rows.ravel(), more.ravel())
            faster_ranks.append(Faster(tuple(ranks[few].tolist()), tuple(ranks[rest].tolist()), round(less_ns), less))
    return sorted(faster_ranks, key=lambda each: -each.less_ns * len(each.others))
