"""The timeline as a Chrome trace: JSON for Perfetto, MindStudio Insight and ``npuprof.load``.

Processes and arguments are named as in the vendor's ``trace_view.json`` (sources/RESULTS.md section 2), except for
GPUs and their runtimes; with several ranks, process names include the rank. Times are microseconds with three decimals,
relative to ``otherData.base_ns``, so small that a float64 keeps every nanosecond. Slices of a thread nest, as viewers
require; slices that overlap without nesting, such as concurrent tasks of a stream, move to additional threads of that
name: ``Stream 4 (2)``.

``npuprof.load`` reads such a trace back with every table, the facts, the notes and the vendor's sums; a trace of a set
becomes a set. It does not hold the files that the run was read from: raw data, and what no table has of it. See
:mod:`npuprof.sources.exported_trace.layout`.

Source: the Trace Event Format, and Perfetto's page on external formats (its importer drops slices that overlap without
nesting; a flow ends no earlier than it begins; ids stay below 2**53 for JavaScript).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TextIO

import numpy as np
import pandas as pd

from npuprof.analysis.device_words import NPU, device_of, runtime_of
from npuprof.arrays import Bools, Int64
from npuprof.exports.device_tasks import every_task, task_of_kernels
from npuprof.exports.nesting import nested_tracks
from npuprof.exports.trace_arguments import (
    encoded,
    kernel_arguments,
    metadata,
    row_arguments,
    rows_events,
    run_event,
)
from npuprof.exports.trace_samples import are_drawn, sample_events
from npuprof.sources.base import Decoded
from npuprof.sources.exported_trace.layout import CATEGORIES, KERNEL_CATEGORY, NAMES, SAMPLES
from npuprof.sources.slicing import within
from npuprof.tables.info import Selected

_DEVICE_PIDS = 1_000  # process ids of a device's lanes
_NPU_PROCESS = "Ascend Hardware"  # as the vendor calls it
_RUN_PIDS, _RUN_FLOWS = 1_000_000, 1 << 32  # ids of a run's processes and arrows, where a file has several


class TracedRun(NamedTuple):
    """A run to write, with every table, and the lead of its clock, by which it is drawn earlier."""

    run: Decoded
    ahead_ns: int = 0


@dataclass(frozen=True)
class _Lane:
    """The process and threads of a table's slices."""

    table: str
    # process, order: name and sort index of the process; the index is also its id for a table without devices. A
    # process whose name is empty is called what the run's device or runtime is.
    process: str
    order: int
    # thread, label: the column that holds the thread (a number or a name; empty for a single thread), and the thread's
    # name, with `{}` for the value of the column.
    thread: str
    label: str

    @property
    def on_device(self) -> bool:
        """Whether each device has its own process; a host table has one process, even if it has a device column."""
        return self.table in ("tasks", "communication", "communication_tasks", "overlap")


_LANES = (
    _Lane("steps", "Steps", 1, "", "Steps"),
    _Lane("python", "Python", 2, "thread_id", "Thread {}"),
    _Lane("operators", "Framework operators", 3, "thread_id", "Thread {}"),
    _Lane("api", "", 4, "thread_id", "Thread {}"),
    _Lane("marks", "Markers", 5, "thread_id", "Thread {}"),
    _Lane("tasks", "", 6, "stream_id", "Stream {}"),
    _Lane("communication", "Communication", 7, "group", "Group {} Communication"),
    _Lane("overlap", "Overlap Analysis", 8, "kind", "{}"),
    _Lane("communication_tasks", "Communication planes", 11, "plane", "{}"),
)
_COUNTERS, _MEMORY = 9, 10  # orders of the processes of samples
TABLES = (*(lane.table for lane in _LANES), "memory", "counters")
"""The tables whose rows become events that viewers draw."""

EFFECT_FIRST = " (effect first)"
"""Ends the name of an arrow that leads from an effect to its cause, since a flow may not end before it begins.

A kernel starts before its launch where the clock of its device is off; ``otherData`` counts these arrows.
"""

_LINK_ENDS = ("source", "target")


