"""Ranks with equal work, and the difference of each one's time from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.rank_absent import Program
from npuprof.analysis.rank_pairs import POINT_TO_POINT
from npuprof.analysis.rank_replay import Floats, Job, unknown_before
from npuprof.arrays import Bools, Int64

FEW = 4
"""Ranks of a role: the spread of fewer says nothing."""
BEYOND = 3.5
"""Standard deviations beyond which a time is an outlier."""

_NORMAL = 0.6745  # of a standard deviation: the median deviation of normal values
_HALF_NORMAL = 0.3990  # of a standard deviation: that of the half below the median from its own median
_MOSTLY = 0.5
_RING = 3


@dataclass(frozen=True)
class Role:
    """Ranks of one pipeline stage with the same collectives in the same order, in the steps that all of them have."""

    ranks: tuple[int, ...]  # the ranks, ascending
    steps: tuple[int, ...]  # the numbers of the steps; -1 for collectives without one
    rows: Int64  # rows of the job, `int64` of shape (ranks, collectives)
    begins: Int64  # the first collective of each step

    def by_step(self, times_ns: Floats) -> Floats:
        """Return the sum of the times of rows in each step, of shape (ranks, steps)."""
        return np.add.reduceat(times_ns[self.rows], self.begins, axis=1)

    @property
    def step_of(self) -> Int64:
        """The place of the step of each collective."""
        return np.repeat(np.arange(len(self.steps)), np.diff(np.append(self.begins, self.rows.shape[1])))

    @property
    def number(self) -> Int64:
        """The number of each collective within its step."""
        return np.arange(self.rows.shape[1]) - self.begins[self.step_of]

    def of_steps(self, times_ns: Floats) -> Floats:
        """Return the least of the two middle values over the steps, of each rank and number of a collective.

        A collective that not all steps have is left out.
        """
        number = self.number
        count = int(np.diff(np.append(self.begins, self.rows.shape[1])).min())
        places = np.stack([np.flatnonzero(number == each) for each in range(count)])
        return lower_median(times_ns[:, places], axis=2)


def stages(played: Job) -> list[list[int]]:
    """Return the pipeline stages: ranks that exchange data with each other only by collectives.

    Ranks that send to each other, through any others, are of different stages of one pipeline. A collective of ranks of
    one pipeline, such as that of all ranks, says nothing. More than two ranks that all send to each other as often are
    a ring, and no pipeline, whose first and last stage have one neighbour less.
    """
    counts = played.rows.groupby(["rank", "group", "op_type"], observed=True).size().rename("count").reset_index()
    sends = counts["op_type"].astype(str).str.contains(POINT_TO_POINT, case=False, regex=True)
    pipeline = _components(counts["rank"], _members(counts[sends]))
    of_rank = counts[sends].groupby("rank")["count"].sum()
    several = of_rank.groupby(of_rank.index.map(pipeline)).agg(["size", "nunique"])
    rings = set(several.index[(several["size"] >= _RING) & (several["nunique"] == 1)])
    pipeline = {rank: rank if root in rings else root for rank, root in pipeline.items()}
    groups = _members(counts[~sends])
    apart = [members for members in groups if len({pipeline[rank] for rank in members}) == len(members)]
    stage = _components(counts["rank"], apart)
    return [sorted(rank for rank in stage if stage[rank] == number) for number in sorted(set(stage.values()))]


def _members(rows: pd.DataFrame) -> list[set[int]]:
    return [set(members["rank"]) for _, members in rows.groupby("group", observed=True)]


def connected(played: Job) -> bool:
    """Return whether collectives and sends connect all ranks, directly or through others."""
    rows = played.rows[["rank", "group"]].drop_duplicates()
    return len(set(_components(rows["rank"], _members(rows)).values())) == 1


def _components(ranks: pd.Series[int], groups: Sequence[set[int]]) -> dict[int, int]:
    """Return for each rank the lowest rank that it is connected with."""
    lowest = {rank: rank for rank in sorted(set(ranks.tolist()))}
    for group in groups:
        roots = {lowest[rank] for rank in group}
        lowest = {rank: min(roots) if root in roots else root for rank, root in lowest.items()}
    return lowest


def roles(played: Job, stages: Sequence[Sequence[int]]) -> list[Role]:
    """Return the roles of a job; ranks with a part of the steps of others belong to their role."""
    stage_of = {rank: number for number, stage in enumerate(stages) for rank in stage}
    kinds = pd.factorize(played.rows["op_type"])[0].astype(np.int32)
    rank, place = played.rows["rank"].to_numpy(np.int64), played.step_places
    order = np.lexsort((place, rank))  # stable: in order of time within a step
    cuts = np.flatnonzero((np.diff(rank[order]) != 0) | (np.diff(place[order]) != 0)) + 1
    spans: dict[int, dict[int, Int64]] = {}
    kind_of: dict[int, dict[int, bytes]] = {}
    for rows in np.split(order, cuts) if len(order) else []:
        number, step = int(rank[rows[0]]), int(place[rows[0]])
        spans.setdefault(number, {})[step] = rows
        kind_of.setdefault(number, {})[step] = kinds[rows].tobytes()
    whole: dict[tuple[object, ...], list[int]] = {}
    for number, programs in kind_of.items():
        whole.setdefault((stage_of.get(number, -1), *sorted(programs.items())), []).append(number)
    alike = _joined([(stage_of.get(members[0], -1), members) for members in whole.values()], kind_of)
    return [_role(played, members, spans, kind_of) for members in alike]


def program_of(played: Job, role: Role) -> Program:
    """Return the steps of a role's program: most ranks' steps, if some lack steps.

    What they usually take is the median of the faster half: half of them may be slow, or their host late.
    """
    rank, place = played.rows["rank"].to_numpy(np.int64), played.step_places
    own_ns = played.rows["own_ns"].to_numpy(np.float64)
    types = played.rows["op_type"].astype(str).to_numpy(object)
    unknown, rows = unknown_before(played), np.flatnonzero(np.isin(rank, role.ranks))
    rows = rows[np.lexsort((rank[rows], place[rows]))]  # stable: in order of time within a step of a rank
    cuts = np.flatnonzero((np.diff(place[rows]) != 0) | (np.diff(rank[rows]) != 0)) + 1
    of_step: dict[int, dict[tuple[str, ...], list[Int64]]] = {}
    for here in np.split(rows, cuts) if len(rows) else []:
        alike = of_step.setdefault(int(played.steps[place[here[0]]]), {})
        alike.setdefault(tuple(types[here]), []).extend([] if unknown[here].any() else [here])
    whole = {step: alike for step, alike in of_step.items() if any(alike.values())}
    most = {step: max(alike.items(), key=lambda item: len(item[1])) for step, alike in whole.items()}
    fast = np.array(role.ranks)[faster_half(role.by_step(own_ns).mean(axis=1))]
    usual = {step: [here for here in some if rank[here[0]] in fast] or some for step, (_, some) in most.items()}
    return Program(
        frozenset(role.ranks),
        {step: names for step, (names, _) in most.items()},
        {step: np.median(own_ns[np.stack(some)], axis=0) for step, some in usual.items()},
    )


def _joined(groups: Sequence[tuple[int, list[int]]], kind_of: dict[int, dict[int, bytes]]) -> list[list[int]]:
    """Return groups of ranks; those that lack steps of a larger group, or a part of one, are added to it."""
    joined: list[tuple[int, list[int]]] = []
    for stage, members in sorted(groups, key=lambda group: -len(group[1])):
        mine = set(kind_of[members[0]].items())
        for other, larger in joined:
            if stage == other and len(mine & set(kind_of[larger[0]].items())) > _MOSTLY * len(mine):
                larger.extend(members)
                break
        else:
            joined.append((stage, list(members)))
    return [sorted(members) for _, members in joined]


def _role(
    played: Job,
    members: Sequence[int],
    spans: dict[int, dict[int, Int64]],
    kind_of: dict[int, dict[int, bytes]],
) -> Role:
    """Return a role in the steps that its ranks have in common; ranks that lack most of the steps are left out."""
    most = Counter(program for rank in members for program in kind_of[rank].items())
    usual: dict[int, bytes] = {}
    for (step, program), _ in most.most_common():
        usual.setdefault(step, program)
    has = {rank: {step for step, program in kind_of[rank].items() if usual[step] == program} for rank in members}
    kept = sorted(members, key=lambda rank: -len(has[rank]))
    enough = max(1, round(_MOSTLY * len(has[kept[0]])))
    while len(kept) > 1 and len(set.intersection(*(has[rank] for rank in kept))) < enough:
        kept.pop()
    steps = sorted(set.intersection(*(has[rank] for rank in kept)))
    ranks = sorted(kept)
    rows = np.stack([np.concatenate([spans[rank][step] for step in steps]) for rank in ranks])
    begins = np.cumsum([0, *(len(spans[ranks[0]][step]) for step in steps[:-1])])
    return Role(tuple(ranks), tuple(played.steps[steps].tolist()), rows.astype(np.int64), begins.astype(np.int64))


def lower_median(values: Floats, axis: int) -> Floats:
    """Return the median, the lower one of two."""
    ordered: Floats = np.sort(values, axis=axis)
    return np.take(ordered, (values.shape[axis] - 1) // 2, axis=axis)


def faster_half(times: Floats) -> Bools:
    """Return the half of some ranks with the least time: half of a role may be slow."""
    order = np.argsort(times, kind="stable")
    mask = np.zeros(len(times), bool)
    mask[order[: (len(times) + 1) // 2]] = True
    return mask


def unusual(times: Floats) -> Floats:
    """Return the deviation of each time from its rank's and its step's usual time; ranks x steps."""
    many = len(times) >= FEW
    rest = times - np.median(times, axis=0) if many else times  # of two steps one may be longer for all
    rest = rest - lower_median(rest, axis=1)[:, None]
    return rest - (np.median(rest, axis=0) if many else rest.min(axis=0))


def deviation(values: Floats) -> float:
    """Return the standard deviation of values by their median deviation; few may be far from the others."""
    return float(np.median(np.abs(values - np.median(values)))) / _NORMAL


def spread(times: Floats, healthy: Bools) -> float:
    """Return the standard deviation of a rank's time in a step; over the healthy ranks if there is one step.

    It is that of the rest after the effects of ranks and steps, not of ranks: half of them may be slow.
    """
    ranks, steps = times.shape
    if steps > 1 and ranks > 1:
        rest = times - times.mean(axis=1, keepdims=True) - times.mean(axis=0, keepdims=True) + times.mean()
        scale = np.sqrt(ranks * steps / ((ranks - 1) * (steps - 1)))
        return float(np.median(np.abs(rest))) / _NORMAL * float(scale)
    some = times[healthy].ravel()
    return float(np.median(np.abs(some - np.median(some)))) / _HALF_NORMAL
