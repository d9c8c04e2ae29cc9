"""Build the tables of a profile from a collected trace of torch's profiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from npuprof import tables
from npuprof.analysis.idle_causes import PROFILER
from npuprof.arrays import Int64, Records, first_rows
from npuprof.sources.columns.builders import ABSENT, GatheredColumns, missing, optional
from npuprof.sources.columns.steps import step_of
from npuprof.sources.kineto.communication import are_collectives, communication_table
from npuprof.sources.kineto.host_collectives import host_collectives
from npuprof.sources.kineto.kernel_names import short_name
from npuprof.sources.kineto.memory import read_memory
from npuprof.sources.kineto.operators import add_stacks
from npuprof.sources.python_frames import role_of_call, shown_frames
from npuprof.sources.trace.columns import Trace
from npuprof.sources.trace.counters import counters_table
from npuprof.sources.trace.maker import TableMaker, TraceTables, names, span
from npuprof.sources.trace.nesting import call_depth, end_calls, innermost
from npuprof.sources.trace.torch_categories import KERNEL, task_type
from npuprof.tables.notes import ANY, Notes

_USED = ("device_annotation", "span")  # the device side of marks, and the profiler's own range
_OF_RUNTIME = ("Loading", "Command Buffer")  # overhead that the program has without a profiler, too
_OF_TORCH = ("operator", "annotation", "python", "memory")  # whose events torch numbers together
_MOST_GAPS = 10  # times as many numbers as events: then another tool has cut the trace
_STEP = "ProfilerStep#"
_SLICE = ("start_ns", "duration_ns", "name", "lane", "category")
_NUMBERED = ("operators", "steps", "marks", "python", "memory", "allocations", "links")
_RECORDED, _RECORD_END = "Trace", "Record Window End"
_PROFILER_INSTANTS = ("Iteration Start: ", _RECORD_END)


def build_tables(trace: Trace, notes: Notes, source: str, options: Mapping[str, Any]) -> TraceTables:
    """Build ``operators, steps, marks, python, api, tasks, kernels, communication, memory, allocations, counters``.

    A table without events in the trace is omitted.
    """
    _take_steps_of_operators(trace)
    maker = _Maker(trace, notes, source)
    makers: dict[str, Callable[[GatheredColumns], None]] = {
        "annotation": maker.annotations,
        "operator": maker.operators,
        "python": maker.python,
        "call": maker.calls,
        "task": maker.tasks,
    }
    for layout, make in makers.items():
        if len(trace.slices[layout]):
            make(trace.slices[layout])
    if len(trace.slices["overhead"]):
        maker.overhead(trace.slices["overhead"])
    add_stacks(maker.built, source, notes)
    memory = read_memory(trace.slices["memory"], maker.built, notes, source)
    maker.built.tables.update(memory)
    if options.get("memory") and not len(memory.get("memory", ())):
        message = "memory was to be recorded (profile_memory), and the trace has no event of it"
        notes.warning(source, f"{message}: record and export it again", lacks=("memory", "allocations"))
    if len(trace.counters):  # events that other tools add
        maker.built.tables["counters"] = counters_table(trace, {}, notes, source)
    _note_gaps(trace, notes, source)
    if (collectives := host_collectives(maker.built.tables, notes, source)) is not None:
        maker.built.tables["communication"] = collectives
    for layout in _USED:
        notes.ledger.use(source, len(trace.slices[layout]))
    plain = trace.slices["plain"]
    if len(plain):
        is_instant = [name.startswith(_PROFILER_INSTANTS) for name in plain.names("name")]
        used = int(np.array([*is_instant, False], np.bool_)[plain["name"]].sum())
        notes.ledger.use(source, used)
        notes.leave_out(source, "a slice belongs to no table", len(plain) - used, affects=ANY)
    return maker.built


def recorded(trace: Trace) -> tuple[int, int] | None:
    """Return when the collection began and ended, if the profiler wrote it."""
    begins, ends = [], []
    for slices in trace.slices.values():
        if len(slices) and _RECORDED in (categories := slices.names("category")):
            rows = slices["category"] == categories.index(_RECORDED)
            begins += slices["start_ns"][rows].tolist()
            ends += (slices["start_ns"] + slices["duration_ns"])[rows].tolist()
    plain = trace.slices["plain"]
    if len(plain) and _RECORD_END in (names := plain.names("name")):
        ends += plain["start_ns"][plain["name"] == names.index(_RECORD_END)].tolist()
    return (min(begins), max(ends)) if begins and max(ends) > min(begins) else None


def _take_steps_of_operators(trace: Trace) -> None:
    """Move the profiler's ranges around steps, which until 2021 had the category of operators, to the annotations."""
    operators, annotations = trace.slices["operator"], trace.slices["annotation"]
    if not len(operators):
        return
    are_steps = [name.startswith(_STEP) for name in operators.names("name")]
    rows = np.array([*are_steps, False], np.bool_)[operators["name"]]
    if rows.any():
        columns = operators.at(np.flatnonzero(rows))
        annotations.add({name: columns[name] for name in (*_SLICE, "external_id", "event")})
        operators.keep(~rows)