def write(
    out: TextIO,
    runs: Sequence[TracedRun],
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    pretty: bool = False,
) -> int:
    """Write a run, or several ranks, as a Chrome trace; return the number of events.

    Parameters
    ----------
    start_ns, end_ns
        Window in epoch nanoseconds; slices that overlap it are written whole. By default the whole run.
    """
    placed = _placed([traced._replace(run=_cut(traced, start_ns, end_ns)) for traced in runs])
    first = placed[0]
    # Samples without a time are not drawn.
    without_time = sum(int(traced.run.tables["memory"]["time_ns"].isna().sum()) for traced in placed)
    other_data = {
        "producer": "npuprof",
        "base_ns": str(first.base_ns - runs[0].ahead_ns),
        "collector": first.run.info.collector,
        "simulated": any(traced.run.info.simulated for traced in runs),
        "name": first.run.info.name,
        "flows_backwards": sum(int(run.arrows()[1].sum()) for run in placed),  # see EFFECT_FIRST
        "samples_without_time": without_time,
    }
    out.write('{"otherData": ' + json.dumps(other_data) + ', "displayTimeUnit": "ns", "traceEvents": [')
    separator = ",\n" if pretty else ","
    count = 0
    for event in _all_events(placed):
        out.write(separator * bool(count) + event)
        count += 1
    out.write("]}")
    return count


def events(runs: Sequence[TracedRun]) -> tuple[int, Iterator[str]]:
    """Return the base time in epoch nanoseconds, and what viewers draw as JSON with microseconds relative to it."""
    placed = _placed(runs)
    return placed[0].base_ns - runs[0].ahead_ns, (event for run in placed for event in _drawn_events(run))


def _cut(traced: TracedRun, start_ns: int | None, end_ns: int | None) -> Decoded:
    run = traced.run
    if start_ns is None and end_ns is None:
        return run
    bounds: Selected = {}
    if start_ns is not None:
        bounds["start_ns"] = start_ns + traced.ahead_ns
    if end_ns is not None:
        bounds["end_ns"] = end_ns + traced.ahead_ns
    info = replace(run.info, selection={**run.info.selection, **bounds})
    return replace(run, tables=within(run.tables, bounds.get("start_ns"), bounds.get("end_ns")), info=info)


def _placed(runs: Sequence[TracedRun]) -> list[_Placed]:
    base_ns = min((time - ahead_ns for run, ahead_ns in runs for time in _first_times(run.tables)), default=0)
    return [
        _Placed.of(run, number if len(runs) > 1 else None, base_ns + ahead_ns)
        for number, (run, ahead_ns) in enumerate(runs)
    ]


def _first_times(tables: Mapping[str, pd.DataFrame]) -> Iterator[int]:
    for name in (*TABLES, "kernels"):
        if len(times := tables[name]["time_ns" if name in SAMPLES else "start_ns"].dropna()):
            yield int(times.min())


