"""Turn a gathered timeline into the tables of a profile.

Every table comes sorted by time, with the lane (process and thread) of each row beside it: flows find
their ends by lane and time, see :mod:`npuprof.sources.trace.links`.

Source: sources/RESULTS.md section 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int32, Int64, Records
from npuprof.notes import Notes
from npuprof.sources.columns.builders import Columns
from npuprof.sources.columns.nullable import ABSENT, SENTINELS, missing, optional, recoded
from npuprof.sources.columns.steps import step_numbers, step_of
from npuprof.sources.trace.columns import Trace
from npuprof.sources.trace.communication import group_name, operator_type, operators_of, plane_ids
from npuprof.sources.trace.counters import counters_table
from npuprof.sources.trace.iterations import leave_out_repeated, take_iteration_parts
from npuprof.sources.trace.marks import marks_rows
from npuprof.sources.trace.mindspore import sort_out
from npuprof.sources.trace.nesting import python_calls
from npuprof.sources.trace.slices import names as _names
from npuprof.sources.trace.slices import span as _span
from npuprof.sources.trace.slices import thread_numbers as _thread_numbers

_LEVELS = {"hccl": "communication"}
_LEVEL_OF_PREFIX = {"AscendCL": "acl", "GE": "model"}
_OVERLAP = {
    "Computing": "computing",
    "Communication": "communication",
    "Communication(Not Overlapped)": "communication_not_overlapped",
    "Not Overlapped": "communication_not_overlapped",
    "Free": "free",
}
_BESIDE = {"operator": "queue", "mark": "pause"}  # slices of another layout that go into the same table
_LABEL = re.compile(r"(?:[CNG]PU|XPU)(?:\s+\d{1,9})?$", re.ASCII)
_NPU_LABEL = re.compile(r"NPU\s+(\d{1,9})", re.ASCII)


@dataclass
class TraceTables:
    """The tables of one timeline, the lane of every row of those that flows can touch, and what no table holds."""

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    lanes: dict[str, Int32] = field(default_factory=dict)
    statistics: dict[str, pd.DataFrame] = field(default_factory=dict)


def build_tables(trace: Trace, notes: Notes, source: str) -> TraceTables:
    """Make ``operators, steps, python, api, tasks, communication, communication_tasks, overlap, marks, counters``.

    A table of which the timeline has no event is left out.
    """
    built = TraceTables(statistics={**sort_out(trace, notes, source), **take_iteration_parts(trace, notes, source)})
    devices = device_ids(trace)
    if strange := sum(_is_strange(pid, label, trace) for pid, label in trace.labels.items()):
        notes.warning(source, "the device of a process cannot be read: its rows may be of another", strange)
    makers: Mapping[str, Callable[[_Maker], None]] = {
        "operator": _Maker.operators,
        "python": _Maker.python,
        "api": _Maker.api,
        "task": _Maker.tasks,
        "communication": _Maker.communication,
        "plain": _Maker.overlap,
        "mark": _Maker.marks,
        "iteration": _Maker.iterations,
    }
    maker = _Maker(trace, built, devices, notes, source)
    for layout, make in makers.items():
        if len(trace.slices[layout]) or len(trace.slices[_BESIDE.get(layout, layout)]):
            make(maker)
    if len(trace.counters):
        built.tables["counters"] = counters_table(trace, devices, notes, source)
    return built


def device_ids(trace: Trace) -> dict[Any, int]:
    """Return the device of each process.

    The label ``NPU 3`` names it; older results write ``NPU`` alone, and then the process number tells it where
    it is made of the host process, the sort index and the device. Else the only device is 0.
    """
    devices: dict[Any, int] = {}
    for pid, label in trace.labels.items():
        if not label.startswith("NPU"):
            continue
        named = _NPU_LABEL.fullmatch(label)
        packed = isinstance(pid, int) and (pid >> 5) & 31 == trace.sort_indexes.get(pid)
        devices[pid] = int(named[1]) if named else pid & 31 if packed else 0
    return devices


def _is_strange(pid: Any, label: str, trace: Trace) -> bool:
    """Check whether a label is none of a processor, or is of an NPU's process that has no name."""
    return _LABEL.match(label) is None or (label.startswith("NPU") and pid not in trace.processes)


