"""Marks and ranges of the user (msproftx), with their device side.

Source: raw/FORMAT.md sections 4.3 and 5.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64, Records, first_rows
from npuprof.sources.columns.builders import where_present
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.device.tasks import Track
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import layouts

_EX = 1
_MARK_TAGS = (11, 12)
_KINDS = {0: "marker", 1: "push/pop", 2: "start/end", 3: "marker_ex"}


@dataclass(frozen=True)
class DeviceMarks:
    """The device side of marks, a row per mark, ordered by id."""

    id: Int64  # the mark's id
    # device, stream, task: the device task of the mark.
    device: Int64
    stream: Int64
    task: Int64
    # begin, end: device counter ticks.
    begin: Int64
    end: Int64
    # start_ns, end_ns: the same in UTC epoch nanoseconds; equal for a marker without length.
    start_ns: Int64
    end_ns: Int64

    def take(self, rows: Int64) -> DeviceMarks:
        """Return the selected rows."""
        return DeviceMarks(*(getattr(self, field.name)[rows] for field in fields(self)))


def read_device_marks(devices: Sequence[RawDevice], tracks: Sequence[Track]) -> DeviceMarks:
    """Read the times of marks on devices: the first and the last record of each mark id.

    Source: raw/FORMAT.md section 5.4 (tags 11 and 12).
    """
    parts = []
    for device, track in zip(devices, tracks, strict=True):
        records = track.steps[np.isin(track.steps["tag"], _MARK_TAGS)]  # in order of time
        ids, first = np.unique(records["index"], return_index=True)
        last = len(records) - 1 - np.unique(records["index"][::-1], return_index=True)[1]
        counter = records["counter"]
        times = device.clock.counter.to_ns(counter)
        columns = (
            ids,
            np.full(len(ids), device.id),
            records["stream"][first] & device.stream_mask,
            records["task"][first],
            counter[first],
            counter[last],
            times[first],
            times[last],
        )
        parts.append([column.astype(np.int64) for column in columns])
    if not parts:
        return DeviceMarks(*(np.empty(0, np.int64) for _ in fields(DeviceMarks)))
    joined = DeviceMarks(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.lexsort((joined.start_ns, joined.id))
    first = np.concatenate(([True], joined.id[order][1:] != joined.id[order][:-1]))[: len(order)]
    return joined.take(order[first])


def marks_table(host: RawHost, device_marks: DeviceMarks) -> pd.DataFrame:
    """Read markers and ranges. Source: raw/FORMAT.md section 4.3.

    `kind` is the call of the mark (``marker``, ``push/pop``, ``start/end``, ``marker_ex``), `device_id` the device of
    its device side.
    """
    stream = "additional.msproftx"
    records, _ = host.read(stream, layouts.MSPROFTX, stamp="start", used=False)
    segments = len(records)
    records, messages = _whole_messages(records)
    host.keep(stream, "marks", segments, len(records))
    ends = np.maximum(np.where(host.clock.reaches(records["end"]), records["end"], 0), records["start"])
    start_ns = host.clock.to_ns(records["start"])
    is_ex = records["info_type"] == _EX
    ids = records["mark_id"].astype(np.int64)
    at = first_rows(device_marks.id, ids)
    seen = is_ex & (at >= 0)
    at = np.where(seen, at, 0)
    domain = host.names.names_of(records["domain"]).where(records["domain"] != 0)
    columns = {
        "start_ns": start_ns,
        "duration_ns": host.clock.to_ns(ends) - start_ns,
        "message": messages.categorical(),
        "domain": domain.categorical(),
        "thread_id": records["caller"].astype(np.int64),
        "device_start_ns": _of_device(device_marks.start_ns, at, seen),
        "device_duration_ns": _of_device(device_marks.end_ns - device_marks.start_ns, at, seen),
        "id": ids,
        "device_id": _of_device(device_marks.device, at, seen),
        "kind": NameColumn.lookup(records["event_type"], lambda value: _KINDS.get(value) or str(value)).categorical(),
        "category": pd.arrays.IntegerArray(records["category"].astype(np.int64), is_ex),
    }
    return tables.sort_by_time(tables.build("marks", columns))


def _whole_messages(records: Records) -> tuple[Records, NameColumn]:
    """Join the segments of long messages: one record per mark, and its message."""
    is_ex = records["info_type"] == _EX
    plain, long = records[~is_ex], records[is_ex]
    order = np.lexsort((long["segment"], long["start"], long["mark_id"], long["thread"]))
    long = long[order]
    first = np.ones(len(long), bool)
    if len(long):
        same = [long[key][1:] == long[key][:-1] for key in ("mark_id", "start", "thread")]
        first[1:] = ~np.logical_and.reduce(same)
    part = np.cumsum(first) - 1
    texts = [b""] * (int(part[-1]) + 1 if len(part) else 0)
    for number, message in zip(part.tolist(), long["message"].tolist(), strict=True):
        texts[number] += message
    whole = np.concatenate((plain, long[first]))
    messages = [text.split(b"\0", 1)[0].decode("utf-8", "replace") for text in [*plain["message"].tolist(), *texts]]
    return whole, NameColumn.distinct(np.arange(len(messages)), messages)


def _of_device(values: Int64, at: Int64, present: Bools) -> pd.arrays.IntegerArray:
    return where_present(values[at] if len(values) else np.zeros(len(at), np.int64), present)
