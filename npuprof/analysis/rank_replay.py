"""Predicted times of a job of several ranks, from a replay of its collectives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.analysis.prediction import TOLERANCE, Prediction, checked_factor, checked_factors
from npuprof.analysis.rank_clocks import Clocks
from npuprof.analysis.rank_order import Waves, waves
from npuprof.analysis.rank_pairs import CLOSE_NS, POINT_TO_POINT, group_of_pair
from npuprof.analysis.rank_waits import aligned, of_two_clocks
from npuprof.arrays import Bools, Int64
from npuprof.errors import NpuprofError, OptionsError

Floats: TypeAlias = npt.NDArray[np.float64]


NO_GROUP = "no group"
"""What the groups of operators begin with that name none, each of one rank."""


@dataclass(frozen=True)
class Job:
    """The collectives of a job on one clock, ready for a replay."""

    ranks: tuple[int, ...]  # the ranks, in order
    # The result of `waits`, with `own_ns` (time of the rank since the end of its previous collective), ordered by rank
    # and start.
    rows: pd.DataFrame
    # start_ns, end_ns: first start and last end of all collectives.
    start_ns: int
    end_ns: int
    clocks: Clocks  # the clocks by which the starts were corrected

    @cached_property
    def waves(self) -> Waves:
        """A valid execution order of the collectives."""
        return waves(self.rows["rank"].to_numpy(np.int64), self.rows["op"].to_numpy(np.int64))

    @cached_property
    def peers(self) -> list[list[int]]:
        """Groups of ranks that run the same collectives in the same order."""
        types = pd.factorize(self.rows["op_type"])[0].astype(np.int32)
        ranks, begins = np.unique(self.rows["rank"].to_numpy(np.int64), return_index=True)
        same: dict[bytes, list[int]] = {}
        for rank, of_rank in zip(ranks.tolist(), np.split(types, begins[1:]), strict=True):
            same.setdefault(of_rank.tobytes(), []).append(rank)
        return list(same.values())

    @cached_property
    def apart(self) -> tuple[int, int] | None:
        """Two ranks without synchronised clocks, by which one ends before the other begins; None if there are none.

        A collective in common, even through other ranks, synchronises the clocks of ranks.
        """
        ends = self.rows["start_ns"] + self.rows["wait_ns"] + self.rows["moving_ns"]
        spans = pd.DataFrame({"start": self.rows["start_ns"], "end": ends}).groupby(self.references)
        bounds = spans.agg(start=("start", "min"), end=("end", "max")).sort_values("start")
        late = np.flatnonzero(bounds["start"].to_numpy()[1:] > bounds["end"].cummax().to_numpy()[:-1])
        if not len(late):
            return None
        first, second = (int(self.clocks.ranks[bounds.index[place]]) for place in (late[0], late[0] + 1))
        return first, second

    @cached_property
    def references(self) -> Int64:
        """The number of the clock of each row: the same for ranks whose clocks are synchronised."""
        places = np.searchsorted(self.clocks.ranks, self.rows["rank"].to_numpy(np.int64))
        return self.clocks.references[places].astype(np.int64)

    @cached_property
    def are_clocks_apart(self) -> bool:
        """Whether ranks that send to each other have clocks that nothing synchronises.

        By these clocks no arrival at a send can be compared: who waits for whom is not known.
        """
        if not len(self.rows) or (self.references == self.references[0]).all():
            return False
        between = of_two_clocks(self.rows["op"].to_numpy(np.int64), self.references)
        return bool((self._is_send & (between | self._is_alone)).any())

    @cached_property
    def unpaired(self) -> tuple[int, int] | None:
        """Two ranks whose sends and receives do not pair.

        One has more in a step, they do not end together, or one ends before its other side begins.

        A message that one of them lacks makes pairs of the others that are none. None if all pair.
        """
        sends = self.rows[self._is_send][["rank", "group", "op", "start_ns", "wait_ns", "moving_ns"]]
        sends = sends.assign(group=pd.factorize(sends["group"])[0], step=self.step_places[self._is_send])
        known = set(zip(self.rows["rank"].tolist(), self.step_places.tolist(), strict=True))
        apart, crossing = self._apart_ns(sends), self._crossing(sends)
        for group, of_group in sends.groupby("group"):
            ranks = sorted(set(of_group["rank"].tolist()))
            if len(ranks) != 2:  # the other side is not here, or the group has several
                continue
            counts = of_group.groupby(["step", "rank"]).size().unstack(fill_value=0)
            both = [all((rank, step) in known for rank in ranks) for step in counts.index]
            uneven = bool((counts.nunique(axis=1) > 1)[both].any())
            if uneven or group in crossing or apart[group] > TOLERANCE * self.window_ns:
                return int(ranks[0]), int(ranks[1])
        return None

    @cached_property
    def has_lone_sends(self) -> bool:
        """Whether sends or receives lack their other side in groups of several ranks here that have their step."""
        is_lone = self._is_send & self._is_alone
        if not is_lone.any():
            return False
        sends = self.rows[self._is_send][["rank"]].assign(step=self.step_places[self._is_send])
        sends["group"] = [group_of_pair(str(group)) for group in self.rows["group"][self._is_send]]
        ranks_of = {group: set(ranks.tolist()) for group, ranks in sends.groupby("group")["rank"]}
        ranks_in = {step: set(ranks.tolist()) for step, ranks in self.rows["rank"].groupby(self.step_places)}
        lone = sends[is_lone[self._is_send]]
        return any(
            len(ranks_of[group]) > 1 and ranks_of[group] <= ranks_in[step]
            for group, step in lone[["group", "step"]].drop_duplicates().itertuples(index=False, name=None)
        )

    def _apart_ns(self, sends: pd.DataFrame) -> pd.Series[int]:
        """Return for each group the sum of the distances between the ends of its messages, without usual ones."""
        end = sends["start_ns"] + sends["wait_ns"] + sends["moving_ns"]
        ends = sends.assign(end=end).groupby(["group", "op"])["end"]
        apart = ends.max() - ends.min()
        return apart.where(apart > CLOSE_NS, 0).groupby(level=0).sum()

    def _crossing(self, sends: pd.DataFrame) -> set[int]:
        """Return the groups with a message whose sides do not overlap in time."""
        end = sends["start_ns"] + sends["wait_ns"] + sends["moving_ns"]
        latest = sends["start_ns"].groupby(sends["op"]).transform("max")
        return set(sends["group"][end < latest - CLOSE_NS].tolist())

    @cached_property
    def _is_send(self) -> Bools:
        types = self.rows["op_type"].astype("category")
        sends = types.cat.categories.astype(str).str.contains(POINT_TO_POINT, case=False, regex=True)
        return np.append(sends, False)[types.cat.codes.to_numpy()].astype(bool)

    @cached_property
    def _is_alone(self) -> Bools:
        op = self.rows["op"].to_numpy(np.int64)
        return np.bincount(op)[op] == 1

    @cached_property
    def steps(self) -> Int64:
        """The numbers of the steps, in order of time; -1 for that of collectives without one."""
        first = (
            pd.Series(self.rows["start_ns"].to_numpy(np.int64)).groupby(self._numbers).min().sort_values(kind="stable")
        )
        return first.index.to_numpy(np.int64)

    @cached_property
    def step_places(self) -> Int64:
        """The place of each row's step in :attr:`steps`."""
        order = np.argsort(self.steps)
        return order[np.searchsorted(self.steps[order], self._numbers)]

    @cached_property
    def _numbers(self) -> Int64:
        """The number of each row's step: that of the row before it, or else after it, where it has none; else -1."""
        step: pd.Series[int] = self.rows["step"].astype("Int64")
        if step.isna().any():
            by_rank = step.groupby(self.rows["rank"].to_numpy(np.int64))
            step = by_rank.ffill().fillna(by_rank.bfill())
        return step.to_numpy(dtype=np.int64, na_value=-1)

    @property
    def window_ns(self) -> int:
        """Time from the first start to the last end."""
        return self.end_ns - self.start_ns

    def waiting_ns(self) -> int:
        """Return the time of a step that a rank waits for others, the median over the ranks and steps."""
        sums = np.zeros((len(self.ranks), len(self.steps)), np.int64)
        place = np.searchsorted(np.array(self.ranks), self.rows["rank"].to_numpy(np.int64))
        np.add.at(sums, (place, self.step_places), self.rows["wait_ns"].to_numpy(np.int64))
        return int(np.median(sums))

    @cached_property
    def usual_ns(self) -> float:
        """The median time of a step, from the last end of the one before to its own."""
        times = [self.rows[name].to_numpy(np.int64) for name in ("start_ns", "wait_ns", "moving_ns")]
        usual = [0.0]
        for clock in np.unique(self.references).tolist():
            here = self.references == clock
            start, ends = int(times[0][here].min()), np.full(len(self.steps), -1, np.int64)
            np.maximum.at(ends, self.step_places[here], sum(each[here] for each in times))
            ends = ends[ends >= 0]  # steps of other ranks only
            usual.append(float(np.median(np.diff(np.maximum.accumulate(ends), prepend=start))))
        return max(usual)


