"""The tasks of all streams in order, with the host calls that launched them: the device side of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.accounting import copies
from npuprof.analysis.correlation import whole_links
from npuprof.analysis.intervals import covering, within
from npuprof.arrays import Bools, Int64, first_rows

KINDS = ("kernel", "communication", "copy", "event")
"""Kinds of tasks; ``event`` tasks record an event or wait for one."""
KERNEL, COMMUNICATION, COPY, EVENT = range(len(KINDS))
TABLES = ("kernels", "communication", "tasks")
"""The tables that tasks come from."""
CALLERS = ("api", "operators")
"""The tables of the calls that launch tasks."""


@dataclass(frozen=True)
class DeviceLanes:
    """Tasks of all streams, ordered by lane and start. All arrays have an entry per task."""

    names: list[str]  # the lanes: streams, and groups of collectives whose stream is not recorded
    # kind, table, row: the kind of each task (`KINDS`), its table (`TABLES`) and its row in it.
    kind: Int64
    table: Int64
    row: Int64
    lane: Int64  # the lane of each task
    # starts, ends: epoch nanoseconds. A task that waits for an event of another stream is reduced to the moment at
    # which it ended.
    starts: Int64
    ends: Int64
    # Time that the task occupies its lane: its duration, or less if the next task of the lane starts before its end.
    holds: Int64
    # thread, launch_ns: the host thread of the launch, and the time by which it had launched the task; the thread is -1
    # if unknown.
    thread: Int64
    launch_ns: Int64
    # caller, caller_row: the call that launched the task: table (`CALLERS`) and row, -1 if the recording has no link.
    caller: Int64
    caller_row: Int64
    cause: Int64  # the task on another stream that must end before the task can start, -1 for none

    def __len__(self) -> int:
        return len(self.kind)


def device_lanes(tables: Mapping[str, pd.DataFrame]) -> DeviceLanes:
    """Order the tasks of a run by lane and time, and find what each task had to wait for.

    The tasks are kernels, collectives, copies and events; the tasks that a collective consists of are part of it. A
    task without a link was launched no later than the next linked task of its stream. If a whole stream has no links, a
    task waits for the task of another stream that ended last before it.
    """
    tasks, kernels = tables["tasks"], tables["kernels"]
    of_kernel = _kernel_of_task(tasks, kernels)
    kind, is_kept = _kinds(tables, of_kernel)
    rows = np.flatnonzero(is_kept)
    counts = [len(kernels), len(tables["communication"]), len(rows)]
    frames = (kernels, tables["communication"], tasks.iloc[rows])
    starts = np.concatenate([frame["start_ns"].to_numpy(np.int64) for frame in frames])
    ends = starts + np.concatenate([frame["duration_ns"].to_numpy(np.int64) for frame in frames])
    names, lane = _lanes(tables, rows, np.flatnonzero(~is_kept & (of_kernel < 0)))
    kind = np.concatenate([np.repeat([KERNEL, COMMUNICATION], counts[:2]), kind[rows]])
    row = np.concatenate([np.arange(counts[0]), np.arange(counts[1]), rows])
    waits = np.concatenate([np.zeros(sum(counts[:2]), bool), _are_named(tasks, "EVENT_WAIT")[rows]])
    records = np.concatenate([np.zeros(sum(counts[:2]), bool), _are_named(tasks, "EVENT_RECORD")[rows]])
    cause = _recorded_events(lane, ends, waits, records)
    starts = np.where(cause >= 0, ends, starts)
    first = np.concatenate(([0], np.cumsum(counts)))
    node_of_task = np.where(of_kernel >= 0, of_kernel, -1)
    node_of_task[rows] = first[2] + np.arange(len(rows))
    calls = _calls(tables, node_of_task, first[1], starts)
    order = np.lexsort((ends, starts, lane))
    place = np.empty(len(order) + 1, np.int64)
    place[order], place[-1] = np.arange(len(order)), -1
    lane, starts, ends, cause = lane[order], starts[order], ends[order], place[cause[order]]
    thread, launch_ns, caller, caller_row = (column[order] for column in calls)
    thread, launch_ns = _infer_launches(lane, starts, thread, launch_ns)
    cause = np.where((thread < 0) & (cause < 0), _last_of_others(lane, ends, np.arange(len(lane)), lane, starts), cause)
    following = np.append(starts[1:], 0)
    last = np.append(lane[1:] != lane[:-1], True)[: len(lane)]
    holds = np.where(last, ends, np.minimum(ends, following[: len(ends)])) - starts
    table = np.repeat(np.arange(3), counts)[order]
    return DeviceLanes(
        names, kind[order], table, row[order], lane, starts, ends, holds, thread, launch_ns, caller, caller_row, cause
    )


def _kernel_of_task(tasks: pd.DataFrame, kernels: pd.DataFrame) -> Int64:
    """Return the row of ``kernels`` of each task, by device, stream and start; -1 if the task is not a kernel."""
    if not len(tasks) or not len(kernels):
        return np.full(len(tasks), -1, np.int64)
    both = [frame[["device_id", "stream_id", "start_ns"]] for frame in (kernels, tasks)]
    lanes = np.concatenate([_stream(frame) for frame in both])
    moments = np.concatenate([frame["start_ns"].to_numpy(np.int64) for frame in both])
    codes, distinct = pd.factorize(lanes)
    keys = (moments - moments.min()) * len(distinct) + codes
    of_kernels, of_tasks = keys[: len(kernels)], keys[len(kernels) :]
    return first_rows(of_kernels, of_tasks)


def _stream(frame: pd.DataFrame) -> Int64:
    """Return a number per combination of device and stream."""
    stream = frame["stream_id"].to_numpy(np.int64, na_value=-1)
    return frame["device_id"].to_numpy(np.int64) * (1 << 40) + stream + 1


def _are_named(tasks: pd.DataFrame, text: str) -> Bools:
    return schema.matching(tasks["name"], lambda name: text in name)


def _kinds(tables: Mapping[str, pd.DataFrame], of_kernel: Int64) -> tuple[Int64, Bools]:
    """Return the kind of each row of ``tasks``, and whether it belongs to neither a kernel nor a collective."""
    tasks, communication = tables["tasks"], tables["communication"]
    copied = copies(tasks)
    is_kept = (copied | _are_named(tasks, "EVENT_WAIT") | _are_named(tasks, "EVENT_RECORD")) & (of_kernel < 0)
    begins = tasks["start_ns"].to_numpy(np.int64)
    ends = begins + tasks["duration_ns"].to_numpy(np.int64)
    for device in communication["device_id"].unique().tolist():
        on_device, ops = (frame[(frame["device_id"] == device).to_numpy(bool)] for frame in (tasks, communication))
        spans = covering(ops["start_ns"].to_numpy(np.int64), ops["duration_ns"].to_numpy(np.int64))
        inside = (within(spans, begins, ends) == ends - begins) & (ends > begins)
        with_kernels = on_device["stream_id"].isin(tables["kernels"]["stream_id"]).to_numpy(bool, na_value=False)
        at = np.flatnonzero((tasks["device_id"] == device).to_numpy(bool))
        is_kept[at] &= ~(copied[at] & inside[at] & ~with_kernels)
    return np.where(copied, COPY, EVENT), is_kept


def _lanes(tables: Mapping[str, pd.DataFrame], kept: Int64, other_values: Int64) -> tuple[list[str], Int64]:
    """Return the names of the lanes, and the lane of each kernel, collective, and kept task.

    The lane of a collective is the stream of its first task, or else the lane of its group.
    """
    tasks, communication = tables["tasks"], tables["communication"]
    inner = tasks.iloc[other_values].sort_values("start_ns", kind="stable")
    begins = inner["start_ns"].to_numpy(np.int64)
    at = np.searchsorted(begins, communication["start_ns"].to_numpy(np.int64))
    next_begin = np.append(begins, np.iinfo(np.int64).max)[at]
    inside = next_begin <= (communication["start_ns"] + communication["duration_ns"]).to_numpy(np.int64)
    devices = np.append(inner["device_id"].to_numpy(np.int64), -1)[at]
    inside &= devices == communication["device_id"].to_numpy(np.int64)
    groups = communication["group"].cat.codes.to_numpy(np.int64)
    alone = -2 - groups - (communication["device_id"].to_numpy(np.int64) + 1) * (len(groups) + 2)
    streams = np.where(inside, np.append(_stream(inner), -1)[at], alone)
    keys = np.concatenate([_stream(tables["kernels"]), streams, _stream(tasks.iloc[kept])])
    lane, distinct = pd.factorize(keys)
    return [_lane_name(key) for key in distinct.tolist()], lane.astype(np.int64)


def _lane_name(key: int) -> str:
    if key < 0:
        return "collectives"
    device, stream = divmod(key, 1 << 40)
    return f"device {device} stream {stream - 1}" if stream else f"device {device}"


def _recorded_events(lane: Int64, ends: Int64, waits: Bools, records: Bools) -> Int64:
    """Return for each wait the last event recorded on another lane before its end, -1 for other tasks."""
    cause = np.full(len(lane), -1, np.int64)
    cause[waits] = _last_of_others(lane, ends, np.flatnonzero(records), lane[waits], ends[waits])
    return cause


def _calls(
    tables: Mapping[str, pd.DataFrame], node_of_task: Int64, first_communication: int, starts: Int64
) -> tuple[Int64, Int64, Int64, Int64]:
    """Return thread, time, table and row of the call that launched each task; -1 without a link."""
    links = whole_links(tables)
    thread, moment, caller, caller_row = (np.full(len(starts), -1, np.int64) for _ in range(4))
    source, target = links["source_row"].to_numpy(np.int64), links["target_row"].to_numpy(np.int64)
    to: dict[str, Any] = {
        "kernels": lambda rows: rows,
        "communication": lambda rows: rows + first_communication,
        "tasks": lambda rows: node_of_task[rows],
    }
    for number in (1, 0):  # links from CANN calls override links from operators
        calls = tables[CALLERS[number]]
        begins = calls["start_ns"].to_numpy(np.int64)
        ends = begins + calls["duration_ns"].to_numpy(np.int64)
        threads = calls["thread_id"].to_numpy(np.int64)
        for name, nodes_of in to.items():
            is_selected = ((links["source_table"] == CALLERS[number]) & (links["target_table"] == name)).to_numpy(bool)
            nodes, rows = nodes_of(target[is_selected]), source[is_selected]
            nodes, rows = nodes[nodes >= 0][::-1], rows[nodes >= 0][::-1]  # a task keeps its first link
            thread[nodes], caller[nodes], caller_row[nodes] = threads[rows], number, rows
            moment[nodes] = np.minimum(ends[rows], starts[nodes])
    return thread, moment, caller, caller_row


def _infer_launches(lane: Int64, starts: Int64, thread: Int64, launch_ns: Int64) -> tuple[Int64, Int64]:
    """Return threads and times of launches, inferred from neighbours on the lane for tasks without a link."""
    is_known, index, count = thread >= 0, np.arange(len(lane)), len(lane)
    if is_known.all() or not is_known.any():
        return thread, launch_ns
    after = np.minimum.accumulate(np.where(is_known, index, count)[::-1])[::-1]
    before = np.maximum.accumulate(np.where(is_known, index, -1))
    has_after = np.append(lane, -1)[after] == lane
    has_before = (before >= 0) & (lane[before] == lane)
    neighbour = np.where(has_after, after % count, np.where(has_before, before, -1))
    neighbour_ns = np.append(launch_ns, -1)[neighbour]
    moment = np.where(has_after, np.minimum(neighbour_ns, starts), neighbour_ns)
    return np.where(is_known, thread, np.append(thread, -1)[neighbour]), np.where(is_known, launch_ns, moment)


def _last_of_others(lane: Int64, ends: Int64, tasks: Int64, at_lane: Int64, moments: Int64) -> Int64:
    """Return the last of some tasks that ended by each moment on another lane than its own, -1 for none."""
    tasks = tasks[np.argsort(ends[tasks], kind="stable")]
    lanes = lane[tasks]
    changes = np.append(False, lanes[1:] != lanes[:-1])[: len(tasks)]
    other = np.append(np.maximum.accumulate(np.where(changes, np.arange(len(tasks)) - 1, -1)), -1)
    at = np.searchsorted(ends[tasks], moments, side="right") - 1
    at = np.where(np.append(lanes, -1)[at] == at_lane, other[at], at)
    return np.append(tasks, -1)[at]
