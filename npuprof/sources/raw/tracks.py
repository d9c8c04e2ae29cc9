"""Tasks as the host launched them (task_track), with the call, the operator and the copy that each belongs to.

Source: formats/raw.md sections 4.1, 4.4 and 8.3 to 8.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from npuprof.sources.raw import enums, layouts
from npuprof.sources.raw.batches import Flips, batch_ids
from npuprof.sources.raw.copies import join_copies
from npuprof.sources.raw.dictionaries import Names
from npuprof.sources.raw.host import Api, Host
from npuprof.sources.raw.operators import take
from npuprof.sources.raw.slices import Records

Int64: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

_FLIP, _FLIP_NAME = "FLIP", "FLIP_TASK"  # ours, and the collector's
_IGNORED = frozenset({_FLIP, "MAINTENANCE"})
_EXTENDED = 40  # header length of a record whose block fields are filled
_DEVICE_KIND_SHIFT = 12


@dataclass(frozen=True)
class Tracks:
    """Launched tasks ordered by stamp; the arrays are parallel.

    Attributes
    ----------
    stamp_ns
        When the host launched it, UTC epoch nanoseconds.
    device, stream, task, batch
        The key that device records carry too.
    task_type
        The vendor's name of the type (``KERNEL_AICORE``, ``MEMCPY_ASYNC`` ...).
    kernel_name
        Hash of the kernel's name, 0 without one.
    blocks, ratio, extended
        Block number and mix ratio, and whether the record holds them.
    launch
        Position of the launching node-level call in the tree of calls, -1 without one.
    step
        Position of the communication-level call in the tree of calls, -1 without one.
    collective
        Position of the node-level call (or else the step) of the collective that it is part of, -1 for none.
    call
        Row of `api` whose connection the task carries, -1 for none.
    copied_bytes, copy_direction
        What memcpy_info tells of a copy; -1 where it does not.
    """

    stamp_ns: Int64
    device: Int64
    stream: Int64
    task: Int64
    batch: Int64
    task_type: Names
    kernel_name: npt.NDArray[np.uint64]
    blocks: Int64
    ratio: Int64
    extended: Bools
    launch: Int64
    step: Int64
    collective: Int64
    call: Int64
    copied_bytes: Int64
    copy_direction: Int64


def read_tracks(host: Host, api: Api) -> Tracks:
    """Read launched tasks, give them batch ids, and join calls and copies."""
    records, _ = host.read("compact.task_track", layouts.TASK_TRACK)
    stamps = records["stamp"]
    if bool((stamps[1:] < stamps[:-1]).any()):
        records = records[np.argsort(stamps, kind="stable")]
    records = _of_npus(host, records)
    types = Names.lookup(records["task_type"], lambda value: _type_name(host, value))
    batch = _batches(records, types)
    kept = ~np.isin(types.codes, [code for code, name in enumerate(types.names) if name in _IGNORED])
    if not bool(kept.all()):
        records, types, batch = records[kept], types.take(np.flatnonzero(kept)), batch[kept]
    return _join(host, api, records, types, batch)


def _join(host: Host, api: Api, records: Records, types: Names, batch: Int64) -> Tracks:
    held_by = api.at(records["thread"], records["stamp"])
    launch = take(api.nearest(enums.NODE), held_by)
    step = take(api.nearest(enums.COMMUNICATION), held_by)
    above = take(api.nearest(enums.NODE, enums.MODEL, enums.ACL), held_by)
    call = take(api.rows, np.where(launch >= 0, launch, above))
    size, direction = join_copies(host, records, types)
    return Tracks(
        stamp_ns=host.clock.to_ns(records["stamp"]),
        device=records["device"].astype(np.int64),
        stream=records["stream"].astype(np.int64),
        task=records["task"].astype(np.int64),
        batch=batch,
        task_type=types,
        kernel_name=np.ascontiguousarray(records["kernel_name"]),
        blocks=records["blocks"].astype(np.int64),
        ratio=(records["ratio"] & 7).astype(np.int64),
        extended=records["data_length"] == _EXTENDED,
        launch=launch,
        step=step,
        collective=np.where(step >= 0, np.where(launch >= 0, launch, step), -1),
        call=call,
        copied_bytes=size,
        copy_direction=direction,
    )


def _of_npus(host: Host, records: Records) -> Records:
    kinds = records["device"] >> _DEVICE_KIND_SHIFT
    if not bool(kinds.any()):
        return records
    host.notes.info("task_track", "tasks of other processors than an NPU are not decoded", int((kinds != 0).sum()))
    kept: Records = records[kinds == 0]
    return kept


def _type_name(host: Host, value: int) -> str:
    known = host.names.types.get((enums.RUNTIME, value))
    if known == _FLIP_NAME:
        return _FLIP
    return known or enums.TRACK_TASK_TYPES.get(value) or str(value)


def _batches(records: Records, types: Names) -> Int64:
    streams = records["device"].astype(np.int64) << 16 | records["stream"]
    flips = records[types.codes == types.names.index(_FLIP)] if _FLIP in types.names else records[:0]
    return batch_ids(
        streams,
        records["stamp"].astype(np.int64),
        records["task"].astype(np.int64),
        Flips(
            flips["device"].astype(np.int64) << 16 | flips["stream"],
            flips["stamp"].astype(np.int64),
            flips["batch"].astype(np.int64),
        ),
    )
