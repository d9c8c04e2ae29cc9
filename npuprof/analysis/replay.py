"""Replay of a run on one rank: host threads and streams as lanes, with the dependencies between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from npuprof.analysis.device_lanes import DeviceLanes, device_lanes
from npuprof.analysis.host_lanes import SYNCHRONISE, HostLanes
from npuprof.analysis.idle_causes import idle_causes
from npuprof.analysis.intervals import Spans, union, within
from npuprof.analysis.prediction import TOLERANCE
from npuprof.analysis.step_windows import StepWindows
from npuprof.arrays import Bools, Int64, distinct, search_in_groups
from npuprof.errors import NpuprofError
from npuprof.words.quantities import counted, duration

_SKEWED_NS = 100_000  # a task that starts this long before its launch call has a wrong link or clock
_NEVER = -(1 << 62)  # the wait of a thread that need not wait
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Change:
    """The changes in a replay."""

    durations: Int64 | None = None  # durations of device tasks, in their order; None for the recorded durations
    host: Mapping[str, float] = field(default_factory=dict)  # factors on the host time spent on each cause of idle time
    between: float = 1  # factor on the host time between steps

    @property
    def of_host(self) -> bool:
        """Whether the host takes another time."""
        return self.between != 1 or any(factor != 1 for factor in self.host.values())


@dataclass(frozen=True)
class Points:
    """Times on threads, as the preceding host wait (-1 for none) and the thread's time since then."""

    wait: Int64
    since: Int64
    until: Int64
    thread: Int64


@dataclass(frozen=True)
class _Played:
    """A replay: what :meth:`Replay.play` returns, and the times of nodes and batches from which it comes."""

    done: Int64
    durations: Int64
    holds: Int64
    sums: Int64
    later: Int64
    apart: Int64
    causes: Int64


