"""Device tasks joined with host tasks: type, name, operator, and the mask of compute kernels.

Source: raw/FORMAT.md sections 8.4 to 8.7.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from npuprof.analysis.nesting import time_order
from npuprof.arrays import Bools, Int64, first_rows
from npuprof.sources.raw.correlation.marks import DeviceMarks
from npuprof.sources.raw.device.tasks import DeviceTasks
from npuprof.sources.raw.host.captures import CapturedOperators, CaptureStreams
from npuprof.sources.raw.host.hccl import Hccl
from npuprof.sources.raw.host.operators import Operators, take
from npuprof.sources.raw.host.tracks import Launched, Tracks
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.metadata.dictionaries import Dictionaries, NameColumn
from npuprof.sources.raw.records import enums

_CORES = frozenset(enums.KERNEL_TASK_TYPES.values())
_MARK = "MsTx"
_LAUNCHED_BY_A_NODE = frozenset({"STARS_COMMON", "FFTS_PLUS"})


@dataclass(frozen=True)
class TaskOrigins:
    """Host facts of each device task; rows as in `DeviceTasks`."""

    track: Int64  # row of the host's task, or -1
    operator: Int64
    call: Int64  # row of `api` of the task's connection, or -1
    collective: Int64  # number of its collective (a position in the tree of calls), or -1
    # task_type, name: the vendor's name of the type, and the kernel's name.
    task_type: NameColumn
    name: NameColumn
    is_step: Bools  # whether it is a step of its collective, not the task around the steps
    is_kernel: Bools
    mark: Int64  # id of the mark whose device side it is, or -1
    model: Int64  # its model or captured graph, or -1


@dataclass(frozen=True)
class HostSide:
    """Host records of launches; see the classes of the fields. `operators` ends with the captured operators."""

    tracks: Tracks
    operators: Operators
    hccl: Hccl
    captured: CapturedOperators
    graphs: CaptureStreams
    names: Dictionaries


def join(tasks: DeviceTasks, host: HostSide, matched: tuple[Int64, Bools]) -> TaskOrigins:
    """Return device tasks joined with host tasks; `matched` is the result of :func:`match`."""
    tracks, operators = host.tracks, host.operators
    track, has_parts = matched
    launch = take(tracks.launch, track)
    collective = take(tracks.collective, track)
    operator = _captured(tasks, operators.find(launch, tasks.context), host)
    host_type = tracks.task_type.take(track)
    compute = _is_compute(tasks, host_type, track, launch, collective)
    core = operators.core.take(operator).fill(_kernel_types(host_type)).where(compute)
    return TaskOrigins(
        track=track,
        operator=operator,
        call=take(tracks.call, track),
        collective=collective,
        task_type=core.fill(host_type).fill(tasks.kind),
        name=operators.op_name.take(operator).fill(_kernel_names(tracks, track, host.names)).where(compute),
        is_step=(collective >= 0) & ~has_parts & host.hccl.are_steps(take(tracks.step, track), tasks.context),
        is_kernel=compute & ~has_parts,
        mark=np.full(len(tasks), -1, np.int64),
        model=_models(tasks, take(tracks.model, track), host.graphs),
    )


def _captured(tasks: DeviceTasks, operator: Int64, host: HostSide) -> Int64:
    """Name tasks without a launch after the operators of their captured graph."""
    if not len(host.captured):
        return operator
    rows = np.flatnonzero((operator < 0) & (tasks.context < 0))
    captured = host.captured.find(tasks.device[rows], tasks.stream[rows], tasks.task[rows], tasks.start_ns[rows])
    result: Int64 = operator.copy()
    result[rows] = np.where(captured >= 0, captured + len(host.operators) - len(host.captured), -1)
    return result


def _models(tasks: DeviceTasks, model: Int64, graphs: CaptureStreams) -> Int64:
    if not len(graphs.model):
        return model
    return np.where(model >= 0, model, graphs.model_of(tasks.device, tasks.stream, tasks.start_ns))


def add_marks(
    tasks: DeviceTasks, launches: TaskOrigins, device_marks: DeviceMarks, marks: pd.DataFrame
) -> tuple[DeviceTasks, TaskOrigins]:
    """Add device marks as tasks of type ``MsTx``, named after their message, as the vendor does."""
    count = len(device_marks.id)
    if not count:
        return tasks, launches
    none = np.full(count, -1, np.int64)
    more = DeviceTasks(
        device_marks.device,
        device_marks.start_ns,
        device_marks.end_ns - device_marks.start_ns,
        device_marks.begin,
        device_marks.end,
        device_marks.stream,
        none + 1,
        device_marks.task,
        none,
        NameColumn(np.zeros(count, np.int32), [_MARK]),
    )
    messages = _messages(device_marks, marks)
    extra = TaskOrigins(none, none, none, none, more.kind, messages, none >= 0, none >= 0, device_marks.id, none)
    start = np.concatenate((tasks.start_ns, more.start_ns))
    order = time_order(start, start + np.concatenate((tasks.duration_ns, more.duration_ns)))
    return _appended(tasks, more, order), _appended(launches, extra, order)


def _messages(device_marks: DeviceMarks, marks: pd.DataFrame) -> NameColumn:
    message = marks["message"].array
    ids = marks["id"].to_numpy(np.int64, na_value=-1)
    rows = np.flatnonzero(marks["device_start_ns"].notna().to_numpy())
    if not len(rows):
        return NameColumn.absent(len(device_marks.id))
    seen = first_rows(ids[rows], device_marks.id)
    row = np.where(seen >= 0, rows[seen], -1)
    return NameColumn(message.codes.astype(np.int32), list(message.categories)).take(row)


_Rows = TypeVar("_Rows", DeviceTasks, TaskOrigins)


def _appended(first: _Rows, second: _Rows, order: Int64) -> _Rows:
    """Return two sets of parallel columns, concatenated and sorted."""
    columns: dict[str, Any] = {}
    for field in fields(first):
        left, right = getattr(first, field.name), getattr(second, field.name)
        if isinstance(left, NameColumn):
            columns[field.name] = left.append(right).take(order)
        else:
            columns[field.name] = np.concatenate((left, right))[order]
    return type(first)(**columns)


def with_streams(tasks: DeviceTasks, tracks: Launched) -> DeviceTasks:
    """Return tasks with missing streams taken from the host's tasks, else -1."""
    missing = tasks.stream < 0
    if not bool(missing.any()):
        return tasks
    track, _ = match(tasks, tracks)
    return replace(tasks, stream=np.where(missing, take(tracks.stream, track), tasks.stream))


