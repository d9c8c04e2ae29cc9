"""Read the files of one result of torch_npu or MindSpore and join what they tell into one set of tables.

Source: sources/RESULTS.md sections 1.1, 1.2 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.sources.base import Decoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.columns.steps import step_of
from npuprof.sources.framework.mindspore import COLLECTOR as MINDSPORE
from npuprof.sources.result_folder.layout import Layout
from npuprof.sources.text.communication_json import read_communication, read_communication_matrix
from npuprof.sources.text.csv_table import read_statistic
from npuprof.sources.text.kernel_details import (
    compute_kernels,
    read_kernel_details,
    take_steps,
    take_task_names,
    take_task_numbers,
)
from npuprof.sources.text.memory_csv import (
    is_of_mindspore,
    read_device_memory,
    read_memory_record,
    read_module_memory,
    read_operator_memory,
)
from npuprof.sources.text.pipeline_summary import read_pipeline_summary
from npuprof.sources.text.vendor_sums import add_listed_operators, check_sums, read_step_times
from npuprof.sources.torch_npu.expected_files import note_missing
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.conversion import TraceTables, build_tables, device_ids
from npuprof.sources.trace.events import read_events
from npuprof.sources.trace.links import build_links
from npuprof.sources.trace.marks import add_device_sides
from npuprof.sources.trace.mindspore import is_mindspore

_MEMORY: dict[str, Callable[[Path, Notes], pd.DataFrame]] = {
    "memory_record": read_memory_record,
    "npu_mem": read_device_memory,
    "npu_module_mem": read_module_memory,
}
_IN_TABLES = {*_MEMORY, "operator_memory", "kernel_details", "step_trace_time"}
_KNOWN = ("communication.json", "communication_matrix.json", "analyse.done", "profiler_metadata.json")
_INFO = "profiler_info"
_PIPELINE = re.compile(r"(minddata_pipeline_summary)_\d+\.(json|csv)(?:\.gz)?")
_CSV = re.compile(r"(.+?)(?:_\d+)?\.csv(?:\.gz)?")
_MAX_LISTED = 1000
_MAX_TOLD = 3
_ANALYSE = {
    MINDSPORE: "from mindspore.profiler.profiler import analyse; analyse(path)",
    "torch_npu": "from torch_npu.profiler.profiler import analyse; analyse(path)",
}
_Value = TypeVar("_Value")


class Reading:
    """One reading of a result: its files in turn, each filling tables of :attr:`decoded`."""

    def __init__(self, layout: Layout, *, alone: bool = True) -> None:
        self._layout, self._alone = layout, alone
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
        add_listed_operators(self.decoded)
        self._name_devices()
        if not any(map(len, self.decoded.tables.values())) and not self.decoded.statistics:
            raise self._failed[0] if self._failed else self._nothing()
        check_sums(self.decoded)
        communicates = bool(len(self.decoded.tables.get("communication", ())))
        note_missing(self._layout, self.decoded.info, self.notes, communicates=communicates)
        self._note_unread()

    def read_sums(self) -> None:
        """Read only what the vendor summed: the breakdown of steps, communication and statistics."""
        for part in (self._step_times, self._communication, self._statistics):
            part()

    def _nothing(self) -> SourceError:
        told = "; ".join(dict.fromkeys(self.notes.to_frame()["message"][:_MAX_TOLD]))
        if self._layout.root.is_file():
            return SourceError(
                f"{self._layout.root} is a timeline of which no table can be made ({told or 'it holds no events'}); "
                "export it again, or give the result that it is from"
            )
        command = _ANALYSE.get(self.decoded.info.collector, _ANALYSE["torch_npu"])
        return SourceError(
            f"{self._layout.root} holds no text result that can be read; analyse it again with `{command}`, "
            "or copy FRAMEWORK and PROF_* beside it, whose raw files npuprof reads by itself"
        )

    def _attempt(self, read: Callable[[Path], _Value], name: str) -> _Value | None:
        """Read one file if it is there; a failure is noted, and the other files are still read."""
        path = self._layout.file(name)
        if path is None:
            return None
        try:
            return read(path)
        except SourceError as error:
            self._note_failure(path.name, error)
            return None

    def _note_failure(self, name: str, error: SourceError) -> None:
        self._failed.append(error)
        self.notes.fail(name, str(error))

    def _trace(self) -> None:
        path = self._layout.trace
        if path is None:
            if self._alone:
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
        add_device_sides(self.decoded.tables)
        self.decoded.info.devices = sorted(set(device_ids(trace).values()))
        if is_mindspore(trace):
            self._is_mindspore()
        self.decoded.statistics.update(built.statistics)

    def _is_mindspore(self) -> None:
        info = self.decoded.info
        info.source = info.source.replace(info.collector, MINDSPORE)
        info.collector = MINDSPORE

    def _memory(self) -> None:
        samples = [
            frame
            for name, read in _MEMORY.items()
            if (frame := self._attempt(lambda path, read=read: read(path, self.notes), f"{name}.csv")) is not None  # type: ignore[misc]
        ]
        if samples:
            self.decoded.tables["memory"] = memory = tables.sort_by_time(stacked(samples))
            if is_of_mindspore(memory["component"].array):
                self._is_mindspore()
        blocks = self._attempt(lambda path: read_operator_memory(path, self.notes), "operator_memory.csv")
        if blocks is not None:
            self.decoded.tables["allocations"] = blocks

    def _kernels(self) -> None:
        device = self._only_device()
        found = self._attempt(lambda path: read_kernel_details(path, self.notes, device or 0), "kernel_details.csv")
        device_tasks = self.decoded.tables.get("tasks")
        if found is None:
            self._kernels_of_tasks(device_tasks)
            return
        self.decoded.tables["kernels"] = found.kernels
        if device_tasks is not None:
            named = take_task_names(found.kernels, device_tasks)
            self.decoded.tables["kernels"], lonely = take_task_numbers(named, device_tasks)
            if lonely:
                self.notes.warning("kernel_details.csv", "a kernel has no task in the timeline", lonely)
        communication = self.decoded.tables.get("communication")
        if communication is not None:
            self.decoded.tables["communication"] = take_steps(communication, found.communication)
            self.notes.ledger.replace("communication", found.source)
        elif len(found.communication):
            self.decoded.tables["communication"] = found.communication

    def _kernels_of_tasks(self, device_tasks: pd.DataFrame | None) -> None:
        if device_tasks is None:
            return
        step = step_of(self.decoded.tables.get("steps"), device_tasks["start_ns"].to_numpy())
        self.decoded.tables["kernels"] = kernels = tables.build("kernels", compute_kernels(device_tasks, step))
        self.notes.ledger.make("tasks", "kernels", len(kernels))
        self.decoded.derived["kernels"] = (
            "kernel_details.csv",
            "there is no table of kernels: they are the timeline's tasks that compute, without shapes",
        )

    def _step_times(self) -> None:
        device = self._only_device()
        frame = self._attempt(lambda path: read_step_times(path, self.notes, device), "step_trace_time.csv")
        if frame is not None:
            self.decoded.tables["step_times"] = frame

    def _communication(self) -> None:
        frames = self._attempt(lambda path: read_communication(path, self.notes), "communication.json")
        if frames is not None:
            self.decoded.statistics.update(frames)
            self._name_groups(frames["communication"])
        matrix = self._attempt(lambda path: read_communication_matrix(path, self.notes), "communication_matrix.json")
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
        """Keep every other CSV as it came, by its name without the number of a rank."""
        for path in self._files():
            pipeline, plain = _PIPELINE.fullmatch(path.name), _CSV.fullmatch(path.name)
            if pipeline is not None and pipeline[1] not in self.decoded.statistics:
                frames = self._attempt(lambda path: read_pipeline_summary(path, self.notes), path.name)
                self.decoded.statistics.update(frames or {})
            elif plain is not None and pipeline is None and plain[1] not in _IN_TABLES:
                frame = self._attempt(lambda path: read_statistic(path, self.notes), path.name)
                if frame is not None:
                    name = path.stem if plain[1] in self.decoded.statistics else plain[1]
                    self.decoded.statistics[name] = frame

    def _files(self) -> Iterator[Path]:
        """Yield the result's files, those of JSON first: where the same is there as CSV, it is not read again."""
        if self._layout.output is not None:
            listed = islice(self._layout.output.iterdir(), _MAX_LISTED)
            yield from sorted(filter(Path.is_file, listed), key=lambda path: (".json" not in path.suffixes, path.name))

    def _only_device(self) -> int | None:
        """Return the device of files that do not name it."""
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
        for path in self._files():
            name = path.name.removesuffix(".gz")
            if (
                path == self._layout.trace
                or name in _KNOWN
                or name.startswith(_INFO)
                or _CSV.fullmatch(name)
                or _PIPELINE.fullmatch(name)
            ):
                continue
            if path.suffix != ".db":
                self.notes.info(path.name, "this file of the result is not read")
