"""Host records of communication: group, data and algorithm of each operator, ranks and links of each step.

Source: raw/FORMAT.md sections 4.1, 4.2 and 8.9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuprof.arrays import Bools, Int64, Records, first_rows
from npuprof.sources.raw.host.calls import Api
from npuprof.sources.raw.host.operators import take
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.host.tracks import Tracks
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.records import enums, layouts

_NO_CONTEXT = 0xFFFFFFFF
_RANGE = 2  # context_id_info records of this level hold the first and the last context
_CONTEXT_BITS = 17  # a 16-bit context id, or none


@dataclass(frozen=True)
class Hccl:
    """Communication records and their calls and tracks."""

    steps: Records  # hccl_info records, and an empty one at the end for row -1
    of_track: Int64  # row in `steps` by row of `Tracks`, or -1
    # parts, of_part: sorted keys of (step's call, context), and the row in `steps` of each, for steps inside one FFTS+
    # task.
    parts: Int64
    of_part: Int64
    # ranges, last_of_range: for ranges of contexts that are steps: sorted keys of (step's call, first context), and the
    # key of the last one.
    ranges: Int64
    last_of_range: Int64
    operators: Records  # hccl_op_info records, and an empty one at the end
    of_call: Int64  # sorted positions of calls with such a record in the tree of calls
    operator_of_call: Int64

    def steps_of(self, call: Int64, track: Int64, context: Int64) -> Int64:
        """Return the row in `steps` of tasks, by the call of their step, their track, and their context (-1: none)."""
        return np.where(
            context >= 0, _lookup(self.parts, self.of_part, _key(call, context)), take(self.of_track, track)
        )

    def are_steps(self, call: Int64, context: Int64) -> Bools:
        """Return a mask of tasks that are steps; if a call lists the contexts of its steps, only those."""
        if not len(self.ranges):
            return np.ones(len(call), bool)
        keys = _key(call, context)
        at = np.searchsorted(self.ranges, keys, side="right") - 1
        inside = (at >= 0) & (self.last_of_range[at] >= keys)
        calls = self.ranges >> _CONTEXT_BITS
        return inside | (first_rows(calls, call) < 0) | (context < 0)

    def operators_of(self, call: Int64) -> Int64:
        """Return the row in `operators` of calls (positions in the tree of calls), or -1."""
        return _lookup(self.of_call, self.operator_of_call, call)


def read_hccl(host: RawHost, api: Api, tracks: Tracks, contexts: Records) -> Hccl:
    """Read hccl_info and hccl_op_info, and join them and the context_id_info records to calls and tracks."""
    steps, _ = host.read("additional.hccl_info", layouts.HCCL_INFO)
    call = (
        take(api.nearest(enums.COMMUNICATION), api.at(steps["thread"], steps["stamp"])) if len(steps) else _no_records()
    )
    _note_lost(host, "hccl_info", call)
    in_task = steps["context"] != _NO_CONTEXT
    parts = np.flatnonzero((call >= 0) & in_task)
    keys, rows = _last_of_each(_key(call[parts], steps["context"][parts].astype(np.int64) & 0xFFFF), parts)
    ranges, last_of_range = _ranges(api, contexts)
    operators, of_call, operator_of_call = _read_operators(host, api)
    return Hccl(
        steps=_append_blank(steps),
        of_track=_track_records(tracks, steps, np.flatnonzero((call >= 0) & ~in_task), call),
        parts=keys,
        of_part=rows,
        ranges=ranges,
        last_of_range=last_of_range,
        operators=_append_blank(operators),
        of_call=of_call,
        operator_of_call=operator_of_call,
    )


def _track_records(tracks: Tracks, steps: Records, at_call: Int64, call: Int64) -> Int64:
    """Return the record of each track: in order within a step's call, or the last record if the counts differ."""
    row = np.full(len(tracks.step), -1, np.int64)
    launched_rows = np.flatnonzero(tracks.step >= 0)
    if not len(at_call) or not len(launched_rows):
        return row
    calls, stamps = call[at_call], steps["stamp"][at_call].astype(np.int64)
    at = joins.match(tracks.step[launched_rows], tracks.stamp_ns[launched_rows], calls, stamps)
    keys, count = np.unique(calls, return_counts=True)
    wanted, launches = np.unique(tracks.step[launched_rows], return_counts=True)
    even = wanted[_lookup(keys, count, wanted) == launches]
    last = _lookup(*_last_of_each(calls, at_call), tracks.step[launched_rows])
    in_order = np.isin(tracks.step[launched_rows], even)
    row[launched_rows] = np.where(in_order, at_call[at], last)
    return row


def _ranges(api: Api, records: Records) -> tuple[Int64, Int64]:
    records = records[(records["level"] == enums.COMMUNICATION) & (records["count"] == _RANGE)]
    if not len(records):
        return _no_records(), _no_records()
    call = take(api.nearest(enums.COMMUNICATION), api.at(records["thread"], records["stamp"]))
    first, last = (records["ids"][:, column].astype(np.int64) for column in (0, 1))
    sound = (call >= 0) & (first <= last) & (last <= 0xFFFF)
    ranges, ends = _key(call[sound], first[sound]), _key(call[sound], last[sound])
    order = np.argsort(ranges, kind="stable")
    return ranges[order], ends[order]


def _read_operators(host: RawHost, api: Api) -> tuple[Records, Int64, Int64]:
    records, _ = host.read("compact.hccl_op_info", layouts.HCCL_OP_INFO)
    if not len(records):
        return records, _no_records(), _no_records()
    call = take(api.nearest(enums.NODE), api.at(records["thread"], records["stamp"]))
    _note_lost(host, "hccl_op_info", call)
    rows = np.flatnonzero(call >= 0)
    calls, first = np.unique(call[rows], return_index=True)
    return records, calls, rows[first]


def _note_lost(host: RawHost, stream: str, call: Int64) -> None:
    lost_count = int((call < 0).sum())
    if lost_count:
        host.notes.warning(
            stream, "records outside any communication call are lost", lost_count, lacks=("communication_tasks",)
        )


def _key(call: Int64, context: Int64) -> Int64:
    return call << _CONTEXT_BITS | (context + 1)


def _lookup(keys: Int64, values: Int64, wanted: Int64) -> Int64:
    """Return the values of keys, which are sorted and distinct; -1 for unknown keys."""
    return take(values, first_rows(keys, wanted))


def _last_of_each(keys: Int64, values: Int64) -> tuple[Int64, Int64]:
    distinct, last = np.unique(keys[::-1], return_index=True)
    return distinct, values[::-1][last]


def _append_blank(records: Records) -> Records:
    return np.concatenate((records, np.zeros(1, records.dtype)))


def _no_records() -> Int64:
    return np.empty(0, np.int64)
