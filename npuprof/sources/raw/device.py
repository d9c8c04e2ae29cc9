"""Device records of one device: the tasks that it ran, wraps of task ids, steps.

Source: formats/raw.md sections 5.1 and 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from npuprof.analysis.nesting import time_order
from npuprof.notes import Notes
from npuprof.sources.raw import chip_layouts, enums, joins, layouts
from npuprof.sources.raw.batches import Flips, batch_ids
from npuprof.sources.raw.chips import Family, family_of
from npuprof.sources.raw.clocks import DeviceClock
from npuprof.sources.raw.control import Side
from npuprof.sources.raw.dictionaries import Names
from npuprof.sources.raw.slices import Records, Streams

Int64: TypeAlias = npt.NDArray[np.int64]

_TASK_START, _TASK_END, _SUB_START, _SUB_END = 0, 1, 0b100010, 0b100011
_STEP, _TASK_STATE, _OLD_FLIP, _FLIP = 0x0A, 0x0C, 0x0D, 0x0E
_OF_TASKS = (0x0B, _TASK_STATE, 0x0F)  # what these tell of single tasks, track_records reads
_STREAM_BITS, _EXPANDED_BITS = 11, 15
_ARRAYS = ("device", "start_ns", "duration_ns", "begin", "end", "stream", "batch", "task", "context")


@dataclass(frozen=True)
class Device:
    """What decoding the records of one device needs.

    Attributes
    ----------
    id
        The device.
    side
        Its control files.
    streams
        Its ``data`` folder.
    clock
        Its clocks.
    started_ns
        UTC epoch nanoseconds at which collection began: earlier records are dropped, as the vendor does.
    expanded
        Whether stream ids have up to 15 bits (stream_expand_spec).
    notes
        Where damage is noted.
    """

    id: int
    side: Side
    streams: Streams
    clock: DeviceClock
    started_ns: int
    expanded: bool
    notes: Notes

    def read(self, stream: str, record: np.dtype[Any], stamp: str = "counter") -> Records:
        """Read a stream of this device (``name.data.N``), as far as its stamps are possible."""
        return self.keep_sound(self.streams.read(f"{stream}.data.{self.id}", record), stream, stamp)

    @property
    def family(self) -> Family:
        """The family of the chip."""
        return family_of(self.side.info.get("platform_version"), self.streams.names())

    @property
    def stream_mask(self) -> int:
        """The bits that make the id of a stream, where nothing else is in them."""
        return (1 << (_EXPANDED_BITS if self.expanded else _STREAM_BITS)) - 1

    def keep_sound(self, records: Records, stream: str, stamp: str = "counter") -> Records:
        """Keep the records with the magic word, where they have one, and a possible stamp; note the others."""
        if "magic" in (records.dtype.names or ()):
            records = self._keep(records, records["magic"] == layouts.DEVICE_MAGIC, stream, "without the magic word")
        sound = self.clock.counter.reaches(records[stamp])
        records = self._keep(records, sound, stream, "with an impossible time stamp")
        late = self.clock.counter.to_ns(records[stamp]) >= self.started_ns
        return self._keep(records, late, stream, "from before the collection began")

    def _keep(self, records: Records, kept: npt.NDArray[np.bool_], stream: str, what: str) -> Records:
        count = len(records) - int(np.count_nonzero(kept))
        if not count:
            return records
        self.notes.warning(f"device {self.id}", f"{stream}: records {what} skipped", count)
        sound: Records = records[kept]
        return sound


@dataclass(frozen=True)
class DeviceTasks:
    """Tasks that devices ran, ordered by start, longer first; the arrays are parallel.

    Attributes
    ----------
    device
        Device id.
    start_ns, duration_ns
        UTC epoch nanoseconds and nanoseconds.
    begin, end
        The same in device counter ticks.
    stream, batch, task
        The key that the host knows too. The batch is -1 where task ids (of 32 bits) are unique on the device, which
        does not tell the stream then: it is -1 until the host's is known.
    context
        Context id of an FFTS+ sub-task, -1 for a task of a stream.
    kind
        The task's type as the device tells it.
    """

    device: Int64
    start_ns: Int64
    duration_ns: Int64
    begin: Int64
    end: Int64
    stream: Int64
    batch: Int64
    task: Int64
    context: Int64
    kind: Names

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, rows: Int64) -> DeviceTasks:
        """Give some of the rows."""
        return DeviceTasks(**{name: getattr(self, name)[rows] for name in _ARRAYS}, kind=self.kind.take(rows))


@dataclass(frozen=True)
class Track:
    """Records of ``ts_track``: wraps of task ids, step tags and states of tasks, the latter two in order of time."""

    flips: Flips
    steps: Records
    states: Records


def read_track(device: Device) -> Track:
    """Read ``ts_track``. Source: formats/raw.md section 5.4."""
    records = device.read("ts_track", layouts.TS_TRACK)
    records = records[np.argsort(records["counter"], kind="stable")]
    flips = records[(records["function"] == _FLIP) | (records["function"] == _OLD_FLIP)]
    steps = records[records["function"] == _STEP]
    states = records[records["function"] == _TASK_STATE] if device.family is Family.HWTS else records[:0]
    other = len(records) - len(flips) - len(steps) - int(np.isin(records["function"], _OF_TASKS).sum())
    if other:
        device.notes.info(f"device {device.id}", "ts_track: records of other functions are not decoded", other)
    return Track(
        Flips(
            flips["flip_stream"].astype(np.int64) & device.stream_mask,
            flips["counter"].astype(np.int64),
            flips["flip_number"].astype(np.int64),
        ),
        steps,
        np.ascontiguousarray(states["body"]).view(chip_layouts.TASK_STATE),
    )


def read_tasks(device: Device, track: Track) -> DeviceTasks:
    """Read start and end records of tasks and sub-tasks and pair them. Source: formats/raw.md sections 5.1 and 8.7."""
    records = device.read("stars_soc", layouts.STARS)
    function = records["head"] & 0x3F
    tasks = _pair(device, track, records, function == _TASK_START, function == _TASK_END, contexts=False)
    parts = [tasks]
    subs = function == _SUB_START
    if bool(subs.any()):
        parts.append(_pair(device, track, records, subs, function == _SUB_END, contexts=True))
    known = np.isin(function, (_TASK_START, _TASK_END, _SUB_START, _SUB_END))
    if not bool(known.all()):
        device.notes.info(f"device {device.id}", "stars_soc: records of other types skipped", int((~known).sum()))
    return join(parts)


def fix_up(device: Device, records: Records) -> tuple[Int64, Int64]:
    """Give stream and task ids without the tricks that the hardware plays with their bits.

    Source: formats/raw.md section 5.1 (stream/task fix-up).
    """
    stream, task = records["stream"].astype(np.int64), records["task"].astype(np.int64)
    if not device.expanded:
        if not bool((stream >> _STREAM_BITS).any()):
            return stream, task
        moved, swapped = (stream & 0x1000) != 0, (stream & 0x3000) == 0x2000
        fixed_stream = np.where(swapped, task & 0x0FFF, stream)
        fixed_task = np.where(moved, (task & 0x1FFF) | (stream & 0xE000), task)
        fixed_task = np.where(swapped, (stream & 0x0FFF) | (task & 0xF000), fixed_task)
        return fixed_stream & ((1 << _STREAM_BITS) - 1), fixed_task
    sqe = records["head"] >> 10
    swapped = ((stream & 0x8000) != 0) & (sqe != 3) & (sqe != 4)
    fixed_task = np.where(swapped, (task & 0x8000) | (stream & 0x7FFF), task)
    return np.where(swapped, task & 0x7FFF, stream & 0x7FFF), fixed_task


def _pair(
    device: Device,
    track: Track,
    records: Records,
    is_start: npt.NDArray[np.bool_],
    is_end: npt.NDArray[np.bool_],
    *,
    contexts: bool,
) -> DeviceTasks:
    stream, task = fix_up(device, records)
    counter = records["counter"].astype(np.int64)
    batch = batch_ids(stream, counter, task, track.flips)
    context = records["sub_task"].astype(np.int64) if contexts else np.full(len(records), -1, np.int64)
    keys = stream << 48 | batch << 32 | task << 16 | (context & 0xFFFF)
    rows, closing = pair_rows(device, "stars_soc", keys, counter, is_start, is_end)
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
        _kinds(records[rows], contexts=contexts),
    )


def pair_rows(
    device: Device,
    source: str,
    keys: Int64,
    counter: Int64,
    is_start: npt.NDArray[np.bool_],
    is_end: npt.NDArray[np.bool_],
) -> tuple[Int64, Int64]:
    """Pair the start and end records of each key; give the rows of both. What has no other half is noted.

    Source: formats/raw.md section 8.7.
    """
    starts, ends = np.flatnonzero(is_start), np.flatnonzero(is_end)
    paired, closing = joins.pair(keys[starts], counter[starts], keys[ends], counter[ends])
    lost = len(starts) + len(ends) - 2 * len(paired)
    if lost:
        device.notes.warning(
            f"device {device.id}", f"{source}: starts or ends of tasks without the other skipped", lost
        )
    return starts[paired], ends[closing]


def _kinds(records: Records, *, contexts: bool) -> Names:
    if contexts:
        return Names.lookup(records["sub_type"], lambda value: enums.SUB_TASK_TYPES.get(value) or str(value))
    return Names.lookup(records["head"] >> 10, lambda value: enums.SQE_TYPES.get(value) or str(value))


def join(parts: list[DeviceTasks]) -> DeviceTasks:
    """Join the tasks of several devices, in order of time."""
    if not parts:
        none = np.empty(0, np.int64)
        return DeviceTasks(none, none, none, none, none, none, none, none, none, Names.absent(0))
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
    kind = reduce(Names.append, [part.kind for part in parts])
    order = time_order(joined["start_ns"], joined["start_ns"] + joined["duration_ns"])
    return DeviceTasks(**{name: values[order] for name, values in joined.items()}, kind=kind.take(order))
