"""Communication operators on the device: their steps and times.

Source: raw/FORMAT.md sections 8.5 and 8.9.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from npuprof.analysis.nesting import time_order
from npuprof.arrays import Bools, Int64
from npuprof.sources.raw.correlation.launches import TaskOrigins
from npuprof.sources.raw.device.tasks import DeviceTasks
from npuprof.sources.raw.host.calls import Api
from npuprof.sources.raw.host.operators import take
from npuprof.sources.raw.host.tracks import Tracks

_CONTEXT_BITS = 17  # a 16-bit context id, or none


@dataclass(frozen=True)
class Collectives:
    """Communication operators in order of time, with their steps."""

    # device, start_ns, end_ns: device of each operator, start of its first and end of its last step in UTC epoch
    # nanoseconds. Steps on side streams do not count where the operator has others.
    device: Int64
    start_ns: Int64
    end_ns: Int64
    call: Int64  # position of its node-level call in the tree of calls
    # Number of this execution of the call on its device, from 1: a graph is launched once and executed many times.
    turn: Int64
    # task, operator: device task and operator of each step, in order of time.
    task: Int64
    operator: Int64

    def __len__(self) -> int:
        return len(self.call)


def gather(tasks: DeviceTasks, launches: TaskOrigins, tracks: Tracks, api: Api) -> Collectives:
    """Return the communication operators with their steps. Source: raw/FORMAT.md section 8.9."""
    rows = np.flatnonzero(launches.is_step)
    if not len(rows):
        return Collectives(*[rows] * 7)
    rows = rows[np.lexsort((tasks.start_ns[rows], launches.collective[rows], tasks.device[rows]))]
    device, call = tasks.device[rows], launches.collective[rows]
    is_new = np.concatenate(([True], (device[1:] != device[:-1]) | (call[1:] != call[:-1])))
    first = _rounds(is_new, launches.track[rows] << _CONTEXT_BITS | (tasks.context[rows] + 1))
    operator = np.searchsorted(first, np.arange(len(rows)), side="right") - 1
    start, end = tasks.start_ns[rows], tasks.start_ns[rows] + tasks.duration_ns[rows]
    begins, ends = _spans(start, end, first, operator, _on_side_streams(launches.track[rows], tracks, api))
    order, by_time = time_order(begins, ends), time_order(start, end)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return Collectives(
        device=device[first][order],
        start_ns=begins[order],
        end_ns=ends[order],
        call=call[first][order],
        turn=_turns(is_new[first])[order],
        task=rows[by_time],
        operator=rank[operator][by_time],
    )


def _rounds(is_new: Bools, keys: Int64) -> Int64:
    """Return the first row of each execution: it begins with the first step (`keys`) that repeats within a call."""
    first = np.flatnonzero(is_new)
    order = np.argsort(keys, kind="stable")
    again = keys[order][1:] == keys[order][:-1]
    if not bool(again.any()):
        return first
    previous = np.full(len(keys), -1, np.int64)
    previous[order[1:][again]] = order[:-1][again]
    reach: list[int] = np.maximum.accumulate(previous).tolist()
    starts = []
    for begin, end in zip(first.tolist(), [*first[1:].tolist(), len(keys)], strict=True):
        at = begin
        while at < end:  # the next execution begins at the first repeated step
            starts.append(at)
            at = min(bisect_left(reach, at), end)
    return np.array(starts, np.int64)


def _spans(start: Int64, end: Int64, first: Int64, operator: Int64, side: Bools) -> tuple[Int64, Int64]:
    has_main = np.logical_or.reduceat(~side, first)
    counts = ~side | ~has_main[operator]
    limits = np.iinfo(np.int64)
    begins = np.minimum.reduceat(np.where(counts, start, limits.max), first)
    return begins, np.maximum.reduceat(np.where(counts, end, limits.min), first)


def _on_side_streams(track: Int64, tracks: Tracks, api: Api) -> Bools:
    step = take(tracks.step, track)
    return np.append(api.on_side_stream, False)[step]


def _turns(is_first: Bools) -> Int64:
    rows = np.arange(len(is_first))
    return rows - np.maximum.accumulate(np.where(is_first, rows, 0)) + 1
