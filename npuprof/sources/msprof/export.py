"""Read the files of one msprof result into one set of tables.

Source: sources/RESULTS.md sections 2 and 2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, PartReader
from npuprof.sources.columns.builders import missing
from npuprof.sources.columns.concatenation import merged, stacked
from npuprof.sources.columns.steps import step_of
from npuprof.sources.msprof.csv_files import read_marks, read_step_trace, read_steps, read_task_time
from npuprof.sources.msprof.layout import ExportFiles, ExportPart, File
from npuprof.sources.raw.metadata import clocks
from npuprof.sources.raw.metadata.control_files import read_info, read_sides
from npuprof.sources.text.communication_json import read_communication, read_communication_matrix
from npuprof.sources.text.csv_kinds import in_tables
from npuprof.sources.text.csv_table import read_statistic
from npuprof.sources.text.kernel_details import read_kernel_details
from npuprof.sources.text.memory_csv import MEMORY_READERS, read_operator_memory
from npuprof.sources.text.result import Frames, TextReading
from npuprof.sources.text.vendor_sums import add_listed_operators, check_sums
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.conversion import build_tables, device_ids
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import read_events
from npuprof.sources.trace.links import build_links, renumbered
from npuprof.sources.trace.marks import add_device_sides
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from npuprof.words.commands import shell_command

_WITH_SUMMARY = ("op_statistic", "task_time")  # written with op_summary
_ALLOCATIONS = ("operator_memory", "ge_operator_memory")
_IN_TABLES = in_tables("msprof")
_ANALYZED: dict[str, Callable[[Path, Notes], Frames]] = {
    "communication": read_communication,
    "communication_matrix": lambda path, notes: {"communication_matrix": read_communication_matrix(path, notes)},
}
_EPOCH_FROM_NS = 10**17  # 1973; lower times count from boot
_MOMENTS = ("start_ns", "time_ns")


def describe(layout: ExportFiles) -> tuple[Info, int | None]:
    """Return the facts in the control files, and the offset from times since boot to UTC.

    Results are often copied without these files: then few facts are known, without a note.
    """
    silent = Notes()  # a result is complete without control files
    try:
        sides = read_sides(layout.root, silent)
    except OSError:
        sides = []
    anchored = any(side.start for side in sides)
    utc_ns = clocks.epoch_offset(sides, silent) if anchored else None
    info = read_info(layout.root, sides, utc_ns or 0) if sides else Info(name=layout.root.name, recording=layout.root)
    info.source = "msprof text result" + (", layout of CANN 5 and 6" if layout.is_old else "")
    return info, utc_ns


class MsprofReading(TextReading):
    """Reader of the files of an export."""

    def __init__(self, layout: ExportFiles) -> None:
        super().__init__(Decoded())
        self._layout = layout
        self._utc_ns: int | None = None  # the offset from times since boot to UTC, if known

    def run(self) -> Decoded:
        """Read every file."""
        self.decoded.info, self._utc_ns = describe(self._layout)
        if self._layout.older:
            self.notes.info(
                self._layout.root.name, "a file of an earlier export of the same data is not read", self._layout.older
            )
        self.decoded.tables.update(merged(list(map(self._part, self._layout.parts))))
        self._statistics()
        self._communication()
        add_listed_operators(self.decoded)
        self.refuse_nothing(self._nothing)
        self.name_devices()
        if not self._layout.is_old:  # sums of old results cover one iteration each
            check_sums(self.decoded)
            self._note_missing()
        return self.decoded

    def _nothing(self) -> SourceError:
        root = self._layout.root
        export = shell_command("msprof", "--export=on", f"--output={root}")
        return SourceError(f"{root} holds no text result that can be read; export it again with `{export}`")

    def _note_missing(self) -> None:
        """Warn of missing files that are always written together with an existing file."""
        modules = {file.module for part in self._layout.parts for file in part.files}
        if not any(part.of("msprof", "json") for part in self._layout.parts):
            self.notes.warning(
                "msprof", "there is no timeline (msprof_*.json), so calls, tasks and links are not in this form"
            )
        frames = self.decoded.tables
        has_shapes = "kernels" in frames and bool(frames["kernels"]["input_shapes"].notna().any())  # from level 1 on
        due = {
            "op_summary": not modules.isdisjoint(_WITH_SUMMARY),
            "op_statistic": has_shapes,
            "api_statistic": bool(len(frames.get("api", ()))),
        }
        for module, is_due in due.items():
            if is_due and module not in modules:
                self.notes.warning(module, "missing, though files that are written with it exist")

    def _part(self, part: ExportPart) -> Frames:
        statistics: dict[str, pd.DataFrame] = {}
        frames = read_timeline(part, self.notes, self.failed, statistics)
        self._marks(part, frames)
        self._steps(part, frames)
        self._tasks(part, frames)
        self._kernels(part, frames)
        self._memory(part, frames)
        _assign_steps(frames)
        self._place_on_epoch({**frames, **statistics})
        for name, frame in statistics.items():
            earlier = [self.decoded.statistics[name]] if name in self.decoded.statistics else []
            self.decoded.statistics[name] = stacked([*earlier, frame]).reset_index(drop=True)
        return frames

    def parts(self) -> dict[str, PartReader]:
        """Return the tables whose files alone have all of them: `memory` and `allocations`."""

        def read(notes: Notes, _: Collection[str]) -> dict[str, pd.DataFrame]:
            """Return the tables of memory of all parts."""
            reading = MsprofReading(self._layout)
            reading._utc_ns = describe(self._layout)[1]
            parts: list[Frames] = [{} for _ in self._layout.parts]
            for part, frames in zip(self._layout.parts, parts, strict=True):
                reading._memory(part, frames)
                reading._place_on_epoch(frames)
            notes.extend(reading.notes)
            return merged(parts)

        there = {file.module for part in self._layout.parts for file in part.files if file.suffix == "csv"}
        modules = {"memory": there.intersection(MEMORY_READERS), "allocations": there.intersection(_ALLOCATIONS)}
        return {name: PartReader(read) for name, files in modules.items() if files}

    def _marks(self, part: ExportPart, frames: Frames) -> None:
        """Prefer the marks of the CSV files to those of the timeline, which have no device times."""
        names, listed = [], []
        for file in part.of("msprof_tx", "csv"):
            with self.skip_unreadable(file.path):
                listed.append(read_marks(file.path, self.notes))
                names.append(file.path.name)
        if not listed:
            return
        marks = tables.sort_by_time(stacked(listed))
        if len(marks) < len(frames.get("marks", ())):
            for name in names:
                self.notes.ledger.replace("marks", name)
                self.notes.warning(name, "it lists fewer marks than the timeline, whose marks are shown")
            return
        self.notes.ledger.replace("marks", name_of(part))
        if "links" in frames and "marks" in frames:
            frames["links"] = renumbered(frames["links"], "marks", frames["marks"], marks)
        frames["marks"] = marks

    def _steps(self, part: ExportPart, frames: Frames) -> None:
        if len(frames.get("steps", ())):
            return
        names, listed = [], []
        for file in part.of("step_trace", "csv"):
            with self.skip_unreadable(file.path):
                listed.append(read_steps(file.path, self.notes))
                names.append(file.path.name)
        if listed:
            steps = tables.sort_by_time(stacked(listed)).drop_duplicates(ignore_index=True)
            frames["steps"] = steps
            self.notes.ledger.make(names[0], "steps", len(steps))

    def _tasks(self, part: ExportPart, frames: Frames) -> None:
        if len(frames.get("tasks", ())):
            return  # task_time lists the same tasks with fewer facts
        listed = []
        for file in part.of("task_time", "csv"):
            with self.skip_unreadable(file.path):
                listed.append(read_task_time(file.path, self.notes, part.device or 0))
        if listed:
            frames["tasks"] = tables.sort_by_time(stacked(listed))

    def _kernels(self, part: ExportPart, frames: Frames) -> None:
        listed = []
        for file in part.of("op_summary", "csv"):
            with self.skip_unreadable(file.path):
                listed.append(read_kernel_details(file.path, self.notes, part.device or 0))
        if listed:
            self.add_kernels(frames, listed, "op_summary")
        elif len(device_tasks := frames.get("tasks", ())):
            self.add_kernels_of_tasks(frames, missing(len(device_tasks)), "op_summary")

    def _memory(self, part: ExportPart, frames: Frames) -> None:
        samples, blocks = [], []
        for module, read in MEMORY_READERS.items():
            for file in part.of(module, "csv"):
                with self.skip_unreadable(file.path):
                    samples.append(read(file.path, self.notes))
        for module in _ALLOCATIONS:
            for file in part.of(module, "csv"):
                with self.skip_unreadable(file.path):
                    blocks.append(read_operator_memory(file.path, self.notes))
        if samples:
            frames["memory"] = tables.sort_by_time(stacked(samples))
        if blocks:
            frames["allocations"] = stacked(blocks)

    def _place_on_epoch(self, frames: Frames) -> None:
        """Shift times since boot to the UTC epoch."""
        moved = False
        for frame in frames.values():
            for name in _MOMENTS:
                if name in frame and len(frame) and int(frame[name].iloc[0]) < _EPOCH_FROM_NS:
                    moved = True
                    if self._utc_ns is not None:
                        frame[name] += self._utc_ns
        if moved and self._utc_ns is not None:
            self.notes.info(self._layout.root.name, "its times count from boot; start_info places them on UTC")
        elif moved:
            self.notes.warning(
                self._layout.root.name, "its times count from boot, and no start_info has the time of boot"
            )

    def _statistics(self) -> None:
        """Keep every remaining CSV as a statistic, stacked over devices and iterations."""
        for module in sorted({file.module for part in self._layout.parts for file in part.files}):
            if module in _IN_TABLES:
                continue
            frames = []
            for part in self._layout.parts:
                for file in part.of(module, "csv"):
                    with self.skip_unreadable(file.path):
                        frame = read_statistic(file.path, self.notes)
                        frames.append(frame.assign(file_numbers=file.numbers) if file.numbers else frame)
            if frames:
                self.decoded.statistics[module] = pd.concat(frames, ignore_index=True)
        self._step_trace()

    def _step_trace(self) -> None:
        results = []
        for part in self._layout.parts:
            for file in part.of("step_trace", "csv"):
                with self.skip_unreadable(file.path):
                    results.append(read_step_trace(file.path, self.notes))
        for name in dict.fromkeys(name for frames in results for name in frames):
            parts = [frames[name] for frames in results if name in frames]
            self.decoded.statistics[name] = pd.concat(parts, ignore_index=True).drop_duplicates(ignore_index=True)

    def _communication(self) -> None:
        folder = self._layout.analyzed
        if folder is None:
            return
        for name, read in _ANALYZED.items():
            if (path := folder / f"{name}.json").is_file():
                with self.skip_unreadable(path):
                    self.decoded.statistics.update(read(path, self.notes))


def _assign_steps(frames: Frames) -> None:
    """Set the step of kernels and communication operators without a step to their device's iteration at their start."""
    steps = frames.get("steps")
    if steps is None or not len(steps):
        return
    by_device = steps["device_id"] if "device_id" in steps else pd.Series(pd.NA, index=steps.index)
    for name in ("kernels", "communication"):
        frame = frames.get(name)
        if frame is None or not len(frame) or frame["step"].notna().any():
            continue
        step = missing(len(frame))
        for device in frame["device_id"].unique():
            is_selected = (frame["device_id"] == device).to_numpy(np.bool_)
            device_steps = steps[((by_device == device) | by_device.isna()).to_numpy(np.bool_)].reset_index(drop=True)
            step[is_selected] = step_of(device_steps, frame["start_ns"].to_numpy()[is_selected])
        frame["step"] = step


