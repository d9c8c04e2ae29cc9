"""The timeline as a Chrome trace: JSON for Perfetto, MindStudio Insight and ``npuprof.load``.

Processes and arguments are named as in the vendor's ``trace_view.json`` (sources/RESULTS.md section 2); with several
ranks, process names include the rank. Times are microseconds with three decimals, relative to ``otherData.base_ns``, so
small that a float64 keeps every nanosecond. Slices of a thread nest, as viewers require; slices that overlap without
nesting, such as concurrent tasks of a stream, move to additional threads of that name: ``Stream 4 (2)``.

Source: the Trace Event Format, and Perfetto's page on external formats (its importer drops slices that overlap without
nesting; a flow ends no earlier than it begins; ids stay below 2**53 for JavaScript).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64
from npuprof.exports.device_tasks import with_every_kernel
from npuprof.exports.nesting import nested_tracks
from npuprof.info import Info

_DEVICE_PIDS = 1_000  # process ids of a device's lanes
_RUN_PIDS = 1_000_000  # process ids of a run's lanes, in merged tables of several runs
_COUNTERS, _MEMORY = 9, 10


@dataclass(frozen=True)
class _Lane:
    """The process and threads of a table's slices.

    Attributes
    ----------
    process, order
        Name and sort index of the process; the index is also its id for a table without devices.
    thread, label
        The column that holds the thread (a number or a name; empty for a single thread), and the thread's name, with
        ``{}`` for the value of the column.
    arguments
        Column names by argument name.
    category
        The category of the slices.
    """

    table: str
    process: str
    order: int
    thread: str
    label: str
    arguments: Mapping[str, str]
    category: str

    @property
    def on_device(self) -> bool:
        """Whether each device has its own process; a host table has one process, even if it has a device column."""
        return self.table in ("tasks", "communication", "overlap")


_LANES = (
    _Lane("steps", "Steps", 1, "", "Steps", {"step": "step"}, "step"),
    _Lane(
        "python",
        "Python",
        2,
        "thread_id",
        "Thread {}",
        {"Python id": "id", "Python parent id": "parent_id"},
        "python_function",
    ),
    _Lane(
        "operators",
        "Framework operators",
        3,
        "thread_id",
        "Thread {}",
        {
            "Sequence number": "sequence_number",
            "Input Dims": "input_shapes",
            "Input type": "input_dtypes",
            "Call stack": "stack",
        },
        "cpu_op",
    ),
    _Lane("api", "CANN", 4, "thread_id", "Thread {}", {"level": "level", "connection_id": "connection_id"}, "cann"),
    _Lane("marks", "Markers", 5, "thread_id", "Thread {}", {"domain": "domain"}, "mark"),
    _Lane(
        "tasks",
        "Ascend Hardware",
        6,
        "stream_id",
        "Stream {}",
        {
            "Model Id": "model_id",
            "Task Type": "task_type",
            "Stream Id": "stream_id",
            "Task Id": "task_id",
            "Batch Id": "batch_id",
            "Subtask Id": "context_id",
            "connection_id": "connection_id",
        },
        "task",
    ),
    _Lane(
        "communication",
        "Communication",
        7,
        "group",
        "Group {} Communication",
        {"op_type": "op_type", "group": "group", "count": "count"},
        "collective",
    ),
    _Lane("overlap", "Overlap Analysis", 8, "kind", "{}", {"kind": "kind"}, "overlap"),
)
TABLES = (*(lane.table for lane in _LANES), "memory", "counters")
"""The tables whose rows become events."""

EFFECT_FIRST = " (effect first)"
"""Ends the name of an arrow that leads from an effect to its cause, since a flow may not end before it begins.