def job(communication: pd.DataFrame) -> Job:
    """Prepare the collectives of all ranks.

    An operator whose group is not known is one of its rank alone, and all of its duration moves data: how much of it is
    waiting, and for whom, nothing tells, but it is no time of the rank's own.

    Parameters
    ----------
    communication
        Stacked ``communication`` tables, see :func:`npuprof.analysis.rank_waits.collectives`.
    """
    rows, estimated = aligned(_with_groups(communication))
    rank, starts = rows["rank"].to_numpy(np.int64), rows["start_ns"].to_numpy(np.int64)
    if ((rank[1:] == rank[:-1]) & (starts[1:] < starts[:-1])).any():  # a clock with much drift
        rows = rows.sort_values(["rank", "start_ns"], kind="stable").reset_index(drop=True)
    if not len(rows):
        raise NpuprofError("no rank has a collective with a group: load the ranks of one job, collected at level 1")
    starts = rows["start_ns"].to_numpy(np.int64)
    ends = starts + rows["wait_ns"].to_numpy(np.int64) + rows["moving_ns"].to_numpy(np.int64)
    rank = rows["rank"].to_numpy(np.int64)
    first = np.append(True, rank[1:] != rank[:-1])
    before = np.where(first, starts.min(), np.append(0, ends[:-1]))
    prepared = rows.assign(own_ns=starts - before)
    played = Job(tuple(sorted(set(rank.tolist()))), prepared, int(starts.min()), int(ends.max()), estimated)
    if not played.are_clocks_apart:
        return played
    begins = pd.Series(starts).groupby(played.references).transform("min").to_numpy(np.int64)  # on each clock
    return replace(played, rows=prepared.assign(own_ns=starts - np.where(first, begins, before)))


