"""The critical path of a run on one rank: what each moment of a step had to wait for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from npuprof.analysis import device_lanes, host_lanes
from npuprof.analysis.replay import Replay

_HOST_TABLES = ("operators", "api")


class _Segment(NamedTuple):
    lane: str
    kind: str
    start: int
    end: int
    table: str | None
    row: int


class _Host(NamedTuple):
    """A moment on a thread, after a wait (-1: since the beginning)."""

    thread: int
    moment: int
    wait: int


class _Task(NamedTuple):
    """A moment at which a task, or what its lane needs of it, is done."""

    node: int
    moment: int


def critical_path(replay: Replay, rank: int | None) -> pd.DataFrame:
    """Return what the time of each step consists of: the last of what each moment waited for, up to its beginning.

    Parameters
    ----------
    replay
        The run.
    rank
        Its rank.

    Returns
    -------
    pandas.DataFrame
        ``segment``, ``rank``, ``step``, ``lane`` (a thread or stream), ``kind``, ``start_ns``, ``duration_ns``,
        ``table`` and ``row`` (of that table; of the host's time the call that ends it), in order of time. Kinds are
        ``host``, what tasks are (:data:`npuprof.analysis.device_lanes.KINDS`), what threads wait for
        (:data:`npuprof.analysis.host_lanes.KINDS`: what is left when that is done), ``launch`` and ``event`` (from
        these to the start of a task) and ``gap`` (between two tasks of a stream). Durations of a step add up to it.
    """
    walk = _Walk(replay)
    segments: list[_Segment] = []
    steps: list[int] = []
    windows = replay.windows
    for start, end, owner in zip(windows.starts.tolist(), windows.ends.tolist(), windows.owner.tolist(), strict=True):
        pieces = [
            segment._replace(start=max(segment.start, start))
            for segment in walk.back(start, end)
            if segment.end > start
        ]
        pieces = [segment for segment in pieces if segment.end > segment.start][::-1]
        segments += pieces
        steps += [owner] * len(pieces)
    rows = np.array([segment.row for segment in segments], np.int64)
    starts = np.array([segment.start for segment in segments], np.int64)
    frame: pd.DataFrame = pd.DataFrame(
        {
            "segment": np.arange(len(segments)),
            "rank": pd.array([rank] * len(segments), dtype="Int64"),
            "step": windows.steps[np.array(steps, np.int64)],
            "lane": pd.Categorical([segment.lane for segment in segments]),
            "kind": pd.Categorical([segment.kind for segment in segments]),
            "start_ns": starts,
            "duration_ns": np.array([segment.end for segment in segments], np.int64) - starts,
            "table": pd.Categorical([segment.table for segment in segments]),
            "row": pd.arrays.IntegerArray(rows, rows < 0),
        }
    )
    return frame


class _Walk:
    """Goes back from a moment to what it waited for last; of several at once, its own lane."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        waits, device = replay.host.waits, replay.device
        self._count = len(waits)
        # Lists: single items of arrays take several times as long.
        self._free, self._caused, self._cause = (
            column.tolist() for column in (replay.free_ns, replay.cause_ns, replay.cause)
        )
        self._by_task = replay.by_task.tolist()
        self._waits = list(zip(waits.thread.tolist(), waits.time.tolist(), _labels(waits), strict=True))
        self._after, self._launched = (
            list(zip(calls.thread.tolist(), calls.wait.tolist(), strict=True))
            for calls in (replay.after_call, replay.launched)
        )
        columns = (device.lane, device.starts, device.kind, device.table, device.row)
        self._tasks = list(zip(*(column.tolist() for column in columns), strict=True))
        threads, times, tables, rows = replay.host.points(device)
        self._points: dict[int, tuple[list[int], list[tuple[str, int]]]] = {}
        for thread in pd.unique(threads).tolist():
            of_thread = slice(*np.searchsorted(threads, [thread, thread + 1]))
            names = [_HOST_TABLES[table] for table in tables[of_thread].tolist()]
            self._points[thread] = times[of_thread].tolist(), list(zip(names, rows[of_thread].tolist(), strict=True))

    def back(self, start: int, end: int) -> Iterator[_Segment]:
        """Yield the segments from `end` back to `start`, the last one first."""
        replay = self._replay
        at: _Host | _Task | None
        if replay.by_marks and replay.host.main is not None:
            mark = replay.points(np.array([replay.host.main]), np.array([end]))
            at = _Host(replay.host.main, end, int(mark.wait[0]))
        else:
            ended = np.where(replay.device.ends <= end, replay.device.ends, np.iinfo(np.int64).min)
            node = int(np.argmax(ended))
            at = _Task(node, int(ended[node]))
        while at is not None and at.moment > start:
            segments, at = self._of_host(at) if isinstance(at, _Host) else self._of_task(at)
            yield from segments

    def _of_host(self, at: _Host) -> tuple[list[_Segment], _Host | _Task | None]:
        lane = f"thread {at.thread}"
        if at.wait < 0:
            return self._calls(at.thread, lane, self._replay.root_ns, at.moment), None
        _, time, (kind, table, row) = self._waits[at.wait]
        free, caused = self._free[at.wait], self._caused[at.wait]
        segments = self._calls(at.thread, lane, time, at.moment)
        segments.append(_Segment(lane, kind, max(free, caused), time, table, row))
        if caused > free:
            return segments, self._cause_of(at.wait, caused)
        before = at.wait - 1 if at.wait and self._waits[at.wait - 1][0] == at.thread else -1
        return segments, _Host(at.thread, free, before)

    def _of_task(self, at: _Task) -> tuple[list[_Segment], _Host | _Task | None]:
        lane, start, kind, table, row = self._tasks[at.node]
        name, of = self._replay.device.names[lane], device_lanes.TABLES[table]
        node = at.node + self._count
        free, caused = self._free[node], self._caused[node]
        waited = "gap" if free >= caused else "event" if self._by_task[node] else "launch"
        segments = [
            _Segment(name, device_lanes.KINDS[kind], start, at.moment, of, row),
            _Segment(name, waited, max(free, caused), start, of, row),
        ]
        if caused > free:
            return segments, self._cause_of(node, caused)
        first = at.node == 0 or self._tasks[at.node - 1][0] != lane
        return segments, None if first else _Task(at.node - 1, free)

    def _cause_of(self, node: int, moment: int) -> _Host | _Task:
        if self._by_task[node]:
            return _Task(self._cause[node] - self._count, moment)
        thread, wait = self._after[node] if node < self._count else self._launched[node - self._count]
        return _Host(thread, moment, wait)

    def _calls(self, thread: int, lane: str, start: int, end: int) -> list[_Segment]:
        """Return the time of a thread, cut where it launched something, the last part first."""
        times, names = self._points.get(thread, ([], []))
        low, high = bisect_right(times, start), bisect_right(times, end)
        ends: list[int] = times[low:high]
        labels: list[tuple[str | None, int]] = [*names[low:high]]
        if not ends or ends[-1] < end:
            ends, labels = [*ends, end], [*labels, (None, -1)]
        calls = [
            _Segment(lane, "host", begin, stop, *label)
            for (begin, stop), label in zip(pairwise([start, *ends]), labels, strict=True)
        ]
        return calls[::-1]


def _labels(waits: host_lanes.HostWaits) -> list[tuple[str, str | None, int]]:
    """Return the kind of each wait, and the table and row of its call."""
    return [
        (host_lanes.KINDS[kind], _HOST_TABLES[table] if row >= 0 else None, row)
        for kind, table, row in zip(waits.kind.tolist(), waits.table.tolist(), waits.row.tolist(), strict=True)
    ]
