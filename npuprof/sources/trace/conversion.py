"""Build the tables of a profile from a collected timeline.

Tables are sorted by time and keep the lane (process and thread) of each row: flows find their ends by lane and time;
see :mod:`npuprof.sources.trace.links`.

Source: sources/RESULTS.md section 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int32, Int64, Records
from npuprof.sources.columns.builders import ABSENT, SENTINELS, GatheredColumns, flags, optional, recoded
from npuprof.sources.columns.steps import step_of
from npuprof.sources.trace.columns import Trace
from npuprof.sources.trace.communication import group_name, operator_type, operators_of, plane_ids
from npuprof.sources.trace.counters import counters_table
from npuprof.sources.trace.maker import TableMaker, TraceTables, names, span, used_names
from npuprof.sources.trace.marks import marks_rows
from npuprof.sources.trace.plain_slices import leave_out_repeated, take_iteration_parts, take_mindspore
from npuprof.tables.notes import ANY, Notes

_LEVELS = {"hccl": "communication"}
_LEVEL_OF_PREFIX = {"AscendCL": "acl", "GE": "model"}
_OVERLAP = {
    "Computing": "computing",
    "Communication": "communication",
    "Communication(Not Overlapped)": "communication_not_overlapped",
    "Not Overlapped": "communication_not_overlapped",
    "Free": "free",
}
_SAME_TABLE = {"operator": "queue", "mark": "pause"}  # layouts that share a table
_LABEL = re.compile(r"(?:[CNG]PU|XPU)(?:\s+\d{1,9})?$", re.ASCII)
_NPU_LABEL = re.compile(r"NPU\s+(\d{1,9})", re.ASCII)


def build_tables(trace: Trace, notes: Notes, source: str) -> TraceTables:
    """Build ``operators, steps, python, api, tasks, communication, communication_tasks, overlap, marks, counters``.

    A table without events in the timeline is omitted.
    """
    statistics = {**take_mindspore(trace, notes, source), **take_iteration_parts(trace, notes, source)}
    devices = device_ids(trace)
    if unknown := sum(_is_unknown(pid, label, trace) for pid, label in trace.labels.items()):
        notes.warning(source, "the device of a process cannot be read: its rows may be of another device", unknown)
    maker = _Maker(trace, notes, source, devices)
    makers: Mapping[str, Callable[[], None]] = {
        "operator": maker.operators,
        "python": lambda: maker.python(trace.slices["python"]),
        "api": maker.api,
        "task": maker.tasks,
        "communication": maker.communication,
        "plain": maker.overlap,
        "mark": maker.marks,
        "iteration": maker.iterations,
    }
    for layout, make in makers.items():
        if len(trace.slices[layout]) or len(trace.slices[_SAME_TABLE.get(layout, layout)]):
            make()
    maker.built.statistics = statistics
    if len(trace.counters):
        maker.built.tables["counters"] = counters_table(trace, devices, notes, source)
    return maker.built


def device_ids(trace: Trace) -> dict[Any, int]:
    """Return the device of each process.

    The label ``NPU 3`` states it. Older results write only ``NPU``: there the process number may combine the host
    process, the sort index and the device; otherwise the only device is 0.
    """
    devices: dict[Any, int] = {}
    for pid, label in trace.labels.items():
        if not label.startswith("NPU"):
            continue
        named = _NPU_LABEL.fullmatch(label)
        packed = isinstance(pid, int) and (pid >> 5) & 31 == trace.sort_indexes.get(pid)
        devices[pid] = int(named[1]) if named else pid & 31 if packed else 0
    return devices


def _is_unknown(pid: Any, label: str, trace: Trace) -> bool:
    """Check whether a label does not name a processor, or is an NPU whose process has no name."""
    return _LABEL.match(label) is None or (label.startswith("NPU") and pid not in trace.processes)


class _Maker(TableMaker):
    """Builder of the tables of an NPU timeline."""

    def __init__(self, trace: Trace, notes: Notes, source: str, devices: dict[Any, int]) -> None:
        super().__init__(trace, notes, source)
        self._devices = devices

    def operators(self) -> None:
        """Build ``operators``, with enqueue and dequeue calls, and ``steps``."""
        slices, queue = self.trace.slices["operator"], self.trace.slices["queue"]
        is_selected = ~self.steps(slices) if len(slices) else np.empty(0, np.bool_)
        count = int(is_selected.sum())

        def of_both(column: str) -> Records:
            return np.concatenate([slices[column][is_selected], queue[column]])

        def of_operators(column: str) -> Records:
            return np.concatenate([slices[column][is_selected], np.full(len(queue), ABSENT)])

        def texts(column: str, separator: str) -> pd.Categorical:
            codes = np.concatenate([slices[column][is_selected], np.full(len(queue), -1, np.int32)])
            return used_names(codes, slices.names(column), _joined_by(separator))

        start_ns, lane, categories = of_both("start_ns"), of_both("lane"), queue.names("category")
        kind = np.concatenate([np.full(count, len(categories), np.int32), queue["category"]])
        columns = {
            "start_ns": start_ns,
            "duration_ns": of_both("duration_ns"),
            "id": np.arange(len(start_ns)),
            "name": used_names(of_both("name"), slices.names("name")),
            "thread_id": self.threads[lane],
            "kind": used_names(kind, [*categories, "op"]),
            "input_shapes": texts("input_shapes", ";"),
            "input_dtypes": texts("input_dtypes", ";"),
            "stack": texts("stack", "\n"),
            "sequence_number": optional(of_operators("sequence_number"), (-1,)),
            "forward_thread_id": optional(of_operators("forward_thread_id"), (0,)),
            "correlation_id": optional(np.concatenate([np.full(count, ABSENT), queue["correlation_id"]])),
            "step": step_of(self.built.tables.get("steps"), start_ns),
        }
        self.put("operators", tables.build("operators", columns), lane)
        self.built.tables["operators"]["id"] = np.arange(len(start_ns))  # the id of a row is its number

    def api(self) -> None:
        """Build ``api`` from the slices of the CANN process."""
        slices = self.trace.slices["api"]
        columns = {
            **span(slices),
            "name": names(slices, "name", change=lambda name: name.partition("@")[2] or name),
            "level": self._levels(slices),
            "thread_id": self.threads[slices["lane"]],
            "connection_id": optional(slices["connection_id"], SENTINELS),
            "item": names(slices, "item", change=lambda item: None if item == "0" else item),
        }
        self.put("api", tables.build("api", columns), slices["lane"])

    def _levels(self, slices: GatheredColumns) -> Any:
        """Return the level of each call; in old graph mode, only the name before ``@`` contains it."""
        levels = names(slices, "level", change=lambda level: _LEVELS.get(level, level))
        if not levels.isna().any():
            return levels
        prefixes = names(slices, "name", change=lambda name: _LEVEL_OF_PREFIX.get(name.partition("@")[0]))
        return pd.Categorical(np.where(levels.isna(), np.asarray(prefixes, object), np.asarray(levels, object)))

    def tasks(self) -> None:
        """Build ``tasks`` from the slices of the hardware process."""
        slices = self.trace.slices["task"]
        physic = slices["physic_stream_id"]
        stream = np.where(physic != ABSENT, physic, slices["stream_id"])
        columns = {
            **span(slices),
            "device_id": self._device_of(slices),
            "stream_id": np.where(stream != ABSENT, stream, self.threads[slices["lane"]]),
            "task_id": optional(slices["task_id"]),
            "batch_id": optional(slices["batch_id"]),
            "context_id": optional(slices["context_id"], SENTINELS),
            "task_type": names(slices, "task_type"),
            "name": names(slices, "name"),
            "connection_id": optional(slices["connection_id"], SENTINELS),
            "copied_bytes": optional(slices["copied_bytes"]),
            "copy_direction": names(slices, "copy_direction"),
        }
        self.put("tasks", tables.build("tasks", columns), slices["lane"])

    def communication(self) -> None:
        """Build ``communication`` and ``communication_tasks``."""
        slices = self.trace.slices["communication"]
        nameless = [code for code, lane in enumerate(self.trace.lanes) if lane not in self.trace.threads]
        if rows := int(np.isin(slices["lane"], nameless).sum()):
            message = "the thread of a collective or of its task has no name: its group or plane is unknown"
            self.notes.warning(self.source, message, rows)
        is_task = slices["task_type"] >= 0
        if (~is_task).any():
            self._communication_operators(slices, ~is_task)
        if is_task.any():
            self._communication_tasks(slices, is_task)

    def _communication_operators(self, slices: GatheredColumns, selected_records: Records) -> None:
        columns = {
            **span(slices, selected_records),
            "device_id": self._device_of(slices)[selected_records],
            "name": names(slices, "name", selected_records),
            "op_type": names(slices, "name", selected_records, operator_type),
            "group": self._per_lane(slices["lane"][selected_records], group_name),
            "data_type": names(slices, "data_type", selected_records),
            "algorithm": names(slices, "algorithm", selected_records),
            "count": optional(slices["count"][selected_records]),
            "connection_id": optional(slices["connection_id"][selected_records], SENTINELS),
            "step": step_of(self.built.tables.get("steps"), slices["start_ns"][selected_records]),
            "rank_size": optional(slices["rank_size"][selected_records]),
            **{name: flags(names(slices, name, selected_records), "yes") for name in ("relay", "retry")},
        }
        self.put("communication", tables.build("communication", columns), slices["lane"][selected_records])

    def _communication_tasks(self, slices: GatheredColumns, selected_records: Records) -> None:
        lanes, lane = self.trace.lanes, slices["lane"][selected_records]
        columns = {
            **span(slices, selected_records),
            "device_id": self._device_of(slices)[selected_records],
            "plane_id": plane_ids([self.trace.threads.get(thread, "") for thread in lanes])[lane],
            "task_type": names(slices, "task_type", selected_records),
            "src_rank": optional(slices["src_rank"][selected_records], SENTINELS),
            "dst_rank": optional(slices["dst_rank"][selected_records], SENTINELS),
            "transport": names(slices, "transport", selected_records),
            "link": names(slices, "link", selected_records, _valid),
            "size_bytes": optional(slices["size_bytes"][selected_records]),
            "bandwidth_gb_s": slices["bandwidth_gb_s"][selected_records],
            "stream_id": optional(slices["stream_id"][selected_records], SENTINELS),
            "task_id": optional(slices["task_id"][selected_records], SENTINELS),
            "context_id": optional(slices["context_id"][selected_records], SENTINELS),
            "data_type": names(slices, "step_data_type", selected_records, _valid),
            "rdma_type": tables.categorical(np.full(len(lane), -1), []),  # not in a timeline
            "notify_id": optional(slices["notify_id"][selected_records]),
            "estimated_us": slices["estimated_us"][selected_records],
        }
        if (operators := self.built.tables.get("communication")) is not None:
            operator_lanes = self.built.lanes["communication"]
            columns["op_id"] = operators_of(operators, operator_lanes, lanes, lane, columns["start_ns"])
        self.put("communication_tasks", tables.build("communication_tasks", columns), lane)

    def overlap(self) -> None:
        """Build ``overlap`` by the names of slices, since thread numbers differ between versions."""
        slices = self.trace.slices["plain"]
        kinds = np.array([name in _OVERLAP for name in slices.names("name")], np.bool_)[slices["name"]]
        processes = [self.trace.processes.get(pid, "Overlap Analysis") for pid, _ in self.trace.lanes]
        is_selected = kinds & np.array([name == "Overlap Analysis" for name in processes], np.bool_)[slices["lane"]]
        self.notes.leave_out(self.source, "a slice belongs to no table", int((~is_selected).sum()), affects=ANY)
        if not is_selected.any():
            return
        columns = {
            **span(slices, is_selected),
            "device_id": self._device_of(slices)[is_selected],
            "kind": names(slices, "name", is_selected, _OVERLAP.get),
        }
        self.put("overlap", tables.build("overlap", columns), slices["lane"][is_selected])

    def marks(self) -> None:
        """Build ``marks`` from markers, ranges and pauses of the garbage collector."""
        self.put("marks", *marks_rows(self.trace, self.threads))

    def iterations(self) -> None:
        """Build ``steps`` from the iterations of a model, unless the framework marked steps."""
        slices = self.trace.slices["iteration"]
        if "steps" in self.built.tables:
            self.notes.leave_out(
                self.source, "an iteration: the framework's steps are shown", len(slices), severity="info"
            )
            return
        columns = {"step": optional(slices["step"]), **span(slices), "device_id": self._device_of(slices)}
        steps = tables.sort_by_time(tables.build("steps", columns)).drop_duplicates(ignore_index=True)
        self.built.tables["steps"] = steps
        self.notes.ledger.keep(self.source, "steps", len(steps))
        leave_out_repeated(len(slices) - len(steps), self.notes, self.source)

    def _device_of(self, slices: GatheredColumns) -> Int64:
        known = set(self._devices.values())
        default = known.pop() if len(known) == 1 else 0  # a process without a label
        devices = np.array([self._devices.get(pid, default) for pid, _ in self.trace.lanes], np.int64)
        return devices[slices["lane"]]

    def _per_lane(self, lane: Int32, name_of: Callable[[str], str | None]) -> pd.Categorical:
        used, lanes = np.unique(lane), self.trace.lanes
        names = [name_of(self.trace.threads.get(lanes[code], "")) for code in used.tolist()]
        return recoded(np.searchsorted(used, lane), names)


def _valid(name: str) -> str | None:
    return None if name == "INVALID_TYPE" else name


def _joined_by(separator: str) -> Callable[[str], str]:
    """Return a function that replaces the separators in the file, ``;`` and line ends."""
    return lambda text: text.replace(";\r\n", separator).replace(";\n", separator).replace("\r\n", separator)