def _with_groups(communication: pd.DataFrame) -> pd.DataFrame:
    """Return operators of which those without a group have one that is their rank's alone, if any have a group."""
    rank, group = communication["rank"], communication["group"]
    lacking = (group.isna() & rank.notna()).to_numpy(bool)
    if not lacking.any() or lacking.all():
        return communication
    alone = NO_GROUP + " of rank " + rank[lacking].astype(str)
    return communication.assign(group=group.astype(object).mask(lacking, alone))


def without_group(rows: pd.DataFrame) -> Bools:
    """Return which rows of a job are operators whose group is not known."""
    group = rows["group"].astype("category")
    of_name = group.cat.categories.astype(str).str.startswith(NO_GROUP)
    return np.append(of_name, False)[group.cat.codes.to_numpy()].astype(bool)


def before_steps(played: Job) -> Bools:
    """Return which rows of a job come before the first step of their rank, such as those that set the job up."""
    rank = played.rows["rank"].to_numpy(np.int64)
    begun = played.rows["step"].notna().groupby(rank).cummax().to_numpy(bool)
    return ~begun & np.isin(rank, rank[begun])


def unknown_before(played: Job) -> Bools:
    """Return the rows before which a rank's time is not known: the first one after a step that it lacks."""
    ranks, place = played.rows["rank"].to_numpy(np.int64), played.step_places
    before = np.where(
        np.append(True, ranks[1:] != ranks[:-1])[: len(ranks)], -1, np.append(-1, place[:-1])[: len(place)]
    )
    return place > before + 1


