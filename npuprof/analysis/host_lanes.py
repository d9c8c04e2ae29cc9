"""Waits of host threads for the device and for each other: the host side of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.correlation import LAYERS, whole_links
from npuprof.analysis.device_lanes import COPY, DeviceLanes
from npuprof.analysis.intervals import Spans
from npuprof.arrays import Bools, Int64, distinct, rows_by_key

KINDS = ("synchronise", "dequeue", "drain", "hand over", "join")
"""Kinds of waits: for tasks of the device, a queued call, an empty queue, or the calls of another thread."""
SYNCHRONISE, DEQUEUE, DRAIN, HAND_OVER, JOIN = range(len(KINDS))

_SKEW_NS = 50_000  # possible difference between the clocks of device and host
_FIELDS = ("thread", "begin", "time", "kind", "table", "row", "task", "of_thread", "of_ns")
_TABLES = ("operators", "api")


@dataclass(frozen=True)
class HostWaits:
    """Waits of host threads, ordered by thread and time. All arrays have an entry per wait."""

    thread: Int64  # the thread that waits
    # begin, time: the start of the wait, and the time at which the thread continues.
    begin: Int64
    time: Int64
    kind: Int64  # the kind of the wait, see `KINDS`
    # table, row: the call that waits: row of `operators` (0) or `api` (1), -1 for none.
    table: Int64
    row: Int64
    task: Int64  # the device task that the thread waits for, -1 for none
    # of_thread, of_ns: the thread that it waits for, and the time until which that thread worked; -1 for none.
    of_thread: Int64
    of_ns: Int64

    def __len__(self) -> int:
        return len(self.time)


class HostLanes:
    """The threads of a run.

    Attributes
    ----------
    main
        The thread on which steps are marked; None for a run without host calls.
    waits
        The waits of all threads.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], device: DeviceLanes) -> None:
        self._tables = tables
        links = whole_links(tables)
        self._queued = links[((links["kind"] == "enqueue") & (links["target_table"] == "operators")).to_numpy(bool)]
        self._queues = set(self._of("operators", "thread_id")[self._queued["target_row"].to_numpy(np.int64)].tolist())
        self.main = self._main()
        waits = [*self._dequeues(), *self._synchronisations(device), *self._drains(), *self._bursts(device)]
        columns = [np.concatenate([np.zeros(0, np.int64), *(wait[at] for wait in waits)]) for at in range(len(_FIELDS))]
        order = np.lexsort((-columns[3], columns[2], columns[0]))
        columns = [column[order] for column in columns]
        thread, time = columns[0], columns[2]
        last = np.append((thread[1:] != thread[:-1]) | (time[1:] != time[:-1]), True)[: len(time)]
        columns = [column[last] for column in columns]
        before = np.append(np.iinfo(np.int64).min, columns[2][:-1])[: len(columns[0])]
        other = np.append(True, columns[0][1:] != columns[0][:-1])[: len(columns[0])]
        earliest = np.where(other, np.iinfo(np.int64).min, before)
        columns[1] = np.minimum(np.maximum(columns[1], earliest), columns[2])
        self.waits = HostWaits(*columns)

    def _of(self, table: str, column: str) -> Int64:
        return self._columns[table, column]

    def _ends(self, table: str) -> Int64:
        return self._columns[table, "ends"]

    @cached_property
    def _columns(self) -> dict[tuple[str, str], Int64]:
        columns = {
            (name, column): self._tables[name][column].to_numpy(np.int64)
            for name in LAYERS
            for column in ("thread_id", "start_ns", "duration_ns")
        }
        ends = {(name, "ends"): columns[name, "start_ns"] + columns[name, "duration_ns"] for name in LAYERS}
        return columns | ends

    def _main(self) -> int | None:
        """Return the thread whose calls span the longest time, except threads that empty a queue."""
        thread, starts, ends = (
            np.concatenate([column(name) for name in LAYERS])
            for column in (
                lambda name: self._of(name, "thread_id"),
                lambda name: self._of(name, "start_ns"),
                self._ends,
            )
        )
        calls = pd.DataFrame({"starts": starts, "ends": ends}).groupby(thread)
        spans = calls["ends"].max() - calls["starts"].min()
        spans = spans[~spans.index.isin(self._queues)]
        return int(spans.idxmax()) if len(spans) else None  # of equal ones the first

    @cached_property
    def _rows(self) -> dict[str, dict[int, Int64]]:
        """The rows of each thread, by table."""
        return {name: rows_by_key(self._of(name, "thread_id")) for name in LAYERS}

    def _rows_of(self, thread: int, names: Sequence[str]) -> list[tuple[str, Int64]]:
        return [(name, self._rows[name].get(thread, np.zeros(0, np.int64))) for name in names]

    def _edges_of(self, thread: int) -> Spans:
        rows = self._rows_of(thread, LAYERS)
        starts, ends = (
            np.concatenate([column(name)[chosen] for name, chosen in rows])
            for column in (lambda name: self._of(name, "start_ns"), self._ends)
        )
        return starts, ends

    @cached_property
    def _edges(self) -> dict[int, Int64]:
        """Start and end times of calls, by thread, for the threads that may wait without a call."""
        threads = set(self._sync_calls[1].tolist()) | ({self.main} if self.main is not None else set())
        return {thread: np.sort(np.concatenate(self._edges_of(thread))) for thread in threads}

    @cached_property
    def _sync_calls(self) -> tuple[Int64, Int64]:
        """Rows and threads of the calls that return when the device has finished."""
        rows = np.flatnonzero(synchronising(self._tables["api"]))
        return rows, self._of("api", "thread_id")[rows]

    def _dequeues(self) -> list[list[Int64]]:
        if not len(self._queued):
            return []
        source, target = (self._queued[name].to_numpy(np.int64) for name in ("source_row", "target_row"))
        starts, ends = self._of("operators", "start_ns"), self._ends("operators")
        threads = self._of("operators", "thread_id")
        time = starts[target]
        empty = np.full(len(target), -1, np.int64)
        of_ns = np.minimum(ends[source], time)
        free = self._free_since(threads[target], time)
        kind = np.full(len(target), DEQUEUE)
        return [[threads[target], free, time, kind, empty * 0, target, empty, threads[source], of_ns]]

    def _free_since(self, threads: Int64, times: Int64) -> Int64:
        """Return the end of the last call of each thread before a given time."""
        free: Int64 = times.copy()
        for thread, of_thread in rows_by_key(threads).items():
            rows = self._rows_of(thread, _TABLES)
            starts = np.concatenate([self._of(name, "start_ns")[chosen] for name, chosen in rows])
            ends = np.concatenate([self._ends(name)[chosen] for name, chosen in rows])
            order = np.argsort(starts, kind="stable")
            reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(ends[order])))
            free[of_thread] = np.minimum(
                reach[np.searchsorted(starts[order], times[of_thread], side="left")], times[of_thread]
            )
        return free

    def _synchronisations(self, device: DeviceLanes) -> list[list[Int64]]:
        rows, threads = self._sync_calls
        if not len(rows):
            return []
        begin, end = self._of("api", "start_ns")[rows], self._ends("api")[rows]
        blocking = schema.matching(self._tables["api"]["name"], lambda name: "Memcpy" in name)[rows]
        task = _last_submitted(device, np.where(blocking, end, begin), end, blocking)
        empty = np.full(len(rows), -1, np.int64)
        return [[threads, begin, end, empty * 0 + SYNCHRONISE, empty * 0 + 1, rows, task, empty, empty]]

    def _drains(self) -> list[list[Int64]]:
        """Return the waits of synchronisations for the launch of everything queued before."""
        rows, threads = self._sync_calls
        waits: list[list[Int64]] = []
        dequeued = self._queued["target_row"].to_numpy(np.int64)
        of_queue, ends = self._of("operators", "thread_id")[dequeued], self._ends("operators")[dequeued]
        order = np.argsort(ends, kind="stable")
        of_thread = rows_by_key(threads)
        for thread in sorted(set(of_thread) - self._queues) if self._queues else []:
            calls = rows[of_thread[thread]]
            time = self._of("api", "start_ns")[calls]
            at = np.searchsorted(ends[order], time, side="right") - 1
            calls, time, at = calls[at >= 0], time[at >= 0], order[at[at >= 0]]
            edges = self._edges[thread]
            silent = np.append(edges[0], edges)[np.searchsorted(edges, time, side="left")]
            empty = np.full(len(calls), -1, np.int64)
            kind, single = empty * 0 + DRAIN, empty * 0 + 1
            waits.append([empty * 0 + thread, silent, time, kind, single, calls, empty, of_queue[at], ends[at]])
        return waits

    def _bursts(self, device: DeviceLanes) -> list[list[Int64]]:
        """Return the waits in which the main thread hands over to other threads, while it makes no calls.

        Autograd runs the backward pass on its own thread, while the call that started it waits.
        """
        if self.main is None:
            return []
        source = self._queued["source_row"].to_numpy(np.int64)
        working = {*device.thread[device.thread >= 0].tolist(), *self._of("operators", "thread_id")[source].tolist()}
        wanted = np.array(sorted(working - self._queues - {self.main}), np.int64)
        thread, starts, ends = self._busy(wanted)
        edges = self._edges[self.main]
        hole = np.searchsorted(edges, starts, side="right")
        inside = (hole > 0) & (hole < len(edges))
        inside &= ends <= np.append(edges, np.iinfo(np.int64).max)[hole]
        is_first = np.append(True, thread[1:] != thread[:-1])[: len(thread)]
        free = np.where(is_first, np.iinfo(np.int64).min, np.append(0, ends[:-1])[: len(ends)])
        thread, starts, ends, hole, free = (column[inside] for column in (thread, starts, ends, hole, free))
        changes = (hole[1:] != hole[:-1]) | (thread[1:] != thread[:-1])
        first, last = np.append(True, changes)[: len(hole)], np.append(changes, True)[: len(hole)]
        on, until, silent = thread[first], edges[hole[first]], edges[hole[first] - 1]
        empty = np.full(len(on), -1, np.int64)
        main = empty * 0 + self.main
        return [
            [on, free[first], starts[first], empty * 0 + HAND_OVER, empty, empty, empty, main, silent],
            [main, silent, until, empty * 0 + JOIN, empty, empty, empty, on, ends[last]],
        ]

    def _busy(self, threads: Int64) -> tuple[Int64, Int64, Int64]:
        """Return when threads run operators or calls: thread, start and end, by thread in order, disjoint."""
        columns = [
            np.concatenate([values(name) for name in _TABLES])
            for values in (
                lambda name: self._of(name, "thread_id"),
                lambda name: self._of(name, "start_ns"),
                self._ends,
            )
        ]
        chosen = np.isin(columns[0], threads) & (columns[2] > columns[1])
        thread, starts, ends = (column[chosen] for column in columns)
        order = np.lexsort((starts, thread))
        thread, starts, ends = thread[order], starts[order], ends[order]
        ranks = distinct(ends)
        codes = np.searchsorted(threads, thread) * len(ranks) + np.searchsorted(ranks, ends)
        reach = ranks[np.maximum.accumulate(codes) % max(len(ranks), 1)]
        is_new = (thread[1:] != thread[:-1]) | (starts[1:] > reach[:-1])
        first, last = np.append(True, is_new)[: len(thread)], np.append(is_new, True)[: len(thread)]
        return thread[first], starts[first], reach[last]

    def points(self, device: DeviceLanes) -> tuple[Int64, Int64, Int64, Int64]:
        """Return thread, time, table (0 operators, 1 api) and row of each launch and enqueue, in order."""
        linked = device.caller >= 0
        source = self._queued["source_row"].to_numpy(np.int64)
        thread = np.concatenate([device.thread[linked], self._of("operators", "thread_id")[source]])
        time = np.concatenate([device.launch_ns[linked], self._ends("operators")[source]])
        table = np.concatenate([1 - device.caller[linked], source * 0])
        row = np.concatenate([device.caller_row[linked], source])
        order = np.lexsort((time, thread))
        return thread[order], time[order], table[order], row[order]