A kernel starts before its launch where the clock of its device is off; ``otherData`` counts these arrows.
"""

_NAMES = {"steps": "step", "marks": "message", "overlap": "kind"}


def write(
    out: TextIO,
    tables: Mapping[str, pd.DataFrame],
    info: Info,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    pretty: bool = False,
) -> int:
    """Write a run, or the merged tables of several ranks, as a Chrome trace; return the number of events.

    Parameters
    ----------
    out
        Receives the JSON.
    tables, info
        Tables by name, and facts for ``otherData``.
    start_ns, end_ns
        Window in epoch nanoseconds; slices that overlap it are written whole. By default the whole run.
    pretty
        Whether each event is on a line of its own.
    """
    placed = _Placed.of(within(with_every_kernel(tables), start_ns, end_ns))
    other_data = {
        "producer": "npuprof",
        "base_ns": str(placed.base_ns),  # as text: many readers of JSON round large numbers
        "collector": info.collector,
        "simulated": info.simulated,
        "name": info.name,
        "flows_backwards": int((~placed.forward).sum()),  # see EFFECT_FIRST
        "samples_without_time": int(placed.tables["memory"]["time_ns"].isna().sum()),  # which are not written
    }
    out.write('{"otherData": ' + json.dumps(other_data) + ', "displayTimeUnit": "ns", "traceEvents": [')
    separator = ",\n" if pretty else ","
    count = 0
    for event in _events(placed):
        out.write(separator * bool(count) + event)
        count += 1
    out.write("]}")
    return count


def events(tables: Mapping[str, pd.DataFrame]) -> tuple[int, Iterator[str]]:
    """Return the base time in epoch nanoseconds, and the trace events as JSON with microseconds relative to it."""
    placed = _Placed.of(with_every_kernel(tables))
    return placed.base_ns, _events(placed)


_LINK_ENDS = ("source", "target")


def within(tables: Mapping[str, pd.DataFrame], start_ns: int | None, end_ns: int | None) -> dict[str, pd.DataFrame]:
    """Return the rows of a window, and the links with both ends in it."""
    if start_ns is None and end_ns is None:
        return dict(tables)
    limits = np.iinfo(np.int64)
    low, high = (limits.min if start_ns is None else start_ns), (limits.max if end_ns is None else end_ns)
    cut, moved = {}, {}
    for name, frame in tables.items():
        if "start_ns" in frame or "time_ns" in frame:
            start = frame["start_ns" if "start_ns" in frame else "time_ns"].to_numpy(np.int64)
            end = start + (frame["duration_ns"].to_numpy(np.int64) if "duration_ns" in frame else 0)
            is_kept = (start <= high) & (end >= low)
            cut[name] = frame[is_kept]
            moved[name] = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
    links = tables["links"].copy(deep=False)
    for end_of in _LINK_ENDS:
        names, rows = links[f"{end_of}_table"].astype(object), links[f"{end_of}_row"].to_numpy(np.int64, copy=True)
        for name in names.unique():
            of_table = (names == name).to_numpy()
            rows[of_table] = moved[name][rows[of_table]] if name in moved else -1
        links[f"{end_of}_row"] = rows
    both = (links[[f"{end_of}_row" for end_of in _LINK_ENDS]] >= 0).all(axis=1)
    return {**tables, **cut, "links": links[both]}


@dataclass(frozen=True)
class _Placed:
    """Tables with the process and thread of each slice.

    Attributes
    ----------
    base_ns
        The origin of times: the earliest of all tables.
    pids, tids
        By table, ``int64`` for each row.
    threads
        The name of each thread by ``(pid, tid)``, in display order.
    """

    tables: Mapping[str, pd.DataFrame]
    base_ns: int
    pids: dict[str, Int64] = field(default_factory=dict)
    tids: dict[str, Int64] = field(default_factory=dict)
    threads: dict[str, dict[tuple[int, int], str]] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Mapping[str, pd.DataFrame]) -> _Placed:
        """Place the slices of all tables."""
        starts = [frame["start_ns"].min() for lane in _LANES if len(frame := tables[lane.table])]
        samples = [moments.min() for name in ("counters", "memory") if len(moments := tables[name]["time_ns"].dropna())]
        placed = cls(tables, min(map(int, [*starts, *samples]), default=0))
        for lane in _LANES:
            if len(tables[lane.table]):
                placed._place(lane)
        return placed

    def _place(self, lane: _Lane) -> None:
        frame = self.tables[lane.table]
        pids, (tids, names) = _pids(lane, frame), _threads(lane, frame)
        starts = frame["start_ns"].to_numpy(np.int64)
        process, _ = pd.factorize(pids)
        group = process * (int(tids.max()) - int(tids.min()) + 1) + tids - int(tids.min())
        track = nested_tracks(starts, starts + frame["duration_ns"].to_numpy(np.int64), group)
        threads: dict[tuple[int, int], str] = {}
        placed = tids.copy()
        free = int(tids.max()) + 1
        places = pd.DataFrame({"pid": pids, "tid": tids, "track": track})
        for (pid, tid, number), rows in sorted(places.groupby(["pid", "tid", "track"]).indices.items()):
            if number:
                placed[rows], free = free, free + 1
            threads[int(pid), int(placed[rows[0]])] = names[int(tid)] + f" ({number + 1})" * bool(number)
        self.pids[lane.table], self.tids[lane.table], self.threads[lane.table] = pids, placed, threads

    @property
    def forward(self) -> Bools:
        """Whether each link ends no earlier than it begins."""
        begins, ends = (self._starts_of(end) for end in _LINK_ENDS)
        unknown = (begins < 0) | (ends < 0)
        forward: Bools = unknown | (begins <= ends)
        return forward

    def _starts_of(self, end: str) -> Int64:
        links = self.tables["links"]
        starts = np.full(len(links), -1, np.int64)
        for name in self.pids:
            rows = np.flatnonzero((links[f"{end}_table"] == name).to_numpy(bool))
            starts[rows] = self.tables[name]["start_ns"].to_numpy(np.int64)[
                links[f"{end}_row"].to_numpy(np.int64)[rows]
            ]
        return starts

    def us(self, time_ns: int) -> str:
        """Return a time as a JSON number."""
        return _us(time_ns - self.base_ns)


def _events(placed: _Placed) -> Iterator[str]:
    for lane in _LANES:
        if len(placed.tables[lane.table]):
            yield from _slices(lane, placed)
    yield from _counters(placed)
    yield from _memory(placed)
    yield from _flows(placed)


def _slices(lane: _Lane, placed: _Placed) -> Iterator[str]:
    frame, pids, tids = placed.tables[lane.table], placed.pids[lane.table], placed.tids[lane.table]
    ranks = _ranks(frame)
    for pid in np.unique(pids).tolist():
        device = f" {pid % _RUN_PIDS // _DEVICE_PIDS - 1}" if pid % _RUN_PIDS >= _DEVICE_PIDS else ""
        name = lane.process + device * (lane.table != "overlap") + ranks.get(pid // _RUN_PIDS, "")
        yield _meta("process_name", pid, 0, {"name": name})
        yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
    for place, ((pid, tid), name) in enumerate(placed.threads[lane.table].items()):
        yield _meta("thread_name", pid, tid, {"name": name})
        yield _meta("thread_sort_index", pid, tid, {"sort_index": place})
    known = {shown: column for shown, column in lane.arguments.items() if column in frame}
    columns = [frame[column].astype(object).tolist() for column in known.values()]
    names = frame[_NAMES.get(lane.table, "name")].astype(object).tolist()
    times = frame["start_ns"].tolist(), frame["duration_ns"].tolist()
    rows = enumerate(zip(names, *times, pids.tolist(), tids.tolist(), strict=True))
    for row, (name, start, duration, pid, tid) in rows:
        arguments = {
            shown: value for shown, values in zip(known, columns, strict=True) if _present(value := values[row])
        }
        shown_name = f"Step {name}" if lane.table == "steps" else (str(name) if _present(name) else "")
        yield (
            f'{{"ph":"X","cat":"{lane.category}","name":{json.dumps(shown_name)},"pid":{pid},"tid":{tid},"ts":{placed.us(start)},'
            f'"dur":{_us(duration)},"args":{json.dumps(arguments, default=str)}}}'
        )


def _pids(lane: _Lane, frame: pd.DataFrame) -> Int64:
    """Return the process of each row."""
    pids = np.full(len(frame), lane.order, np.int64)
    if lane.on_device:
        pids += _DEVICE_PIDS * (1 + frame["device_id"].fillna(0).to_numpy(np.int64))
    if "run" in frame:
        pids += _RUN_PIDS * frame["run"].to_numpy(np.int64)
    return pids


def _threads(lane: _Lane, frame: pd.DataFrame) -> tuple[Int64, dict[int, str]]:
    """Return the thread of each row, and the names of threads."""
    if not lane.thread:
        return np.zeros(len(frame), np.int64), {0: lane.label}
    column = frame[lane.thread]
    if isinstance(column.dtype, pd.CategoricalDtype):
        texts = ["", *map(str, column.cat.categories)]
        names = {code: " ".join(lane.label.format(text).split()) or lane.process for code, text in enumerate(texts)}
        return column.cat.codes.to_numpy(np.int64) + 1, names
    tids = column.fillna(0).to_numpy(np.int64)
    return tids, {tid: lane.label.format(tid) for tid in np.unique(tids).tolist()}


def _ranks(frame: pd.DataFrame) -> dict[int, str]:
    """Return the suffix of process names by run; empty for the tables of a single run."""
    if "run" not in frame:
        return {}
    rows = frame[["run", "rank"]].drop_duplicates().itertuples(index=False)
    return {int(row.run): f" (run {row.run})" if pd.isna(row.rank) else f" (rank {row.rank})" for row in rows}


def _samples(placed: _Placed, table: str, process: str, order: int) -> Iterator[str]:
    """Name the processes of a table of samples."""
    ranks = _ranks(placed.tables[table])
    for pid in np.unique(_sample_pids(placed.tables[table], order)).tolist():
        yield _meta("process_name", pid, 0, {"name": f"{process}{ranks.get(pid // _RUN_PIDS, '')}"})


def _sample_pids(frame: pd.DataFrame, order: int) -> Int64:
    runs = frame["run"].to_numpy(np.int64) if "run" in frame else np.zeros(len(frame), np.int64)
    return _RUN_PIDS * runs + order


def _counters(placed: _Placed) -> Iterator[str]:
    frame = placed.tables["counters"]
    yield from _samples(placed, "counters", "Counters", _COUNTERS)
    columns = (frame[name].astype(object).tolist() for name in ("time_ns", "counter", "instance", "value", "unit"))
    pids = _sample_pids(frame, _COUNTERS).tolist()
    for pid, time_ns, counter, instance, value, unit in zip(pids, *columns, strict=True):
        name = f"{counter} {instance}" if _present(instance) else counter
        yield from _sample(placed, pid, time_ns, name, {str(unit) if _present(unit) else "value": value})


def _memory(placed: _Placed) -> Iterator[str]:
    frame = placed.tables["memory"]
    yield from _samples(placed, "memory", "Memory", _MEMORY)
    sizes = ("allocated_bytes", "reserved_bytes", "active_bytes")
    columns = (frame[name].astype(object).tolist() for name in ("time_ns", "device_id", "component", *sizes))
    pids = _sample_pids(frame, _MEMORY).tolist()
    for pid, time_ns, device, component, *values in zip(pids, *columns, strict=True):
        if not _present(time_ns):  # otherData counts them
            continue
        where = f"device {device}" if _present(device) else "host"
        name = f"{component if _present(component) else 'memory'} of {where}"
        yield from _sample(placed, pid, time_ns, name, dict(zip(sizes, values, strict=True)))


def _sample(placed: _Placed, pid: int, time_ns: int, name: object, values: Mapping[str, Any]) -> Iterator[str]:
    finite = {key: value for key, value in values.items() if _present(value) and math.isfinite(value)}
    if finite:
        shown = json.dumps(finite)
        yield f'{{"ph":"C","name":{json.dumps(name)},"pid":{pid},"tid":0,"ts":{placed.us(time_ns)},"args":{shown}}}'


def _flows(placed: _Placed) -> Iterator[str]:
    """Yield an arrow for each link between two slices, from the one that starts first."""
    ends = {
        name: (placed.pids[name].tolist(), placed.tids[name].tolist(), placed.tables[name]["start_ns"].tolist())
        for name in placed.pids
    }
    links = placed.tables["links"]
    names = ("kind", "source_table", "source_row", "target_table", "target_row")
    rows = zip(*(links[name].astype(object).tolist() for name in names), placed.forward.tolist(), strict=True)
    for number, (kind, source, source_row, target, target_row, is_forward) in enumerate(rows):
        if source not in ends or target not in ends:
            continue
        first, last = ((source, source_row), (target, target_row))[:: 1 if is_forward else -1]
        name = kind if is_forward else f"{kind}{EFFECT_FIRST}"
        for phase, (table, row) in (("s", first), ("f", last)):
            pids, tids, starts = ends[table]
            bound = ',"bp":"e"' if phase == "f" else ""
            yield (
                f'{{"ph":"{phase}","cat":{json.dumps(kind)},"id":{number},"name":{json.dumps(name)},'
                f'"pid":{pids[row]},"tid":{tids[row]},"ts":{placed.us(starts[row])}{bound}}}'
            )


def _meta(kind: str, pid: int, tid: int, arguments: Mapping[str, object]) -> str:
    return json.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": arguments})


def _us(nanoseconds: int) -> str:
    sign, remainder = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    return f"{sign}{remainder // 1_000}.{remainder % 1_000:03d}"


def _present(value: object) -> bool:
    return value is not None and value is not pd.NA and value == value  # NaN differs from itself