@dataclass(frozen=True)
class _Placed:
    """A run with the process and thread of each slice."""

    run: Decoded
    number: int | None  # its number among several; None if it is alone
    base_ns: int  # the origin of times on the clock of the run: the earliest of all runs
    # The rows of each lane's slices: those of its table, and kernels without a task in the lane `tasks`.
    slices: dict[str, pd.DataFrame]
    slice_of_kernel: Int64  # the slice of each kernel in the lane `tasks`; -1 for a kernel that has none of its own
    # pids, tids: by table, `int64` for each slice.
    pids: dict[str, Int64] = field(default_factory=dict)
    tids: dict[str, Int64] = field(default_factory=dict)
    # The name of each thread by `(pid, tid)`, in display order.
    threads: dict[str, dict[tuple[int, int], str]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Decoded, number: int | None, base_ns: int) -> _Placed:
        """Place the slices of all tables."""
        slices = {lane.table: run.tables[lane.table] for lane in _LANES}
        slices["tasks"] = every_task(run.tables)
        slices["communication_tasks"] = _with_planes(run.tables)
        placed = cls(run, number, base_ns, slices, task_of_kernels(run.tables["kernels"], slices["tasks"]))
        for lane in _LANES:
            if len(slices[lane.table]):
                placed._place(lane)
        return placed

    @property
    def first_pid(self) -> int:
        """The offset of the run's process ids."""
        return _RUN_PIDS * (self.number or 0)

    @property
    def suffix(self) -> str:
        """The suffix of process names if there are several runs."""
        if self.number is None:
            return ""
        rank = self.run.info.rank
        return f" (run {self.number})" if rank is None else f" (rank {rank})"

    def process_name(self, lane: _Lane) -> str:
        """Return the name of a lane's process, without the numbers of device and rank."""
        if lane.table == "api":
            return runtime_of(self.run.tables["api"]["name"].cat.categories, self.run.info)
        if lane.table == "tasks":
            device = device_of(self.run.info, self.run.tables)
            return _NPU_PROCESS if device == NPU else device
        return lane.process

    def _place(self, lane: _Lane) -> None:
        frame = self.slices[lane.table]
        pids, (tids, names) = self._pids(lane, frame), _threads(lane, frame)
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

    def _pids(self, lane: _Lane, frame: pd.DataFrame) -> Int64:
        """Return the process of each slice."""
        pids = np.full(len(frame), self.first_pid + lane.order, np.int64)
        if lane.on_device:
            pids += _DEVICE_PIDS * (1 + frame["device_id"].fillna(0).to_numpy(np.int64))
        return pids

    def end_of_links(self, end: str) -> tuple[pd.Series[Any], Int64]:
        """Return the lane and the slice at an end of each link; -1 for a row without a slice."""
        links = self.run.tables["links"]
        names, rows = links[f"{end}_table"].astype(object), links[f"{end}_row"].to_numpy(np.int64)
        slices = np.full(len(links), -1, np.int64)
        for name in (*self.pids, "kernels"):
            at = np.flatnonzero((names == name).to_numpy() & (rows >= 0) & (rows < len(self.run.tables[name])))
            slices[at] = self.slice_of_kernel[rows[at]] if name == "kernels" else rows[at]
        return names.replace("kernels", "tasks"), slices

    def arrows(self) -> tuple[Bools, Bools]:
        """Return masks of the links between two slices, which viewers draw, and of those that lead back in time."""
        starts, between = [], np.ones(len(self.run.tables["links"]), np.bool_)
        for end in _LINK_ENDS:
            lanes, slices = self.end_of_links(end)
            moments = np.zeros(len(slices), np.int64)
            for name in self.pids:
                at = np.flatnonzero((lanes == name).to_numpy() & (slices >= 0))
                moments[at] = self.slices[name]["start_ns"].to_numpy(np.int64)[slices[at]]
            starts.append(moments)
            between &= slices >= 0
        return between, between & (starts[0] > starts[1])

    def us(self, time_ns: int) -> str:
        """Return a time as a JSON number."""
        return _us(time_ns - self.base_ns)