def _refuse_clocks_apart(played: Job) -> None:
    if played.apart is not None:
        first, second = played.apart
        raise NpuprofError(
            f"no collective synchronises the clocks of ranks {first} and {second}, and by these clocks one ends before "
            "the other begins: synchronise the clocks of the hosts, or load ranks that have a collective in common"
        )
    if played.are_clocks_apart:
        raise NpuprofError(
            "only sends join some ranks, and do not tell how far apart their clocks are, so that nothing tells who "
            "waits for whom: synchronise the clocks of the hosts, or call a collective of all ranks in each step"
        )


def _refuse_unpaired(played: Job) -> None:
    _refuse_clocks_apart(played)
    if played.unpaired is not None:
        first, second = played.unpaired
        raise NpuprofError(
            f"sends and receives of ranks {first} and {second} do not pair: one has more of them in a step, or they "
            "end apart, so that nothing tells who waits for whom: load complete results of both"
        )


def checked_waves(played: Job) -> Waves:
    """Return the order in which a job is replayed."""
    _refuse_clocks_apart(played)
    order = played.waves
    if order.blocked >= 0:
        row = played.rows.iloc[order.blocked]
        raise NpuprofError(
            f"the ranks cannot be replayed: {row['op_type']} {row['k']} of group {row['group']} on rank "
            f"{row['rank']} waits for a member that never reaches it"
        )
    return order


def replay(played: Job, own_ns: Floats | Int64, moving_ns: Floats | Int64) -> float:
    """Return the duration of a job with other times, in nanoseconds.

    Each rank runs its collectives in the recorded order. It arrives at a collective its own time after the end of the
    previous one; the collective ends when its last member has arrived and the data has moved.
    """
    order = checked_waves(played)
    place = np.searchsorted(np.array(played.ranks), played.rows["rank"].to_numpy(np.int64))[order.rows]
    op = played.rows["op"].to_numpy(np.int64)[order.rows]
    before = np.asarray(own_ns, np.float64)[order.rows]
    moving = np.asarray(moving_ns, np.float64)
    clock = np.zeros(len(played.ranks))
    for begin, end in itertools.pairwise(order.begins):
        ranks, ops = place[begin:end], op[begin:end]
        first = np.flatnonzero(np.append(True, ops[1:] != ops[:-1]))
        finished = np.maximum.reduceat(clock[ranks] + before[begin:end], first) + moving[ops[first]]
        clock[ranks] = np.repeat(finished, np.diff(np.append(first, end - begin)))
    return float(clock.max())


def replay_steps(played: Job, own_ns: Floats, moving_ns: Floats, *, recorded: tuple[Floats, Floats]) -> float:
    """Return the duration of a job with other times in its steps, and the recorded ones before; see :func:`replay`."""
    is_before, moving_ns = before_steps(played), moving_ns.copy()
    operators = played.rows["op"].to_numpy(np.int64)[is_before]
    moving_ns[operators] = recorded[1][operators]
    return replay(played, np.where(is_before, recorded[0], own_ns), moving_ns)


def recorded_moving(played: Job) -> Floats:
    """Return the transfer time of each operator: the shortest duration among its members."""
    durations = (played.rows["wait_ns"] + played.rows["moving_ns"]).to_numpy(np.float64)
    least = np.full(int(played.rows["op"].max()) + 1, np.inf)
    np.minimum.at(least, played.rows["op"].to_numpy(np.int64), durations)
    return least