def match(tasks: DeviceTasks, tracks: Launched) -> tuple[Int64, Bools]:
    """Return the track of each task by key and order; sub-tasks are matched through their parent task."""
    keys = joins.task_keys(tasks.device, tasks.stream, tasks.batch, tasks.task)
    unique = np.isin(tracks.device, np.unique(tasks.device[tasks.batch < 0]))
    track_keys = joins.task_keys(tracks.device, tracks.stream, np.where(unique, -1, tracks.batch), tracks.task)
    has_parts = np.zeros(len(tasks), bool)
    parts = np.flatnonzero(tasks.context >= 0)
    if not len(parts):
        return joins.match(keys, tasks.start_ns, track_keys, tracks.stamp_ns), has_parts
    whole = np.flatnonzero(tasks.context < 0)
    track = np.full(len(tasks), -1, np.int64)
    track[whole] = joins.match(keys[whole], tasks.start_ns[whole], track_keys, tracks.stamp_ns)
    holder = take(whole, joins.latest(keys[parts], tasks.begin[parts], keys[whole], tasks.begin[whole]))
    held = (holder >= 0) & (tasks.end[holder] >= tasks.end[parts])
    has_parts[holder[held]] = True
    track[parts[held]] = track[holder[held]]
    unmatched = parts[~held]
    track[unmatched] = joins.latest(keys[unmatched], tasks.start_ns[unmatched], track_keys, tracks.stamp_ns)
    return track, has_parts


def may_be_kernels(tasks: DeviceTasks, host_type: NameColumn, track: Int64) -> Bools:
    """Return a mask of tasks that are compute kernels unless they are steps of a collective or lack a call."""
    some_call, none = np.zeros(len(tasks), np.int64), np.full(len(tasks), -1, np.int64)
    return _is_compute(tasks, host_type, track, some_call, none)


def _is_compute(tasks: DeviceTasks, host_type: NameColumn, track: Int64, launch: Int64, collective: Int64) -> Bools:
    by_name = [name in enums.KERNEL_TASK_TYPES or name.startswith("KERNEL_") for name in host_type.names]
    kernel = np.array([*by_name, False])[host_type.codes]
    by_node = np.array([*(name in _LAUNCHED_BY_A_NODE for name in host_type.names), False])[host_type.codes]
    on_core = np.array([*(name in _CORES for name in tasks.kind.names), False])[tasks.kind.codes]
    # unknown to the host: decided by its core
    compute = np.where(track >= 0, kernel | (by_node & (launch >= 0)), on_core)
    compute &= (tasks.context < 0) | on_core
    return compute & (collective < 0)


def _kernel_types(host_type: NameColumn) -> NameColumn:
    return NameColumn.distinct(host_type.codes, [enums.KERNEL_TASK_TYPES.get(name, name) for name in host_type.names])


def _kernel_names(tracks: Tracks, track: Int64, names: Dictionaries) -> NameColumn:
    return names.names_of(tracks.kernel_name).where(tracks.kernel_name != 0).take(track)
