"""Replays of ranks whose collectives overlap computing: a lane of kernels, and one for each group, per rank.

A collective begins on a rank when the kernels that it needs have ended and the one before it in its group has; it moves
data when all members have begun. Some kernels wait for a collective. Nothing here records these dependencies, so that
they are inferred: from what happens in all steps, and on all ranks, that run the same program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from npuprof.analysis.intervals import covering, intersection, total
from npuprof.analysis.prediction import TOLERANCE
from npuprof.analysis.rank_pairs import POINT_TO_POINT
from npuprof.analysis.rank_replay import Floats, Job
from npuprof.analysis.rank_roles import stages
from npuprof.arrays import Bools, Int64

_NEAR_NS = 20_000
"""What follows a collective sooner than that may have waited for it."""

_NOISE_NS = 1_000  # of the end of a collective
_FAR_NS = 100_000
"""What passes before a kernel longer than on ranks alike is lateness, and no noise."""

_MOST_OPERATORS = 300_000
_FEWEST = 5  # steps that show a trend
_SURELY = 0.001
_TRIED = 0.5  # of the steps: those whose lags others predict

_HIDDEN = 0.01  # of the time of collectives: more of it beside kernels makes their order no replay

Tables = Mapping[str, pd.DataFrame]


def overlaps(tables: Tables) -> bool:
    """Return whether kernels of a rank run during its collectives, for more than 1 % of the time of these.

    Of a rank without kernels the vendor's breakdown of its steps tells.
    """
    if not len(tables["kernels"]):
        sums = tables["step_times"][["overlapped_ns", "communication_ns"]].sum()
        return bool(sums["overlapped_ns"] > _HIDDEN * sums["communication_ns"])
    spans = [
        covering(rows["start_ns"].to_numpy(np.int64), rows["duration_ns"].to_numpy(np.int64))
        for rows in (tables["kernels"], tables["communication"])
    ]
    return total(intersection(*spans)) > _HIDDEN * total(spans[1])


@dataclass(frozen=True)
class _Lane:
    """The work of a rank: kernels in order, and collectives in the order of its program."""

    # start_ns, length_ns: start and duration of each kernel.
    start_ns: Floats
    length_ns: Floats
    # row, op, group: the row of each collective in the job, its number, and the number of its group.
    row: Int64
    op: Int64
    group: Int64
    # arrive_ns, end_ns: start and end of each collective.
    arrive_ns: Floats
    end_ns: Floats
    spans: Sequence[tuple[int, int, int, int]]  # the kernels and the collectives of each step: first and last of both
    # The number of the program of each step: what steps with the same number run is the same.
    programs: tuple[int, ...] = ()
    # The number of kernels that end before each collective begins.
    needs: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    # The kernel that waits for each collective; -1 for none.
    gates: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    # sure_needs, sure_gates: whether that was seen in a step.
    sure_needs: Bools = field(default_factory=lambda: np.zeros(0, bool))
    sure_gates: Bools = field(default_factory=lambda: np.zeros(0, bool))
    # Of each collective that begins after the same kernel as others and waits for these: how many are in a row.
    depth: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    # Whether such a collective is waited for by another one.
    leads: Bools = field(default_factory=lambda: np.zeros(0, bool))

    def by_step(self) -> Floats:
        """Return how long the kernels of each step take."""
        return np.array([self.length_ns[first:last].sum() for first, last, *_ in self.spans])

    def events(self) -> list[tuple[int, int, int]]:
        """Return when collectives begin and are waited for: the number of kernels before, the order, and which one."""
        begin = [
            (need, 2 * depth, at) for at, (need, depth) in enumerate(zip(self.needs.tolist(), self.depth, strict=True))
        ]
        last = int(self.depth.max(initial=0)) + 1  # what nothing but a kernel waits for
        inside = np.where(self.leads, np.where(self.gates == self.needs, self.depth, 0), last)
        wait = [
            (gate, 2 * depth + 1, at)
            for at, (gate, depth) in enumerate(zip(self.gates.tolist(), inside.tolist(), strict=True))
            if gate >= 0
        ]
        return sorted([*begin, *wait])


@dataclass(frozen=True)
class _Lags:
    """The delay of kernels and collectives of each rank beyond their inputs; the transfer times of operators."""

    kernels: tuple[Floats, ...]
    collectives: tuple[Floats, ...]
    moving: Floats


@dataclass(frozen=True)
class Lanes:
    """Ranks whose steps run the same kernels and collectives as others, or as others of their own, on one clock."""

    # The job, with rows in the order of the program. The time before each row is the rank's own work; `rare_ns` is the
    # part of it that occurs in fewer than half of the steps.
    job: Job
    # ranks, lanes: the ranks, in order, and what each ran.
    ranks: tuple[int, ...]
    lanes: tuple[_Lane, ...]
    alike: Mapping[int, tuple[int, ...]]  # the ranks that run the same, by rank
    begin_ns: float  # when the first rank begins

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.job.steps)

    @cached_property
    def error(self) -> float:
        """The relative error of a replay with the lags of other steps.

        Infinite where fewer than half of the steps have another one that runs the same.
        """
        tried = [lane.programs.count(program) > 1 for lane in self.lanes for program in lane.programs]
        if np.mean(tried) < _TRIED:
            return float("inf")
        return max(abs(_replay(each, _of_other_steps(each, lags)) / self.whole_ns - 1) for each, lags in self._variants)

    @property
    def is_right(self) -> bool:
        """Whether a replay with the lags of other steps misses the recorded time by at most 1 %."""
        return self.error <= TOLERANCE

    def extra_ns(self, ranks: Collection[int]) -> int:
        """Return how much longer the slowest of some ranks takes in a step, apart from waits."""
        _, recorded = self._variants[0]
        usual = self._without(ranks, recorded)
        if usual is None:
            return 0
        lanes, lags = usual
        more = [
            float(lane.length_ns.sum() - other.length_ns.sum() + sum(each.sum() for each in (before - after, late)))
            for lane, other, before, after, late in zip(
                self.lanes,
                lanes.lanes,
                recorded.kernels,
                lags.kernels,
                (many - few for many, few in zip(recorded.collectives, lags.collectives, strict=True)),
                strict=True,
            )
        ]
        return max(0, round(max(more) / self.steps))

    def gains_ns(self, ranks: Collection[int]) -> tuple[int, int] | None:
        """Return limits of a step's gain if some ranks are as fast as equal ranks; None if there are none.

        Dependencies that were not seen are replayed with and without. The upper limit is the gain if the ranks take as
        long as the fastest of those alike. What a replay misses of a step, and what those alike differ by, is not sure.
        """
        gains, most = [], 0
        for each, lags in self._variants:
            usual, fastest = each._without(ranks, lags), each._without(ranks, lags, of_peers=np.min)
            if usual is None or fastest is None:
                return None
            recorded = _replay(each, lags)
            gain, upper = (recorded - _replay(*faster) for faster in (usual, fastest))
            if not np.isfinite([gain, upper]).all():
                return None
            gains.append(max(0, round(gain / self.steps)))
            most = max(most, gains[-1], round(upper / self.steps))
        missed = round(self.error * self.step_ns) if self.is_right else most
        return max(0, min(gains) - missed - (most - max(gains))), most

    @cached_property
    def _variants(self) -> list[tuple[Lanes, _Lags]]:
        """The lanes with all dependencies, and without those that were not seen; with what passes beyond them."""
        every = [self]
        if not all(lane.sure_gates[lane.gates >= 0].all() and lane.sure_needs.all() for lane in self.lanes):
            every.append(replace(self, lanes=tuple(_surely(lane) for lane in self.lanes)))
        return [(each, _lags(each)) for each in every]

    @cached_property
    def whole_ns(self) -> float:
        """The recorded time from the first kernel to the last end."""
        ends = [max(float((lane.start_ns + lane.length_ns)[-1]), float(lane.end_ns.max())) for lane in self.lanes]
        return max(ends) - self.begin_ns

    @property
    def step_ns(self) -> float:
        """The mean time of a step."""
        return self.whole_ns / self.steps

    def _without(
        self, ranks: Collection[int], lags: _Lags, of_peers: Callable[..., Any] = np.median
    ) -> tuple[Lanes, _Lags] | None:
        """Return lanes and lags with some ranks as fast as equal ranks: in sum, the median or `of_peers`."""
        if not set(ranks) & set(self.ranks):
            return None
        lanes, kernels, collectives = list(self.lanes), list(lags.kernels), list(lags.collectives)
        place = {rank: number for number, rank in enumerate(self.ranks)}
        for rank in set(ranks) & set(place):
            peers = [place[other] for other in self.alike[rank] if other not in ranks]
            if not peers:
                return None
            at = place[rank]
            usual = of_peers([self.lanes[peer].by_step() for peer in peers], axis=0)
            lanes[at] = replace(lanes[at], length_ns=lanes[at].length_ns * _pace(usual, lanes[at]))
            for times in (kernels, collectives):
                shorter = of_peers([times[peer] for peer in peers], axis=0)
                times[at] = np.where(times[at] > shorter + _FAR_NS, shorter, times[at])
        return replace(self, lanes=tuple(lanes)), replace(lags, kernels=tuple(kernels), collectives=tuple(collectives))


def _pace(usual_ns: Floats, lane: _Lane) -> Floats:
    """Return the factor of each kernel's duration if its rank computes at the usual speed.

    All steps have one factor, unless a trend is significant, as of a card that becomes hot.
    """
    times = lane.by_step()
    factors = np.full(len(times), usual_ns.sum() / max(float(times.sum()), 1.0))
    if len(times) >= _FEWEST:
        from scipy.stats import linregress

        places = np.arange(len(times))
        fit = linregress(places, usual_ns / np.maximum(times, 1.0))
        if fit.pvalue < _SURELY:
            factors = fit.intercept + fit.slope * places
    return np.repeat(np.minimum(factors, 1.0), [last - first for first, last, *_ in lane.spans])


def _surely(lane: _Lane) -> _Lane:
    """Return a lane without the dependencies that no step shows."""
    before = np.zeros(len(lane.op), np.int64)
    latest: dict[int, int] = {}
    for at, (group, need) in enumerate(zip(lane.group.tolist(), lane.needs.tolist(), strict=True)):
        before[at] = latest.get(group, 0)
        latest[group] = need
    return replace(
        lane,
        needs=np.where(lane.sure_needs, lane.needs, before),
        gates=np.where(lane.sure_gates, lane.gates, -1),
    )


def lanes(played: Job, members: Mapping[int, Tables]) -> Lanes | None:
    """Return the lanes of ranks; None if kernels run beside each other, or steps of kernels are not known."""
    if tuple(sorted(members)) != played.ranks or len(played.ranks) < 2 or len(played.rows) > _MOST_OPERATORS:
        return None
    by_group = played.rows["rank"].groupby(pd.factorize(played.rows["group"])[0]).agg(["nunique", "min"])
    of_groups = list(by_group.itertuples(index=False, name=None))
    found = [_lane(played, rank, members[rank], of_groups) for rank in played.ranks]
    lanes_of = [lane for lane in found if lane is not None]
    if len(lanes_of) < len(found):
        return None
    stage_of = {rank: number for number, stage in enumerate(stages(played)) for rank in stage}
    lanes_of = _with_edges(_with_programs(played, lanes_of, [stage_of.get(rank, -1) for rank in played.ranks]))
    by_role: dict[tuple[object, ...], list[int]] = {}
    for rank, lane in zip(played.ranks, lanes_of, strict=True):
        by_role.setdefault((stage_of.get(rank, -1), *lane.programs), []).append(rank)
    alike = {rank: tuple(ranks) for ranks in by_role.values() for rank in ranks}
    begin = float(min(lane.start_ns[0] for lane in lanes_of))
    made = Lanes(played, played.ranks, tuple(lanes_of), alike, begin)
    return replace(made, job=_own_work(made))


def _lane(played: Job, rank: int, tables: Tables, of_groups: Sequence[tuple[int, int]]) -> _Lane | None:
    """Return the work of a rank, step by step; None if kernels overlap, or have no step."""
    kernels = tables["kernels"].sort_values("start_ns", kind="stable")
    if not len(kernels) or kernels["step"].isna().any():
        return None
    start, length = (kernels[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
    if (np.diff(start) < length[:-1]).any():
        return None
    start = played.clocks.corrected(np.full(len(start), rank, np.int64), start) - played.start_ns
    order = np.argsort(played.steps)
    step = kernels["step"].to_numpy(np.int64)
    if not np.isin(step, played.steps).all():
        return None
    of_kernel = order[np.searchsorted(played.steps[order], step)]
    rows = np.arange(*np.searchsorted(played.rows["rank"].to_numpy(np.int64), (rank, rank + 1)))
    of_row = played.step_places[rows]
    if (np.diff(of_kernel) < 0).any():
        return None
    group, op = pd.factorize(played.rows["group"])[0][rows], played.rows["op"].to_numpy(np.int64)[rows]
    arrive = (played.rows["start_ns"].to_numpy(np.int64)[rows] - played.start_ns).astype(np.float64)
    moved = (played.rows["wait_ns"] + played.rows["moving_ns"]).to_numpy(np.int64)[rows]
    within = np.lexsort((arrive, _streams(played, rank, rows, group, of_groups), of_row))
    rows, op, group, arrive, moved = rows[within], op[within], group[within], arrive[within], moved[within]
    bounds = range(len(played.steps))
    first, last = (np.searchsorted(of_kernel, bounds, side=side) for side in ("left", "right"))
    begins, ends = (np.searchsorted(of_row[within], bounds, side=side) for side in ("left", "right"))
    spans = list(zip(first.tolist(), last.tolist(), begins.tolist(), ends.tolist(), strict=True))
    return _Lane(start.astype(np.float64), length.astype(np.float64), rows, op, group, arrive, arrive + moved, spans)


def _streams(played: Job, rank: int, rows: Int64, group: Int64, of_groups: Sequence[tuple[int, int]]) -> Int64:
    """Return the number of the stream of each collective: the same for groups of the same kind on all ranks."""
    types = played.rows["op_type"].iloc[rows].astype(str).to_numpy(object)
    kinds: dict[tuple[tuple[str, ...], int, bool], list[int]] = {}
    for one in dict.fromkeys(group.tolist()):
        names = tuple(sorted(set(types[group == one].tolist())))
        is_send = any(re.search(POINT_TO_POINT, name, re.IGNORECASE) for name in names)
        kinds.setdefault((names, *of_groups[one][:1], is_send and of_groups[one][1] < rank), []).append(one)
    number = {one: place for place, one in enumerate(one for key in sorted(kinds) for one in kinds[key])}
    return np.array([number[one] for one in group.tolist()], np.int64)


def _with_programs(played: Job, found: Sequence[_Lane], stage_of: Sequence[int]) -> list[_Lane]:
    """Return lanes with the number of the program of each step: the same kinds and numbers of work in a stage."""
    types = pd.factorize(played.rows["op_type"])[0]
    known: dict[tuple[object, ...], int] = {}
    numbered = []
    for lane, stage in zip(found, stage_of, strict=True):
        programs = []
        for first, last, begin, end in lane.spans:
            where = pd.factorize(lane.group[begin:end])[0]
            key = (stage, last - first, types[lane.row[begin:end]].tobytes(), where.tobytes())
            programs.append(known.setdefault(key, len(known)))
        numbered.append(replace(lane, programs=tuple(programs)))
    return numbered


def _with_edges(found: Sequence[_Lane]) -> list[_Lane]:
    """Return lanes with the kernels that collectives need, and those that wait for collectives."""
    relative: dict[int, list[tuple[Int64, Int64, Bools, Bools]]] = {}
    for lane in found:
        ended = np.searchsorted(lane.start_ns + lane.length_ns, lane.arrive_ns, side="right")
        begun = np.searchsorted(lane.start_ns, lane.end_ns, side="left")
        for program, (first, _, begin, end) in zip(lane.programs, lane.spans, strict=True):
            here = slice(begin, end)
            relative.setdefault(program, []).append((ended[here] - first, begun[here] - first, *_no(end - begin)))
    needs = {program: np.min([each[0] for each in some], axis=0) for program, some in relative.items()}
    gates = {program: np.max([each[1] for each in some], axis=0) for program, some in relative.items()}
    placed = []
    sure: dict[int, tuple[Bools, Bools]] = {program: _no(len(needs[program])) for program in needs}
    for lane in found:
        need, gate = (
            np.concatenate(
                [of[program] + first for program, (first, *_) in zip(lane.programs, lane.spans, strict=True)]
            ).astype(np.int64)
            for of in (needs, gates)
        )
        count, ends = len(lane.start_ns), lane.start_ns + lane.length_ns
        need, inside = np.clip(need, 0, count), (gate >= 0) & (gate < count)
        kernel = np.where(inside, gate, 0)
        free = (kernel > 0) & (ends[np.maximum(kernel - 1, 0)] < lane.end_ns)
        near = (lane.start_ns[kernel] >= lane.end_ns) & (lane.start_ns[kernel] - lane.end_ns <= _NEAR_NS)
        ready = np.where(need > 0, ends[np.maximum(need - 1, 0)], -np.inf)
        lag, was_free = lane.arrive_ns - ready, _free_ns(lane) < ready
        seen_need, seen_gate = was_free & (lag >= 0) & (lag <= _NEAR_NS), free & near & inside
        for program, (_, _, begin, end) in zip(lane.programs, lane.spans, strict=True):
            known = sure[program]
            sure[program] = (known[0] | seen_need[begin:end], known[1] | seen_gate[begin:end])
        placed.append(replace(lane, needs=need, gates=np.where(inside, gate, -1)))
    rows = {program: _rows_of(program, placed) for program in sure}
    depths, leads = {}, {program: np.zeros(len(some), bool) for program, some in needs.items()}
    for program, some in rows.items():
        depths[program] = np.zeros(len(needs[program]), np.int64)
        for of, to in _in_a_row(needs[program], gates[program], some):
            depths[program][to] = max(depths[program][to], depths[program][of] + 1)
            sure[program][0][to] = sure[program][1][of] = leads[program][of] = True
    return [
        replace(
            lane,
            sure_needs=np.concatenate([sure[program][0] for program in lane.programs]),
            sure_gates=np.concatenate([sure[program][1] for program in lane.programs]),
            depth=np.concatenate([depths[program] for program in lane.programs]),
            leads=np.concatenate([leads[program] for program in lane.programs]),
        )
        for lane in placed
    ]


def _rows_of(program: int, found: Sequence[_Lane]) -> tuple[Floats, Floats, Int64]:
    """Return when the collectives of a program began and ended, in each step that runs it, and the group of each."""
    spans = [
        (lane, begin, end)
        for lane in found
        for one, (_, _, begin, end) in zip(lane.programs, lane.spans, strict=True)
        if one == program
    ]
    return (
        np.stack([lane.arrive_ns[begin:end] for lane, begin, end in spans]),
        np.stack([lane.end_ns[begin:end] for lane, begin, end in spans]),
        spans[0][0].group[spans[0][1] : spans[0][2]],
    )


def _in_a_row(needs: Int64, gates: Int64, times: tuple[Floats, Floats, Int64]) -> Iterator[tuple[int, int]]:
    """Yield pairs of collectives of two groups in which the second waits for the first without a kernel between."""
    arrive, end, group = times
    order = np.argsort(np.median(arrive, axis=0), kind="stable").tolist()
    waited: dict[int, list[int]] = {}
    for one in order:
        for before in waited.get(int(needs[one]), []):
            gap = arrive[:, one] - end[:, before]
            if group[one] != group[before] and gap.min() >= -_NOISE_NS and (gap <= _NEAR_NS).any():
                yield before, one
        waited.setdefault(int(gates[one]), []).append(one)


def _free_ns(lane: _Lane) -> Floats:
    """Return when the collective before each one in its group ended."""
    free = np.full(len(lane.op), -np.inf)
    for group in np.unique(lane.group).tolist():
        here = np.flatnonzero(lane.group == group)
        free[here[1:]] = lane.end_ns[here[:-1]]
    return free


def _no(count: int) -> tuple[Bools, Bools]:
    return np.zeros(count, bool), np.zeros(count, bool)


def _own_work(made: Lanes) -> Job:
    """Return the job with its rows in the order of the program, and the own work of their rank before each."""
    lags = _lags(made)
    order, own, rare = [], [], []
    for lane, before, late in zip(made.lanes, lags.kernels, lags.collectives, strict=True):
        work = np.concatenate([[0.0], np.cumsum(before + lane.length_ns)])
        step = np.repeat(np.arange(len(lane.spans)), [end - begin for _, _, begin, end in lane.spans])
        within = np.lexsort((np.arange(len(lane.op)), lane.needs, step))
        reached = np.maximum.accumulate(work[lane.needs[within]])
        once = np.concatenate([[0.0], np.cumsum(_rare_ns(lane, before))])[lane.needs[within]]
        rare.append(np.diff(np.maximum.accumulate(once), prepend=0.0))
        order.append(lane.row[within])
        behind = np.where((late > _FAR_NS) & lane.sure_needs, late, 0.0)  # of a host that launches it late
        own.append(np.diff(reached, prepend=0.0) + behind[within])
    rows = made.job.rows.iloc[np.concatenate(order)].reset_index(drop=True)
    own_ns, rare_ns = (np.rint(np.concatenate(each)).astype(np.int64) for each in (own, rare))
    return replace(made.job, rows=rows.assign(own_ns=own_ns, rare_ns=rare_ns))


def _rare_ns(lane: _Lane, before_ns: Floats) -> Floats:
    """Return what passes before each kernel in fewer than half of the steps, as where a checkpoint is written."""
    kernels = np.arange(len(before_ns))
    step = np.repeat(np.arange(len(lane.spans)), [last - first for first, last, *_ in lane.spans])
    place = kernels - np.array([first for first, *_ in lane.spans])[step]
    usual = pd.Series(before_ns).groupby(place).transform("median").to_numpy(np.float64)
    return np.where(before_ns > usual + _FAR_NS, before_ns - usual, 0.0)


def _lags(played: Lanes) -> _Lags:
    """Return the delay of kernels and collectives beyond their inputs, and the transfer times."""
    kernels, collectives = [], []
    moving = np.full(int(max(lane.op.max() for lane in played.lanes)) + 1, np.inf)
    for lane in played.lanes:
        ends = lane.start_ns + lane.length_ns
        ready = np.append(played.begin_ns, ends[:-1])
        gated = np.flatnonzero(lane.gates >= 0)
        np.maximum.at(ready, lane.gates[gated], lane.end_ns[gated])
        kernels.append(np.maximum(lane.start_ns - ready, 0.0))
        needed = np.where(lane.needs > 0, ends[np.maximum(lane.needs - 1, 0)], played.begin_ns)
        latest, at_place = played.begin_ns, -1
        for place, order, at in lane.events():
            latest, at_place = (played.begin_ns if place != at_place else latest), place
            if order % 2:
                latest = max(latest, float(lane.end_ns[at]))
            else:
                needed[at] = max(float(needed[at]), latest)
        free = np.maximum(_free_ns(lane), played.begin_ns)
        collectives.append(np.maximum(lane.arrive_ns - np.maximum(needed, free), 0.0))
        np.minimum.at(moving, lane.op, lane.end_ns - lane.arrive_ns)
    return _Lags(tuple(kernels), tuple(collectives), moving)


def _of_other_steps(played: Lanes, lags: _Lags) -> _Lags:
    """Return lags that are fitted without their own step: medians of the rank's other steps of the same program."""
    kernels, collectives, moving = [], [], lags.moving.copy()
    for lane, *times in zip(played.lanes, lags.kernels, lags.collectives, strict=True):
        usual = [each.copy() for each in times]
        for program in set(lane.programs):
            spans = [span for span, one in zip(lane.spans, lane.programs, strict=True) if one == program]
            if len(spans) < 2:
                continue
            for place, (first, last, begin, end) in enumerate(spans):
                others = [span for at, span in enumerate(spans) if at != place]
                usual[0][first:last] = np.median([times[0][span[0] : span[1]] for span in others], axis=0)
                usual[1][begin:end] = np.median([times[1][span[2] : span[3]] for span in others], axis=0)
                moving[lane.op[begin:end]] = np.median(
                    [lags.moving[lane.op[span[2] : span[3]]] for span in others], axis=0
                )
        kernels.append(usual[0])
        collectives.append(usual[1])
    return _Lags(tuple(kernels), tuple(collectives), moving)


