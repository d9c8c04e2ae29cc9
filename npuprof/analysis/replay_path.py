"""The critical path of a run on one rank: what each part of a step had to wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from npuprof.analysis import device_lanes, host_lanes
from npuprof.analysis.replay import Replay
from npuprof.arrays import Int64, search_in_groups

_TABLES = ("operators", "api", *device_lanes.TABLES)
_OF_HOST = ("host", *host_lanes.KINDS)
_KINDS = (*_OF_HOST, *device_lanes.KINDS, "gap", "event", "launch")
_GAP, _EVENT, _LAUNCH = range(len(_KINDS) - 3, len(_KINDS))


class _Nodes(NamedTuple):
    """The nodes of a path: host waits, tasks, and the start of each thread, as arrays.

    ``before`` is the node that each node waited for last, -1 for none, and ``reached`` the time at which that was done;
    ``begin`` is the start of the node's own time. ``waited`` is the kind of the time between the two, -1 for none,
    ``kind`` the kind of its own time, and ``table`` and ``row`` are those of the call or task.
    """

    before: Int64
    reached: Int64
    begin: Int64
    waited: Int64
    kind: Int64
    table: Int64
    row: Int64


class _Path(NamedTuple):
    """The nodes of a path in order of time, with the time until which each is on the path, and its window."""

    node: Int64
    until: Int64
    window: Int64


class _Pieces(NamedTuple):
    """The segments of a path in order of time: the position of the node in the path, kind, end, table and row."""

    place: Int64
    kind: Int64
    end: Int64
    table: Int64
    row: Int64


def critical_path(replay: Replay, tables: Mapping[str, pd.DataFrame], rank: int | None) -> pd.DataFrame:
    """Return the critical path of each step, traced back from its end to its start.

    If several activities end at the same time, the path stays on its thread or stream.

    Returns
    -------
    pandas.DataFrame
        ``segment``, ``rank``, ``step``, ``lane`` (a thread or stream), ``kind``, ``start_ns``, ``duration_ns``,
        ``name``, ``table`` and ``row`` (for host time, of the call that ends it), in order of time. Kinds are
        ``host``, the kinds of tasks (:data:`npuprof.analysis.device_lanes.KINDS`), the kinds of waits of threads
        (:data:`npuprof.analysis.host_lanes.KINDS`: the time after the awaited activity ended), ``launch`` and ``event``
        (from these to the start of a task) and ``gap`` (between two tasks of a stream). Durations add up to the step.
    """
    windows = replay.windows
    nodes, threads = _nodes(replay)
    path = _walk(nodes, replay, threads)
    lanes = _lanes(replay, threads)
    pieces = _pieces(replay, nodes, path, lanes, threads)
    window = path.window[pieces.place]
    starts = np.maximum(_starts(nodes, path, pieces), windows.starts[window])
    kept_rows = np.flatnonzero(pieces.end > starts)
    table, row = pieces.table[kept_rows], pieces.row[kept_rows]
    lane_names = np.array([*replay.device.names, *(f"thread {thread}" for thread in threads.tolist())], object)
    return pd.DataFrame(
        {
            "segment": np.arange(len(kept_rows)),
            "rank": pd.array([rank] * len(kept_rows), dtype="Int64"),
            "step": windows.steps[windows.owner[window[kept_rows]]],
            "lane": pd.Categorical(lane_names[lanes[path.node[pieces.place[kept_rows]]]]),
            "kind": pd.Categorical(np.array(_KINDS, object)[pieces.kind[kept_rows]]),
            "start_ns": starts[kept_rows],
            "duration_ns": (pieces.end - starts)[kept_rows],
            "name": _names(tables, table, row),
            "table": pd.Categorical(np.array([*_TABLES, None], object)[table]),
            "row": pd.arrays.IntegerArray(row, row < 0),
        }
    )


def _starts(nodes: _Nodes, path: _Path, pieces: _Pieces) -> Int64:
    """Return the start of each segment: the end of the previous one, or of a node's first one the end of its cause."""
    starts = np.append(0, pieces.end[:-1])[: len(pieces.end)]
    first = np.append(True, pieces.place[1:] != pieces.place[:-1])[: len(pieces.end)]
    starts[first] = nodes.reached[path.node[pieces.place[first]]]
    return starts


def _names(tables: Mapping[str, pd.DataFrame], table: Int64, row: Int64) -> pd.Categorical:
    """Return the name of each row of a table of :data:`_TABLES`, by position; tasks without a name have their type."""
    names = np.full(len(row), None, object)
    for number, name in enumerate(_TABLES):
        is_selected = table == number
        rows = tables[name].iloc[row[is_selected]]
        texts = rows["name"].astype(object)
        names[is_selected] = texts.fillna(rows["task_type"].astype(object)) if "task_type" in rows else texts
    return pd.Categorical(names)


