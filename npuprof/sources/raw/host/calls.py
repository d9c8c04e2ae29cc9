"""CANN calls of the host, and their nesting.

Source: raw/FORMAT.md sections 4 and 8.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.analysis.nesting import Nesting, time_order
from npuprof.arrays import Bools, Int64, Records, Uint64, taken
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.metadata.dictionaries import Dictionaries, NameColumn
from npuprof.sources.raw.records import enums, layouts

_STREAM = "api_event.data"
_MAIN_STREAM = frozenset({"master", str(0x010001)})  # the number, where the dictionary does not name it


@dataclass(frozen=True)
class Api:
    """CANN calls ordered by begin, longer first; the arrays are parallel."""

    # start_ns, duration_ns: UTC epoch nanoseconds and nanoseconds.
    start_ns: Int64
    duration_ns: Int64
    # level, thread: level as in `LEVELS`, and thread id.
    level: npt.NDArray[np.uint16]
    thread: npt.NDArray[np.uint32]
    item: Uint64  # hash of the operator's name, or 0
    name: NameColumn  # the call's name
    model: npt.NDArray[np.uint32]  # model of a model-level call; 0 for others
    # Nesting of the calls above the runtime level, on the host counter; `rows` maps its positions to this table.
    tree: Nesting
    rows: Int64  # row of this table by position in `tree`
    on_side_stream: Bools  # by position in `tree`, whether it is a step of a collective on a side stream

    def __len__(self) -> int:
        return len(self.start_ns)

    def nearest(self, *levels: int) -> Int64:
        """Return for each position in `tree` the innermost call of one of the levels around it (or itself), or -1."""
        return self.tree.nearest(np.isin(self.level[self.rows], levels))

    def at(self, threads: npt.NDArray[Any], stamps: npt.NDArray[Any]) -> Int64:
        """Return the position in `tree` of the innermost call around each host timestamp, or -1."""
        return self.tree.innermost(stamps.astype(np.int64), threads)


@dataclass(frozen=True)
class HostCalls:
    """Recorded calls ordered by begin, longer first: records, and their bounds in host counter ticks."""

    records: Records
    begins: Int64
    ends: Int64

    def take(self, rows: Int64) -> HostCalls:
        """Return the selected rows."""
        return HostCalls(taken(self.records, rows), self.begins[rows], self.ends[rows])


def read_calls(host: RawHost) -> HostCalls:
    """Read the calls, as ranges and as pairs of point events. Calls without duration are dropped, as the vendor does.

    Source: raw/FORMAT.md sections 4 and 8.1.
    """
    records, _ = host.read(_STREAM, layouts.API, stamp="begin", used=False)
    records = _known_levels(host, records)
    points = records["end"] == layouts.POINT
    pairs = records[:0]
    if bool(points.any()):
        pairs = _pair_points(host, records[points])
        records = np.concatenate((records[~points], pairs))
    ends = records["end"]
    sound = host.clock.reaches(ends) & (ends > records["begin"])
    of_pairs = np.count_nonzero(sound[len(sound) - len(pairs) :])
    if not bool(sound.all()):
        lost = np.count_nonzero(~sound) + len(pairs) - of_pairs  # a pair consists of two records
        host.skip(_STREAM, "calls without duration or with an impossible end skipped", int(lost), label="api_event")
        records = taken(records, sound)
    host.keep(_STREAM, "api", len(records) + int(of_pairs), len(records))
    begins, ends = records["begin"].astype(np.int64), records["end"].astype(np.int64)
    calls = HostCalls(records, begins, ends)
    order = time_order(begins, ends)
    return calls if bool((order[1:] > order[:-1]).all()) else calls.take(order)


def nest_calls(host: RawHost, calls: HostCalls) -> Api:
    """Name calls and build their tree."""
    records, begins, ends = calls.records, calls.begins, calls.ends
    start_ns = host.clock.to_ns(begins.view(np.uint64))
    level, thread = np.ascontiguousarray(records["level"]), np.ascontiguousarray(records["thread"])
    rows = np.flatnonzero(level != enums.RUNTIME)
    tree = Nesting.build(begins[rows], ends[rows], thread[rows])
    return Api(
        start_ns,
        host.clock.to_ns(ends.view(np.uint64)) - start_ns,
        level,
        thread,
        np.ascontiguousarray(records["item"]),
        _call_names(host.names, records),
        _models(level, records),
        tree,
        rows[tree.order],
        _on_side_streams(host.names, level, records, rows[tree.order]),
    )


def _models(level: npt.NDArray[np.uint16], records: Records) -> npt.NDArray[np.uint32]:
    models = np.zeros(len(level), np.uint32)
    rows = np.flatnonzero(level == enums.MODEL)
    # there, an item is a model and a request is one execution of it
    models[rows] = records["item"][rows] & np.uint64(0xFFFFFFFF)
    return models


def _on_side_streams(names: Dictionaries, level: npt.NDArray[np.uint16], records: Records, rows: Int64) -> Bools:
    on_side_stream = np.zeros(len(rows), bool)
    steps = np.flatnonzero(level[rows] == enums.COMMUNICATION)
    if len(steps):
        types = NameColumn.lookup(
            records["type"][rows[steps]], lambda value: names.type_name(enums.COMMUNICATION, value)
        )
        on_main = [code for code, name in enumerate(types.names) if name in _MAIN_STREAM]
        on_side_stream[steps] = ~np.isin(types.codes, on_main)
    return on_side_stream


def _known_levels(host: RawHost, records: Records) -> Records:
    is_known = np.isin(records["level"], list(enums.LEVELS))
    if bool(is_known.all()):
        return records
    levels, counts = np.unique(records["level"][~is_known], return_counts=True)
    registered = {level for level, _ in host.names.types}  # levels of newer versions; any other level is damage
    for level, count in zip(levels.tolist()[:20], counts.tolist(), strict=False):
        is_newer = level in registered
        host.skip(_STREAM, f"calls of level {level} are not decoded", count, label="api_event", info=is_newer)
    host.notes.ledger.leave_out(host.streams.account(_STREAM), sum(counts.tolist()[20:]))
    return taken(records, is_known)


def _pair_points(host: RawHost, points: Records) -> Records:
    # Two point events that differ only in their timestamp are the start and the end of a range.
    keys = ("level", "type", "thread", "request", "item")
    points = points[np.lexsort((points["begin"], *(points[key] for key in keys)))]
    is_same = np.ones(max(len(points) - 1, 0), bool)
    for key in keys:
        is_same &= points[key][1:] == points[key][:-1]
    first_of_run = np.concatenate(([True], ~is_same))
    rank = np.arange(len(points)) - np.maximum.accumulate(np.where(first_of_run, np.arange(len(points)), 0))
    starts = np.flatnonzero((rank[:-1] % 2 == 0) & is_same)
    spans: Records = points[starts].copy()
    spans["end"] = points["begin"][starts + 1]
    lost_count = len(points) - 2 * len(spans)
    host.skip(_STREAM, "point events without a partner skipped", lost_count, label="api_event")
    return spans


def _call_names(names: Dictionaries, records: Records) -> NameColumn:
    # A step of a collective is named by its item, other calls by their registered type.
    typed = NameColumn.lookup(
        records["level"].astype(np.uint64) << np.uint64(32) | records["type"],
        lambda key: names.type_name(key >> 32, key & 0xFFFFFFFF),
    )
    steps = (records["level"] == enums.COMMUNICATION) & (records["item"] != 0)
    rows = np.flatnonzero(steps)
    if not len(rows):
        return typed
    items = names.names_of(records["item"][rows])
    codes = typed.codes.copy()
    codes[rows] = items.codes + len(typed.names)
    return NameColumn.distinct(codes, typed.names + items.names)
