"""Read the files of one msprof result and join what they tell into one set of tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.sources.base import Decoded
from npuprof.sources.columns.concatenation import merged, stacked
from npuprof.sources.columns.steps import step_of
from npuprof.sources.msprof.csv_files import read_marks, read_task_time
from npuprof.sources.msprof.layout import File, Layout, Part
from npuprof.sources.msprof.step_trace import read_step_trace, read_steps
from npuprof.sources.msprof.timeline import name_of, read_timeline
from npuprof.sources.text.communication_json import read_communication, read_communication_matrix
from npuprof.sources.text.csv_table import read_statistic
from npuprof.sources.text.kernel_details import compute_kernels, read_kernel_details, take_steps, take_task_numbers
from npuprof.sources.text.memory_csv import (
    read_device_memory,
    read_memory_record,
    read_module_memory,
    read_operator_memory,
)
from npuprof.sources.text.vendor_sums import add_listed_operators, check_sums
from npuprof.sources.trace.links import renumbered

Frames = dict[str, pd.DataFrame]

_MEMORY: dict[str, Callable[..., pd.DataFrame]] = {
    "memory_record": read_memory_record,
    "ge_memory_record": read_memory_record,
    "npu_mem": read_device_memory,
    "npu_module_mem": read_module_memory,
}
_WITH_SUMMARY = ("op_statistic", "task_time")  # written where op_summary is
_ALLOCATIONS = ("operator_memory", "ge_operator_memory")
_IN_TABLES = {"op_summary", "task_time", "msprof_tx", "step_trace", *_MEMORY, *_ALLOCATIONS}
_ANALYZED: dict[str, Callable[[Path, Notes], Frames]] = {
    "communication": read_communication,
    "communication_matrix": lambda path, notes: {"communication_matrix": read_communication_matrix(path, notes)},
}
_EPOCH_FROM_NS = 10**17  # 1973; times below it count from the start of the machine
_MOMENTS = ("start_ns", "time_ns")


class Reading:
    """One reading of a result: its parts in turn, then what concerns all of them."""

    def __init__(self, layout: Layout, decoded: Decoded, utc_ns: int | None) -> None:
        self._layout = layout
        self._utc_ns = utc_ns
        self.decoded = decoded
        self.notes = decoded.notes
        self._failed: list[SourceError] = []

    def run(self) -> None:
        """Read every file that is there.

        Raises
        ------
        SourceError
            If none could be read: the error of the first.
        """
        if self._layout.older:
            self.notes.info(
                self._layout.root.name, "a file of an earlier export of the same data is left aside", self._layout.older
            )
        self.decoded.tables.update(merged([self._part(part) for part in self._layout.parts]))
        self._statistics()
        self._communication()
        add_listed_operators(self.decoded)
        if not any(map(len, self.decoded.tables.values())) and not self.decoded.statistics:
            raise self._failed[0] if self._failed else SourceError(_NOTHING.format(self._layout.root))
        self._name_devices()
        if not self._layout.is_old:  # whose sums are those of one iteration each
            check_sums(self.decoded)
            self._note_missing()

    def _note_missing(self) -> None:
        """Warn of files that are written together with others, and that are missing."""
        modules = {file.module for part in self._layout.parts for file in part.files}
        if not any(part.of("msprof", "json") for part in self._layout.parts):
            self.notes.warning(
                "msprof", "there is no timeline (msprof_*.json), so calls, tasks and links are not in this form"
            )
        found = self.decoded.tables
        has_shapes = "kernels" in found and bool(found["kernels"]["input_shapes"].notna().any())  # from level 1 on
        due = {
            "op_summary": not modules.isdisjoint(_WITH_SUMMARY),
            "op_statistic": has_shapes,
            "api_statistic": bool(len(found.get("api", ()))),
        }
        for module, is_due in due.items():
            if is_due and module not in modules:
                self.notes.warning(module, "missing, though what it is written with is there")

    def _part(self, part: Part) -> Frames:
        untold: Frames = {}
        found = read_timeline(part, self.notes, self._failed, untold)
        self._marks(part, found)
        self._steps(part, found)
        self._tasks(part, found)
        self._kernels(part, found)
        self._memory(part, found)
        _assign_steps(found)
        self._place_on_epoch({**found, **untold})
        for name, frame in untold.items():
            earlier = [self.decoded.statistics[name]] if name in self.decoded.statistics else []
            self.decoded.statistics[name] = stacked([*earlier, frame]).reset_index(drop=True)
        return found

    def _each(self, part: Part, module: str, read: Callable[[Path], Any]) -> list[Any]:
        """Read the CSV files of a module; one that cannot be read is told, and the others are still read."""
        return [found for _, found in self._pairs(part, module, read)]

    def _pairs(self, part: Part, module: str, read: Callable[[Path], Any]) -> list[tuple[File, Any]]:
        results = []
        for file in part.of(module, "csv"):
            try:
                results.append((file, read(file.path)))
            except SourceError as error:
                self._failed.append(error)
                self.notes.fail(file.path.name, str(error))
        return results

    def _marks(self, part: Part, found: Frames) -> None:
        """Take the marks of the CSV files; the timeline holds the same, without their device times."""
        read = self._pairs(part, "msprof_tx", lambda path: read_marks(path, self.notes))
        if not read:
            return
        marks = tables.sort_by_time(stacked([frame for _, frame in read]))
        if len(marks) < len(found.get("marks", ())):
            for file, _ in read:
                self.notes.ledger.replace("marks", file.path.name)
                self.notes.warning(file.path.name, "it lists fewer marks than the timeline, whose marks are shown")
            return
        self.notes.ledger.replace("marks", name_of(part))
        if "links" in found and "marks" in found:
            found["links"] = renumbered(found["links"], "marks", found["marks"], marks)
        found["marks"] = marks

    def _steps(self, part: Part, found: Frames) -> None:
        if len(found.get("steps", ())):
            return
        read = self._pairs(part, "step_trace", lambda path: read_steps(path, self.notes))
        if read:
            steps = tables.sort_by_time(stacked([frame for _, frame in read])).drop_duplicates(ignore_index=True)
            found["steps"] = steps
            self.notes.ledger.make(read[0][0].path.name, "steps", len(steps))

    def _tasks(self, part: Part, found: Frames) -> None:
        if len(found.get("tasks", ())):
            return  # task_time lists the same tasks with less about each
        frames = self._each(part, "task_time", lambda path: read_task_time(path, self.notes, part.device or 0))
        if frames:
            found["tasks"] = tables.sort_by_time(stacked(frames))

    def _kernels(self, part: Part, found: Frames) -> None:
        read = self._each(part, "op_summary", lambda path: read_kernel_details(path, self.notes, part.device or 0))
        device_tasks = found.get("tasks")
        if not read:
            self._kernels_of_tasks(found)
            return
        kernels = tables.sort_by_time(stacked([one.kernels for one in read]))
        listed = tables.sort_by_time(stacked([one.communication for one in read]))
        if device_tasks is not None and len(device_tasks):
            kernels, lonely = take_task_numbers(kernels, device_tasks)
            if lonely:
                self.notes.warning("op_summary", "a kernel has no task in the timeline", lonely)
        found["kernels"] = kernels
        if "communication" in found:
            found["communication"] = take_steps(found["communication"], listed)
            for one in read:
                self.notes.ledger.replace("communication", one.source)
        elif len(listed):
            found["communication"] = listed

    def _kernels_of_tasks(self, found: Frames) -> None:
        device_tasks = found.get("tasks")
        if device_tasks is None or not len(device_tasks):
            return
        step = pd.array([pd.NA] * len(device_tasks), dtype="Int64")
        found["kernels"] = tables.build("kernels", compute_kernels(device_tasks, step))
        self.notes.ledger.make("tasks", "kernels", len(found["kernels"]))
        self.decoded.derived["kernels"] = (
            "op_summary",
            "there is no table of kernels: they are the timeline's tasks that compute, without shapes",
        )

    def _memory(self, part: Part, found: Frames) -> None:
        samples = [
            frame
            for module, read in _MEMORY.items()
            for frame in self._each(part, module, lambda path, read=read: read(path, self.notes))  # type: ignore[misc]
        ]
        if samples:
            found["memory"] = tables.sort_by_time(stacked(samples))
        blocks = [
            frame
            for module in _ALLOCATIONS
            for frame in self._each(part, module, lambda path: read_operator_memory(path, self.notes))
        ]
        if blocks:
            found["allocations"] = stacked(blocks)

    def _place_on_epoch(self, found: Frames) -> None:
        """Move times that count from the start of the machine to the UTC epoch, as the control files tell."""
        moved = False
        for frame in found.values():
            for name in _MOMENTS:
                if name in frame and len(frame) and int(frame[name].iloc[0]) < _EPOCH_FROM_NS:
                    moved = True
                    if self._utc_ns is not None:
                        frame[name] += self._utc_ns
        if moved and self._utc_ns is not None:
            self.notes.info(
                self._layout.root.name, "its times count from the start of the machine; start_info places them on UTC"
            )
        elif moved:
            self.notes.warning(
                self._layout.root.name, "its times count from the start of the machine, and no start_info tells when"
            )

    def _statistics(self) -> None:
        """Keep every other CSV as it came; the files of several devices or iterations under each other."""
        for module in sorted({file.module for part in self._layout.parts for file in part.files}):
            if module in _IN_TABLES:
                continue
            frames = []
            for part in self._layout.parts:
                for file, frame in self._pairs(part, module, lambda path: read_statistic(path, self.notes)):
                    frames.append(frame.assign(file_numbers=file.numbers) if file.numbers else frame)
            if frames:
                self.decoded.statistics[module] = pd.concat(frames, ignore_index=True)
        self._step_trace()

    def _step_trace(self) -> None:
        found = [
            frames
            for part in self._layout.parts
            for frames in self._each(part, "step_trace", lambda path: read_step_trace(path, self.notes))
        ]
        for name in dict.fromkeys(name for frames in found for name in frames):
            parts = [frames[name] for frames in found if name in frames]
            self.decoded.statistics[name] = pd.concat(parts, ignore_index=True).drop_duplicates(ignore_index=True)

    def _communication(self) -> None:
        folder = self._layout.analyzed
        if folder is None:
            return
        for name, read in _ANALYZED.items():
            try:
                if (path := folder / f"{name}.json").is_file():
                    self.decoded.statistics.update(read(path, self.notes))
            except SourceError as error:
                self._failed.append(error)
                self.notes.fail(f"{name}.json", str(error))

    def _name_devices(self) -> None:
        info = self.decoded.info
        found = {
            int(device)
            for name in ("tasks", "kernels", "communication", "memory", "overlap")
            if (frame := self.decoded.tables.get(name)) is not None
            for device in frame["device_id"].dropna().unique()
        }
        info.devices = sorted(found | set(info.devices))


_NOTHING = "{0} holds no text result that can be read; export it again with `msprof --export=on --output={0}`"


def _assign_steps(found: Frames) -> None:
    """Assign kernels and communication operators without a step the iteration of their device in which they start."""
    steps = found.get("steps")
    if steps is None or not len(steps):
        return
    by_device = steps["device_id"] if "device_id" in steps else pd.Series(pd.NA, index=steps.index)
    for name in ("kernels", "communication"):
        frame = found.get(name)
        if frame is None or not len(frame) or frame["step"].notna().any():
            continue
        step = pd.array([pd.NA] * len(frame), dtype="Int64")
        for device in frame["device_id"].unique():
            mine = (frame["device_id"] == device).to_numpy(np.bool_)
            own = steps[((by_device == device) | by_device.isna()).to_numpy(np.bool_)].reset_index(drop=True)
            step[mine] = step_of(own, frame["start_ns"].to_numpy()[mine])
        frame["step"] = step