_MAIN = "msprof"
_SIDE_FILES = ("task_time", "hccl", "step_trace", "msprof_tx")  # repeated in msprof_*.json
_WITH_DEVICE = ("tasks", "communication", "communication_tasks", "overlap", "steps", "counters")


def read_timeline(
    part: ExportPart, notes: Notes, failed: list[SourceError], statistics: dict[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Read the timelines of a part as one; empty without any.

    `failed` and `notes` receive the files that cannot be read, `statistics` the frames without a table. The files of an
    old result belong to one device, which they do not name.
    """
    files = _files_to_read(part)
    if not files:
        return {}
    source = name_of(part)
    trace = gather(_batches(files, notes, failed), notes, source)
    built = build_tables(trace, notes, source)
    links = build_links(trace, built, notes, source)
    frames = dict(built.tables)
    statistics.update(built.statistics)
    if frames:
        frames["links"] = links
    if part.device and not any(device_ids(trace).values()):
        for name in _WITH_DEVICE:
            if name in frames and "device_id" in frames[name]:
                frames[name]["device_id"] = pd.Series(part.device, frames[name].index, frames[name]["device_id"].dtype)
    add_device_sides(frames)
    return frames


def name_of(part: ExportPart) -> str:
    """Return the name of a part's timelines in notes and in the ledger; empty without timelines."""
    files = _files_to_read(part)
    return "" if not files else files[0].path.name + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def _files_to_read(part: ExportPart) -> list[File]:
    """Return the files to read: a side file is skipped if the main timeline of its iteration repeats it."""
    main = part.of(_MAIN, "json")
    covered = {file.numbers for file in main}
    sides = [file for module in _SIDE_FILES for file in part.of(module, "json") if file.numbers not in covered]
    return [*main, *sides]


def _batches(files: list[File], notes: Notes, failed: list[SourceError]) -> Iterator[list[Event]]:
    for file in files:
        try:
            yield from read_events(file.path, notes)
        except SourceError as error:
            failed.append(error)
            notes.error(file.path.name, str(error))
