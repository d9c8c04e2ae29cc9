"""Turn a gathered trace of torch's profiler into the tables of a profile."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, Records
from npuprof.notes import Notes
from npuprof.sources.columns.builders import Columns
from npuprof.sources.columns.nullable import ABSENT, missing, optional
from npuprof.sources.columns.steps import step_numbers, step_of
from npuprof.sources.kineto.memory import read_memory
from npuprof.sources.kineto.rows import row_of
from npuprof.sources.kineto.stacks import add_stacks
from npuprof.sources.trace.columns import Trace
from npuprof.sources.trace.conversion import TraceTables
from npuprof.sources.trace.nesting import python_calls
from npuprof.sources.trace.slices import names, span, thread_numbers

_KERNEL = "kernel"
_TEMPLATE = re.compile(r"<[^<>]*>")
_ANONYMOUS = re.compile(r"\(anonymous namespace\)(?:::)?")
_OF_OTHERS = ("device_annotation", "span", "overhead")  # the device side of marks, and the profiler's own
_OWN_MOMENTS = ("Iteration Start: ", "Record Window End")  # of the profiler itself


def build_tables(trace: Trace, notes: Notes, source: str) -> TraceTables:
    """Make ``operators, steps, marks, python, api, tasks, kernels, communication, memory`` and ``allocations``.

    A table of which the trace has no event is left out.
    """
    built = TraceTables()
    maker = _Maker(trace, built, notes, source)
    makers: dict[str, Callable[[Columns], None]] = {
        "annotation": maker.annotations,
        "operator": maker.operators,
        "python": maker.python,
        "call": maker.calls,
        "task": maker.tasks,
    }
    for layout, make in makers.items():
        if len(trace.slices[layout]):
            make(trace.slices[layout])
    add_stacks(built)
    built.tables.update(read_memory(trace.slices["memory"], notes, source))
    for layout in _OF_OTHERS:
        notes.ledger.use(source, len(trace.slices[layout]))
    plain = trace.slices["plain"]
    if len(plain):
        names_own = [name.startswith(_OWN_MOMENTS) for name in plain.names("name")]
        own = int(np.array([*names_own, False], np.bool_)[plain["name"]].sum())
        notes.ledger.use(source, own)
        notes.leave_out(source, "a slice is of no kind that a table takes", len(plain) - own, affects="the tables")
    return built


class _Maker:
    """Makes one table after another from the slices of a trace."""

    def __init__(self, trace: Trace, built: TraceTables, notes: Notes, source: str) -> None:
        self._trace, self._built, self._notes, self._source = trace, built, notes, source
        self._threads = thread_numbers(trace)

    def annotations(self, slices: Columns) -> None:
        """Make ``steps`` of the profiler's own ranges, and ``marks`` of the user's."""
        numbers = step_numbers(enumerate(slices.names("name")), self._notes, self._source)
        step = np.array([numbers.get(code, ABSENT) for code in slices["name"].tolist()], np.int64)
        is_step = step != ABSENT
        if is_step.any():
            frame = tables.build("steps", {"step": optional(step[is_step]), **span(slices, is_step)})
            self._built.tables["steps"] = tables.sort_by_time(frame)
            self._notes.ledger.keep(self._source, "steps", len(frame))
        if (~is_step).any():
            self._put("marks", self._marks(slices, ~is_step), slices["lane"][~is_step])

    def _marks(self, slices: Columns, chosen: Records) -> pd.DataFrame:
        start, lasting = self._on_device(slices["external_id"][chosen])
        return tables.build(
            "marks",
            {
                **span(slices, chosen),
                "message": names(slices, "name", chosen),
                "thread_id": self._threads[slices["lane"][chosen]],
                "device_start_ns": start,
                "device_duration_ns": lasting,
                "id": optional(slices["external_id"][chosen]),
            },
        )

    def _on_device(self, external_id: Int64) -> tuple[Any, Any]:
        """Find the first stretch that a GPU spent on each range."""
        device = self._trace.slices["device_annotation"]
        if not len(device):
            return missing(len(external_id)), missing(len(external_id))
        order = np.argsort(device["start_ns"], kind="stable")
        row = row_of(device["external_id"][order], external_id)
        first = order[np.maximum(row, 0)]
        start, lasting = (np.where(row >= 0, device[name][first], ABSENT) for name in ("start_ns", "duration_ns"))
        return optional(start), optional(lasting)

    def operators(self, slices: Columns) -> None:
        """Make ``operators``."""
        columns = {
            **span(slices),
            "name": names(slices, "name"),
            "thread_id": self._threads[slices["lane"]],
            "kind": tables.categorical(np.zeros(len(slices), np.int8), ["op"]),
            "input_shapes": names(slices, "input_shapes"),
            "input_dtypes": names(slices, "input_dtypes"),
            "stack": names(slices, "stack", change=lambda text: text.replace(";\n", "\n").replace(";", "\n")),
            "sequence_number": optional(slices["sequence_number"], (-1,)),
            "id": np.arange(len(slices)),
            "step": step_of(self._built.tables.get("steps"), slices["start_ns"]),
            "forward_thread_id": optional(slices["forward_thread_id"], (0,)),
            "external_id": optional(slices["external_id"]),
            "module": names(slices, "module"),
        }
        self._put("operators", tables.build("operators", columns), slices["lane"])
        self._built.tables["operators"]["id"] = np.arange(len(slices))  # a row's number is its id

    def python(self, slices: Columns) -> None:
        """Make ``python``."""
        columns = {
            **span(slices),
            "name": names(slices, "name"),
            "thread_id": self._threads[slices["lane"]],
            **python_calls(slices["id"], slices["parent_id"], self._notes, self._source),
        }
        self._put("python", tables.build("python", columns), slices["lane"])

    def calls(self, slices: Columns) -> None:
        """Make ``api`` of the calls of the GPU's runtime and driver."""
        columns = {
            **span(slices),
            "name": names(slices, "name"),
            "level": tables.categorical(np.zeros(len(slices), np.int8), ["runtime"]),
            "thread_id": self._threads[slices["lane"]],
            "connection_id": optional(slices["correlation"], (0,)),
            "external_id": optional(slices["external_id"], (0,)),
        }
        self._put("api", tables.build("api", columns), slices["lane"])

    def tasks(self, slices: Columns) -> None:
        """Make ``tasks`` of what ran on a GPU, ``kernels`` of what was computed, ``communication`` of collectives."""
        unplaced = slices["device"] == ABSENT
        if unplaced.any():
            self._notes.warning(self._source, "a task does not tell its device; taken as 0", int(unplaced.sum()))
        columns = {
            **span(slices),
            "device_id": np.where(unplaced, 0, slices["device"]),
            "stream_id": optional(slices["stream"]),
            "context_id": optional(slices["context"]),
            "task_type": names(slices, "category"),
            "name": names(slices, "name"),
            "connection_id": optional(slices["correlation"], (0,)),
            "external_id": optional(slices["external_id"], (0,)),
            "copied_bytes": optional(slices["copied_bytes"]),
        }
        frame = tables.build("tasks", columns)
        order = self._put("tasks", frame, slices["lane"])
        collective = slices["collective"] >= 0
        computed = (frame["task_type"] == _KERNEL).to_numpy() & ~collective
        if computed.any():
            self._built.tables["kernels"] = self._kernels(slices, frame, order[computed[order]])
        if collective.any():
            self._built.tables["communication"] = self._communication(slices, frame, order[collective[order]])
        for name, chosen in (("kernels", computed), ("communication", collective)):
            self._notes.ledger.make(self._source, name, int(chosen.sum()))

    def _kernels(self, slices: Columns, task: pd.DataFrame, rows: Records) -> pd.DataFrame:
        own = task.iloc[rows].reset_index(drop=True)
        columns: dict[str, Any] = {
            name: own[name] for name in own.columns if name not in ("external_id", "copied_bytes")
        }
        columns["name"] = own["name"].cat.remove_unused_categories()
        columns["op_type"] = names(slices, "name", rows, short_name)
        columns["block_num"] = self._product(slices, "grid", rows)
        columns["op_name"], columns["step"] = self._launchers(own)
        columns["threads_per_block"] = self._product(slices, "block", rows)
        for name in ("registers_per_thread", "shared_memory_bytes"):
            columns[name] = optional(slices[name][rows])
        columns["occupancy_percent"] = slices["occupancy_percent"][rows]
        return tables.build("kernels", columns)

    def _product(self, slices: Columns, column: str, rows: Records) -> Any:
        """Return the products of the three sizes of a grid or a block."""
        codes = slices[column][rows]
        products = np.array([*map(_multiplied, slices.names(column)), ABSENT], np.int64)[codes]
        if unread := int(((products == ABSENT) & (codes >= 0)).sum()):
            self._notes.warning(self._source, f"the sizes of a {column} cannot be read or are too large", unread)
        return optional(products)

    def _communication(self, slices: Columns, task: pd.DataFrame, rows: Records) -> pd.DataFrame:
        own = task.iloc[rows].reset_index(drop=True)
        columns: dict[str, Any] = {
            name: own[name] for name in ("start_ns", "duration_ns", "device_id", "name", "connection_id")
        }
        columns["name"] = own["name"].cat.remove_unused_categories()
        columns["op_type"] = names(slices, "collective", rows)
        for name in ("group", "data_type"):
            columns[name] = names(slices, name, rows)
        for name in ("count", "rank_size"):
            columns[name] = optional(slices[name][rows])
        columns["step"] = self._launchers(own)[1]
        return tables.build("communication", columns)

    def _launchers(self, kernels: pd.DataFrame) -> tuple[Any, Any]:
        """Return the operator that launched each kernel, and the step during which that was called."""
        operators = self._built.tables.get("operators")
        if operators is None or not len(operators):
            return tables.categorical(np.full(len(kernels), -1), []), missing(len(kernels))
        asked = kernels["external_id"].to_numpy(dtype=np.int64, na_value=ABSENT)
        row = row_of(operators["external_id"].to_numpy(dtype=np.int64, na_value=ABSENT), asked)
        names_of = operators["name"].array.take(row, allow_fill=True)
        return names_of.remove_unused_categories(), operators["step"].array.take(row, allow_fill=True)

    def _put(self, name: str, frame: pd.DataFrame, lane: Records) -> Records:
        order: Records = np.lexsort((-frame["duration_ns"].to_numpy(), frame["start_ns"].to_numpy()))
        self._built.tables[name] = frame.iloc[order].reset_index(drop=True)
        self._built.lanes[name] = lane[order]
        self._notes.ledger.keep(self._source, name, len(frame))
        return order


@cache
def short_name(symbol: str) -> str:
    """Return a kernel's function without its return type, namespaces, template arguments and parameters."""
    name, before = _ANONYMOUS.sub("", symbol), ""
    while name != before:
        name, before = _TEMPLATE.sub("", name), name
    return name.partition("(")[0].strip().rpartition(" ")[2].rpartition("::")[2] or symbol


def _multiplied(text: str) -> int:
    parts = text.split(";")
    if not all(part.isdecimal() and len(part) <= 10 for part in parts) or len(parts) > 3:
        return ABSENT
    product = 1
    for part in parts:
        product *= int(part)
    return product if product < 1 << 62 else ABSENT
