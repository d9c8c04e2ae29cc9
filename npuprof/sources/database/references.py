"""Missing or empty tables that rows of other tables refer to.

Source: sources/RESULTS.md sections 5.1 and 5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import ABSENT, FIRST_MARK_CONNECTION, SENTINELS, missing, named
from npuprof.sources.database.connection import Database
from npuprof.sources.database.device import Tasks

_INFO = "COMPUTE_TASK_INFO"
_COMMUNICATION_TASKS = ("COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO")
_NONE = (ABSENT, -1, *SENTINELS)
_KERNELS = ("KERNEL_", "MIX_")  # AI_CORE may also be the parent of a collective's steps
_REFERENCES = (  # a table, its column, the table whose rows the column names, and what is lost without that
    ("TASK", "connectionId", "CANN_API", "the calls that launched them are missing"),
    ("COMMUNICATION_TASK_INFO", "opId", "COMMUNICATION_OP", "the communication operators are missing"),
    ("PYTORCH_API", "connectionId", "CONNECTION_IDS", "their links are missing"),
    ("PYTORCH_API", "callchainId", "PYTORCH_CALLCHAINS", "their stacks are missing"),
    *(
        (table, column, f"ENUM_{enum}", "what its numbers stand for is missing")
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
    """Warn of tables without rows that rows of other tables refer to."""
    for table, column, other, lost in _REFERENCES:
        if database.has(table, column) and _is_empty(database, other):
            numbers = database.rows(table, [column])[column]
            if count := int(np.count_nonzero(~np.isin(numbers, _NONE) & (numbers < FIRST_MARK_CONNECTION))):
                message = f"{other} is missing or empty, though a row of {table} names one of it: {lost}"
                database.notes.warning(database.path.name, message, count)


def kernels_of_tasks(database: Database, decoded: Decoded) -> None:
    """Build `kernels` of the compute tasks where the table that describes them has no rows."""
    tasks = decoded.tables.get("tasks")
    if tasks is None or not _is_empty(database, _INFO):
        return
    chosen = tasks[named(tasks["task_type"], lambda name: name.startswith(_KERNELS))].reset_index(drop=True)
    if not len(chosen):
        return
    columns: dict[str, Any] = {name: chosen[name].array for name in chosen.columns}
    step = missing(len(chosen))
    decoded.tables["kernels"] = tables.build("kernels", {**columns, "op_name": chosen["name"].array, "step": step})
    decoded.notes.ledger.make("TASK", "kernels", len(chosen))
    message = f"{_INFO} is missing or empty, though a task is a kernel: its name, shapes and counters are missing"
    database.notes.warning(database.path.name, message, len(chosen))
    decoded.derived["kernels"] = (_INFO, "the kernels are the tasks that compute, without their names and shapes")


def note_undescribed(database: Database, tasks: Tasks) -> None:
    """Warn of kernels that the table of kernels does not describe, if it describes others.

    A launch may have several tasks of which one is described; a collective's are described elsewhere.
    """
    described = np.isin(tasks.rows["globalTaskId"], database.rows(_INFO, ["globalTaskId"])["globalTaskId"])
    if not described.any():
        return
    elsewhere = (database.rows(table, ["globalTaskId"])["globalTaskId"] for table in _COMMUNICATION_TASKS)
    launched = tasks.rows["connectionId"]
    operators = database.rows("COMMUNICATION_OP", ["connectionId"])["connectionId"]
    known = np.setdiff1d(np.concatenate([launched[described], operators]), _NONE)
    computes = named(tasks.table["task_type"], lambda name: name.startswith(_KERNELS))
    explained = np.isin(launched, known) | np.isin(tasks.rows["globalTaskId"], np.concatenate([*elsewhere]))
    if count := int(np.count_nonzero(computes & ~described & ~explained)):
        message = (
            f"{_INFO} does not describe a task that is a kernel: it is in `tasks` and not in `kernels`, whose counts "
            "and sums are too low; export the result again"
        )
        database.notes.warning(database.path.name, message, count)


def note_unlaunched(database: Database, kernels: pd.DataFrame) -> None:
    """Warn of kernels without a CANN call, if the call of an earlier kernel of their stream is there.

    The calls of the first kernels may precede the recording; a stream starts its kernels in the order of their calls.
    Kernels of a model or a captured graph have no calls.
    """
    calls = database.rows("CANN_API", ["connectionId"])["connectionId"]
    launched = pd.Series(
        np.isin(kernels["connection_id"].to_numpy(np.int64, na_value=ABSENT), np.setdiff1d(calls, _NONE))
    )
    earlier = launched.groupby([kernels["device_id"], kernels["stream_id"]], dropna=False).cummax()
    if count := int((earlier & ~launched & kernels["model_id"].isna()).sum()):
        message = (
            "CANN_API has no call of a kernel, but the call of an earlier kernel of its stream: rows are missing, and "
            "host times and launch delays are incomplete; export the result again"
        )
        database.notes.warning(database.path.name, message, count)


def note_unmeasured(database: Database, kernels: pd.DataFrame) -> None:
    """Warn of kernels without counters, if others of the same kind of core have them."""
    counters = kernels.columns.difference([*(column.name for column in tables.SCHEMA["kernels"].columns), "model_id"])
    measured = kernels[counters].notna().any(axis=1)
    elsewhere = measured.groupby(kernels["core"].astype(object), dropna=False).transform("any")
    if count := int((elsewhere & ~measured).sum()):
        message = (
            "TASK_PMU_INFO has no counters of a kernel, but those of others of the same kind of core: shares and "
            "sums of counters are incomplete"
        )
        database.notes.warning(database.path.name, message, count)


def _is_empty(database: Database, table: str) -> bool:
    columns = list(database.tables.get(table, ()))  # a damaged schema may hold none
    return not columns or not database.records(table, columns[:1], 1)
