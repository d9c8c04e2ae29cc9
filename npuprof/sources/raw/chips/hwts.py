"""Tasks of chips with a hardware task scheduler (910A, 310P, 610): its log, and AI CPU tasks of the 910A.

Source: raw/FORMAT.md sections 5.4 and 7.
"""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Bools, Int64, Records
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.device.tasks import DeviceTasks, Track, join, pair_rows
from npuprof.sources.raw.join_keys.batches import batch_ids
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import chip_layouts, enums

STREAM_MASK = 0x7FF
_LOGS = ("hwts.data", "hwts.aiv_data")  # the second log: vector cores of the 610
_TRACK = "ts_track"
_START, _END = 0, 1
_COUNTS = 16  # records carry a count of 4 bits
_STARTED, _ENDED = 1, 2
_AI_CPU = "AI_CPU"
_STATE_AI_CPU = 1


def read_tasks(device: RawDevice, track: Track) -> DeviceTasks:
    """Read and pair start and end records of tasks by log, stream and task.

    The 910A logs no AI CPU tasks: their times are in their ``ts_track`` states.
    """
    parts = [_of_log(device, track, log) for log in _LOGS]
    if all(_AI_CPU not in part.kind.names for part in parts):
        parts.append(_ai_cpu(device, track))
    return join(parts)


def _of_log(device: RawDevice, track: Track, log: str) -> DeviceTasks:
    records = device.streams.read(f"{log}.{device.id}", chip_layouts.HWTS)
    note_gaps(device, log, records)
    records = device.keep_sound(records, log)
    tag = records["tag"] & 7
    other = int((tag > _END).sum())
    device.skip(log, "records of blocks and counters are not decoded", other, info=True)
    stream, task = records["stream"].astype(np.int64) & STREAM_MASK, records["task"].astype(np.int64)
    kinds = NameColumn.lookup(records["type"], lambda value: enums.HWTS_TYPES.get(value) or str(value))
    return _paired(device, track, log, records, (stream, task), (tag == _START, tag == _END), kinds)


def _ai_cpu(device: RawDevice, track: Track) -> DeviceTasks:
    records = track.states[track.states["type"] == _STATE_AI_CPU]
    stream, task = records["stream"].astype(np.int64) & STREAM_MASK, records["task"].astype(np.int64)
    marks = (records["state"] == _STARTED, records["state"] == _ENDED)
    kinds = NameColumn(np.zeros(len(records), np.int32), [_AI_CPU])
    return _paired(device, track, _TRACK, records, (stream, task), marks, kinds)


def _paired(
    device: RawDevice,
    track: Track,
    source: str,
    records: Records,
    ids: tuple[Int64, Int64],
    marks: tuple[Bools, Bools],
    kinds: NameColumn,
) -> DeviceTasks:
    stream, task = ids
    counter = records["counter"].astype(np.int64)
    batch = batch_ids(stream, counter, task, track.flips)
    is_logged = source != _TRACK  # there, the task states are statistics
    keys = stream << 32 | batch << 16 | task
    rows, closing = pair_rows(device, source, keys, counter, *marks, accounted=not is_logged)
    device.keep(source, "tasks", 2 * len(rows) * is_logged, len(rows))
    start_ns = device.clock.counter.to_ns(records["counter"][rows])
    return DeviceTasks(
        device=np.full(len(rows), device.id),
        start_ns=start_ns,
        duration_ns=device.clock.counter.to_ns(records["counter"][closing]) - start_ns,
        begin=counter[rows],
        end=counter[closing],
        stream=stream[rows],
        batch=batch[rows],
        task=task[rows],
        context=np.full(len(rows), -1, np.int64),
        kind=kinds.take(rows),
    )


def note_gaps(device: RawDevice, log: str, records: Records) -> None:
    """Note gaps in the 4-bit count of records. Source: raw/FORMAT.md section 7."""
    count = (records["tag"] >> 4).astype(np.int64)
    gaps = int(((count[1:] - count[:-1]) % _COUNTS != 1).sum())
    if gaps:
        lost = f"{log}: places where records are lost or out of order (by their 4-bit count)"
        device.notes.warning(f"device {device.id}", lost, gaps, lacks=("tasks", "kernels"))