def _with_planes(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the tasks of collectives with the name of their thread: the plane, and the group if it is known."""
    tasks, groups = tables["communication_tasks"], tables["communication"]["group"]
    operator = tasks["op_id"].to_numpy(np.int64, na_value=-1)
    group = np.array([*groups.astype(object), None], object)[np.where(operator < len(groups), operator, -1)]
    plane = tasks["plane_id"].astype(object).tolist()
    names = [
        f"Plane {'?' if pd.isna(number) else number}{'' if pd.isna(of) else f' of {of}'}"
        for number, of in zip(plane, group.tolist(), strict=True)
    ]
    return tasks.assign(plane=pd.Categorical(names))


def _all_events(placed: Sequence[_Placed]) -> Iterator[str]:
    for number, run in enumerate(placed):
        yield run_event(number, run.run, run.base_ns)
    for number, run in enumerate(placed):
        yield from _drawn_events(run)
        yield from _undrawn_rows(number, run)


def _drawn_events(placed: _Placed) -> Iterator[str]:
    for lane in _LANES:
        if len(placed.slices[lane.table]):
            yield from _slices(lane, placed)
    for table, process, order in (("counters", "Counters", _COUNTERS), ("memory", "Memory", _MEMORY)):
        frame = placed.run.tables[table]
        yield from sample_events(
            table, frame, placed.number or 0, process + placed.suffix, placed.first_pid + order, placed.us
        )
    yield from _flows(placed)


def _undrawn_rows(number: int, placed: _Placed) -> Iterator[str]:
    """Yield the rows that no drawn event holds."""
    tables = placed.run.tables
    yield from rows_events(number, {"table": "kernels"}, tables["kernels"], np.flatnonzero(placed.slice_of_kernel < 0))
    yield from rows_events(number, {"table": "links"}, tables["links"], np.flatnonzero(~placed.arrows()[0]))
    for name in ("step_times", "allocations", "sampled_lines", "statements", "iterations"):
        yield from rows_events(number, {"table": name}, tables[name])
    for name in SAMPLES:
        yield from rows_events(number, {"table": name}, tables[name], np.flatnonzero(~are_drawn(name, tables[name])))
    for name, frame in placed.run.statistics.items():
        yield from rows_events(number, {"statistic": name}, frame)


def _slices(lane: _Lane, placed: _Placed) -> Iterator[str]:
    frame, pids, tids = placed.slices[lane.table], placed.pids[lane.table], placed.tids[lane.table]
    for pid in np.unique(pids).tolist():
        device = f" {pid % _RUN_PIDS // _DEVICE_PIDS - 1}" if pid % _RUN_PIDS >= _DEVICE_PIDS else ""
        name = placed.process_name(lane) + device * (lane.table != "overlap") + placed.suffix
        yield metadata("process_name", pid, 0, {"name": name})
        yield metadata("process_sort_index", pid, 0, {"sort_index": pid})
    for place, ((pid, tid), name) in enumerate(placed.threads[lane.table].items()):
        yield metadata("thread_name", pid, tid, {"name": name})
        yield metadata("thread_sort_index", pid, tid, {"sort_index": place})
    rows = len(placed.run.tables[lane.table])
    columns = row_arguments(lane.table, frame.drop(columns="plane", errors="ignore"), placed.number)
    categories = [CATEGORIES[lane.table]] * rows + [KERNEL_CATEGORY] * (len(frame) - rows)
    if lane.table == "tasks":
        columns[0][rows:] = [""] * (len(frame) - rows)  # the rows are kernels
        columns.append(kernel_arguments(placed.run.tables["kernels"], frame, placed.slice_of_kernel))
    if lane.table == "steps":
        names = [f'"Step {number}"' if number else '"Step"' for number in encoded(frame["step"])]
    else:
        names = [text or '""' for text in encoded(frame[NAMES[lane.table]])]
    times = frame["start_ns"].tolist(), frame["duration_ns"].tolist()
    for category, name, start, duration, pid, tid, values in zip(
        categories, names, *times, pids.tolist(), tids.tolist(), zip(*columns, strict=True), strict=True
    ):
        yield (
            f'{{"ph":"X","cat":"{category}","name":{name},"pid":{pid},"tid":{tid},"ts":{placed.us(start)},'
            f'"dur":{_us(duration)},"args":{{{",".join(filter(None, values))}}}}}'
        )


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


def _flows(placed: _Placed) -> Iterator[str]:
    """Yield an arrow for each link between two slices, from the one that starts first."""
    links = placed.run.tables["links"]
    between, backwards = placed.arrows()
    kinds = links["kind"].astype(object).where(links["kind"].notna(), "").tolist()
    arguments = list(zip(*row_arguments("links", links, placed.number), strict=True))
    lanes = {
        name: (pids.tolist(), placed.tids[name].tolist(), placed.slices[name]["start_ns"].tolist())
        for name, pids in placed.pids.items()
    }
    ends = [(names.tolist(), slices.tolist()) for names, slices in map(placed.end_of_links, _LINK_ENDS)]
    first = _RUN_FLOWS * (placed.number or 0)
    for number in np.flatnonzero(between).tolist():
        is_backwards = bool(backwards[number])
        kind, name = json.dumps(kinds[number]), json.dumps(kinds[number] + EFFECT_FIRST * is_backwards)
        details = f'"args":{{{",".join(filter(None, arguments[number]))}}}', '"bp":"e"'
        for phase, detail, (names, slices) in zip("sf", details, ends[:: -1 if is_backwards else 1], strict=True):
            pids, tids, starts = lanes[names[number]]
            row = slices[number]
            yield (
                f'{{"ph":"{phase}","cat":{kind},"id":{first + number},"name":{name},"pid":{pids[row]},'
                f'"tid":{tids[row]},"ts":{placed.us(starts[row])},{detail}}}'
            )


def _us(nanoseconds: int) -> str:
    sign, remainder = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    return f"{sign}{remainder // 1_000}.{remainder % 1_000:03d}"