class Replay:
    """A run that can be replayed with changed times.

    A task starts when its lane is free and its dependencies are done: its launch by the host, or an event of another
    stream. A thread continues from a wait when it has reached it and what it waits for is done. Other recorded delays
    are kept. Collectives keep their duration.

    Attributes
    ----------
    windows
        The steps. Those that are marked on the host last to the start of the next one.
    device_id
        The device that they are of.
    by_marks
        Whether steps are marked on a host thread.
    device, host
        The lanes of the device and of the host.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], windows: StepWindows, device_id: int) -> None:
        self._tables = tables
        self.device_id = device_id
        self.device = device_lanes(tables)
        if not len(self.device) or not len(windows.starts):
            raise NpuprofError(
                "there is nothing to replay: the run has no kernels, or its steps have no position in time"
            )
        _check_clocks(tables, self.device)
        self.host = HostLanes(tables, self.device)
        self.by_marks = windows.basis in ("steps", "run") and self.host.main is not None
        self.windows = windows.lasting() if self.by_marks else windows
        self._order_nodes()
        self._join_batches()
        self.recorded_ns = self.windows.durations()
        self.replayed_ns = self.step_times(Change())
        missed = abs(int(self.replayed_ns.sum()) - int(self.recorded_ns.sum()))
        if missed > TOLERANCE * int(self.recorded_ns.sum()):
            replayed, recorded = (duration(int(times.sum())) for times in (self.replayed_ns, self.recorded_ns))
            raise NpuprofError(
                f"the replay of the unchanged run takes {replayed}, and {recorded} were recorded: "
                "nothing can be predicted from it"
            )

    def _order_nodes(self) -> None:
        """Order host waits and tasks by time, and find the cause of each among the earlier ones."""
        waits, device = self.host.waits, self.device
        count = len(waits)
        self.root_ns = int(min([self.windows.starts.min(), device.starts.min(), *waits.begin[waits.begin > _LEAST]]))
        moments = np.concatenate([waits.time, device.starts])
        order = np.lexsort((np.arange(len(moments)) >= count, moments))
        place = np.empty(len(order) + 1, np.int64)
        place[order], place[-1] = np.arange(1, len(order) + 1), 0
        self.order, self.place = order, place  # the root, cause -1, has place 0
        self.after_call = self.points(waits.of_thread, waits.of_ns)
        self.launched = self.points(device.thread, device.launch_ns)
        of_host = np.where(waits.task >= 0, waits.task + count, self.after_call.wait)
        of_device = np.where(device.cause >= 0, device.cause + count, self.launched.wait)
        cause = np.concatenate([of_host, of_device])
        earlier = place[cause] < place[:-1]
        cause[~earlier] = -1
        self.cause: Int64 = cause
        self.by_task = np.concatenate([waits.task >= 0, device.cause >= 0]) & (cause >= 0)
        self.done_ns = np.concatenate([waits.time, device.ends])
        reached = np.append(self.done_ns, self.root_ns)[cause]
        of_call = np.concatenate([self.after_call.until, self.launched.until])
        is_called = np.concatenate([waits.of_thread >= 0, device.thread >= 0]) & ~self.by_task & earlier
        self.by_call = is_called
        self.cause_ns = np.where(is_called, of_call, np.minimum(reached, moments))
        is_same_thread = np.append(False, waits.thread[1:] == waits.thread[:-1])[:count]
        self._before_ns = np.where(is_same_thread, np.append(0, waits.time[:-1])[:count], self.root_ns)
        self._begin_ns = np.maximum(waits.begin, self._before_ns)
        held = device.starts + device.holds
        first = np.append(True, device.lane[1:] != device.lane[:-1])[: len(device)]
        self.free_ns = np.concatenate(
            [self._begin_ns, np.where(first, self.root_ns, np.append(0, held[:-1])[: len(held)])]
        )
        self.lag_ns = np.maximum(moments - np.maximum(self.free_ns, self.cause_ns), 0)
        lanes = pd.factorize(waits.thread)[0] + len(device.names)
        self.lane = np.concatenate([device.lane[:0], lanes, device.lane]).astype(np.int64)

    def _join_batches(self) -> None:
        """Join consecutive tasks into batches, except where something else waits for one of them."""
        device, count = self.device, len(self.host.waits)
        nodes = len(self.lane)
        alone = np.ones(nodes, bool)
        alone[count:] = device.holds != device.ends - device.starts
        needed = alone.copy()
        needed[self.cause[self.cause >= 0]] = True
        needed[count:][self._is_cut()] = True
        opens = np.append(True, (self.lane[1:] != self.lane[:-1]) | (self.cause[1:] != self.cause[:-1]))[:nodes]
        opens |= alone
        opens[1:] |= needed[:-1]
        self._first = np.flatnonzero(opens)
        self._last = np.append(self._first[1:], nodes) - 1
        self._run_of = np.cumsum(opens) - 1
        self._run_order = np.argsort(self.place[self._last], kind="stable")
        self._place = np.zeros(len(self._last) + 1, np.int64)  # the last one is the root
        self._place[self._run_order] = np.arange(1, len(self._last) + 1)

    def _is_cut(self) -> Bools:
        """Return which tasks are the last of their lane to end, or the last or next to start, at a border of a step."""
        device, count = self.device, len(self.device)
        last = np.append(device.lane[1:] != device.lane[:-1], True)[:count]
        first = np.append(True, last[:-1])[:count]
        ranks = distinct(device.ends)
        reach = np.maximum.accumulate(device.lane * len(ranks) + np.searchsorted(ranks, device.ends))
        ended = ranks[reach % len(ranks)]
        is_cut = np.zeros(count, np.bool_)
        for borders in map(np.sort, self.windows.spans):
            by_end = np.searchsorted(borders, ended, side="left")
            by_start = np.searchsorted(borders, device.starts, side="right")
            for passed in (by_end, by_start):
                is_cut |= passed < np.where(last, len(borders), np.append(passed[1:], 0)[:count])
            is_cut |= np.where(first, 0, np.append(0, by_start[:-1])[:count]) < by_start
        return is_cut

    def points(self, thread: Int64, moments: Int64) -> Points:
        """Locate times among the waits of their threads; while a thread waits, all its earlier work is done."""
        waits = self.host.waits
        wait, since, until = np.full(len(thread), -1, np.int64), np.full(len(thread), self.root_ns), moments.copy()
        at = search_in_groups(waits.thread, waits.time, thread, moments, "right")
        has = (thread >= 0) & (at > np.searchsorted(waits.thread, thread, side="left"))
        following = (thread >= 0) & (at < np.searchsorted(waits.thread, thread, side="right"))
        wait[has] = at[has] - 1
        since[has] = waits.time[at[has] - 1]
        until[following] = np.minimum(moments[following], waits.begin[at[following]])
        return Points(wait, since, np.maximum(until, since), thread)

    def step_times(self, change: Change) -> Int64:
        """Return the duration of each step after a change, in nanoseconds.

        A step that is marked on the host ends when its mark is reached and the device has done the work that it had
        done by then; other steps begin with their first task and end with their last task.
        """
        done, durations = self.play(change)
        starts, ends = self.windows.spans
        device, count = self.device, len(self.host.waits)
        of_device = np.flatnonzero(self._last >= count)
        tasks = self._last[of_device] - count
        reached = done[of_device]
        order = np.argsort(device.ends[tasks], kind="stable")
        latest = np.append(np.maximum.accumulate(reached[order]), _LEAST)
        ended = device.ends[tasks][order]
        at_ends = latest[np.searchsorted(ended, ends, side="right") - 1]
        if self.by_marks:
            at_starts = latest[np.searchsorted(ended, starts, side="right") - 1]
            marked = [self._mark(done, moments, change) for moments in (starts, ends)]
            begin, end = np.maximum(at_starts, marked[0]), np.maximum(at_ends, marked[1])
        else:
            order = np.argsort(device.starts[tasks], kind="stable")
            begins = (reached - durations[tasks])[order]
            first = np.append(np.minimum.accumulate(begins[::-1])[::-1], _MOST)
            begin, end = first[np.searchsorted(device.starts[tasks][order], starts, side="left")], at_ends
        times = np.zeros(len(self.windows.steps), np.int64)
        np.add.at(times, self.windows.owner, end - begin)
        return times

    def _mark(self, done: Int64, moments: Int64, change: Change) -> Int64:
        points = self.points(np.full(len(moments), self.host.main, np.int64), moments)
        elapsed = self._elapsed_ns(points.thread, points.since, moments, change)
        runs = np.append(self._run_of[: len(self.host.waits)], -1)[points.wait]
        return np.append(done, self.root_ns)[runs] + elapsed

    def play(self, change: Change) -> tuple[Int64, Int64]:
        """Return the end of each host wait and each batch of tasks after a change, and the durations of the tasks.

        A batch is consecutive tasks of a stream that were launched after the same host wait; two numbers describe its
        time: after that wait, and after the previous batch of its stream.
        """
        played = self._played(change)
        return played.done, played.durations

    def moments(self, change: Change) -> tuple[Int64, Int64]:
        """Return when each host wait ends and each task starts after a change, and the durations of the tasks."""
        played, nodes = self._played(change), len(self.lane)
        opens = self._first
        # The lane is free when the batch before has left it; inside of a batch each task waits for the one before.
        is_same = np.append(False, self.lane[opens[1:]] == self.lane[opens[1:] - 1])[: len(opens)]
        left = np.append(self.root_ns, (played.done - played.apart)[:-1])[: len(opens)]
        free = np.where(is_same, left, self.root_ns)
        before = np.append(0, played.sums)[opens]
        latest = pd.Series(played.later - played.sums).groupby(self._run_of).cummax().to_numpy(np.int64)
        caused = np.append(played.done, self.root_ns)[played.causes]
        by_lane = (free - before)[self._run_of] + played.sums
        reached = np.maximum(by_lane, caused[self._run_of] + latest + played.sums)
        reached[len(self.host.waits) : nodes] -= played.holds
        return reached, played.durations

    def on_threads(self, waits_ns: Int64, thread: Int64, moments: Int64, change: Change) -> Int64:
        """Return moments of threads after a change, given when each host wait ends after it."""
        waits, points = self.host.waits, self.points(thread, moments)
        elapsed = self._elapsed_ns(thread, points.since, moments, change)
        moved = np.append(waits_ns, self.root_ns)[points.wait] + elapsed
        following = np.where(points.wait >= 0, points.wait + 1, np.searchsorted(waits.thread, thread))
        at = np.minimum(following, max(len(waits) - 1, 0))
        is_within = np.append(waits.thread, -1)[at] == thread if len(waits) else np.zeros(len(thread), bool)
        is_within &= following < len(waits)
        latest: Int64 = np.where(is_within, np.append(waits_ns, 0)[at], _MOST)
        return np.minimum(moved, latest)

    def _played(self, change: Change) -> _Played:
        device, count = self.device, len(self.host.waits)
        durations, holds = device.ends - device.starts, device.holds
        if change.durations is not None:
            factor = change.durations / np.maximum(durations, 1)
            holds = np.where(change.durations == durations, holds, np.rint(holds * factor).astype(np.int64))
            durations = change.durations
        before, after = self._delays(change)
        times = before.copy()
        times[count:] += holds
        sums = np.cumsum(times)
        later = after.copy()
        later[count:] += holds
        total = np.diff(sums[self._last], prepend=0)
        latest = np.maximum.reduceat(later - sums, self._first) + sums[self._last]
        # A task that ends after the next task of its stream has started keeps its own end.
        apart = np.zeros(len(self._last), np.int64)
        tasks = self._last >= count
        apart[tasks] = (durations - holds)[self._last[tasks] - count]
        causes = np.append(self._run_of, -1)[self._causes(change)[self._last]]
        done = self._run(total, self._place[causes], latest, apart)
        return _Played(done, durations, holds, sums, later, apart, causes)

    def _delays(self, change: Change) -> tuple[Int64, Int64]:
        """Return the delays of each node: after its lane is free, and after its cause is done."""
        waits, count = self.host.waits, len(self.host.waits)
        lag, after = self.lag_ns, self.cause_ns - np.append(self.done_ns, self.root_ns)[self.cause]
        before = np.zeros(len(lag), np.int64)
        before[:count] = self._elapsed_ns(waits.thread, self._before_ns, self._begin_ns, change)
        if change.of_host:
            from_ns = np.minimum(np.maximum(self.free_ns[:count], self.cause_ns[:count]), waits.time)
            lag = np.concatenate([self._elapsed_ns(waits.thread, from_ns, waits.time, change), lag[count:]])
            calls = (self.after_call, self.launched)
            elapsed = [self._elapsed_ns(call.thread, call.since, call.until, change) for call in calls]
            after = np.where(self.by_call, np.concatenate(elapsed), after)
            after[self._causes(change) != self.cause] = _NEVER
        # The lag is relative to what was done last; a synchronising call takes its own time in any case.
        always = self.free_ns >= self.cause_ns
        always[:count] |= waits.kind == SYNCHRONISE
        before += np.where(always, lag, 0)
        return before, after + lag

    def _run(self, before: Int64, cause: Int64, after: Int64, apart: Int64) -> Int64:
        """Return the end of each batch, after its lane and after its cause."""
        free = [self.root_ns] * (int(self.lane.max()) + 1)
        done = [self.root_ns]
        add = done.append
        order = self._run_order
        columns = (column[order].tolist() for column in (self.lane[self._last], before, cause, after, apart))
        for lane, elapsed, waited_for, later, more in zip(*columns, strict=True):
            moment = free[lane] + elapsed
            reached = done[waited_for] + later
            if reached > moment:
                moment = reached
            free[lane] = moment
            add(moment + more)
        values = np.empty(len(order), np.int64)
        values[order] = done[1:]
        return values

    def _causes(self, change: Change) -> Int64:
        """Return the causes; if synchronisation is removed, no thread waits for the device."""
        if change.host.get("sync_call", 1) != 0:
            return self.cause
        waits = self.host.waits
        name = self._tables["api"]["name"].astype(str).to_numpy()
        dropped = waits.kind == SYNCHRONISE
        dropped[dropped] = ["Synchronize" in name[row] for row in waits.row[dropped]]
        cause: Int64 = self.cause.copy()
        cause[: len(waits)][dropped] = -1
        return cause

    def _elapsed_ns(self, thread: Int64, starts: Int64, ends: Int64, change: Change) -> Int64:
        """Return the time of threads from `starts` to `ends`, with the factors on causes."""
        elapsed: Int64 = ends - starts
        if not change.of_host:
            return elapsed
        known = np.flatnonzero(thread >= 0)
        sides = (starts[known], ends[known])
        between = union(*(side[self.windows.between] for side in self.windows.spans))
        if change.between == 1:
            between = between[0][:0], between[1][:0]
        elapsed[known] -= np.rint(within(between, *sides) * (1 - change.between)).astype(np.int64)
        for name, spans in self._activities.spans.items():
            factor = change.host.get(name, 1)
            if factor != 1:
                before = (self._activities.before(spans, between, thread[known], moments) for moments in sides)
                covered = -np.subtract(*before)
                elapsed[known] -= np.rint(covered * (1 - factor)).astype(np.int64)
        return np.maximum(elapsed, 0)

    @cached_property
    def _activities(self) -> _Activities:
        host, device = self.host, self.device
        threads = np.concatenate([host.waits.thread, device.thread, [-1 if host.main is None else host.main]])
        end = max(int(self.windows.ends.max()), int(self.done_ns.max()))
        return _Activities.build(self._tables, threads, self.root_ns, end)


@dataclass(frozen=True)
class _Activities:
    """The activities of all threads by cause, on an axis with one thread after the other."""

    threads: Int64  # the threads, in order; behind them, one without calls stands for every other
    # start_ns, width_ns: when the time of each thread starts, and how much of the axis it takes.
    start_ns: int
    width_ns: int
    spans: Mapping[str, Spans]  # the intervals of each cause, sorted and disjoint

    @classmethod
    def build(cls, tables: Mapping[str, pd.DataFrame], threads: Int64, start_ns: int, end_ns: int) -> _Activities:
        frames = {name: frame for name, frame in tables.items() if "thread_id" in frame}
        of_frames = (frame["thread_id"].to_numpy(np.int64) for frame in frames.values())
        every = distinct(np.concatenate([threads, *of_frames]))
        empty = cls(every, start_ns, end_ns - start_ns + 1, {})
        moved = {}
        for name, frame in frames.items():
            if "start_ns" not in frame:
                moved[name] = frame
                continue
            thread, begins = (frame[column].to_numpy(np.int64) for column in ("thread_id", "start_ns"))
            starts, ends = (
                empty._on_axis(thread, moments)
                for moments in (begins, begins + frame["duration_ns"].to_numpy(np.int64))
            )
            moved[name] = frame.assign(start_ns=starts, duration_ns=ends - starts)
        first = np.arange(len(every) + 1) * empty.width_ns
        whole = first, first + empty.width_ns - 1
        return replace(empty, spans=dict(idle_causes({**tables, **moved}, whole)))

    def _on_axis(self, thread: Int64, moments: Int64) -> Int64:
        code = np.searchsorted(self.threads, thread)
        code[np.append(self.threads, -1)[code] != thread] = len(self.threads)
        return code * self.width_ns + np.clip(moments - self.start_ns, 0, self.width_ns - 1)

    def before(self, spans: Spans, without: Spans, thread: Int64, moments: Int64) -> Int64:
        """Return the time of some intervals before each moment of a thread, and of the threads before it.

        Time in the intervals `without`, which have the clock of the run, does not count.
        """
        begins, ends = spans
        if not len(begins):
            return np.zeros(len(moments), np.int64)
        at = self._on_axis(thread, moments)
        last = np.maximum(np.searchsorted(begins, at, side="right") - 1, 0)
        code = begins // self.width_ns
        from_ns = begins - code * self.width_ns + self.start_ns
        until_ns = ends - code * self.width_ns + self.start_ns
        lengths = ends - begins - within(without, from_ns, until_ns)
        reached = np.clip(at, begins[last], ends[last]) - begins[last]
        part = reached - within(without, from_ns[last], from_ns[last] + reached)
        return np.where(at >= begins[0], np.cumsum(lengths)[last] - lengths[last] + part, 0)


def _check_clocks(tables: Mapping[str, pd.DataFrame], device: DeviceLanes) -> None:
    """Raise an error if many tasks start before the calls that the links name."""
    early, linked = 0, 0
    for number, name in enumerate(("api", "operators")):
        is_called = device.caller == number
        begins = tables[name]["start_ns"].to_numpy(np.int64)[device.caller_row[is_called]]
        early += int((device.starts[is_called] < begins - _SKEWED_NS).sum())
        linked += int(is_called.sum())
    if early > TOLERANCE * linked:
        raise NpuprofError(
            f"{early:,} of {counted(linked, 'task')} begin before the calls that launched them: the clocks of host and "
            "device disagree, and nothing can be predicted from the run"
        )
