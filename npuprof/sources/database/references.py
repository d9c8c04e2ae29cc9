"""Warn of missing tables and rows that other tables refer to.

Source: sources/RESULTS.md sections 5.1 and 5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npuprof import tables
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import ABSENT, FIRST_MARK_CONNECTION, SENTINELS, missing
from npuprof.sources.database.connection import Database
from npuprof.sources.database.device import Tasks

_INFO = "COMPUTE_TASK_INFO"
_COMMUNICATION_TASKS = ("COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO")
_NONE = (ABSENT, -1, *SENTINELS)
_KERNELS = ("KERNEL_", "MIX_")  # AI_CORE may also be the parent of a collective's steps
_REFERENCES = (  # a table, its column, the table that the column refers to, and what is lost without that table
    ("TASK", "connectionId", "CANN_API", "the calls that launched them are missing"),
    ("COMMUNICATION_TASK_INFO", "opId", "COMMUNICATION_OP", "the communication operators are missing"),
    ("PYTORCH_API", "connectionId", "CONNECTION_IDS", "their links are missing"),
    ("PYTORCH_API", "callchainId", "PYTORCH_CALLCHAINS", "their stacks are missing"),
    *(
        (table, column, f"ENUM_{enum}", "the names of its numbers are missing")
        for table, column, enum in (
            ("CANN_API", "type", "API_TYPE"),
            ("PYTORCH_API", "type", "API_TYPE"),
            ("COMMUNICATION_TASK_INFO", "transportType", "HCCL_TRANSPORT_TYPE"),
            ("COMMUNICATION_TASK_INFO", "linkType", "HCCL_LINK_TYPE"),
            ("COMMUNICATION_OP", "dataType", "HCCL_DATA_TYPE"),
            ("MEMCPY_INFO", "memcpyOperation", "MEMCPY_OPERATION"),
            ("NPU_MODULE_MEM", "moduleId", "MODULE"),
            ("MSTX_EVENTS", "eventType", "MSTX_EVENT_TYPE"),
        )
    ),
)


def note_lacking(database: Database) -> None:
    """Warn of empty or missing tables that rows of other tables refer to."""
    for table, column, other, lost in _REFERENCES:
        if database.has(table, column) and _is_empty(database, other):
            numbers = database.rows(table, [column])[column]
            if count := int(np.count_nonzero(~np.isin(numbers, _NONE) & (numbers < FIRST_MARK_CONNECTION))):
                message = f"{other} is missing or empty, though a row of {table} refers to it: {lost}"
                database.notes.warning(database.path.name, message, count)


def kernels_of_tasks(database: Database, decoded: Decoded) -> None:
    """Build `kernels` from the compute tasks if the table that describes them has no rows."""
    tasks = decoded.tables.get("tasks")
    if tasks is None or not _is_empty(database, _INFO):
        return
    selected_rows = tasks[tables.matching(tasks["task_type"], lambda name: name.startswith(_KERNELS))].reset_index(
        drop=True
    )
    if not len(selected_rows):
        return
    columns: dict[str, Any] = {name: selected_rows[name].array for name in selected_rows.columns}
    step = missing(len(selected_rows))
    decoded.tables["kernels"] = tables.build(
        "kernels", {**columns, "op_name": selected_rows["name"].array, "step": step}
    )
    decoded.notes.ledger.make("TASK", "kernels", len(selected_rows))
    message = f"{_INFO} is missing or empty, though a task is a kernel: its name, shapes and counters are missing"
    database.notes.warning(database.path.name, message, len(selected_rows))
    decoded.derived["kernels"] = (_INFO, "the kernels are the tasks that compute, without their names and shapes")


def note_undescribed(database: Database, tasks: Tasks) -> None:
    """Warn of kernels that the table of kernels does not describe, if it describes other kernels.

    A launch may have several tasks, only one of which is described; the tasks of a collective are described elsewhere.
    """
    described = np.isin(tasks.rows["globalTaskId"], database.rows(_INFO, ["globalTaskId"])["globalTaskId"])
    if not described.any():
        return
    elsewhere = (database.rows(table, ["globalTaskId"])["globalTaskId"] for table in _COMMUNICATION_TASKS)
    launched_rows = tasks.rows["connectionId"]
    operators = database.rows("COMMUNICATION_OP", ["connectionId"])["connectionId"]
    known = np.setdiff1d(np.concatenate([launched_rows[described], operators]), _NONE)
    computes = tables.matching(tasks.table["task_type"], lambda name: name.startswith(_KERNELS))
    explained = np.isin(launched_rows, known) | np.isin(tasks.rows["globalTaskId"], np.concatenate([*elsewhere]))
    if count := int(np.count_nonzero(computes & ~described & ~explained)):
        message = (
            f"{_INFO} does not describe a task that is a kernel: it is in `tasks` and not in `kernels`, whose counts "
            "and sums are too low; export the result again"
        )
        database.notes.warning(database.path.name, message, count)


def note_unlaunched(database: Database, tasks: Tasks) -> None:
    """Warn of kernels whose launch is missing from the calls, if other kernels have theirs.

    Connection IDs are numbered in the order of the calls. An ID below those of all calls may belong to a call before
    the collection began, unless an operator has it; the tasks of a model are launched as a part of the model.
    """
    calls = database.rows("CANN_API", ["connectionId"])["connectionId"]
    calls = np.unique(calls[(calls >= 0) & (calls < FIRST_MARK_CONNECTION) & ~np.isin(calls, _NONE)])
    if not len(calls):
        return
    launched_rows = tasks.rows["connectionId"]
    unlaunched = (
        np.isin(tasks.rows["modelId"], _NONE) & ~np.isin(launched_rows, _NONE) & (launched_rows < FIRST_MARK_CONNECTION)
    )
    kernels = unlaunched & tables.matching(tasks.table["task_type"], lambda name: name.startswith(_KERNELS))
    unknown = kernels & ~np.isin(launched_rows, calls)
    of_operators = database.rows("CONNECTION_IDS", ["connectionId"])["connectionId"]
    early = int(np.count_nonzero(unknown & (launched_rows < calls[0]) & ~np.isin(launched_rows, of_operators)))
    message = "CANN_API lacks the call that launched a kernel, which is before all that it has: made before the "
    if early:
        database.notes.info(database.path.name, f"{message}collection began, or its rows are missing", early)
    if later := int(np.count_nonzero(unknown)) - early:
        message = "CANN_API lacks the call that launched a kernel: counts and times of calls are too low"
        database.notes.warning(database.path.name, f"{message}; export the result again", later)


def _is_empty(database: Database, table: str) -> bool:
    columns = list(database.tables.get(table, ()))  # a damaged schema may hold no table
    return not columns or not database.records(table, columns[:1], 1)