class _Run:
    """A rank in a replay: its clock, its next event, and which of its collectives could begin."""

    def __init__(self, lane: _Lane, kernels: Floats, collectives: Floats, begin_ns: float) -> None:
        self.work: list[float] = np.concatenate([[0.0], np.cumsum(kernels + lane.length_ns)]).tolist()
        self.ops: list[int] = lane.op.tolist()
        self.lags: list[float] = collectives.tolist()
        self.events = lane.events()
        self.before, self.after = [-1] * len(self.ops), [-1] * len(self.ops)
        latest: dict[int, int] = {}
        for at, group in enumerate(lane.group.tolist()):
            if group in latest:
                self.before[at], self.after[latest[group]] = latest[group], at
            latest[group] = at
        self.ready: list[float | None] = [None] * len(self.ops)
        self.clock, self.place, self.at = begin_ns, 0, 0

    def advance(self, place: int) -> None:
        """Run the kernels up to one."""
        self.clock += self.work[place] - self.work[self.place]
        self.place = place


def _replay(played: Lanes, lags: _Lags) -> float:
    """Return the time from the first kernel to the last end with other lags and durations; infinite if ranks block.

    A rank that waits for a collective goes on when all members have begun it, and the data has moved.
    """
    runs = [
        _Run(lane, kernels, collectives, played.begin_ns)
        for lane, kernels, collectives in zip(played.lanes, lags.kernels, lags.collectives, strict=True)
    ]
    members: dict[int, list[tuple[_Run, int]]] = {}
    for run in runs:
        for at, op in enumerate(run.ops):
            members.setdefault(op, []).append((run, at))
    missing = {op: len(some) for op, some in members.items()}
    begun, ends, moving = dict.fromkeys(members, played.begin_ns), dict[int, float](), lags.moving.tolist()

    def begin(todo: list[tuple[_Run, int]]) -> None:
        """Begin collectives whose inputs are ready if the ones before have ended, and those that this lets begin."""
        while todo:
            run, at = todo.pop()
            ready, before = run.ready[at], run.before[at]
            if ready is None or (before >= 0 and run.ops[before] not in ends):
                continue
            op = run.ops[at]
            free = ends[run.ops[before]] if before >= 0 else played.begin_ns
            begun[op] = max(begun[op], max(ready, free) + run.lags[at])
            missing[op] -= 1
            if not missing[op]:
                ends[op] = begun[op] + moving[op]
                todo += [(other, other.after[place]) for other, place in members[op] if other.after[place] >= 0]

    moves = True
    while moves:
        moves = False
        for run in runs:
            while run.at < len(run.events):
                place, order, at = run.events[run.at]
                is_gate = order % 2
                if is_gate and run.ops[at] not in ends:
                    break
                run.advance(place)
                if is_gate:
                    run.clock = max(run.clock, ends[run.ops[at]])
                else:
                    run.ready[at] = run.clock
                    begin([(run, at)])
                run.at, moves = run.at + 1, True
    if len(ends) < len(members) or any(run.at < len(run.events) for run in runs):
        return float("inf")
    for run in runs:
        run.advance(len(run.work) - 1)
    return max(*(run.clock for run in runs), *ends.values()) - played.begin_ns
