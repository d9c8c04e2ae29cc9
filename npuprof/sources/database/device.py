"""Device rows: ``TASK`` as `tasks`, with ``COMPUTE_TASK_INFO`` and the counters of ``TASK_PMU_INFO`` as `kernels`.

The device's type of a task (``TASK.taskType``) and the host's (``COMPUTE_TASK_INFO.taskType``, here `core`) differ.
Compute tasks are those of ``COMPUTE_TASK_INFO`` alone: a task of the type ``AI_CORE`` may also be the parent of a
collective's steps.

Source: sources/RESULTS.md sections 3, 5.1 and 5.5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, Records, first_rows
from npuprof.sources.columns.builders import ABSENT, SENTINELS, flags, optional, whole
from npuprof.sources.columns.shares import as_fractions
from npuprof.sources.columns.steps import waits
from npuprof.sources.database.connection import Database
from npuprof.sources.database.intervals import in_order, kept, span, take, without_repeated
from npuprof.sources.database.known_tables import DESCRIBED
from npuprof.sources.database.names import TextsById
from npuprof.sources.database.processes import DatabaseProcesses
from npuprof.sources.text.kernel_details import column_name, operand_text
from npuprof.tables.schema import SCHEMA, Column

_TABLE = "TASK_PMU_INFO"
_MAX_METRICS = 500
_SIDES = ("input_", "output_")
_OF_THE_TABLE = frozenset(column.name for column in SCHEMA["kernels"].columns)
_ELSEWHERE = re.compile(r"aic_vec_.*|aiv_(mac|mte1|fixpipe)_.*")
"""Metrics of units that only the other kind of core has; they are written as 0."""


def read_pmu(database: Database, strings: TextsById, tasks: Tasks, kernels: Int64, cores: Int64) -> dict[str, Any]:
    """Read the counters of kernels.

    Parameters
    ----------
    tasks, kernels, cores
        The device tasks, and ``globalTaskId`` and ``taskType`` of each kernel.

    Returns
    -------
    A column per metric, named as in the text result: times in whole ns, cycles as integers, others as floats; absent
    for a kernel that was not measured.
    """
    rows = database.rows(_TABLE, ["globalTaskId", "name"], ["value"])
    kernel = first_rows(kernels, tasks.kept(rows["globalTaskId"]))
    database.accounts.use(_TABLE, int((kernel >= 0).sum()))
    database.accounts.leave_out(
        _TABLE, "a counter refers to no kernel", int((kernel < 0).sum()), affects="the counters of kernels"
    )
    _note_unmeasured(database, kernel, rows["value"], cores)
    codes, used = pd.factorize(rows["name"])
    if len(used) > _MAX_METRICS:
        database.notes.warning(database.path.name, f"{_TABLE}: only the first {_MAX_METRICS} metrics are read")
    is_selected = (kernel >= 0) & (codes < _MAX_METRICS)
    values = np.full((min(len(used), _MAX_METRICS), len(kernels)), np.nan)
    values[codes[is_selected], kernel[is_selected]] = rows["value"][is_selected]
    columns: dict[str, Any] = {}
    for number, metric in zip(used.tolist(), values, strict=False):
        name = strings.text(number)
        if name and not (_ELSEWHERE.fullmatch(name) and not np.nan_to_num(metric).any()):
            columns |= _column(name, metric)
    for taken in sorted(columns.keys() & _OF_THE_TABLE):
        del columns[taken]
        database.notes.warning(database.path.name, f"{_TABLE}: a metric is named like the column {taken!r}; left out")
    as_fractions(columns, database.notes, f"{database.path.name}: {_TABLE}")
    return columns


def _note_unmeasured(database: Database, kernel: Int64, values: Records, cores: Int64) -> None:
    """Warn of kernels with fewer metrics than other kernels of the same core, or without any of that core."""
    metrics, filled = (
        np.bincount(kernel[rows], minlength=len(cores)) for rows in (kernel >= 0, (kernel >= 0) & (values != 0))
    )
    kinds, of = np.unique(cores, return_inverse=True)
    largest = np.zeros(len(kinds), np.int64)
    np.maximum.at(largest, of, metrics)
    lost = "they were not recorded, or rows are missing; sums and averages of counters are those of the other kernels"
    for message, lacking in (
        ("lacks metrics of a kernel that it has of other kernels of the same core", metrics < largest[of]),
        ("has only zeros of a kernel, so not the metrics of its core", (metrics > 0) & (filled == 0)),
    ):
        if count := int(np.count_nonzero(lacking)):
            database.notes.warning(database.path.name, f"{_TABLE} {message}: {lost}", count)


def _column(name: str, values: Any) -> dict[str, Any]:
    stem, _ = column_name(name)
    if stem.endswith("_time"):
        return {f"{stem}_ns": whole(values)}
    return {stem: whole(values) if stem.endswith("_cycles") else values}


_TASK = [
    "startNs",
    "endNs",
    "deviceId",
    "connectionId",
    "globalTaskId",
    "taskType",
    "contextId",
    "streamId",
    "taskId",
    "modelId",
    "globalPid",
    "name",  # only the first versions had it
]
_INFO = "COMPUTE_TASK_INFO"
_SCHEDULED = "COMMUNICATION_SCHEDULE_TASK_INFO"


@dataclass
class Tasks:
    """Device tasks in order of time: the numbers in the file, and the table with the same rows."""

    rows: dict[str, Records]
    table: pd.DataFrame
    repeated: tuple[Int64, Int64]  # numbers of tasks that are left out, and of the equal ones that are kept

    def kept(self, numbers: Records) -> Records:
        """Return each ``globalTaskId``, for a task that is left out that of the equal one."""
        return kept(numbers, self.repeated)

    def rows_of(self, numbers: Records) -> Int64:
        """Return the row of each ``globalTaskId``; -1 if there is none."""
        return first_rows(self.rows["globalTaskId"], self.kept(numbers))

    @property
    def end_ns(self) -> Int64:
        """End of each task."""
        return self.rows["startNs"] + self.rows["duration"]


def read_tasks(database: Database, strings: TextsById, processes: DatabaseProcesses) -> Tasks:
    """Read all device tasks.

    A task is named after its operator, or after its type if the operator is unknown.
    """
    rows, repeated = without_repeated(database, "TASK", database.rows("TASK", _TASK), "globalTaskId")
    rows = in_order(database, "TASK", rows, ("tasks", "kernels"))
    database.accounts.keep("TASK", "tasks", len(rows["startNs"]))
    rows["deviceId"] = np.maximum(rows["deviceId"], 0)
    columns: dict[str, Any] = {
        **span(rows),
        "device_id": rows["deviceId"],
        "stream_id": optional(rows["streamId"], SENTINELS),
        "task_id": optional(rows["taskId"], SENTINELS),
        "context_id": optional(rows["contextId"], SENTINELS),
        "task_type": strings.column(rows["taskType"]),
        "name": strings.column(_name_numbers(database, rows)),
        "connection_id": optional(processes.apart(rows["connectionId"], rows["globalPid"]), SENTINELS),
        **_copies(database, rows["globalTaskId"], repeated),
    }
    return Tasks(rows, tables.build("tasks", columns), repeated)


def kernels_table(
    database: Database, strings: TextsById, tasks: Tasks, collectives: pd.DataFrame | None
) -> pd.DataFrame:
    """Build `kernels` of the compute tasks in order of time, without steps.

    Parameters
    ----------
    collectives
        The table `communication`: a kernel's wait ends at them too.
    """
    headers = {name: database.either(_INFO, *names) for name, names in DESCRIBED.items()}
    described = [column for column in SCHEMA["kernels"].columns if column.name in headers]
    floats = [headers[column.name] for column in described if column.kind == "float"]
    numbers = [header for header in headers.values() if header not in floats]
    info = database.rows(_INFO, ["globalTaskId", *numbers], floats)
    row = tasks.rows_of(info["globalTaskId"])
    database.accounts.leave_out(_INFO, "a kernel has no task, so no time", int((row < 0).sum()), affects=("kernels",))
    row, repeated = _drop_duplicates(row)
    database.accounts.leave_out(_INFO, "a kernel is described again, its task is the same", repeated, severity="info")
    database.accounts.keep(_INFO, "kernels", int((row >= 0).sum()))
    order = np.argsort(row, kind="stable")
    order = order[row[order] >= 0]
    info, row = take(info, order), row[order]
    selected_rows = tasks.table.iloc[row]
    columns: dict[str, Any] = {
        name: selected_rows[name].array for name in selected_rows.columns if not name.startswith("cop")
    }
    columns["task_type"] = columns["task_type"].remove_unused_categories()
    columns |= {column.name: _described(info[headers[column.name]], column, strings) for column in described}
    columns["name"] = columns["op_name"]
    columns |= {
        "wait_ns": _waits(selected_rows, collectives),
        "model_id": optional(tasks.rows["modelId"][row], SENTINELS),
        **read_pmu(database, strings, tasks, tasks.kept(info["globalTaskId"]), info["taskType"]),
    }
    return tables.build("kernels", columns)


def _described(numbers: Records, column: Column, strings: TextsById) -> Any:
    """Return a column of ``COMPUTE_TASK_INFO``, which holds numbers, and numbers of names for all else."""
    if column.kind == "float":
        return numbers
    if column.kind == "int?":
        return optional(numbers, SENTINELS)
    if column.kind == "flag":
        return flags(strings.column(numbers), "YES")
    return strings.column(numbers, operand_text if column.name.startswith(_SIDES) else None)


def _drop_duplicates(rows: Int64) -> tuple[Int64, int]:
    """Return rows with duplicates replaced by -1, and the number of duplicates."""
    first = np.zeros(len(rows), np.bool_)
    first[np.unique(rows, return_index=True)[1]] = True
    return np.where(first, rows, -1), int(np.count_nonzero(~first & (rows >= 0)))


def _waits(kernels: pd.DataFrame, collectives: pd.DataFrame | None) -> Int64:
    frames = [kernels] if collectives is None else [kernels, collectives]
    start, duration, device = (
        np.concatenate([frame[name].to_numpy(np.int64) for frame in frames])
        for name in ("start_ns", "duration_ns", "device_id")
    )
    return waits(device, start, start + duration, len(kernels))


def _name_numbers(database: Database, rows: dict[str, Records]) -> Int64:
    names: Int64 = np.where(rows["name"] != ABSENT, rows["name"], rows["taskType"])
    for table in (_SCHEDULED, _INFO):
        info = database.rows(table, ["globalTaskId", "name"])
        row = first_rows(info["globalTaskId"], rows["globalTaskId"])
        if table == _SCHEDULED:
            database.accounts.use(table, len(info["name"]))
        names[row >= 0] = info["name"][row[row >= 0]]
    return names


def _copies(database: Database, tasks: Int64, repeated: tuple[Int64, Int64]) -> dict[str, Any]:
    """Return the size and direction of copies, where the file has them."""
    copies = database.rows("MEMCPY_INFO", ["globalTaskId", "size", "memcpyOperation"])
    row = first_rows(copies["globalTaskId"], tasks)
    without_task = first_rows(tasks, kept(copies["globalTaskId"], repeated)) < 0
    database.accounts.use("MEMCPY_INFO", int((~without_task).sum()))
    database.accounts.leave_out(
        "MEMCPY_INFO", "the size of a copy belongs to no task", int(without_task.sum()), affects="copied bytes"
    )
    size, direction = np.full((2, len(row)), ABSENT)
    size[row >= 0], direction[row >= 0] = (copies[name][row[row >= 0]] for name in ("size", "memcpyOperation"))
    return {
        "copied_bytes": optional(size, (-1,)),
        "copy_direction": TextsById(database, "ENUM_MEMCPY_OPERATION").column(direction),
    }
