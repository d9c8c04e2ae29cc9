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
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import ABSENT, FIRST_MARK_CONNECTION, SENTINELS, optional, whole
from npuprof.sources.columns.shares import as_fractions
from npuprof.sources.columns.steps import waits
from npuprof.sources.database.checks import NO_NUMBER
from npuprof.sources.database.reader import Reader, Replaced, Rows
from npuprof.sources.text.kernel_details import column_name
from npuprof.tables.schema import SCHEMA
from npuprof.words.quantities import share

_METRICS = "TASK_PMU_INFO"
_MAX_METRICS = 500
_OF_THE_TABLE = frozenset(column.name for column in SCHEMA["kernels"].columns)
_ELSEWHERE = re.compile(r"aic_vec_.*|aiv_(mac|mte1|fixpipe)_.*")
"""Metrics of units that only the other kind of core has; they are written as 0."""
_INFO = "COMPUTE_TASK_INFO"
_SCHEDULED = "COMMUNICATION_SCHEDULE_TASK_INFO"
_COPIES = "MEMCPY_INFO"
_COMMUNICATION_TASKS = ("COMMUNICATION_TASK_INFO", _SCHEDULED)
_KERNELS = ("KERNEL_", "MIX_")  # AI_CORE may also be the parent of a collective's steps


@dataclass(frozen=True)
class Tasks:
    """Device tasks in order of time, the table with the same rows, and the keys of those that repeat others."""

    rows: Rows
    table: pd.DataFrame
    kept: Replaced

    def rows_of(self, numbers: Records) -> Int64:
        """Return the row of each ``globalTaskId``; -1 if there is none."""
        return first_rows(self.rows["globalTaskId"], self.kept(numbers))

    def at(self, rows: Int64, column: str) -> Int64:
        """Return a column at rows, absent for row -1."""
        values = self.rows[column]
        return np.where(rows >= 0, values[rows], ABSENT) if len(values) else np.full(len(rows), ABSENT)


def read_tasks(reader: Reader) -> Tasks:
    """Read all device tasks; a task is named after its operator, or after its type if the operator is unknown."""
    rows, kept = reader.rows("TASK").without_repeated("globalTaskId")
    rows = rows.in_order().keep("tasks")
    rows = rows.having(deviceId=np.maximum(rows["deviceId"], 0))
    columns = {
        **rows.columns(),
        "name": reader.strings.column(_name_numbers(reader, rows)),
        **_copies(reader, rows["globalTaskId"], kept),
    }
    return Tasks(rows, tables.build("tasks", columns), kept)


def kernels_table(reader: Reader, tasks: Tasks, collectives: pd.DataFrame | None) -> pd.DataFrame:
    """Build `kernels` of the compute tasks in order of time, without steps; their waits end at `collectives` too."""
    info = reader.rows(_INFO)
    row = tasks.rows_of(info["globalTaskId"])
    reader.leave_out(_INFO, "a kernel has no task, so no time", int((row < 0).sum()))
    first = np.zeros(len(row), np.bool_)
    first[np.unique(row, return_index=True)[1]] = True
    repeated = int(np.count_nonzero(~first & (row >= 0)))
    reader.accounts.leave_out(_INFO, "a kernel is described again, its task is the same", repeated, severity="info")
    row = np.where(first, row, -1)
    order = np.argsort(row, kind="stable")
    order = order[row[order] >= 0]
    info, row = info.take(order).keep("kernels"), row[order]
    of_task = tasks.table.iloc[row]
    columns: dict[str, Any] = {name: of_task[name].array for name in of_task.columns if not name.startswith("cop")}
    columns["task_type"] = columns["task_type"].remove_unused_categories()
    columns |= info.columns()
    columns |= {
        "name": columns["op_name"],
        "wait_ns": _waits(of_task, collectives),
        "model_id": optional(tasks.rows["modelId"][row], SENTINELS),
        **_metrics(reader, tasks, tasks.kept(info["globalTaskId"]), info["taskType"]),
    }
    return tables.build("kernels", columns)


