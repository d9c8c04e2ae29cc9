"""Ranks and groups of ranks that take longer than others with the same work, and what a job would save without it.

A rank is compared with the healthy ranks of its role. What is beyond the limit in one of at least three steps, or in
fewer than a third of them, happened once, and is kept apart from what each step takes. A host or a tensor group all of
whose ranks are slow replaces them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from npuprof.analysis.rank_fast import are_of_two_hosts, few_fast
from npuprof.analysis.rank_replay import Floats, Job, unknown_before
from npuprof.analysis.rank_roles import BEYOND, FEW, Role, deviation, faster_half, lower_median, spread, unusual
from npuprof.analysis.rank_variants import Less
from npuprof.arrays import Bools
from npuprof.noise.model import LEVEL, Estimate
from npuprof.noise.ratios import of_ranks
from npuprof.noise.rows import levels, significant

Kind: TypeAlias = Literal["slow", "late", "link", "stage"]

WORTH = 0.01
"""The share of a step that makes a cause worth a finding."""

LEAST_STEPS = 3
"""The steps of which one can be told from the others."""

_FEWEST = 2  # steps that noise can be told from
_KNOWN = 0.5  # of a step lies between collectives
_ONCE = 1 / 3  # of the steps
_LEAST_RATIO = 0.1  # of the usual time: a rank that seems to take less overlaps, which no ratio is of
_OVER_FEW = 1.05  # among few ranks
_OVER_MANY = 1.02  # among many equal ranks, one is always a slight outlier
_CELLS = 100  # times the number of times compared: how rare the farthest of them is without a cause
_STILL = 0.8  # of the time beyond the usual, before one collective: the rank stood still
_ENOUGH = 0.1  # of the time, before other collectives than one: what a pace is told from
_CUT = 0.9  # of the usual step
_ALIKE = 0.5  # of what a group takes longer: what each of its ranks does at least


@dataclass(frozen=True)
class Once:
    """What a rank took longer in one step and not in the others."""

    # rank, step: the rank, and the number of the step; -1 for collectives without one.
    rank: int
    step: int
    extra_ns: int  # how much longer
    still: bool  # whether nearly all of it lies before one collective
    less: Less  # the job without it


@dataclass(frozen=True)
class Suspect:
    """What may make each step longer."""

    kind: Kind  # `slow`: longer by a factor; `late`: longer before a few collectives; `link` or `stage`
    ranks: tuple[int, ...]  # the ranks, ascending
    extra_ns: int  # how much longer one of these ranks takes in a step
    less: Less  # the job without it
    # What the ranks are all of, such as `host 1`; several that cannot be told apart; empty for single ranks. Of a
    # stage: the hosts that may be slow instead.
    names: tuple[str, ...] = ()
    first: int = 0  # the number within a step of the first collective before which they are late
    surely: bool = True  # whether it is told from noise; with one step it cannot be


def _comparable(played: Job, roles: Sequence[Role], own_ns: Floats) -> Floats:
    """Return times in which ranks without a step take as long as others before their first collective after it.

    What such a rank did before is not known, so that the time since its last one is no time before that collective.
    """
    unknown = unknown_before(played)
    times: Floats = own_ns.copy()
    for role in roles if unknown.any() else ():
        for column in np.flatnonzero(unknown[role.rows].any(axis=0)).tolist():
            rows = role.rows[:, column]
            known = times[rows[~unknown[rows]]]
            times[rows[unknown[rows]]] = np.median(known) if len(known) else 0.0
    return times


def once(played: Job, roles: Sequence[Role], own_ns: Floats, least_steps: int = LEAST_STEPS) -> list[Once]:
    """Return what ranks took longer once: beyond the limit in one step, or in fewer than a third of at least three.

    Parameters
    ----------
    least_steps
        The steps without which a role tells nothing. Of two steps none is the usual one: the longer one may be.
    """
    stalls = []
    own_ns = _comparable(played, roles, own_ns)
    cells = sum(len(role.ranks) * len(role.steps) for role in roles)
    for role in roles:
        times = role.by_step(own_ns)
        if len(role.steps) < least_steps or len(role.ranks) < 2:
            continue
        far = unusual(times)
        beyond = _beyond_noise(times, far, _CELLS * max(cells, 1)) & (far > WORTH * played.usual_ns + _of_pace(times))
        beyond &= (beyond.sum(axis=1) < max(_ONCE * len(role.steps), 2))[:, None]
        every = own_ns[role.rows]
        usual = np.median(every, axis=0) if beyond.any() else every[0]
        for place, step in zip(*np.nonzero(beyond), strict=True):
            others = usual if len(every) >= FEW else np.median(np.delete(every, place, axis=0), axis=0)
            stalls.append(_once(role, own_ns, others, int(place), int(step), float(far[place, step])))
    return sorted(stalls, key=lambda stall: -stall.extra_ns)


def _beyond_noise(times: Floats, far_ns: Floats, rare: int) -> Bools:
    """Return which times are farther from what their rank and their step have in common than noise once in `rare`.

    The farthest is compared with the noise of the others, then the next one: one of few would hide in a noise that it
    is a part of.
    """
    from scipy.special import stdtrit

    usual = lower_median(times, axis=1)
    half = faster_half(usual)
    pace = np.maximum(usual / max(float(np.median(usual[half])), 1.0), 1.0)  # slow ranks vary more
    least = max(BEYOND, float(np.sqrt(2 * np.log(rare))))  # one of many is always far
    farness = far_ns / pace[:, None]
    rest, beyond = times.copy(), np.zeros(times.shape, bool)
    for place in np.argsort(-farness, axis=None, kind="stable").tolist():
        rest.flat[place] -= far_ns.flat[place]
        freedom = (len(times) - 1) * (times.shape[1] - 1) - 1 - int(beyond.sum())
        noise = max(spread(rest, half), deviation(far_ns))
        if freedom < 1 or farness.flat[place] <= max(least, -float(stdtrit(freedom, 1 / rare))) * noise:
            break
        beyond.flat[place] = True
    return beyond


def _of_pace(times: Floats) -> Floats:
    """Return how far others may be from a rank that is slow by a factor, in steps that are longer or shorter."""
    usual, level = lower_median(times, axis=1), np.median(times, axis=0)
    factor = float(usual.max()) / max(float(usual.min()), 1.0)
    return (factor - 1) * np.abs(level - np.median(level))


def _once(role: Role, own_ns: Floats, usual_ns: Floats, place: int, step: int, far_ns: float) -> Once:
    inside = role.step_of == step
    beyond = own_ns[role.rows[place]] - usual_ns
    in_each = role.of_steps(beyond[None])[0]  # of a rank that is late, or slow, in each step
    rows, number = role.rows[place, inside], role.number[inside]
    more = np.maximum(
        beyond[inside] - np.where(number < len(in_each), in_each[np.minimum(number, len(in_each) - 1)], 0), 0
    )
    largest = int(np.argmax(more))
    still = bool(more[largest] >= _STILL * far_ns)
    if still:
        rows, more = rows[largest : largest + 1], np.array([far_ns])
    else:
        more = more * min(1.0, far_ns / max(float(more.sum()), 1.0))
    return Once(role.ranks[place], role.steps[step], round(far_ns), still, Less(rows, more))


@dataclass(frozen=True)
class _Compared:
    """The ranks of a role compared: which are far from the others, and how sure that is."""

    role: Role
    outlier: Bools
    large: Bools
    healthy: Bools
    ratio: Estimate
    noise_ns: float


def suspects(
    played: Job,
    roles: Sequence[Role],
    own_ns: Floats,
    groups: Mapping[str, Sequence[int]],
    unseen: Collection[int] = (),
) -> list[Suspect]:
    """Return the ranks and groups of ranks that take longer than others with the same work."""
    own_ns, step_ns = _comparable(played, roles, own_ns), played.usual_ns
    compared = [_compare(role, own_ns, groups, step_ns, unseen) for role in roles if len(role.ranks) > 1]
    if not compared:
        return []
    p_values = np.concatenate([np.atleast_1d(of_role.ratio.p_values()) for of_role in compared])
    sure = significant(p_values, levels(p_values, np.ones(len(p_values))))
    untold = np.isnan(p_values)
    begins = np.cumsum([0, *(len(of_role.role.ranks) for of_role in compared)])
    single: dict[int, Suspect] = {}
    for of_role, begin in zip(compared, begins.tolist(), strict=False):
        here = slice(begin, begin + len(of_role.role.ranks))
        nameable = sure[here] | untold[here] | of_role.large
        for place in np.flatnonzero(of_role.outlier & nameable).tolist():
            suspect = _suspect(of_role, place, own_ns, step_ns, played)
            single[suspect.ranks[0]] = replace(suspect, surely=bool(sure[begin + place]))

    def beyond(rank: int, others: Sequence[int]) -> Suspect | None:
        of_role = next(each for each in compared if rank in each.role.ranks)
        return _beyond(of_role, rank, others, own_ns, step_ns, played)

    return _grouped(single, groups, {rank for of_role in compared for rank in of_role.role.ranks}, beyond)


def _compare(
    role: Role, own_ns: Floats, groups: Mapping[str, Sequence[int]], step_ns: float, unseen: Collection[int]
) -> _Compared:
    times = role.by_step(own_ns)
    count, steps = times.shape
    seen, half = ~np.isin(role.ranks, list(unseen)), np.zeros(count, bool)
    seen = seen if seen.any() else ~seen
    few = few_fast(times[seen])
    of_two = are_of_two_hosts(np.array(role.ranks)[seen], few, groups)
    half[seen] = few if of_two else faster_half(times[seen].mean(axis=1)) & ~few
    usual = np.median(times[half], axis=0)
    beyond = times - usual
    more, least = beyond.mean(axis=1), lower_median(beyond, axis=1)
    noise = spread(times, half) / np.sqrt(steps)
    share = more / max(float(usual.mean()), 1.0)

    def is_far(mean: Floats | float, of_usual: Floats | float, members: int = 1) -> Bools:
        enough = np.asarray(of_usual > _OVER_MANY - 1) | np.asarray(mean > WORTH * step_ns)
        far: Bools = np.asarray(mean > BEYOND * noise / np.sqrt(members))
        far &= enough
        return far

    # Where no test follows; what lies before the first collective is not known, which may be most of a short job.
    level = np.where(usual > _KNOWN * step_ns, usual, times.mean(axis=0))
    large = times - level > (_OVER_FEW - 1) * np.maximum(level, step_ns)
    of_few = share > _OVER_FEW - 1 if steps > 1 else large[:, 0]
    outlier = is_far(more, share) if count >= FEW else of_few
    for ranks in groups.values():
        here = np.isin(role.ranks, ranks)
        several = here.sum() > 1 and not here.all() and count >= FEW
        if several and (more[here] > _ALIKE * more[here].mean()).all():
            outlier |= here & is_far(float(more[here].mean()), float(share[here].mean()), int(here.sum()))
    outlier &= least > _ALIKE * more  # in most steps, and not in a few of them
    healthy = seen & ~outlier
    healthy = healthy if healthy.any() else half
    # The noise of few ranks in two steps says little.
    large = large.all(axis=1) & (count < FEW) & (steps == _FEWEST)
    return _Compared(role, outlier, large, healthy, _ratio(times, usual, healthy), float(noise))


def _ratio(times: Floats, usual: Floats, healthy: Bools) -> Estimate:
    """Return the ratio of the times of each rank to those of healthy ones, which take `usual` in each step."""
    # What lies before the first collective is not known: a first step that lacks much of its time has no ratio, and
    # where there is only one more, it gets the time that it lacks.
    if len(usual) > 1 and usual[0] < _CUT * float(np.median(usual[1:])):
        lacks = np.append(usual[1] - usual[0], 0.0)
        times = times[:, 1:] if len(usual) > _FEWEST else times + lacks
    # A host that calls a collective before it has the last one's result has no time between them, or less than none.
    least_ns = max(_LEAST_RATIO * float(np.median(usual)), 1.0)
    return of_ranks(np.maximum(times, least_ns), healthy)


def _beyond(
    of_role: _Compared, rank: int, others: Sequence[int], own_ns: Floats, step_ns: float, played: Job
) -> Suspect | None:
    """Return what a rank takes longer than others of its group, which are all slow; None if that is nothing."""
    role = of_role.role
    place, beside = role.ranks.index(rank), np.isin(role.ranks, others)
    if not beside.any():
        return None
    times = role.by_step(own_ns)
    usual = np.median(times[beside], axis=0)
    more = times[place] - usual
    mean, count = float(more.mean()), int(beside.sum())
    enough = max(
        BEYOND * of_role.noise_ns * np.sqrt(1 + 1 / count), min(WORTH * step_ns, (_OVER_MANY - 1) * usual.mean())
    )
    if mean <= enough or lower_median(more[None], axis=1)[0] <= _ALIKE * mean:
        return None
    p_value = _ratio(times, usual, beside).p_values()[place]
    if p_value > LEVEL:
        return None
    suspect = _suspect(replace(of_role, healthy=beside), place, own_ns, step_ns, played)
    return replace(suspect, surely=bool(p_value <= LEVEL))


def _suspect(of_role: _Compared, place: int, own_ns: Floats, step_ns: float, played: Job) -> Suspect:
    """Return a rank with what it takes longer: before some collectives, or by a factor before all."""
    role = of_role.role
    times = own_ns[role.rows]
    usual = np.median(times[of_role.healthy], axis=0)
    mine = times[place]
    steps = len(role.steps)
    far = role.of_steps((mine - usual)[None])[0]
    beyond_pace = _beyond_pace(far, role.of_steps(usual[None])[0])
    late = np.isin(role.number, np.flatnonzero(beyond_pace > WORTH * step_ns))
    apart = np.isin(role.number, np.flatnonzero(np.abs(beyond_pace) > WORTH * step_ns))  # or of less work, and waiting
    more = np.where(apart, np.maximum(mine - usual, 0.0), 0.0)
    extra = float((mine - usual).sum()) / steps
    known = ~apart & (np.arange(len(mine)) > 0)  # what lies before the first collective of the job is no whole time
    rest = max(float(mine[known].sum()), 1.0)
    beyond = rest - float(usual[known].sum())
    is_slower = beyond > (BEYOND * of_role.noise_ns * steps if apart.any() else 0.0)
    factor = 1 - beyond / rest if is_slower else 1.0
    ranks = played.rows["rank"].to_numpy(np.int64)
    rows = np.arange(*np.searchsorted(ranks, (role.ranks[place], role.ranks[place] + 1)))
    less = np.maximum(own_ns[rows], 0.0) * (1 - factor)
    less[role.rows[place][apart] - rows[0]] = more[apart]
    if is_slower and not apart[0]:
        less[role.rows[place][0] - rows[0]] = max(float((mine - usual)[0]), 0.0)
    is_late = float(more[late].sum()) / steps > _ALIKE * extra
    first = int(role.number[late].min()) if late.any() else 0
    return Suspect(
        "late" if is_late else "slow",
        (role.ranks[place],),
        max(round(extra), 0),
        Less(rows, less),
        first=first if is_late else 0,
    )


def _beyond_pace(far_ns: Floats, usual_ns: Floats) -> Floats:
    """Return what a rank takes longer before each collective of a step than its pace explains.

    Who is slow takes longer before each of them by the same factor. That is its median, weighted by time; where more
    than half of the time is before one collective, that of the others, unless they are too short to tell it from
    lateness there.
    """
    weights = np.maximum(usual_ns, 0.0)
    ratios = far_ns / np.maximum(usual_ns, 1.0)
    order = np.argsort(ratios, kind="stable")
    if 2 * weights.max(initial=0.0) >= weights.sum():
        order = order[order != np.argmax(weights)]
        if weights[order].sum() < _ENOUGH * weights.sum():
            return far_ns
    middle = order[np.searchsorted(np.cumsum(weights[order]), weights[order].sum() / 2)]
    return far_ns - max(float(ratios[middle]), 0.0) * weights


def _grouped(
    single: Mapping[int, Suspect],
    groups: Mapping[str, Sequence[int]],
    comparable: set[int],
    beyond: Callable[[int, Sequence[int]], Suspect | None],
) -> list[Suspect]:
    """Return suspects in which a group all of whose ranks are suspects replaces them.

    What one of them takes longer than the others of its group, as `beyond` tells, is a suspect of its own.
    """
    left = dict(single)
    grouped, slower = [], []
    by_ranks: dict[tuple[int, ...], list[str]] = {}
    for name, ranks in groups.items():
        by_ranks.setdefault(tuple(sorted(comparable & set(ranks))), []).append(name)
    for ranks, names in sorted(by_ranks.items(), key=lambda item: -len(item[0])):
        if len(ranks) > 1 and all(rank in left for rank in ranks):
            members, others = [left.pop(rank) for rank in ranks], list(ranks)
            for place in np.argsort([-member.extra_ns for member in members], kind="stable").tolist():
                others.remove(ranks[place])
                if (more := beyond(ranks[place], others)) is None:
                    break
                members[place] = _less(members[place], more)
                slower.append(more)
            grouped.append(_together(members, tuple(names)))
    return sorted([*grouped, *left.values(), *slower], key=lambda suspect: -suspect.extra_ns * len(suspect.ranks))


def _less(suspect: Suspect, by: Suspect) -> Suspect:
    """Return what a rank takes longer without a part of it."""
    less = np.maximum(suspect.less.own_ns - by.less.own_ns, 0.0)
    return replace(suspect, extra_ns=max(suspect.extra_ns - by.extra_ns, 0), less=Less(suspect.less.rows, less))


def _together(members: Sequence[Suspect], names: tuple[str, ...] = ()) -> Suspect:
    """Return several suspects as one."""
    late = [member for member in members if member.kind == "late"]
    is_late = 2 * len(late) > len(members)
    return Suspect(
        "late" if is_late else "slow",
        tuple(sorted(rank for member in members for rank in member.ranks)),
        int(np.median([member.extra_ns for member in members])),
        Less(
            np.concatenate([member.less.rows for member in members]),
            np.concatenate([member.less.own_ns for member in members]),
        ),
        names,
        min((member.first for member in late), default=0) if is_late else 0,
        all(member.surely for member in members),
    )


def at_most(every: Sequence[Suspect], most: int) -> list[Suspect]:
    """Return no more than some suspects: the least of too many single ranks count as one.

    With one of several equally slow ranks uncorrected the others would gain nothing.
    """
    if len(every) <= most:
        return list(every)
    rest = [suspect for suspect in every[most - 1 :] if suspect.kind in ("slow", "late")]
    return [*every[: most - 1], _together(rest)] if rest else list(every[:most])