class _Maker:
    """Makes one table after another from the slices of a timeline."""

    def __init__(self, trace: Trace, built: TraceTables, devices: dict[Any, int], notes: Notes, source: str) -> None:
        self._trace, self._built, self._devices = trace, built, devices
        self._notes, self._source = notes, source
        self._threads = _thread_numbers(trace)

    def operators(self) -> None:
        """Make ``operators``, with enqueue and dequeue calls, and ``steps`` of the ProfilerStep slices."""
        slices, queue = self._trace.slices["operator"], self._trace.slices["queue"]
        names = slices.names("name") if len(slices) else []
        steps = step_numbers(enumerate(names), self._notes, self._source)
        if len(slices):
            is_step = np.isin(slices["name"], list(steps))
            self._steps(slices, is_step, steps)
        parts = []
        if len(slices):
            parts.append(self._operator_rows(slices, ~is_step))
        if len(queue):
            parts.append(self._queue_rows(queue))
        frame = _stack(parts)
        lane = np.concatenate([part.pop("lane") for part in parts])
        frame["step"] = step_of(self._built.tables.get("steps"), frame["start_ns"].to_numpy())
        frame["id"] = np.arange(len(frame))
        self._put("operators", frame, lane)
        self._built.tables["operators"]["id"] = np.arange(len(frame))  # a row's number is its id

    def _steps(self, slices: Columns, chosen: Records, steps: dict[int, int]) -> None:
        if not chosen.any():
            return
        numbers = pd.array([steps[code] for code in slices["name"][chosen].tolist()], dtype="Int64")
        frame = tables.build("steps", {"step": numbers, **_span(slices, chosen)})
        self._built.tables["steps"] = tables.sort_by_time(frame)
        self._notes.ledger.keep(self._source, "steps", len(frame))

    def _operator_rows(self, slices: Columns, chosen: Records) -> dict[str, Any]:
        count = int(chosen.sum())
        return {
            **_span(slices, chosen),
            "name": _names(slices, "name", chosen),
            "thread_id": self._threads[slices["lane"][chosen]],
            "kind": tables.categorical(np.zeros(count, np.int8), ["op"]),
            "input_shapes": _names(slices, "input_shapes", chosen, _joined_by(";")),
            "input_dtypes": _names(slices, "input_dtypes", chosen, _joined_by(";")),
            "stack": _names(slices, "stack", chosen, _joined_by("\n")),
            "sequence_number": optional(slices["sequence_number"][chosen], (-1,)),
            "forward_thread_id": optional(slices["forward_thread_id"][chosen], (0,)),
            "correlation_id": missing(count),
            "lane": slices["lane"][chosen],
        }

    def _queue_rows(self, queue: Columns) -> dict[str, Any]:
        everything = np.ones(len(queue), np.bool_)
        nothing_counted = missing(len(queue))
        nothing = tables.categorical(np.full(len(queue), -1), [])
        return {
            **_span(queue, everything),
            "name": _names(queue, "name", everything),
            "thread_id": self._threads[queue["lane"]],
            "kind": _names(queue, "category", everything),
            "input_shapes": nothing,
            "input_dtypes": nothing,
            "stack": nothing,
            "sequence_number": nothing_counted,
            "forward_thread_id": nothing_counted,
            "correlation_id": optional(queue["correlation_id"]),
            "lane": queue["lane"],
        }

    def python(self) -> None:
        """Make ``python``; the root is its own parent in the file, and has none in the table."""
        slices = self._trace.slices["python"]
        columns = {
            **_span(slices),
            "name": _names(slices, "name"),
            "thread_id": self._threads[slices["lane"]],
            **python_calls(slices["id"], slices["parent_id"], self._notes, self._source),
        }
        self._put("python", tables.build("python", columns), slices["lane"])

    def api(self) -> None:
        """Make ``api`` of the slices of the CANN process."""
        slices = self._trace.slices["api"]
        columns = {
            **_span(slices),
            "name": _names(slices, "name", change=_after_at),
            "level": self._levels(slices),
            "thread_id": self._threads[slices["lane"]],
            "connection_id": optional(slices["connection_id"], SENTINELS),
            "item": _names(slices, "item", change=lambda item: None if item == "0" else item),
        }
        self._put("api", tables.build("api", columns), slices["lane"])

    def _levels(self, slices: Columns) -> Any:
        """Return the level of each call; old graph mode names it only before the ``@`` of the name."""
        told = _names(slices, "level", change=lambda level: _LEVELS.get(level, level))
        if not told.isna().any():
            return told
        named = _names(slices, "name", change=lambda name: _LEVEL_OF_PREFIX.get(name.partition("@")[0]))
        return pd.Categorical(np.where(told.isna(), np.asarray(named, object), np.asarray(told, object)))

    def tasks(self) -> None:
        """Make ``tasks`` of the slices of the hardware process."""
        slices = self._trace.slices["task"]
        physic = slices["physic_stream_id"]
        stream = np.where(physic != ABSENT, physic, slices["stream_id"])
        columns = {
            **_span(slices),
            "device_id": self._device_of(slices),
            "stream_id": np.where(stream != ABSENT, stream, self._threads[slices["lane"]]),
            "task_id": optional(slices["task_id"]),
            "batch_id": optional(slices["batch_id"]),
            "context_id": optional(slices["context_id"], SENTINELS),
            "task_type": _names(slices, "task_type"),
            "name": _names(slices, "name"),
            "connection_id": optional(slices["connection_id"], SENTINELS),
            "copied_bytes": optional(slices["copied_bytes"]),
            "copy_direction": _names(slices, "copy_direction"),
        }
        self._put("tasks", tables.build("tasks", columns), slices["lane"])

    def communication(self) -> None:
        """Make ``communication`` and ``communication_tasks``."""
        slices = self._trace.slices["communication"]
        nameless = [code for code, lane in enumerate(self._trace.lanes) if lane not in self._trace.threads]
        if rows := int(np.isin(slices["lane"], nameless).sum()):
            told = "the thread of a collective or of a step of one has no name: its group or plane is unknown"
            self._notes.warning(self._source, told, rows)
        is_task = slices["task_type"] >= 0
        if (~is_task).any():
            self._communication_operators(slices, ~is_task)
        if is_task.any():
            self._communication_tasks(slices, is_task)

    def _communication_operators(self, slices: Columns, chosen: Records) -> None:
        columns = {
            **_span(slices, chosen),
            "device_id": self._device_of(slices)[chosen],
            "name": _names(slices, "name", chosen),
            "op_type": _names(slices, "name", chosen, operator_type),
            "group": self._per_lane(slices["lane"][chosen], group_name),
            "data_type": _names(slices, "data_type", chosen),
            "algorithm": _names(slices, "algorithm", chosen),
            "count": optional(slices["count"][chosen]),
            "connection_id": optional(slices["connection_id"][chosen], SENTINELS),
            "step": step_of(self._built.tables.get("steps"), slices["start_ns"][chosen]),
            "rank_size": optional(slices["rank_size"][chosen]),
            **{name: _flags(_names(slices, name, chosen)) for name in ("relay", "retry")},
        }
        self._put("communication", tables.build("communication", columns), slices["lane"][chosen])

    def _communication_tasks(self, slices: Columns, chosen: Records) -> None:
        lanes, lane = self._trace.lanes, slices["lane"][chosen]
        columns = {
            **_span(slices, chosen),
            "device_id": self._device_of(slices)[chosen],
            "plane_id": plane_ids([self._trace.threads.get(one, "") for one in lanes])[lane],
            "task_type": _names(slices, "task_type", chosen),
            "src_rank": optional(slices["src_rank"][chosen], SENTINELS),
            "dst_rank": optional(slices["dst_rank"][chosen], SENTINELS),
            "transport": _names(slices, "transport", chosen),
            "link": _names(slices, "link", chosen, _valid),
            "size_bytes": optional(slices["size_bytes"][chosen]),
            "bandwidth_gb_s": slices["bandwidth_gb_s"][chosen],
            "stream_id": optional(slices["stream_id"][chosen], SENTINELS),
            "task_id": optional(slices["task_id"][chosen], SENTINELS),
            "context_id": optional(slices["context_id"][chosen], SENTINELS),
            "data_type": _names(slices, "step_data_type", chosen, _valid),
            "rdma_type": tables.categorical(np.full(len(lane), -1), []),  # a timeline does not tell it
            "notify_id": optional(slices["notify_id"][chosen]),
            "estimated_us": slices["estimated_us"][chosen],
        }
        if (operators := self._built.tables.get("communication")) is not None:
            of_operators = self._built.lanes["communication"]
            columns["op_id"] = operators_of(operators, of_operators, lanes, lane, columns["start_ns"])
        self._put("communication_tasks", tables.build("communication_tasks", columns), lane)

    def overlap(self) -> None:
        """Make ``overlap``; kinds go by the names of slices, since thread numbers differ by version."""
        slices = self._trace.slices["plain"]
        names = slices.names("name")
        kinds = np.array([name in _OVERLAP for name in names], np.bool_)[slices["name"]]
        processes = [self._trace.processes.get(pid, "Overlap Analysis") for pid, _ in self._trace.lanes]
        chosen = kinds & np.array([name == "Overlap Analysis" for name in processes], np.bool_)[slices["lane"]]
        self._notes.leave_out(
            self._source, "a slice is of no kind that a table takes", int((~chosen).sum()), affects="the tables"
        )
        if not chosen.any():
            return
        columns = {
            **_span(slices, chosen),
            "device_id": self._device_of(slices)[chosen],
            "kind": _names(slices, "name", chosen, _OVERLAP.get),
        }
        self._put("overlap", tables.build("overlap", columns), slices["lane"][chosen])

    def marks(self) -> None:
        """Make ``marks`` of markers, ranges and pauses of the garbage collector."""
        self._put("marks", *marks_rows(self._trace, self._threads))

    def iterations(self) -> None:
        """Make steps of a model's iterations, where the framework marked none."""
        slices = self._trace.slices["iteration"]
        if "steps" in self._built.tables:
            self._notes.leave_out(
                self._source, "an iteration: the framework's steps are shown", len(slices), severity="info"
            )
            return
        columns = {"step": optional(slices["step"]), **_span(slices), "device_id": self._device_of(slices)}
        steps = tables.sort_by_time(tables.build("steps", columns)).drop_duplicates(ignore_index=True)
        self._built.tables["steps"] = steps
        self._notes.ledger.keep(self._source, "steps", len(steps))
        leave_out_repeated(len(slices) - len(steps), self._notes, self._source)

    def _put(self, name: str, frame: pd.DataFrame, lane: Int32) -> None:
        order = np.lexsort((-frame["duration_ns"].to_numpy(), frame["start_ns"].to_numpy()))
        self._built.tables[name] = frame.iloc[order].reset_index(drop=True)
        self._built.lanes[name] = lane[order]
        self._notes.ledger.keep(self._source, name, len(frame))

    def _device_of(self, slices: Columns) -> Int64:
        known = set(self._devices.values())
        default = known.pop() if len(known) == 1 else 0  # of a process without a label
        devices = np.array([self._devices.get(pid, default) for pid, _ in self._trace.lanes], np.int64)
        return devices[slices["lane"]]

    def _per_lane(self, lane: Int32, name_of: Callable[[str], str | None]) -> pd.Categorical:
        used, lanes = np.unique(lane), self._trace.lanes
        names = [name_of(self._trace.threads.get(lanes[code], "")) for code in used.tolist()]
        return recoded(np.searchsorted(used, lane), names)


def _valid(name: str) -> str | None:
    return None if name == "INVALID_TYPE" else name


def _flags(told: pd.Categorical) -> Any:
    values = np.array([name == "yes" for name in told.categories] + [False], np.bool_)
    return pd.arrays.BooleanArray(values[told.codes], told.codes < 0)


def _joined_by(separator: str) -> Callable[[str], str]:
    """Make the change of the file's separator, ``;`` with a line end, into another."""
    return lambda text: text.replace(";\r\n", separator).replace(";\n", separator).replace("\r\n", separator)


def _after_at(name: str) -> str:
    return name.partition("@")[2] or name


def _stack(parts: list[dict[str, Any]]) -> pd.DataFrame:
    """Put operator rows of several kinds under each other; name columns keep their categories united."""
    columns: dict[str, Any] = {}
    for name in parts[0]:
        if name == "lane":
            continue
        values = [part[name] for part in parts]
        if isinstance(values[0], pd.Categorical):
            columns[name] = pd.api.types.union_categoricals(values) if len(values) > 1 else values[0]
        else:
            columns[name] = pd.concat([pd.Series(value) for value in values], ignore_index=True).array
    columns["id"] = np.arange(len(columns["start_ns"]))
    return tables.build("operators", columns)