def kernels_of_tasks(reader: Reader, decoded: Decoded) -> None:
    """Build `kernels` from the compute tasks if the table that describes them has no rows."""
    tasks = decoded.tables.get("tasks")
    if tasks is None or not reader.is_empty(_INFO):
        return
    computes = tables.matching(tasks["task_type"], lambda name: name.startswith(_KERNELS))
    if not computes.any():
        return
    kernels = tasks[computes].reset_index(drop=True)
    columns = {name: kernels[name].array for name in kernels.columns}
    decoded.tables["kernels"] = tables.build("kernels", {**columns, "op_name": kernels["name"].array})
    decoded.notes.ledger.make("TASK", "kernels", len(kernels))
    message = f"{_INFO} is missing or empty, though a task is a kernel: its name, shapes and counters are missing"
    reader.warn(message, len(kernels))
    decoded.derived["kernels"] = (_INFO, "the kernels are the tasks that compute, without their names and shapes")


def note_undescribed(reader: Reader, tasks: Tasks) -> None:
    """Warn of kernels that the table of kernels does not describe, if it describes other kernels.

    A launch may have several tasks, only one of which is described; the tasks of a collective are described elsewhere.
    """
    described = np.isin(tasks.rows["globalTaskId"], reader.numbers(_INFO, "globalTaskId"))
    if not described.any():
        return
    elsewhere = (reader.numbers(table, "globalTaskId") for table in _COMMUNICATION_TASKS)
    launched_rows = tasks.rows["connectionId"]
    operators = reader.numbers("COMMUNICATION_OP", "connectionId")
    known = np.setdiff1d(np.concatenate([launched_rows[described], operators]), NO_NUMBER)
    computes = tables.matching(tasks.table["task_type"], lambda name: name.startswith(_KERNELS))
    explained = np.isin(launched_rows, known) | np.isin(tasks.rows["globalTaskId"], np.concatenate([*elsewhere]))
    message = (
        f"{_INFO} does not describe a task that is a kernel: it is in `tasks` and not in `kernels`, whose counts and "
        "sums are too low; export the result again"
    )
    reader.warn(message, int(np.count_nonzero(computes & ~described & ~explained)))


def note_unlaunched(reader: Reader, tasks: Tasks) -> None:
    """Warn of kernels whose launch is missing from the calls, if other kernels have theirs.

    Connection IDs are numbered in the order of the calls. An ID below those of all calls may belong to a call before
    the collection began, unless an operator has it; the tasks of a model are launched as a part of the model.
    """
    calls = reader.numbers("CANN_API", "connectionId")
    calls = np.unique(calls[(calls >= 0) & (calls < FIRST_MARK_CONNECTION) & ~np.isin(calls, NO_NUMBER)])
    if not len(calls):
        return
    launched_rows = tasks.rows["connectionId"]
    unlaunched = (
        np.isin(tasks.rows["modelId"], NO_NUMBER)
        & ~np.isin(launched_rows, NO_NUMBER)
        & (launched_rows < FIRST_MARK_CONNECTION)
    )
    kernels = unlaunched & tables.matching(tasks.table["task_type"], lambda name: name.startswith(_KERNELS))
    unknown = kernels & ~np.isin(launched_rows, calls)
    of_operators = reader.numbers("CONNECTION_IDS", "connectionId")
    before = unknown & (launched_rows < calls[0]) & ~np.isin(launched_rows, of_operators)
    early = int(np.count_nonzero(before))
    message = "CANN_API lacks the call that launched a kernel, which is before all that it has: made before the "
    if early:
        reader.notes.info(reader.database.path.name, f"{message}collection began, or its rows are missing", early)
    if later := int(np.count_nonzero(unknown)) - early:
        duration = tasks.rows["duration"]
        of = share(int(duration[unknown & ~before].sum()), int(duration[kernels].sum()))
        message = f"CANN_API lacks the call that launched a kernel ({of} of kernel time): counts and times of calls are"
        reader.warn(f"{message} too low; export the result again", later, ("api",))


