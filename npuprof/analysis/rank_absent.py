"""Ranks of which no collectives are recorded: when they arrived, as far as the others of their groups tell.

Where the others had to wait for an absent rank, its arrival is known: the end of the collective minus the time that
moving the data takes. Elsewhere it arrived before the last of the others, and is taken to have needed as long as ranks
with the same collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from npuprof.analysis.rank_clocks import Clocks
from npuprof.analysis.rank_pairs import ranks_of_pair
from npuprof.analysis.rank_replay import Floats, Job
from npuprof.analysis.rank_waits import LEAST_WAIT_NS
from npuprof.arrays import Bools, Int64

NO_RUN = "there is no run"
"""The beginning of the notes about absent ranks."""
RAISED = "the program raised"
"""Beginning of the note on a rank that ended with an exception."""

_MOSTLY = 0.5  # of the steps
_MOST_ADDED = 64  # ranks: of more, too little is known of what they did together


@dataclass(frozen=True)
class Members:
    """The operators of a job that lack members, and how long the others waited for these."""

    ops: Int64  # their numbers, ascending
    places: Mapping[int, list[int]]  # the places in `ops` of those that each absent rank belongs to
    fellows: Mapping[int, frozenset[int]]  # the other ranks of the groups of each absent rank
    # end_ns, latest_ns: when each ended, and when the last recorded member arrived.
    end_ns: Int64
    latest_ns: Int64
    least_ns: Int64  # the least time that another operator of the kind takes, which moving the data takes at most
    # What moving the data takes at least: as long as where all members of a group are recorded, else as long as the
    # vendor counts transfers; 0 if neither is known.
    surely_ns: Int64

    @property
    def absent_ns(self) -> Int64:
        """How long the last recorded member of each waited for an absent one."""
        return np.maximum(self.end_ns - self.latest_ns - self.least_ns, 0)

    @property
    def alike_ns(self) -> Int64:
        """How much longer each may have waited, as long as others of its kind: that looks like moving data."""
        return np.maximum(self.end_ns - self.latest_ns - self.surely_ns, 0) - self.absent_ns


def members_of(
    rows: pd.DataFrame,
    groups: Mapping[str, tuple[str, tuple[int, ...]]],
    rates: Mapping[str, float] | None = None,
    moved_ns: Callable[[], Mapping[int, Int64]] = dict,
) -> Members:
    """Return the operators that lack members of their group.

    Parameters
    ----------
    rows
        Collectives with ``rank``, ``group``, ``k``, ``op_type``, ``op``, ``start_ns``, ``wait_ns``, ``moving_ns`` and
        ``count``, if that is known.
    rates
        The share of the usual rate at which groups with a slow link move data: they take longer without a late member.
    moved_ns
        Returns how long transfers took in the collectives of some ranks, in the order of `rows`; 0 where that is not
        known. It is called if operators lack members.
    """
    op = rows["op"].to_numpy(np.int64)
    group = rows["group"].astype("category")
    listed = [groups.get(str(name), ("", ranks_of_pair(str(name)))) for name in group.cat.categories]
    first = np.unique(op, return_index=True)[1]
    code = group.cat.codes.to_numpy(np.int64)[first]
    size = np.array([len(ranks) for _, ranks in listed] or [0])[code]
    here = np.bincount(op) if len(op) else op
    ops = np.flatnonzero((size > 1) & (here < size))
    ends, latest, least = _times(rows, op)
    # Without a recorded size, operators of one kind of group, type and number within the step move as much.
    kind = pd.factorize(np.array([name for name, _ in listed] or [""], object))[0][code]
    alike = pd.DataFrame({"kind": kind, "size": size})
    for name in ("op_type", "count" if "count" in rows else "k"):
        alike[name] = pd.factorize(rows[name])[0][first]
    slowness = np.array([1 / (rates or {}).get(str(name), 1.0) for name in group.cat.categories] or [1.0])[code]
    at_full_rate = pd.Series(np.rint(least / slowness).astype(np.int64))
    of_kind = _moved(at_full_rate, alike, here >= size)
    of_kind = np.minimum(np.rint(of_kind * slowness).astype(np.int64), least)
    transfers = _transfers(rows, op, moved_ns() if len(ops) else {})
    surely = np.minimum(_surely(at_full_rate, alike, here >= size, slowness, transfers), of_kind)
    lacking = _lacking([listed[number][1] for number in code[ops].tolist()], _present(rows, op, ops, code), ops)
    return Members(ops, *lacking, ends[ops], latest[ops], of_kind[ops], surely[ops])


def _lacking(
    listed: Sequence[Sequence[int]], present: Mapping[int, frozenset[int]], ops: Int64
) -> tuple[dict[int, list[int]], dict[int, frozenset[int]]]:
    """Return the places of the operators that each absent rank belongs to, and the ranks that it has them with."""
    places: dict[int, list[int]] = {}
    fellows: dict[int, set[int]] = {}
    for place, (ranks, number) in enumerate(zip(listed, ops.tolist(), strict=True)):
        for rank in set(ranks) - present[number]:
            places.setdefault(rank, []).append(place)
            fellows.setdefault(rank, set()).update(ranks)
    return dict(sorted(places.items())), {rank: frozenset(ranks) for rank, ranks in fellows.items()}


def _moved(at_full_rate: pd.Series[int], alike: pd.DataFrame, is_whole: Bools) -> Int64:
    """Return for each operator the least time of its like at full rate, which is what moving its data takes at most.

    Where sizes are unknown and nothing is like an operator, since a rank hangs before it, say, the longest of the whole
    operators of its kind of group and type is that.
    """
    same = at_full_rate.groupby([alike[name] for name in alike])
    least: Int64 = same.transform("min").to_numpy(np.int64)
    if "count" in alike:
        return least
    whole = at_full_rate.where(is_whole, -1).groupby([alike["kind"], alike["op_type"]]).transform("max")
    is_alone = (same.transform("size") == 1) & (whole >= 0)
    return np.where(is_alone, whole, least)


def _surely(
    at_full_rate: pd.Series[int], alike: pd.DataFrame, is_whole: Bools, slowness: Floats, transfers_ns: Int64
) -> Int64:
    """Return for each operator what moving its data takes at least.

    That is the least time of its like with all members; where no such one is whole, the transfers in it, and in one in
    which they are not known the least of those in its like.
    """
    by_kind = [alike[name] for name in alike]
    whole = at_full_rate.where(is_whole).groupby(by_kind).transform("min") * slowness
    known = pd.Series(transfers_ns).where(transfers_ns > 0)
    moved = known.fillna(known.groupby(by_kind).transform("min"))
    return whole.fillna(moved).fillna(0).round().to_numpy(np.int64)


def _transfers(rows: pd.DataFrame, op: Int64, moved_ns: Mapping[int, Int64]) -> Int64:
    """Return how long the transfers of each operator took, as far as they are known; 0 elsewhere."""
    rank, longest = rows["rank"].to_numpy(np.int64), np.zeros(int(op.max(initial=-1)) + 1, np.int64)
    for member, moved in moved_ns.items():
        here = slice(*np.searchsorted(rank, (member, member + 1)))
        if len(moved) == here.stop - here.start:
            np.maximum.at(longest, op[here], moved)
    return longest


def _times(rows: pd.DataFrame, op: Int64) -> tuple[Int64, Int64, Int64]:
    """Return the last end, the last start and the least duration of each operator."""
    start, count = rows["start_ns"].to_numpy(np.int64), int(op.max(initial=-1)) + 1
    length = (rows["wait_ns"] + rows["moving_ns"]).to_numpy(np.int64)
    ends = np.full(count, np.iinfo(np.int64).min)
    latest, least = ends.copy(), np.full(count, np.iinfo(np.int64).max)
    np.maximum.at(ends, op, start + length)
    np.maximum.at(latest, op, start)
    np.minimum.at(least, op, length)
    return ends, latest, least


def _present(rows: pd.DataFrame, op: Int64, ops: Int64, code: Int64) -> dict[int, frozenset[int]]:
    """Return the recorded members of operators; those of one group mostly have the same."""
    rank = rows["rank"].to_numpy(np.int64)
    is_lacking = np.zeros(len(code), bool)
    is_lacking[ops] = True
    chosen = np.flatnonzero(is_lacking[op])
    pairs = np.unique(np.column_stack([code[op[chosen]], rank[chosen]]), axis=0)
    whole: dict[int, set[int]] = {}
    for number, member in pairs.tolist():
        whole.setdefault(number, set()).add(member)
    of_group = {number: frozenset(members) for number, members in whole.items()}
    here = np.bincount(op)
    members = {number: of_group[int(code[number])] for number in ops.tolist()}
    fewer = [number for number in ops.tolist() if here[number] < len(members[number])]
    order = np.argsort(op, kind="stable")
    begins = np.searchsorted(op[order], fewer)
    for number, begin in zip(fewer, begins.tolist(), strict=True):
        members[number] = frozenset(rank[order[begin : begin + int(here[number])]].tolist())
    return members


def with_absent(
    rows: pd.DataFrame, groups: Mapping[str, tuple[str, tuple[int, ...]]], tells_last: Bools | None = None
) -> pd.DataFrame:
    """Return waits with the time that members may have waited for absent ones.

    Where an operator lacks members of its group, what takes longer than another operator of the same kind of group,
    type and size (its number within the step, if sizes are not recorded; the longest whole one where none has that
    number) is no moving of data but such a wait.

    Parameters
    ----------
    tells_last
        Of each operator, whether its waits tell who came last: :func:`npuprof.analysis.rank_waits.counts`; by default
        all do.

    Returns
    -------
    pandas.DataFrame
        ``rank``, ``step``, ``group``, ``k``, ``op_type``, ``start_ns`` (on the common clock), ``wait_ns``,
        ``moving_ns`` and ``absent_ns``, which add up to the duration, ``last_rank`` (the lowest of several; absent
        where `tells_last` is false, or ``absent_ns`` of the last recorded member is more than 0.1 ms) and ``op``.
    """
    members = members_of(rows, groups)
    op, moving = rows["op"].to_numpy(np.int64), rows["moving_ns"].to_numpy(np.int64)
    most = np.full(int(op.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    most[members.ops] = members.least_ns
    left = np.minimum(moving, most[op])
    is_late = np.zeros(len(most), bool) if tells_last is None else ~tells_last
    is_late[members.ops[members.absent_ns > LEAST_WAIT_NS]] = True
    last = pd.arrays.IntegerArray(rows["last_rank"].to_numpy(np.int64).copy(), is_late[op])
    split: pd.DataFrame = rows.drop(columns="count", errors="ignore").assign(moving_ns=left, last_rank=last)
    split.insert(list(split.columns).index("moving_ns") + 1, "absent_ns", moving - left)
    return split


@dataclass(frozen=True)
class Program:
    """What the ranks of a role do in each step."""

    ranks: frozenset[int]
    types: Mapping[int, tuple[str, ...]]  # the types of the collectives of each step, by the step's number
    usual_ns: Mapping[int, Floats]  # how long a rank usually takes before each, by the step's number


@dataclass(frozen=True)
class Completed:
    """A job with the collectives of absent ranks added."""

    job: Job
    moving_ns: Floats  # the time of each operator to move data
    added: tuple[int, ...] = ()  # the ranks that were added, in whole or in part
    # The absent ranks that could not be added, because too little is known of what they did.
    unknown: tuple[int, ...] = ()
    is_added: Bools | None = None  # which rows of the job were added; None for no one


def completed(played: Job, moving_ns: Floats, members: Members, programs: Sequence[Program]) -> Completed:
    """Add the collectives of absent ranks to a job."""
    late = members.absent_ns > LEAST_WAIT_NS
    moving = moving_ns.copy()
    moving[members.ops[late]] = members.least_ns[late]
    added = _collectives(played, members, programs) if len(members.places) <= _MOST_ADDED else {}
    unknown = tuple(rank for rank in members.places if rank not in added)
    if not added:
        return Completed(played, moving_ns, (), unknown)
    rows: pd.DataFrame = pd.concat(added.values(), ignore_index=True)
    # Of several absent members the one that is expected last is taken for the last one.
    expected = rows["before_ns"] + rows["usual_ns"]
    last = expected.groupby(rows["op"]).transform("max") == expected
    place = np.searchsorted(members.ops, rows["op"].to_numpy(np.int64))
    arrived = np.where(late, members.end_ns - members.least_ns, members.latest_ns)[place]
    most = np.maximum(arrived - rows["before_ns"].to_numpy(np.int64), 0)
    own_ns = np.where(late[place] & last, most, np.clip(rows["usual_ns"].to_numpy(np.int64), 0, most))
    rows = rows.assign(own_ns=own_ns, start_ns=rows["before_ns"] + own_ns)
    rows = rows.assign(wait_ns=rows["end_ns"] - rows["start_ns"], moving_ns=0, last_rank=rows["rank"])
    parts = [played.rows.assign(is_added=False), rows[[*played.rows.columns]].assign(is_added=True)]
    whole = pd.concat(parts, ignore_index=True)
    whole = whole.sort_values(["rank", "start_ns"], kind="stable", ignore_index=True)
    whole = _after_added(_split_anew(whole, moving, members.ops), played.start_ns, added)
    is_added = whole.pop("is_added").to_numpy(bool)
    ranks = tuple(sorted({*played.ranks, *added}))
    job = replace(played, ranks=ranks, rows=whole, clocks=_with_ranks(played.clocks, rows))
    return Completed(job, moving, tuple(sorted(added)), unknown, is_added)


def _collectives(played: Job, members: Members, programs: Sequence[Program]) -> dict[int, pd.DataFrame]:
    """Return the collectives of absent ranks in the order in which they ended, where a role has done the same."""
    columns = [name for name in ("step", "group", "k", "op_type", "op", "count") if name in played.rows]
    number, rank = played.rows["op"].to_numpy(np.int64), played.rows["rank"].to_numpy(np.int64)
    first = np.unique(number, return_index=True)[1]
    added = {}
    for absent, places in members.places.items():
        rows = played.rows.iloc[first[members.ops[places]]][columns].assign(end_ns=members.end_ns[places])
        recorded = played.rows.iloc[slice(*np.searchsorted(rank, (absent, absent + 1)))]
        ends = recorded["start_ns"] + recorded["wait_ns"] + recorded["moving_ns"]
        parts = [rows.assign(known=False), recorded[columns].assign(end_ns=ends, known=True)]
        every = pd.concat([part for part in parts if len(part)], ignore_index=True)
        every = every.sort_values("end_ns", kind="stable", ignore_index=True).assign(rank=absent)
        every["before_ns"] = every["end_ns"].shift(1, fill_value=played.start_ns)
        usual = _usual(every, sorted(programs, key=lambda each: -len(each.ranks & members.fellows[absent])))
        if usual is not None:
            added[absent] = every.assign(usual_ns=usual)[~every["known"].to_numpy(bool)]
    return added


def _usual(rows: pd.DataFrame, programs: Sequence[Program]) -> Int64 | None:
    """Return how long the first role that does the same usually takes before each collective; None if there is none."""
    step = rows["step"].ffill().bfill().fillna(-1).to_numpy(np.int64)
    types = rows["op_type"].astype(str).to_numpy(object)
    for program in programs:
        usual = [
            program.usual_ns[number]
            for number in dict.fromkeys(step.tolist())
            if program.types.get(number) == tuple(types[step == number])
        ]
        if usual and sum(map(len, usual)) == len(rows):
            return np.rint(np.concatenate(usual)).astype(np.int64)
    return None


def _split_anew(rows: pd.DataFrame, moving_ns: Floats, ops: Int64) -> pd.DataFrame:
    """Return rows whose operators, where they have new members, are split into waiting and moving again."""
    op, start = rows["op"].to_numpy(np.int64), rows["start_ns"].to_numpy(np.int64)
    length = (rows["wait_ns"] + rows["moving_ns"]).to_numpy(np.int64)
    latest = np.full(len(moving_ns), np.iinfo(np.int64).min)
    np.maximum.at(latest, op, start)
    last_rank = np.zeros(len(moving_ns), np.int64)
    at_last = np.flatnonzero(start == latest[op])[::-1]
    last_rank[op[at_last]] = rows["rank"].to_numpy(np.int64)[at_last]
    is_changed = np.isin(op, ops)
    wait = np.where(is_changed, np.minimum(latest[op] - start, length), rows["wait_ns"].to_numpy(np.int64))
    return rows.assign(
        wait_ns=wait,
        moving_ns=length - wait,
        last_rank=np.where(is_changed, last_rank[op], rows["last_rank"].to_numpy(np.int64)),
    )


def mostly_here(recorded: Job, whole: Job) -> list[int]:
    """Return the ranks with all collectives of most steps."""
    here, every = (job.rows.groupby(["rank", "step"], dropna=False).size() for job in (recorded, whole))
    shares = (here.reindex(every.index, fill_value=0) == every).groupby(level="rank").mean()
    return [int(rank) for rank in shares.index[(shares > _MOSTLY).to_numpy(bool)]]


def _after_added(rows: pd.DataFrame, start_ns: int, added: Collection[int]) -> pd.DataFrame:
    """Return rows in which what ranks with added collectives take before each begins with the end of the last one."""
    rank, start = rows["rank"].to_numpy(np.int64), rows["start_ns"].to_numpy(np.int64)
    ends = start + (rows["wait_ns"] + rows["moving_ns"]).to_numpy(np.int64)
    before = np.where(np.append(True, rank[1:] != rank[:-1]), start_ns, np.append(0, ends[:-1]))
    own_ns = np.where(np.isin(rank, list(added)), start - before, rows["own_ns"].to_numpy(np.int64))
    return rows.assign(own_ns=own_ns)


def _with_ranks(clocks: Clocks, added: pd.DataFrame) -> Clocks:
    """Return the clocks of a job with more ranks, whose times are on the common clock."""
    more = np.setdiff1d(np.unique(added["rank"].to_numpy(np.int64)), clocks.ranks)
    at = np.searchsorted(clocks.ranks, more)
    moved = np.arange(len(clocks.ranks)) + np.searchsorted(more, clocks.ranks)
    return replace(
        clocks,
        ranks=np.insert(clocks.ranks, at, more),
        offsets=np.insert(clocks.offsets, at, 0),
        rates=np.insert(clocks.rates, at, 0.0),
        spreads=np.insert(clocks.spreads, at, -1),
        collectives=np.insert(clocks.collectives, at, 0),
        references=np.insert(moved[clocks.references], at, moved[clocks.references[0]]),
    )
