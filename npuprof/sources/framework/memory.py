"""``torch.memory_usage``: the tables `memory` and `allocations`.

A record is an allocation or a release by the caching allocator, or the end of use by the device, with the allocator's
totals after it.

Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64
from npuprof.sources.allocator_totals import note_lost_ends, note_lost_events
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.sources.framework.correlation import operator_rows
from npuprof.sources.framework.files import read_content
from npuprof.sources.framework.intervals import reached, to_ns
from npuprof.sources.framework.tlv import Records, scan
from npuprof.sources.raw.metadata.clocks import CounterClock
from npuprof.tables.notes import Notes

_FILE, _KIND, _BYTES = "torch.memory_usage", 3, 77
_CPU, _NPU = 0, 20  # device type numbers of torch
_OF_CPU = (-1, 0)  # device numbers that torch uses for the host
_CACHING, _ALLOCATED, _RELEASED, _IDLE = 0, 0, 1, 2
_COMPONENTS = ["PTA", "WORKSPACE"]
_INSIDE = ("empty_tensor", "malloc_workspace")  # operators that only allocate on behalf of their caller


@dataclass(frozen=True)
class _Events:
    """Events of memory blocks on devices as columns, in order of time."""

    time_ns: Int64
    block: Int64
    kind: Int64
    size_bytes: Int64
    device_id: Int64
    stream: Int64
    thread_id: Int64
    caching: npt.NDArray[np.bool_]
    component: Int64


def read_memory(folder: Path, clock: CounterClock, operators: pd.DataFrame, notes: Notes) -> dict[str, pd.DataFrame]:
    """Read the records of a FRAMEWORK folder.

    Returns
    -------
    `memory`, with the stream of each sample, and `allocations`, named after the innermost operator around the
    allocation, with ``active_released_ns``, the end of use by the device. A note counts blocks allocated before the
    recording.
    """
    content = read_content(folder, _FILE, notes)
    if content is None:
        return {"memory": tables.empty("memory"), "allocations": tables.empty("allocations")}
    records = scan(content, _KIND, _BYTES, notes, _FILE)
    stamps = records.column(8, "<i8")
    good = reached(clock, [stamps], notes, _FILE)
    device_type, device = records.column(56, "i1"), records.column(57, "i1")
    on_device = device_type == _NPU
    on_host = (device_type == _CPU) & np.isin(device, _OF_CPU) & (stamps != 0) & (records.column(16, "<i8") != 0)
    on_host &= records.column(32, "<i8") == 0  # torch's host allocator reserves nothing
    notes.ledger.leave_out(_FILE, int((good & ~on_device).sum()))
    if count := int((good & on_host).sum()):
        notes.info(_FILE, "memory of the host is left out", count)
    if count := int((good & ~on_device & ~on_host).sum()):
        notes.warning(_FILE, "a record is neither of an NPU nor of the host: it is damaged, and left out", count)
    rows = np.flatnonzero(good & on_device)
    time_ns = to_ns(clock, stamps[rows])
    order = np.argsort(time_ns, kind="stable")
    rows, time_ns = rows[order], time_ns[order]
    events = _events(records, rows, time_ns)
    allocations = _allocations(events, operators, notes)
    notes.ledger.keep(_FILE, "memory", len(rows))
    notes.ledger.make(_FILE, "allocations", len(allocations))
    samples = _samples(records, rows, time_ns)
    totals = samples["allocated_bytes"].to_numpy(np.int64)
    note_lost_events((events.component, events.device_id), _changes(events), totals, notes, _FILE)
    note_lost_ends(operators, allocations, time_ns, notes, _FILE)
    return {"memory": samples, "allocations": allocations}


def _samples(records: Records, rows: Int64, time_ns: Int64) -> pd.DataFrame:
    component = records.column(58, "u1")[rows].astype(np.int64)
    columns = {
        "time_ns": time_ns,
        "device_id": records.column(57, "i1")[rows].astype(np.int64),
        "component": tables.categorical(np.where(component < len(_COMPONENTS), component, -1), _COMPONENTS),
        "stream": optional(records.column(48, "<i8")[rows].astype(np.int64)),
    }
    for offset, name in ((24, "allocated_bytes"), (32, "reserved_bytes"), (40, "active_bytes")):
        columns[name] = records.column(offset, "<i8")[rows].astype(np.int64)
    return tables.build("memory", columns)


def _events(records: Records, rows: Int64, time_ns: Int64) -> _Events:
    block, size, stream, thread = (records.column(at, "<i8")[rows].astype(np.int64) for at in (0, 16, 48, 61))
    device, kind = (records.column(at, kind)[rows].astype(np.int64) for at, kind in ((57, "i1"), (59, "u1")))
    caching, component = records.column(60, "u1")[rows] == _CACHING, records.column(58, "u1")[rows].astype(np.int64)
    return _Events(time_ns, block, kind, size, device, stream, thread, caching, component)


def _changes(events: _Events) -> Int64:
    """Return what each event adds to the allocator's total: a block's end is the first of release and end of use.

    The end of use that stands alone is of a block that was released before the recording.
    """
    keys = (events.block, events.component, events.device_id)
    order = np.lexsort((np.arange(len(events.kind)), *keys))
    kind, size = events.kind[order], np.abs(events.size_bytes[order])
    is_other = np.append(True, np.any([np.diff(key[order]) != 0 for key in keys], axis=0))[: len(kind)]
    is_begin = kind == _ALLOCATED
    goes_on = ~is_other & ~is_begin & np.append(False, ~is_begin[:-1] & (kind[1:] != kind[:-1]))[: len(kind)]
    number = np.arange(len(kind))
    since = number - np.maximum.accumulate(np.where(goes_on, 0, number))  # ends of both kinds, in turn
    is_second = since % 2 == 1
    has_second = np.append(is_second[1:], False)[: len(kind)]
    change = np.where(is_begin, size, np.where(is_second, 0, -size))
    change[is_other & (kind == _IDLE) & ~has_second] = 0
    changes = np.empty_like(change)
    changes[order] = change
    return changes


def _allocations(events: _Events, operators: pd.DataFrame, notes: Notes) -> pd.DataFrame:
    """Join each allocation with the events of its block up to the next allocation at the same address."""
    allocated = np.flatnonzero((events.kind == _ALLOCATED) & events.caching)
    ended = {kind: _ends(events, allocated, kind) for kind in (_RELEASED, _IDLE)}
    earlier = int(((events.kind == _RELEASED) & events.caching).sum()) - int((ended[_RELEASED] >= 0).sum())
    if earlier:
        notes.info(_FILE, "a released block was allocated before the recording, and is left out", earlier)
    inside = operators["name"].isin(_INSIDE).to_numpy()
    cause = operator_rows(operators, events.thread_id[allocated], events.time_ns[allocated], ~inside)
    return tables.build(
        "allocations",
        {
            "name": operators["name"].array.take(cause, allow_fill=True),
            "size_bytes": np.abs(events.size_bytes[allocated]),
            "allocated_ns": events.time_ns[allocated],
            "released_ns": optional(_times(events, ended[_RELEASED])),
            "device_id": events.device_id[allocated],
            "stream": optional(events.stream[allocated]),
            "active_released_ns": optional(_times(events, ended[_IDLE])),
        },
    )


def _ends(events: _Events, allocated: Int64, kind: int) -> Int64:
    """Return the event of a kind that ends each allocation; -1 for blocks that are still allocated."""
    ends = np.full(len(allocated), -1, np.int64)
    rows = np.flatnonzero(((events.kind == kind) | (events.kind == _ALLOCATED)) & events.caching)
    rows = rows[np.lexsort((rows, events.block[rows], events.device_id[rows]))]
    before, after = rows[:-1], rows[1:]
    pairs = (events.kind[before] == _ALLOCATED) & (events.kind[after] == kind)
    pairs &= (events.block[before] == events.block[after]) & (events.device_id[before] == events.device_id[after])
    ends[np.searchsorted(allocated, before[pairs])] = after[pairs]
    return ends


def _times(events: _Events, rows: Int64) -> Int64:
    if not len(events.time_ns):
        return np.full(len(rows), ABSENT)
    return np.where(rows >= 0, events.time_ns[rows], ABSENT)