def _metrics(reader: Reader, tasks: Tasks, kernels: Int64, cores: Int64) -> dict[str, Any]:
    """Return a column per metric of kernels, named as in the text result; absent for a kernel that was not measured.

    Times are whole ns, cycles integers, others floats.
    """
    rows = reader.rows(_METRICS)
    kernel = first_rows(kernels, tasks.kept(rows["globalTaskId"]))
    reader.accounts.use(_METRICS, int((kernel >= 0).sum()))
    reader.leave_out(_METRICS, "a counter refers to no kernel", int((kernel < 0).sum()), "the counters of kernels")
    _note_unmeasured(reader, kernel, rows["value"], cores)
    codes, used = pd.factorize(rows["name"])
    if len(used) > _MAX_METRICS:
        reader.warn(f"{_METRICS}: only the first {_MAX_METRICS} metrics are read")
    is_selected = (kernel >= 0) & (codes < _MAX_METRICS)
    values = np.full((min(len(used), _MAX_METRICS), len(kernels)), np.nan)
    values[codes[is_selected], kernel[is_selected]] = rows["value"][is_selected]
    columns: dict[str, Any] = {}
    for number, metric in zip(used.tolist(), values, strict=False):
        name = reader.strings.text(number)
        if name and not (_ELSEWHERE.fullmatch(name) and not np.nan_to_num(metric).any()):
            stem, _ = column_name(name)
            is_time = stem.endswith("_time")
            columns[f"{stem}_ns" if is_time else stem] = (
                whole(metric) if is_time or stem.endswith("_cycles") else metric
            )
    for taken in sorted(columns.keys() & _OF_THE_TABLE):
        del columns[taken]
        reader.warn(f"{_METRICS}: a metric is named like the column {taken!r}; left out")
    as_fractions(columns, reader.notes, f"{reader.database.path.name}: {_METRICS}")
    return columns


def _note_unmeasured(reader: Reader, kernel: Int64, values: Records, cores: Int64) -> None:
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
        reader.warn(f"{_METRICS} {message}: {lost}", int(np.count_nonzero(lacking)))


def _waits(kernels: pd.DataFrame, collectives: pd.DataFrame | None) -> Int64:
    frames = [kernels] if collectives is None else [kernels, collectives]
    start, duration, device = (
        np.concatenate([frame[name].to_numpy(np.int64) for frame in frames])
        for name in ("start_ns", "duration_ns", "device_id")
    )
    return waits(device, start, start + duration, len(kernels))


def _name_numbers(reader: Reader, rows: Rows) -> Int64:
    names: Int64 = np.where(rows["name"] != ABSENT, rows["name"], rows["taskType"])
    for table in (_SCHEDULED, _INFO):
        info = reader.rows(table, "globalTaskId", "name")
        row = first_rows(info["globalTaskId"], rows["globalTaskId"])
        names[row >= 0] = info["name"][row[row >= 0]]
        if table == _SCHEDULED:
            reader.accounts.use(table, len(info))
    return names


def _copies(reader: Reader, tasks: Int64, kept: Replaced) -> dict[str, Any]:
    """Return the size and direction of copies, where the file has them."""
    copies = reader.rows(_COPIES)
    lost = int((first_rows(tasks, kept(copies["globalTaskId"])) < 0).sum())
    reader.accounts.use(_COPIES, len(copies) - lost)
    reader.leave_out(_COPIES, "the size of a copy belongs to no task", lost, "copied bytes")
    row = first_rows(copies["globalTaskId"], tasks)
    return Rows(
        reader,
        copies.table,
        {
            name: np.where(row >= 0, values[row], ABSENT) if len(values) else np.full(len(row), ABSENT)
            for name, values in copies.values.items()
        },
    ).columns()