def _note_gaps(trace: Trace, notes: Notes, source: str) -> None:
    """Warn of numbers that the events of torch skip, which begin at 0 in each trace."""
    slices = [trace.slices[layout] for layout in _OF_TORCH if len(trace.slices[layout])]
    numbers = np.unique(np.concatenate([np.zeros(0, np.int64), *(columns["event"] for columns in slices)]))
    numbers = numbers[numbers >= 0]
    missing = int(numbers[-1]) + 1 - len(numbers) if len(numbers) else 0
    if 0 < missing <= _MOST_GAPS * len(numbers):
        kinds = "operators, steps, marks, Python calls or memory events"
        message = f"an event is missing by the numbers of the others (Ev Idx): {kinds} are incomplete, and so are their"
        notes.warning(
            source, f"{message} sums, links, lines and allocations; export the trace again", missing, lacks=_NUMBERED
        )


class _Maker(TableMaker):
    """Builder of the tables of a trace."""

    def __init__(self, trace: Trace, notes: Notes, source: str) -> None:
        super().__init__(trace, notes, source)
        of_host = [trace.slices[name]["lane"] for name in (*_OF_TORCH, "call") if len(trace.slices[name])]
        lanes = np.unique(np.concatenate(of_host)) if of_host else np.zeros(0, np.int64)
        numbers, first = np.unique(self.threads[lanes], return_index=True)
        if len(numbers) < len(lanes):  # threads of several processes
            others = np.delete(lanes, first)
            self.threads[others] = int(self.threads.max()) + 1 + np.arange(len(others))

    def annotations(self, slices: GatheredColumns) -> None:
        """Build ``steps`` from the profiler's ranges, and ``marks`` from the user's."""
        is_selected = ~self.steps(slices)
        if is_selected.any():
            self.put("marks", self._marks(slices, is_selected), slices["lane"][is_selected])

    def _marks(self, slices: GatheredColumns, selected_records: Records) -> pd.DataFrame:
        start, duration = self._on_device(slices["external_id"][selected_records])
        return tables.build(
            "marks",
            {
                **span(slices, selected_records),
                "message": names(slices, "name", selected_records),
                "thread_id": self.threads[slices["lane"][selected_records]],
                "device_start_ns": start,
                "device_duration_ns": duration,
                "id": optional(slices["external_id"][selected_records]),
            },
        )

    def overhead(self, slices: GatheredColumns) -> None:
        """Add the slices of the profiler itself, and of the runtime, to ``marks``, with a domain that says so."""
        columns = {
            **span(slices),
            "message": names(slices, "name"),
            "domain": names(slices, "name", change=_domain_of),
            "thread_id": self.threads[slices["lane"]],
            "device_start_ns": missing(len(slices)),
            "device_duration_ns": missing(len(slices)),
            "id": missing(len(slices)),
        }
        frame, lane = tables.build("marks", columns), slices["lane"]
        if (marks := self.built.tables.get("marks")) is not None:
            texts = {
                name: union_categoricals([marks[name], frame[name]], ignore_order=True)
                for name in ("message", "domain")
            }
            frame = pd.concat([marks, frame], ignore_index=True).assign(**texts)
            lane = np.concatenate([self.built.lanes["marks"], lane])
            self.notes.ledger.keep(self.source, "marks", -len(marks))  # which are put again
        self.put("marks", frame, lane)

    def _on_device(self, external_id: Int64) -> tuple[Any, Any]:
        """Return start and duration of the first GPU range of each mark."""
        device = self.trace.slices["device_annotation"]
        if not len(device):
            return missing(len(external_id)), missing(len(external_id))
        order = np.argsort(device["start_ns"], kind="stable")
        row = first_rows(device["external_id"][order], external_id)
        first = order[np.maximum(row, 0)]
        start, duration = (np.where(row >= 0, device[name][first], ABSENT) for name in ("start_ns", "duration_ns"))
        return optional(start), optional(duration)

    def python(self, slices: GatheredColumns) -> None:
        """Build ``python`` without what runs the user's code, threads that only wait, and calls of the profiler."""
        duration, parent, unended = end_calls(
            *(slices[name] for name in ("lane", "start_ns", "duration_ns", "id", "parent_id"))
        )
        if unended:
            slices["duration_ns"][:], slices["parent_id"][:] = duration, parent
            message = (
                "a Python call has no return: it is taken to end with its caller, or where that makes its next call; "
                "its time, and lines of what ran then, are at most those shown"
            )
            self.notes.warning(self.source, message, unended)
        super().python(slices)
        every = self.built.tables["python"]
        roles = np.array([*map(role_of_call, every["name"].cat.categories), -1], np.int8)
        parents = first_rows(every["id"].to_numpy(np.int64), _ids(every, "parent_id"))
        is_shown, above = shown_frames(parents, roles[every["name"].cat.codes.to_numpy()])
        calls = every[is_shown].reset_index(drop=True)
        calls["name"] = calls["name"].cat.remove_unused_categories()
        callers = np.append(every["id"].to_numpy(np.int64), ABSENT)[above[is_shown]]
        calls["parent_id"], calls["depth"] = optional(callers), call_depth(calls["id"].to_numpy(np.int64), callers)[0]
        self.built.tables["python"], self.built.lanes["python"] = calls, self.built.lanes["python"][is_shown]
        self.notes.ledger.keep(self.source, "python", len(calls) - len(every))
        self.notes.ledger.use(self.source, len(every) - len(calls))

    def operators(self, slices: GatheredColumns) -> None:
        """Build ``operators``."""
        columns = {
            **span(slices),
            "name": names(slices, "name"),
            "thread_id": self.threads[slices["lane"]],
            "kind": tables.categorical(np.zeros(len(slices), np.int8), ["op"]),
            "input_shapes": names(slices, "old_shapes" if (slices["input_shapes"] < 0).all() else "input_shapes"),
            "input_dtypes": names(slices, "input_dtypes"),
            "stack": names(slices, "stack", change=lambda text: text.replace(";\n", "\n").replace(";", "\n")),
            "sequence_number": optional(slices["sequence_number"], (-1,)),
            "id": np.arange(len(slices)),
            "step": step_of(self.built.tables.get("steps"), slices["start_ns"]),
            "forward_thread_id": optional(slices["forward_thread_id"], (0,)),
            "external_id": optional(slices["external_id"]),
            "module": names(slices, "module"),
        }
        self.put("operators", tables.build("operators", columns), slices["lane"])
        self.built.tables["operators"]["id"] = np.arange(len(slices))  # the id of a row is its number

    def calls(self, slices: GatheredColumns) -> None:
        """Build ``api`` from the calls of the GPU runtime and driver."""
        columns = {
            **span(slices),
            "name": names(slices, "name"),
            "level": tables.categorical(np.zeros(len(slices), np.int8), ["runtime"]),
            "thread_id": self.threads[slices["lane"]],
            "connection_id": optional(slices["correlation"], (0,)),
            "external_id": optional(_operator_ids(slices), (0,)),
        }
        self.put("api", tables.build("api", columns), slices["lane"])

    def tasks(self, slices: GatheredColumns) -> None:
        """Build ``tasks`` from GPU activities, ``kernels`` from compute and ``communication`` from collectives."""
        unplaced = slices["device"] == ABSENT
        if unplaced.any():
            self.notes.warning(self.source, "a task has no device; taken as 0", int(unplaced.sum()))
        columns = {
            **span(slices),
            "device_id": np.where(unplaced, 0, slices["device"]),
            "stream_id": optional(slices["stream"]),
            "context_id": optional(slices["context"]),
            "task_type": names(slices, "category", change=task_type),
            "name": names(slices, "name"),
            "connection_id": optional(slices["correlation"], (0,)),
            "external_id": optional(_operator_ids(slices), (0,)),
            "copied_bytes": optional(slices["copied_bytes"]),
        }
        frame = tables.build("tasks", columns)
        order = self.put("tasks", frame, slices["lane"])
        collective = are_collectives(slices, frame)
        computed = (frame["task_type"] == KERNEL).to_numpy() & ~collective
        if computed.any():
            self.built.tables["kernels"] = self._kernels(slices, frame, order[computed[order]])
        if collective.any():
            rows = order[collective[order]]
            table = communication_table(slices, frame, rows)
            self.built.tables["communication"] = table.assign(step=self._launchers(frame.iloc[rows])[1])
        for name, is_selected in (("kernels", computed), ("communication", collective)):
            self.notes.ledger.make(self.source, name, int(is_selected.sum()))

    def _kernels(self, slices: GatheredColumns, task: pd.DataFrame, rows: Records) -> pd.DataFrame:
        chosen = task.iloc[rows].reset_index(drop=True)
        columns: dict[str, Any] = {
            name: chosen[name] for name in chosen.columns if name not in ("external_id", "copied_bytes")
        }
        columns["name"] = chosen["name"].cat.remove_unused_categories()
        columns["op_type"] = names(slices, "name", rows, short_name)
        columns["block_num"] = self._product(slices, "grid", rows)
        columns["op_name"], columns["step"] = self._launchers(chosen)
        columns["threads_per_block"] = self._product(slices, "block", rows)
        for name in ("registers_per_thread", "shared_memory_bytes"):
            columns[name] = optional(slices[name][rows])
        columns["occupancy_percent"] = slices["occupancy_percent"][rows]
        return tables.build("kernels", columns)

    def _product(self, slices: GatheredColumns, column: str, rows: Records) -> Any:
        """Return the product of the dimensions of each grid or block."""
        codes = slices[column][rows]
        products = np.array([*map(_multiply, slices.names(column)), ABSENT], np.int64)[codes]
        if unreadable := int(((products == ABSENT) & (codes >= 0)).sum()):
            self.notes.warning(self.source, f"the sizes of a {column} cannot be read or are too large", unreadable)
        return optional(products)

    def _launchers(self, tasks: pd.DataFrame) -> tuple[Any, Any]:
        """Return the operator that launched each task, and the step of the launch.

        A task names its operator by an id, or else it is the innermost operator around the call that launched it.
        """
        operators, calls = (self.built.tables.get(name, tables.empty(name)) for name in ("operators", "api"))
        row = first_rows(_ids(operators, "external_id"), _ids(tasks, "external_id"))
        call = first_rows(_ids(calls, "connection_id"), _ids(tasks, "connection_id"))
        called = np.flatnonzero(call >= 0)
        begun = np.append(calls["start_ns"].to_numpy(np.int64), 0)[call]
        if len(operators) and len(called):
            starts = operators["start_ns"].to_numpy(np.int64)
            ends = starts + operators["duration_ns"].to_numpy(np.int64)
            lanes = self.built.lanes["api"][call[called]]
            around = innermost(self.built.lanes["operators"], starts, ends, lanes, begun[called])
            row[called] = np.where(row[called] >= 0, row[called], around)
        of_operator = np.append(operators["start_ns"].to_numpy(np.int64), 0)[row]
        steps = step_of(self.built.tables.get("steps"), np.where(row >= 0, of_operator, begun))
        launchers = operators["name"].array.take(row, allow_fill=True)
        return launchers.remove_unused_categories(), steps


def _domain_of(name: str) -> str:
    return "runtime" if any(word in name for word in _OF_RUNTIME) else PROFILER


def _operator_ids(slices: GatheredColumns) -> Int64:
    """Return the id of the operator that each row names; where none is known, some versions repeat the correlation."""
    ids = np.where(slices["external_id"] == ABSENT, slices["old_external_id"], slices["external_id"])
    return np.where(ids == slices["correlation"], ABSENT, ids)


def _ids(frame: pd.DataFrame, column: str) -> Int64:
    if column not in frame:
        return np.full(len(frame), ABSENT, np.int64)
    return frame[column].to_numpy(dtype=np.int64, na_value=ABSENT)


def _multiply(text: str) -> int:
    parts = text.split(";")
    if not all(part.isdecimal() and len(part) <= 10 for part in parts) or len(parts) > 3:
        return ABSENT
    product = 1
    for part in parts:
        product *= int(part)
    return product if product < 1 << 62 else ABSENT
