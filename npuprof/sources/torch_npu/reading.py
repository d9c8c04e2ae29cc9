"""Read the files of one torch_npu result and join what they tell into one set of tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources.base import Decoded
from npuprof.sources.communication_json import read_communication, read_communication_matrix
from npuprof.sources.csv_table import read_statistic
from npuprof.sources.kernel_details import read_kernel_details
from npuprof.sources.kernel_join import compute_kernels, take_steps, take_task_numbers
from npuprof.sources.memory_csv import read_memory_record, read_operator_memory
from npuprof.sources.step_csv import read_step_times
from npuprof.sources.torch_npu.layout import Layout
from npuprof.sources.trace_columns import gather
from npuprof.sources.trace_json import read_events
from npuprof.sources.trace_links import build_links
from npuprof.sources.trace_tables import TraceTables, build_tables, device_ids, step_of

_STATISTICS = ("op_statistic", "api_statistic", "operator_details", "l2_cache")
_READ_ELSEWHERE = ("kernel_details.csv", "memory_record.csv", "operator_memory.csv", "step_trace_time.csv")
_Value = TypeVar("_Value")


class Reading:
    """One reading of a result: its files in turn, each filling tables of :attr:`decoded`."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.decoded = Decoded()
        self.notes = self.decoded.notes
        self._failed: list[SourceError] = []

    def run(self) -> None:
        """Read every file that is there.

        Raises
        ------
        SourceError
            If none could be read: the error of the first.
        """
        for part in (self._trace, self._memory, self._kernels, self._step_times, self._communication, self._statistics):
            part()
        self._name_devices()
        if not any(map(len, self.decoded.tables.values())) and not self.decoded.statistics:
            raise (
                self._failed[0]
                if self._failed
                else SourceError(
                    f"{self._layout.root} holds no result that can be read; analyse it again with "
                    "`from torch_npu.profiler.profiler import analyse; analyse(path)`"
                )
            )
        self._note_unread()

    def _attempt(self, read: Callable[[Path], _Value], name: str) -> _Value | None:
        """Read one file if it is there; a failure is noted, and the other files are still read."""
        path = self._layout.file(name)
        if path is None:
            return None
        try:
            return read(path)
        except SourceError as error:
            self._note_failure(name, error)
            return None

    def _note_failure(self, name: str, error: SourceError) -> None:
        self._failed.append(error)
        self.notes.error(name, str(error))

    def _trace(self) -> None:
        path = self._layout.trace
        if path is None:
            self.notes.warning("trace_view.json", "there is no timeline: no operators, calls, tasks or links")
            return
        try:
            trace = gather(read_events(path, self.notes), self.notes, path.name)
        except SourceError as error:
            self._note_failure(path.name, error)
            return
        built: TraceTables = build_tables(trace, self.notes, path.name)
        self.decoded.tables.update(built.tables)
        self.decoded.tables["links"] = build_links(trace, built, self.notes, path.name)
        self.decoded.info.devices = sorted(set(device_ids(trace).values()))

    def _memory(self) -> None:
        for name, table, read in (
            ("memory_record.csv", "memory", read_memory_record),
            ("operator_memory.csv", "allocations", read_operator_memory),
        ):
            frame = self._attempt(lambda path, read=read: read(path, self.notes), name)  # type: ignore[misc]
            if frame is not None:
                self.decoded.tables[table] = frame

    def _kernels(self) -> None:
        device = self._only_device()
        found = self._attempt(lambda path: read_kernel_details(path, self.notes, device or 0), "kernel_details.csv")
        device_tasks = self.decoded.tables.get("tasks")
        if found is None:
            self._kernels_of_tasks(device_tasks)
            return
        self.decoded.tables["kernels"] = found.kernels
        if device_tasks is not None:
            self.decoded.tables["kernels"], lonely = take_task_numbers(found.kernels, device_tasks)
            if lonely:
                self.notes.warning("kernel_details.csv", "a kernel has no task in the timeline", lonely)
        communication = self.decoded.tables.get("communication")
        if communication is not None:
            self.decoded.tables["communication"] = take_steps(communication, found.communication)
        elif len(found.communication):
            self.decoded.tables["communication"] = found.communication

    def _kernels_of_tasks(self, device_tasks: pd.DataFrame | None) -> None:
        if device_tasks is None:
            return
        step = step_of(self.decoded.tables.get("steps"), device_tasks["start_ns"].to_numpy())
        self.decoded.tables["kernels"] = tables.build("kernels", compute_kernels(device_tasks, step))
        self.notes.info(
            "kernel_details.csv",
            "there is no table of kernels: they are the timeline's tasks that compute, without shapes",
        )

    def _step_times(self) -> None:
        device = self._only_device()
        frame = self._attempt(lambda path: read_step_times(path, self.notes, device), "step_trace_time.csv")
        if frame is not None:
            self.decoded.tables["step_times"] = frame

    def _communication(self) -> None:
        frames = self._attempt(read_communication, "communication.json")
        if frames is not None:
            self.decoded.statistics.update(frames)
            self._name_groups(frames["communication"])
        matrix = self._attempt(read_communication_matrix, "communication_matrix.json")
        if matrix is not None:
            self.decoded.statistics["communication_matrix"] = matrix

    def _name_groups(self, listed: pd.DataFrame) -> None:
        """Call the groups of communication operators by their identifier, which only communication.json holds."""
        communication = self.decoded.tables.get("communication")
        if communication is None or not len(listed):
            return
        group_of = dict(zip(listed["name"], listed["group"], strict=True))
        named = communication["name"].astype(object).map(group_of)
        communication["group"] = named.fillna(communication["group"].astype(object)).astype("category")

    def _statistics(self) -> None:
        for name in _STATISTICS:
            frame = self._attempt(lambda path: read_statistic(path, self.notes), f"{name}.csv")
            if frame is not None:
                self.decoded.statistics[name] = frame

    def _only_device(self) -> int | None:
        """Give the device of files that do not name it."""
        devices = self.decoded.info.devices
        if not devices and (memory := self.decoded.tables.get("memory")) is not None:
            devices = sorted(memory["device_id"].dropna().unique().tolist())
        return devices[0] if devices else None

    def _name_devices(self) -> None:
        info = self.decoded.info
        found = {
            int(device)
            for name in ("kernels", "communication", "memory", "step_times")
            if (frame := self.decoded.tables.get(name)) is not None
            for device in frame["device_id"].dropna().unique()
        }
        info.devices = sorted(found | set(info.devices))

    def _note_unread(self) -> None:
        if self._layout.output is None:
            return
        known = {*_READ_ELSEWHERE, *(f"{name}.csv" for name in _STATISTICS)}
        known |= {"communication.json", "communication_matrix.json", "analyse.done"}
        for path in sorted(self._layout.output.iterdir())[:1000]:
            if path.is_file() and path.name not in known and path != self._layout.trace:
                self.notes.info(path.name, "this file of the result is not read")