def what_if(
    communication: pd.DataFrame,
    *,
    transfer: float = 1.0,
    rank: Mapping[int, float] | None = None,
    balance: Literal["stages"] | None = None,
    saved_ns: Callable[[Job], Int64] | None = None,
) -> Prediction:
    """Predict the time of a job after changes; see :meth:`npuprof.ProfileSet.what_if`.

    Parameters
    ----------
    communication
        Stacked ``communication`` tables, see :func:`npuprof.analysis.rank_waits.collectives`.
    """
    checked_factor("transfer", transfer)
    if balance not in (None, "stages"):
        raise OptionsError(f"balance is {balance!r}; it must be 'stages' or None")
    played = job(communication)
    checked_factors("rank", rank or {}, dict.fromkeys(played.ranks))
    own_ns, moving = played.rows["own_ns"].to_numpy(np.float64), recorded_moving(played)
    _refuse_unpaired(played)
    unchanged = round(replay(played, own_ns, moving))
    if abs(unchanged - played.window_ns) > TOLERANCE * played.window_ns:
        raise NpuprofError(
            f"the replay of the unchanged job takes {unchanged / 1e6:.2f} ms, but {played.window_ns / 1e6:.2f} ms were "
            "recorded: nothing can be predicted from it"
        )
    if saved_ns is not None:
        own_ns = own_ns - saved_ns(played)
    ranks = played.rows["rank"].to_numpy(np.int64)
    changes = [] if transfer == 1 else [f"transfer x {transfer:g}"]
    for member, factor in (rank or {}).items():
        own_ns = np.where(ranks == member, own_ns * factor, own_ns)
        changes.append(f"rank {member} x {factor:g}")
    if balance is not None:
        sums = pd.Series(own_ns).groupby(ranks).sum()
        own_ns = own_ns * (float(sums.mean()) / np.maximum(sums.reindex(ranks).to_numpy(np.float64), 1))
        changes.append(f"balance {balance}")
    predicted = round(replay(played, own_ns, moving * transfer))
    return Prediction(played.window_ns, unchanged, predicted, tuple(changes), of_job=True)


def critical_path(communication: pd.DataFrame) -> pd.DataFrame:
    """Return the critical path of a job: time outside collectives of the last rank to arrive, and transfers.

    Returns
    -------
    pandas.DataFrame
        ``rank``, ``kind`` (``own`` or ``transfer``), ``op_type``, ``group``, ``start_ns`` and ``duration_ns``, in order
        of time; durations add up to the time from the first start of a collective to the last end.
    """
    played = job(communication)
    _refuse_unpaired(played)
    rows = played.rows
    starts = rows["start_ns"].to_numpy(np.int64)
    ends = starts + rows["wait_ns"].to_numpy(np.int64) + rows["moving_ns"].to_numpy(np.int64)
    ranks, ops = rows["rank"].to_numpy(np.int64), rows["op"].to_numpy(np.int64)
    order = np.lexsort((-ranks, starts, ops))
    last_of = order[np.cumsum(np.bincount(ops)) - 1]  # the latest start; at equal starts, the lowest rank
    path: list[tuple[int, str, int, int, int]] = []
    row, until = int(np.argmax(ends)), played.end_ns
    while until > played.start_ns:
        arrival = int(last_of[ops[row]])
        begin = min(int(starts[arrival]), until)
        path.append((int(ranks[row]), "transfer", row, begin, until - begin))
        previous = arrival - 1 if arrival and ranks[arrival - 1] == ranks[arrival] else None
        before = played.start_ns if previous is None else min(int(ends[previous]), begin)
        path.append((int(ranks[arrival]), "own", arrival, before, begin - before))
        if previous is None:
            break
        row, until = previous, before
    frame: pd.DataFrame = pd.DataFrame(path[::-1], columns=["rank", "kind", "row", "start_ns", "duration_ns"])
    operators = rows.iloc[frame["row"].to_numpy(np.int64)][["op_type", "group"]].reset_index(drop=True)
    return pd.concat([frame[["rank", "kind"]], operators, frame[["start_ns", "duration_ns"]]], axis=1)
