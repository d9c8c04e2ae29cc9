"""Read the text files of one result of torch_npu or MindSpore into one set of tables.

Source: sources/RESULTS.md sections 0, 1.1, 1.2 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, PartReader
from npuprof.sources.columns.builders import recoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.columns.steps import step_of
from npuprof.sources.exported_trace.layout import FORMAT
from npuprof.sources.framework.mindspore import COLLECTOR as MINDSPORE
from npuprof.sources.result_folder.description import describe
from npuprof.sources.result_folder.layout import ResultFiles, of_directory
from npuprof.sources.text.communication_json import read_communication, read_communication_matrix
from npuprof.sources.text.communication_times import read_times
from npuprof.sources.text.csv_kinds import in_tables
from npuprof.sources.text.csv_table import read_statistic
from npuprof.sources.text.kernel_details import (
    read_communication_operators,
    read_kernel_details,
    take_task_names,
)
from npuprof.sources.text.memory_csv import MEMORY_READERS, is_of_mindspore, read_operator_memory
from npuprof.sources.text.pipeline_summary import read_pipeline_summary
from npuprof.sources.text.result import TextReading
from npuprof.sources.text.vendor_sums import add_listed_operators, check_sums, names_devices, read_step_times
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.conversion import build_tables, device_ids
from npuprof.sources.trace.events import read_events
from npuprof.sources.trace.links import build_links
from npuprof.sources.trace.marks import add_device_sides
from npuprof.sources.trace.plain_slices import is_mindspore
from npuprof.sources.trace.producer import exported_trace
from npuprof.tables.notes import Notes

_IN_TABLES = in_tables("torch_npu", "mindspore")
_MEMORY = {name: read for name, read in MEMORY_READERS.items() if name in _IN_TABLES}
_KNOWN = ("communication.json", "communication_matrix.json", "analyse.done", "profiler_metadata.json")
_INFO = "profiler_info"
_PIPELINE = re.compile(r"(minddata_pipeline_summary)_\d+\.(json|csv)(?:\.gz)?")
_CSV = re.compile(r"(.+?)(?:_\d+)?\.csv(?:\.gz)?")
_MAX_LISTED = 1000
_MAX_QUOTED = 3
_LFS = b"version https://git-lfs"
_ANALYSE = {
    MINDSPORE: "from mindspore.profiler.profiler import analyse; analyse(path)",
    "torch_npu": "from torch_npu.profiler.profiler import analyse; analyse(path)",
}


def _pointer_in(root: Path) -> Path | None:
    """Return a database of a result that is a git-LFS pointer; None without one."""
    for path in islice(sorted(root.glob("*/*.db")), _MAX_QUOTED):
        with suppress(OSError), path.open("rb") as file:
            if file.read(len(_LFS)) == _LFS:
                return path
    return None


class TextResultReading(TextReading):
    """Reader of the text files of a result."""

    def __init__(self, layout: ResultFiles) -> None:
        super().__init__(Decoded())
        self._layout = layout

    def run(self) -> Decoded:
        """Read every file."""
        self.decoded.info = describe(self._layout, self.notes)
        for part in (self._trace, self._memory, self._kernels, self._step_times, self._communication, self._statistics):
            part()
        add_listed_operators(self.decoded)
        self.name_devices()
        self.refuse_nothing(self._nothing)
        check_sums(self.decoded)
        self._note_unread()
        return self.decoded

    def read_sums(self) -> None:
        """Read only the vendor's sums: breakdown of steps, communication and statistics."""
        for part in (self._step_times, self._communication, self._statistics):
            part()

    def read_part(self, part: str, columns: Collection[str] = ()) -> None:
        """Read one of :func:`parts`, as :meth:`run` would without a timeline: at least `columns`, or all."""
        if part == "communication":
            if not columns or "device_id" in columns:
                self._step_times()  # the timeline names the device
            self._timed_operators()
            self._listed_times()
            add_listed_operators(self.decoded, columns)
        else:
            parts = {
                "communication_matrix": self._matrix,
                "kernels": self._kernels,
                "step_times": self._step_times,
                "memory": self._memory,
                "allocations": self._memory,
            }
            parts[part]()

    def _nothing(self) -> SourceError:
        notes = "; ".join(dict.fromkeys(self.notes.to_frame()["message"][:_MAX_QUOTED]))
        if self._layout.root.is_file():
            return SourceError(
                f"no table can be made of the timeline {self._layout.root} ({notes or 'it holds no events'}); "
                "export it again, or give the directory of its result"
            )
        if pointer := _pointer_in(self._layout.root):
            return SourceError(f"{pointer} is a git-LFS pointer, not the data: run `git lfs pull` in its repository")
        command = _ANALYSE.get(self.decoded.info.collector, _ANALYSE["torch_npu"])
        return SourceError(
            f"{self._layout.root} holds no text result that can be read; analyse it again with `{command}`, "
            "or copy FRAMEWORK and PROF_* into it: npuprof reads these raw files"
        )

    def _trace(self) -> None:
        path, trace = self._layout.trace, None
        if path is not None:
            with self.skip_unreadable(path):
                facts, info = exported_trace(path), self.decoded.info
                if facts is not None:
                    info.collector, info.source = facts.collector, FORMAT
                    info.simulated = info.simulated or facts.simulated
                base_ns = 0 if facts is None else facts.base_ns
                trace = gather(read_events(path, self.notes), self.notes, path.name, base_ns=base_ns)
        if path is None or trace is None:
            return
        built = build_tables(trace, self.notes, path.name)
        self.decoded.tables.update(built.tables)
        self.decoded.tables["links"] = build_links(trace, built, self.notes, path.name)
        add_device_sides(self.decoded.tables)
        self.decoded.info.devices = sorted(set(device_ids(trace).values()))
        if is_mindspore(trace):
            self._set_mindspore()
        self.decoded.statistics.update(built.statistics)

    def _set_mindspore(self) -> None:
        info = self.decoded.info
        info.source = info.source.replace(info.collector, MINDSPORE)
        info.collector = MINDSPORE

    def _memory(self) -> None:
        samples = []
        for name, read in _MEMORY.items():
            if (path := self._layout.file(f"{name}.csv")) is not None:
                with self.skip_unreadable(path):
                    samples.append(read(path, self.notes))
        if samples:
            self.decoded.tables["memory"] = memory = tables.sort_by_time(stacked(samples))
            if is_of_mindspore(memory["component"].array):
                self._set_mindspore()
        if (path := self._layout.file("operator_memory.csv")) is not None:
            with self.skip_unreadable(path):
                self.decoded.tables["allocations"] = read_operator_memory(path, self.notes)

    def _kernels(self) -> None:
        frames, details = self.decoded.tables, None
        device_tasks = frames.get("tasks")
        step = None if device_tasks is None else step_of(frames.get("steps"), device_tasks["start_ns"].to_numpy())
        if (path := self._layout.file("kernel_details.csv")) is not None:
            with self.skip_unreadable(path):
                details = read_kernel_details(path, self.notes, self._only_device() or 0)
        if details is not None:
            if device_tasks is not None:
                details.kernels = take_task_names(details.kernels, device_tasks)
            self.add_kernels(frames, [details], "kernel_details.csv", step)
        elif device_tasks is not None:
            self.add_kernels_of_tasks(frames, step, "kernel_details.csv")

    def _timed_operators(self) -> None:
        if (path := self._layout.file("kernel_details.csv")) is not None:
            with self.skip_unreadable(path):
                operators = read_communication_operators(path, self.notes, self._only_device() or 0)
                if len(operators):
                    self.decoded.tables["communication"] = operators

    def _step_times(self) -> None:
        if (path := self._layout.file("step_trace_time.csv")) is not None:
            with self.skip_unreadable(path):
                self.decoded.tables["step_times"] = read_step_times(path, self.notes, self._only_device())

    def _communication(self) -> None:
        if (path := self._layout.file("communication.json")) is not None:
            with self.skip_unreadable(path):
                frames = read_communication(path, self.notes)
                self.decoded.statistics.update(frames)
                self._name_groups(frames["communication"])
        self._matrix()

    def _listed_times(self) -> None:
        path = self._layout.file("communication.json")
        times = None if path is None else read_times(path)
        if times is None:
            self._communication()
        else:
            self.decoded.statistics["communication"] = times
            self._name_groups(times)

    def _matrix(self) -> None:
        if (path := self._layout.file("communication_matrix.json")) is not None:
            with self.skip_unreadable(path):
                self.decoded.statistics["communication_matrix"] = read_communication_matrix(path, self.notes)

    def _name_groups(self, listed: pd.DataFrame) -> None:
        """Rename the groups of communication operators to their identifiers, which are only in communication.json."""
        communication = self.decoded.tables.get("communication")
        if communication is None or not len(listed):
            return
        group_of = dict(zip(listed["name"], listed["group"], strict=True))
        names = communication["name"].cat
        groups = recoded(names.codes.to_numpy(), [group_of.get(name) for name in names.categories])
        if (groups.codes < 0).any():
            known = pd.Series(groups.astype(object), communication.index)
            communication["group"] = known.fillna(communication["group"].astype(object)).astype("category")
        else:
            communication["group"] = groups

    def _statistics(self) -> None:
        """Keep every remaining CSV as a statistic, named without the rank number."""
        for path in self._files():
            pipeline, plain = _PIPELINE.fullmatch(path.name), _CSV.fullmatch(path.name)
            if pipeline is not None and pipeline[1] not in self.decoded.statistics:
                with self.skip_unreadable(path):
                    self.decoded.statistics.update(read_pipeline_summary(path, self.notes))
            elif plain is not None and pipeline is None and plain[1] not in _IN_TABLES:
                with self.skip_unreadable(path):
                    name = path.stem if plain[1] in self.decoded.statistics else plain[1]
                    self.decoded.statistics[name] = read_statistic(path, self.notes)

    def _files(self) -> Iterator[Path]:
        """Yield the files of the result, JSON before CSV: a CSV that repeats a JSON file is skipped."""
        if self._layout.output is not None:
            listed = islice(self._layout.output.iterdir(), _MAX_LISTED)
            yield from sorted(filter(Path.is_file, listed), key=lambda path: (".json" not in path.suffixes, path.name))

    def _only_device(self) -> int | None:
        """Return the device of files without a device column."""
        devices = self.decoded.info.devices
        if not devices and (memory := self.decoded.tables.get("memory")) is not None:
            devices = sorted(memory["device_id"].dropna().unique().tolist())
        return devices[0] if devices else None

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


