"""Read the text files of a result, common to torch_npu and msprof."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.sources.base import ResultReading
from npuprof.sources.columns.builders import missing
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.text.kernel_details import KernelDetails, is_timed, take_steps, take_task_numbers
from npuprof.sources.text.kernels_of_tasks import compute_kernels, damaged_types, unlisted_tasks

Frames: TypeAlias = MutableMapping[str, pd.DataFrame]


class TextReading(ResultReading):
    """Read the text files of a result."""

    def add_kernels(self, frames: Frames, details: Sequence[KernelDetails], source: str, step: Any = None) -> None:
        """Add kernels and communication operators of the CSV files to the tables of the timeline."""
        kernels = tables.sort_by_time(stacked([each.kernels for each in details]))
        listed = tables.sort_by_time(stacked([each.communication for each in details]))
        device_tasks = frames.get("tasks")
        if device_tasks is not None and len(device_tasks):
            kernels, unmatched = take_task_numbers(kernels, device_tasks)
            if unmatched:
                self.notes.warning(source, "a kernel has no task in the timeline", unmatched)
        frames["kernels"] = kernels
        if device_tasks is not None and len(device_tasks) and len(kernels):
            self._add_unlisted(frames, missing(len(device_tasks)) if step is None else step, source)
        if len(frames.get("communication", ())):
            for each in details:
                self.notes.ledger.replace("communication", each.source)
                if lost_count := int(np.count_nonzero(~is_timed(each.communication, frames["communication"]))):
                    self.notes.ledger.use(each.source, -lost_count)
                    reason = "a communication operator is not in the timeline"
                    self.notes.leave_out(each.source, reason, lost_count, affects=("communication",))
            frames["communication"] = take_steps(frames["communication"], listed)
        elif len(listed):
            frames["communication"] = listed

    def _add_unlisted(self, frames: Frames, step: Any, source: str) -> None:
        """Add the tasks that compute, but that the files do not list: the device was busy with them, too."""
        kernels = frames["kernels"]
        computing = tables.build("kernels", compute_kernels(frames, step))
        unlisted = computing[unlisted_tasks(computing, kernels)]
        if len(unlisted):
            frames["kernels"] = tables.sort_by_time(stacked([kernels, unlisted]))
            self.notes.ledger.make("tasks", "kernels", len(unlisted))
            message = "a kernel of the timeline is not listed here: it is added as the timeline has it, without shapes"
            self.notes.warning(source, message, len(unlisted))

    def add_kernels_of_tasks(self, frames: Frames, step: Any, source: str) -> None:
        """Build `kernels` from the device tasks that compute, for a result without a table of kernels."""
        frames["kernels"] = tables.build("kernels", compute_kernels(frames, step))
        self.notes.ledger.make("tasks", "kernels", len(frames["kernels"]))
        if damaged := int(np.count_nonzero(damaged_types(frames["tasks"]))):
            message = (
                "a task type is damaged: the task may be a kernel, and is in `tasks` only; export the result again"
            )
            self.notes.warning(source, message, damaged)
        self.decoded.derived["kernels"] = (
            source,
            "there is no table of kernels: they are the timeline's tasks that compute, without shapes",
        )