def synchronising(api: pd.DataFrame) -> Bools:
    """Return a mask of the calls that return only when the device has finished."""
    return schema.matching(api["name"], lambda name: "Synchronize" in name or name == "aclrtMemcpy")


def _last_submitted(device: DeviceLanes, until: Int64, end: Int64, copying: Bools) -> Int64:
    """Return the task that each synchronisation waited for.

    This is the last task submitted to its stream before the call. Since the stream is not recorded, it is chosen among
    the last tasks of all streams: the one that ended last before the call returned. A blocking copy waits for a copy.
    """
    submitted = np.where(device.thread >= 0, device.launch_ns, device.starts)
    latest, reached = np.full(len(end), -1, np.int64), np.full(len(end), np.iinfo(np.int64).min)
    first = np.flatnonzero(np.append(True, device.lane[1:] != device.lane[:-1])[: len(device)])
    for begin, stop in zip(first.tolist(), [*first[1:].tolist(), len(device)], strict=True):
        nodes_of_lane = np.arange(begin, stop)
        of_copies = nodes_of_lane[device.kind[begin:stop] == COPY]
        for is_selected, nodes in ((~copying, nodes_of_lane), (copying, of_copies)):
            at = np.searchsorted(np.maximum.accumulate(submitted[nodes]), until, side="right") - 1
            node = np.append(nodes, -1)[at]
            ended = np.append(device.ends, 0)[node]
            better = is_selected & (node >= 0) & (ended <= end + _SKEW_NS) & (ended > reached)
            latest, reached = np.where(better, node, latest), np.where(better, ended, reached)
    return latest
