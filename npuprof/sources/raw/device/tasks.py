"""Executed tasks of a device, and its ``ts_track``: task id wraps, steps, task states.

Source: raw/FORMAT.md sections 5.1 and 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from npuprof.analysis.nesting import time_order
from npuprof.arrays import Bools, Int64, Records, taken
from npuprof.sources.raw.device.reader import STREAM_BITS, RawDevice
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.join_keys.batches import Flips, batch_ids
from npuprof.sources.raw.metadata.chip_families import Family
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import chip_layouts, enums, layouts

_TASK_START, _TASK_END, _SUB_START, _SUB_END = 0, 1, 0b100010, 0b100011
_STEP, _TASK_STATE, _OLD_FLIP, _FLIP = 0x0A, 0x0C, 0x0D, 0x0E
_OF_TASKS = (0x0B, _TASK_STATE, 0x0F)  # read by track_records
_ARRAYS = ("device", "start_ns", "duration_ns", "begin", "end", "stream", "batch", "task", "context")


@dataclass(frozen=True)
class DeviceTasks:
    """Tasks that devices ran, ordered by start, longer first; the arrays are parallel."""

    device: Int64  # device id
    # start_ns, duration_ns: UTC epoch nanoseconds and nanoseconds.
    start_ns: Int64
    duration_ns: Int64
    # begin, end: the same in device counter ticks.
    begin: Int64
    end: Int64
    # stream, batch, task: the key shared with the host. The batch is -1 where task ids (of 32 bits) are unique on the
    # device; such records lack the stream, which is -1 until the join with the host.
    stream: Int64
    batch: Int64
    task: Int64
    context: Int64  # context id of an FFTS+ sub-task, -1 for a task of a stream
    kind: NameColumn  # the device's type of the task

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, rows: Int64) -> DeviceTasks:
        """Return the selected rows."""
        return DeviceTasks(**{name: getattr(self, name)[rows] for name in _ARRAYS}, kind=self.kind.take(rows))


@dataclass(frozen=True)
class Track:
    """Records of ``ts_track``: task id wraps, step tags and task states, both in order of time."""

    flips: Flips
    steps: Records
    states: Records


def read_track(device: RawDevice) -> Track:
    """Read ``ts_track``. Source: raw/FORMAT.md section 5.4."""
    records = device.read("ts_track", layouts.TS_TRACK)
    records = records[np.argsort(records["counter"], kind="stable")]
    flips = records[(records["function"] == _FLIP) | (records["function"] == _OLD_FLIP)]
    steps = records[records["function"] == _STEP]
    states = records[records["function"] == _TASK_STATE] if device.family is Family.HWTS else records[:0]
    other = len(records) - len(flips) - len(steps) - int(np.isin(records["function"], _OF_TASKS).sum())
    device.skip("ts_track", "records of other functions are not decoded", other, info=True)
    device.use("ts_track", len(flips) + len(steps))
    return Track(
        Flips(
            flips["flip_stream"].astype(np.int64) & device.stream_mask,
            flips["counter"].astype(np.int64),
            flips["flip_number"].astype(np.int64),
        ),
        steps,
        np.ascontiguousarray(states["body"]).view(chip_layouts.TASK_STATE),
    )


def read_tasks(device: RawDevice, track: Track) -> DeviceTasks:
    """Read start and end records of tasks and sub-tasks and pair them. Source: raw/FORMAT.md sections 5.1 and 8.7."""
    records = device.read("stars_soc", layouts.STARS)
    function = records["head"] & 0x3F
    tasks = _pair(device, track, records, function == _TASK_START, function == _TASK_END, contexts=False)
    parts = [tasks]
    subs = function == _SUB_START
    if bool(subs.any()):
        parts.append(_pair(device, track, records, subs, function == _SUB_END, contexts=True))
    is_known = np.isin(function, (_TASK_START, _TASK_END, _SUB_START, _SUB_END))
    device.skip("stars_soc", "records of other types skipped", int((~is_known).sum()), info=True)
    return join(parts)


def fix_up(device: RawDevice, records: Records) -> tuple[Int64, Int64]:
    """Return stream and task ids without the hardware's flag bits.

    Source: raw/FORMAT.md section 5.1 (stream/task fix-up).
    """
    stream, task = records["stream"].astype(np.int64), records["task"].astype(np.int64)
    if not device.expanded:
        if not bool((stream >> STREAM_BITS).any()):
            return stream, task
        moved, swapped = (stream & 0x1000) != 0, (stream & 0x3000) == 0x2000
        fixed_stream = np.where(swapped, task & 0x0FFF, stream)
        fixed_task = np.where(moved, (task & 0x1FFF) | (stream & 0xE000), task)
        fixed_task = np.where(swapped, (stream & 0x0FFF) | (task & 0xF000), fixed_task)
        return fixed_stream & ((1 << STREAM_BITS) - 1), fixed_task
    sqe = records["head"] >> 10
    swapped = ((stream & 0x8000) != 0) & (sqe != 3) & (sqe != 4)
    fixed_task = np.where(swapped, (task & 0x8000) | (stream & 0x7FFF), task)
    return np.where(swapped, task & 0x7FFF, stream & 0x7FFF), fixed_task


def _pair(
    device: RawDevice,
    track: Track,
    records: Records,
    is_start: Bools,
    is_end: Bools,
    *,
    contexts: bool,
) -> DeviceTasks:
    stream, task = fix_up(device, records)
    counter = records["counter"].astype(np.int64)
    batch = batch_ids(stream, counter, task, track.flips)
    context = records["sub_task"].astype(np.int64) if contexts else np.full(len(records), -1, np.int64)
    keys = stream << 48 | batch << 32 | task << 16 | (context & 0xFFFF)
    rows, closing = pair_rows(device, "stars_soc", keys, counter, is_start, is_end)
    device.keep("stars_soc", "tasks", 2 * len(rows), len(rows))
    start_ns = device.clock.counter.to_ns(records["counter"][rows])
    return DeviceTasks(
        np.full(len(rows), device.id),
        start_ns,
        device.clock.counter.to_ns(records["counter"][closing]) - start_ns,
        counter[rows],
        counter[closing],
        stream[rows],
        batch[rows],
        task[rows],
        context[rows],
        _kinds(taken(records, rows), contexts=contexts),
    )


def pair_rows(
    device: RawDevice,
    source: str,
    keys: Int64,
    counter: Int64,
    is_start: Bools,
    is_end: Bools,
    *,
    accounted: bool = False,
) -> tuple[Int64, Int64]:
    """Return the rows of paired start and end records by key; a note counts unpaired records.

    `accounted` records are in the ledger already. Source: raw/FORMAT.md section 8.7.
    """
    starts, ends = np.flatnonzero(is_start), np.flatnonzero(is_end)
    paired, closing = joins.pair(keys[starts], counter[starts], keys[ends], counter[ends])
    lost_count = len(starts) + len(ends) - 2 * len(paired)
    device.skip(source, "starts or ends of tasks without the other skipped", lost_count)
    if accounted:
        device.use(source, -lost_count)
    return starts[paired], ends[closing]


def _kinds(records: Records, *, contexts: bool) -> NameColumn:
    if contexts:
        return NameColumn.lookup(records["sub_type"], lambda value: enums.SUB_TASK_TYPES.get(value) or str(value))
    return NameColumn.lookup(records["head"] >> 10, lambda value: enums.SQE_TYPES.get(value) or str(value))


def join(parts: list[DeviceTasks]) -> DeviceTasks:
    """Return the tasks of several devices in order of time."""
    if not parts:
        empty = np.empty(0, np.int64)
        return DeviceTasks(empty, empty, empty, empty, empty, empty, empty, empty, empty, NameColumn.absent(0))
    joined = parts[0]
    if len(parts) > 1:
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
        joined = DeviceTasks(**columns, kind=reduce(NameColumn.append, [part.kind for part in parts]))
    order = time_order(joined.start_ns, joined.start_ns + joined.duration_ns)
    return joined if bool((order[1:] > order[:-1]).all()) else joined.take(order)