_PART_FILES: dict[str, tuple[str, ...]] = {
    "step_times": ("step_trace_time.csv",),
    "communication": ("communication.json", "kernel_details.csv", "step_trace_time.csv"),
    "kernels": ("kernel_details.csv",),
    "communication_matrix": ("communication_matrix.json",),
    "memory": tuple(f"{name}.csv" for name in _MEMORY),
    "allocations": ("operator_memory.csv",),
}
"""The files of each part. Of `memory`, one is enough; of the others, the first is required."""


def parts(path: Path) -> dict[str, PartReader]:
    """Return the parts of a text result that are read without its timeline."""
    layout = of_directory(path)
    if layout is None or layout.output is None:
        return {}

    def read(part: str, notes: Notes, columns: Collection[str]) -> dict[str, pd.DataFrame]:
        reading = TextResultReading(layout)
        reading.read_part(part, columns)
        notes.extend(reading.notes)
        by_name = {**reading.decoded.statistics, **reading.decoded.tables}
        # Where the file has no row, the rest of the run decides what is shown.
        return {name: frame for name, frame in by_name.items() if len(frame)}

    there = {name: layout.file(name) for names in _PART_FILES.values() for name in names}
    exact = {"memory", "allocations"}
    times = there["step_trace_time.csv"]
    if times is not None and names_devices(times):  # else the timeline has the device's number
        exact.add("step_times")
    return {
        part: PartReader(partial(read, part), tuple(file for name in names if (file := there[name])), part in exact)
        for part, names in _PART_FILES.items()
        if (any(there[name] for name in names) if part == "memory" else there[names[0]])
    }