def _nodes(replay: Replay) -> tuple[_Nodes, Int64]:
    """Return the nodes, and the threads in the order of their start nodes, which are the last nodes."""
    waits, device, count = replay.host.waits, replay.device, len(replay.host.waits)
    called = np.concatenate([replay.after_call.thread, replay.launched.thread])
    threads = np.unique(np.concatenate([called, waits.thread, [-1 if replay.host.main is None else replay.host.main]]))
    beginning = len(replay.lane) + np.arange(len(threads))
    wait = np.concatenate([replay.after_call.wait, replay.launched.wait])
    of_call = np.where(wait >= 0, wait, beginning[np.searchsorted(threads, called)])
    previous = np.arange(-1, len(replay.lane) - 1)
    first = np.append(True, replay.lane[1:] != replay.lane[:-1])
    previous[first] = -1
    previous[:count] = np.where(first[:count], beginning[np.searchsorted(threads, waits.thread)], previous[:count])
    waited_for = replay.cause_ns > replay.free_ns
    waited = np.where(~waited_for, _GAP, np.where(replay.by_task, _EVENT, _LAUNCH))
    waited[:count] = 1 + waits.kind
    before = np.where(waited_for, np.where(replay.by_task, replay.cause, of_call), previous)
    root, empty, no_table = np.full(len(threads), replay.root_ns), np.full(len(threads), -1), len(_TABLES)
    nodes = _Nodes(
        before=np.concatenate([before, empty]),
        reached=np.concatenate([np.maximum(replay.free_ns, replay.cause_ns), root]),
        begin=np.concatenate([waits.time, device.starts, root]),
        waited=np.concatenate([waited, empty]),
        kind=np.concatenate([waits.kind * 0, len(_OF_HOST) + device.kind, empty * 0]),
        table=np.concatenate([np.where(waits.row >= 0, waits.table, no_table), 2 + device.table, empty * 0 + no_table]),
        row=np.concatenate([waits.row, device.row, empty]),
    )
    return nodes, threads


def _lanes(replay: Replay, threads: Int64) -> Int64:
    """Return the lane of each node: first the lanes of the device, then the threads."""
    waits = np.searchsorted(threads, replay.host.waits.thread)
    of_threads = len(replay.device.names) + np.concatenate([waits, np.arange(len(threads))])
    return np.insert(of_threads, len(waits), replay.device.lane)


def _walk(nodes: _Nodes, replay: Replay, threads: Int64) -> _Path:
    """Walk back from the end of each window to its start."""
    before, reached = nodes.before.tolist(), nodes.reached.tolist()
    starts = replay.windows.starts.tolist()
    path: list[int] = []
    until: list[int] = []
    window: list[int] = []
    for number, (node, moment) in enumerate(zip(*_ends(replay, threads), strict=True)):
        first = len(path)
        while node >= 0 and moment > starts[number]:
            path.append(node)
            until.append(moment)
            moment, node = reached[node], before[node]
        path[first:] = path[first:][::-1]
        until[first:] = until[first:][::-1]
        window += [number] * (len(path) - first)
    return _Path(*(np.array(column, np.int64) for column in (path, until, window)))


def _ends(replay: Replay, threads: Int64) -> tuple[list[int], list[int]]:
    """Return the node and the time at which each window ends."""
    ends = replay.windows.ends
    if replay.by_marks and replay.host.main is not None:
        marks = replay.points(np.full(len(ends), replay.host.main), ends)
        beginning = len(replay.lane) + int(np.searchsorted(threads, replay.host.main))
        return np.where(marks.wait >= 0, marks.wait, beginning).tolist(), ends.tolist()
    order = np.argsort(replay.device.ends, kind="stable")
    done = replay.device.ends[order]
    last = np.searchsorted(done, ends, side="right") - 1
    first = np.searchsorted(done, done[last], side="left")
    nodes = np.where(last >= 0, len(replay.host.waits) + order[first], -1)
    return nodes.tolist(), done[last].tolist()


def _pieces(replay: Replay, nodes: _Nodes, path: _Path, lanes: Int64, threads: Int64) -> _Pieces:
    """Cut the nodes of a path into segments: the wait, the calls of a thread, and the rest of the node's own time."""
    kind, until = nodes.kind[path.node], path.until
    waited_rows = np.flatnonzero(nodes.waited[path.node] >= 0)
    host = np.flatnonzero(kind == 0)
    thread = threads[lanes[path.node[host]] - len(replay.device.names)]
    # Without the start of the window, each one would expand all launches since the thread began.
    begin = np.maximum(nodes.begin[path.node[host]], replay.windows.starts[path.window[host]])
    at, calls = _calls(replay, thread, begin, until[host])
    labels = np.stack([nodes.table[path.node], nodes.row[path.node]])
    remainder = labels.copy()
    remainder[:, host] = np.array([[len(_TABLES)], [-1]])
    parts = (
        (
            waited_rows,
            nodes.waited[path.node[waited_rows]],
            nodes.begin[path.node[waited_rows]],
            labels[:, waited_rows],
        ),
        (host[at], at * 0, calls[0], np.stack(calls[1:])),
        (np.arange(len(kind)), kind, until, remainder),
    )
    place, kinds, ends, of = (np.concatenate(column, axis=-1) for column in zip(*parts, strict=True))
    order = np.argsort(place, kind="stable")
    return _Pieces(place[order], kinds[order], ends[order], *of[:, order])


def _calls(replay: Replay, thread: Int64, begin: Int64, until: Int64) -> tuple[Int64, tuple[Int64, Int64, Int64]]:
    """Return the launches of threads within given intervals: interval, time, table and row of each."""
    threads, times, tables, rows = replay.host.points(replay.device)
    low, high = (search_in_groups(threads, times, thread, moments, "right") for moments in (begin, until))
    counts = np.maximum(high - low, 0)
    interval = np.repeat(np.arange(len(thread)), counts)
    point = np.arange(len(interval)) - (np.cumsum(counts) - counts)[interval] + low[interval]
    return interval, (times[point], tables[point], rows[point])
