"""Launched tasks of the host (task_track), with the call, operator and copy of each.

Source: raw/FORMAT.md sections 4.1, 4.4, 8.3 to 8.6 and 8.10.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64, Records, Uint64, taken
from npuprof.sources.raw.host.calls import Api
from npuprof.sources.raw.host.operators import take
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.join_keys.batches import Flips, batch_ids
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import enums, layouts

_COPY = "MEMCPY_ASYNC"


def join_copies(host: RawHost, records: Records, types: NameColumn) -> tuple[Int64, Int64]:
    """Join memcpy_info to copies by thread and timestamp; a copy above the maximum size is split into several tasks.

    Source: raw/FORMAT.md section 8.10.
    """
    size, direction = np.full(len(records), -1, np.int64), np.full(len(records), -1, np.int64)
    infos, _ = host.read("compact.memcpy_info", layouts.MEMCPY_INFO)
    copies = np.flatnonzero(types.codes == types.names.index(_COPY)) if _COPY in types.names else None
    if copies is None or not len(infos):
        return size, direction
    group, info_group = _groups(records[copies], infos)
    held_rows = np.flatnonzero(info_group >= 0)
    held_rows = held_rows[np.argsort(info_group[held_rows], kind="stable")]
    infos, info_group = infos[held_rows], info_group[held_rows]
    if not len(infos):
        return size, direction
    biggest = np.maximum(infos["max_size"], 1)
    chunks = infos["size"] // biggest + (infos["size"] % biggest > 0)
    tasks_of = np.bincount(group)
    chunks = np.maximum(np.minimum(chunks, tasks_of[info_group].astype(np.uint64)).astype(np.int64), 1)
    first_turn = np.cumsum(chunks) - chunks
    first_turn -= first_turn[np.searchsorted(info_group, info_group)]
    turn = joins.turns(group)
    width = int(max(first_turn.max(initial=0), turn.max(initial=0))) + 1
    at = np.searchsorted(info_group * width + first_turn, group * width + turn, side="right") - 1
    chunk = turn - first_turn[at]
    valid = (at >= 0) & (info_group[at] == group) & (chunk < chunks[at])
    rows, at, chunk = copies[valid], at[valid], chunk[valid]
    left = infos["size"][at] - chunk.astype(np.uint64) * biggest[at]
    size[rows] = np.minimum(left, biggest[at]).astype(np.int64)
    direction[rows] = infos["direction"][at]
    return size, direction


def _groups(copies: Records, infos: Records) -> tuple[Int64, Int64]:
    """Return a number per distinct (thread, stamp) of copies, and that of the infos; -1 without a copy."""
    stamps, threads = (np.concatenate((copies[key], infos[key])) for key in ("stamp", "thread"))
    stamp_codes, distinct = pd.factorize(stamps)
    thread_codes, _ = pd.factorize(threads)
    codes, _ = pd.factorize(thread_codes.astype(np.int64) * len(distinct) + stamp_codes)
    group, info_group = codes[: len(copies)], codes[len(copies) :]
    return group, np.where(info_group <= group.max(), info_group, -1)


_FLIP, _OLD_FLIP = "FLIP_TASK", "FLIP"  # the collector's spelling, and another one in dictionaries
_IGNORED = frozenset({_FLIP, "MAINTENANCE"})
_EXTENDED = 40  # header length of a record whose block fields are filled
_DEVICE_KIND_SHIFT = 12


@dataclass(frozen=True)
class Tracks:
    """Launched tasks ordered by stamp; the arrays are parallel."""

    stamp_ns: Int64  # time of the launch, UTC epoch nanoseconds
    # device, stream, task, batch: the key shared with device records.
    device: Int64
    stream: Int64
    task: Int64
    batch: Int64
    task_type: NameColumn  # the vendor's name of the type (`KERNEL_AICORE`, `MEMCPY_ASYNC` ...)
    kernel_name: Uint64  # hash of the kernel's name, or 0
    # blocks, ratio, extended: block number and mix ratio, and whether the record has them.
    blocks: Int64
    ratio: Int64
    extended: Bools
    launch: Int64  # position of the launching node-level call in the tree of calls, or -1
    step: Int64  # position of the communication-level call in the tree of calls, or -1
    collective: Int64  # position of the node-level call (else the step) of its collective, or -1
    call: Int64  # row of `api` of the task's connection, or -1
    model: Int64  # the model whose run launched it, or -1
    # copied_bytes, copy_direction: size and direction of a copy from memcpy_info, or -1.
    copied_bytes: Int64
    copy_direction: Int64


@dataclass(frozen=True)
class Launched:
    """Recorded launched tasks, ordered by timestamp; the other arrays are as in `Tracks`."""

    records: Records
    task_type: NameColumn
    stamp_ns: Int64
    device: Int64
    stream: Int64
    task: Int64
    batch: Int64

    def take(self, rows: Int64) -> Launched:
        """Return the selected rows."""
        arrays = (getattr(self, field.name)[rows] for field in fields(self)[2:])
        return Launched(taken(self.records, rows), self.task_type.take(rows), *arrays)


def read_launched(host: RawHost, *, unique_ids: bool = False) -> Launched:
    """Read launched tasks with their batch ids.

    With `unique_ids` (stars v6 family), task ids have 32 bits, even in records with a batch field.
    """
    records = _read(host, unique_ids=unique_ids)
    stamps = records["stamp"]
    if bool((stamps[1:] < stamps[:-1]).any()):
        records = records[np.argsort(stamps, kind="stable")]
    records = _npu_records(host, records)
    types = NameColumn.lookup(records["task_type"], lambda value: _type_name(host, value))
    batch = _batches(records, types)
    is_kept = ~np.isin(types.codes, [code for code, name in enumerate(types.names) if name in _IGNORED])
    if not bool(is_kept.all()):
        records, types, batch = taken(records, is_kept), types.take(np.flatnonzero(is_kept)), batch[is_kept]
    return Launched(
        records,
        types,
        host.clock.to_ns(records["stamp"]),
        records["device"].astype(np.int64),
        records["stream"].astype(np.int64),
        records["task"].astype(np.int64),
        batch,
    )


def _read(host: RawHost, *, unique_ids: bool) -> Records:
    """Read task_track, or its second form with 32-bit ids where present. Source: raw/FORMAT.md section 4.1."""
    narrow, _ = host.read("compact.task_track", layouts.TASK_TRACK)
    wide, _ = host.read("compact.task_track_v2", layouts.TASK_TRACK_V2)
    if not len(wide) and not unique_ids:
        return narrow
    if len(wide) and len(narrow):
        host.notes.info("task_track", "records beside those of task_track_v2 skipped", len(narrow))
    recorded = wide if len(wide) else narrow
    records = np.zeros(len(recorded), layouts.TASK_TRACK_WIDE)
    for field in set(layouts.TASK_TRACK_WIDE.names or ()) & set(recorded.dtype.names or ()):
        records[field] = recorded[field]
    if not len(wide):
        records["task"] |= records["batch"].astype(np.uint32) << np.uint32(16)
        records["batch"] = 0
    return records


def join_calls(host: RawHost, api: Api, launched: Launched) -> Tracks:
    """Join launched tasks with their enclosing calls, and copies with their memcpy_info."""
    records, types = launched.records, launched.task_type
    held_by = api.at(records["thread"], records["stamp"])
    launch = take(api.nearest(enums.NODE), held_by)
    step = take(api.nearest(enums.COMMUNICATION), held_by)
    above = take(api.nearest(enums.NODE, enums.MODEL, enums.ACL), held_by)
    call = take(api.rows, np.where(launch >= 0, launch, above))
    size, direction = join_copies(host, records, types)
    return Tracks(
        stamp_ns=launched.stamp_ns,
        device=launched.device,
        stream=launched.stream,
        task=launched.task,
        batch=launched.batch,
        task_type=types,
        kernel_name=np.ascontiguousarray(records["kernel_name"]),
        blocks=records["blocks"].astype(np.int64),
        ratio=(records["ratio"] & 7).astype(np.int64),
        extended=records["data_length"] == _EXTENDED,
        launch=launch,
        step=step,
        collective=np.where(step >= 0, np.where(launch >= 0, launch, step), -1),
        call=call,
        model=_models(api, held_by),
        copied_bytes=size,
        copy_direction=direction,
    )


def _models(api: Api, held_by: Int64) -> Int64:
    if not bool((api.level == enums.MODEL).any()):
        return np.full(len(held_by), -1, np.int64)
    call = take(api.nearest(enums.MODEL), held_by)
    return take(api.model[api.rows].astype(np.int64), call)


def _npu_records(host: RawHost, records: Records) -> Records:
    kinds = records["device"] >> _DEVICE_KIND_SHIFT
    if not bool(kinds.any()):
        return records
    host.notes.info("task_track", "tasks of other processors than an NPU are not decoded", int((kinds != 0).sum()))
    return records[kinds == 0]


def _type_name(host: RawHost, value: int) -> str:
    name = host.names.type_name(enums.RUNTIME, value, enums.TRACK_TASK_TYPES)
    return _FLIP if name == _OLD_FLIP else name


def _batches(records: Records, types: NameColumn) -> Int64:
    streams = records["device"].astype(np.int64) << 32 | records["stream"]
    flips = records[types.codes == types.names.index(_FLIP)] if _FLIP in types.names else records[:0]
    return batch_ids(
        streams,
        records["stamp"].astype(np.int64),
        records["task"].astype(np.int64),
        Flips(
            flips["device"].astype(np.int64) << 32 | flips["stream"],
            flips["stamp"].astype(np.int64),
            flips["batch"].astype(np.int64),
        ),
    )
