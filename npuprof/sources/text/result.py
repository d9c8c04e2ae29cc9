"""Read the text files of one result: what results of torch_npu and of msprof share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources.base import Decoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.text.kernel_details import KernelDetails, compute_kernels, take_steps, take_task_numbers

Frames: TypeAlias = dict[str, pd.DataFrame]

_WITH_DEVICE = ("tasks", "kernels", "communication", "memory", "overlap", "step_times")
_Value = TypeVar("_Value")


class TextReading:
    """One reading of a result: an unreadable file is noted, and the others are still read into :attr:`decoded`."""

    def __init__(self, decoded: Decoded) -> None:
        self.decoded, self.notes = decoded, decoded.notes
        self.failed: list[SourceError] = []

    def attempt(self, path: Path, read: Callable[[Path], _Value]) -> _Value | None:
        """Read one file; return None and note the error of a file that cannot be read."""
        try:
            return read(path)
        except SourceError as error:
            self.failed.append(error)
            self.notes.fail(path.name, str(error))
            return None

    def refuse_nothing(self, nothing: Callable[[], SourceError]) -> None:
        """Raise the first error, or `nothing` without any, unless a table has rows or there are statistics."""
        if not any(map(len, self.decoded.tables.values())) and not self.decoded.statistics:
            raise self.failed[0] if self.failed else nothing()

    def add_kernels(self, frames: Frames, details: Sequence[KernelDetails], source: str) -> None:
        """Add kernels and communication operators of the CSV files to the tables of the timeline."""
        kernels = tables.sort_by_time(stacked([each.kernels for each in details]))
        listed = tables.sort_by_time(stacked([each.communication for each in details]))
        device_tasks = frames.get("tasks")
        if device_tasks is not None and len(device_tasks):
            kernels, unmatched = take_task_numbers(kernels, device_tasks)
            if unmatched:
                self.notes.warning(source, "a kernel has no task in the timeline", unmatched)
        frames["kernels"] = kernels
        if "communication" in frames:
            frames["communication"] = take_steps(frames["communication"], listed)
            for each in details:
                self.notes.ledger.replace("communication", each.source)
        elif len(listed):
            frames["communication"] = listed

    def add_kernels_of_tasks(self, frames: Frames, step: Any, source: str) -> None:
        """Make `kernels` of the device tasks that compute, for a result without a table of kernels."""
        frames["kernels"] = tables.build("kernels", compute_kernels(frames["tasks"], step))
        self.notes.ledger.make("tasks", "kernels", len(frames["kernels"]))
        self.decoded.derived["kernels"] = (
            source,
            "there is no table of kernels: they are the timeline's tasks that compute, without shapes",
        )

    def name_devices(self) -> None:
        """Add the devices of all tables to `info`."""
        info = self.decoded.info
        devices = {
            int(device)
            for name in _WITH_DEVICE
            if (frame := self.decoded.tables.get(name)) is not None
            for device in frame["device_id"].dropna().unique()
        }
        info.devices = sorted(devices | set(info.devices))
