"""Warn of missing tables and rows that other tables refer to.

Source: sources/RESULTS.md sections 5.1 and 5.2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from npuprof import tables
from npuprof.arrays import Int64, Records
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import ABSENT, FIRST_MARK_CONNECTION, SENTINELS, missing
from npuprof.sources.database.connection import Database
from npuprof.sources.database.device import Tasks
from npuprof.sources.database.intervals import take
from npuprof.tables.notes import ANY
from npuprof.words.quantities import counted, share

_INFO = "COMPUTE_TASK_INFO"
_COMMUNICATION_TASKS = ("COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO")
_TIMES = ["startNs", "endNs", "connectionId"]
_NONE = (ABSENT, -1, *SENTINELS)
_NO_NAMES = (255, 65_534, 65_535)  # of enumerations: reserved, N/A and invalid
_KERNELS = ("KERNEL_", "MIX_")  # AI_CORE may also be the parent of a collective's steps
_REFERENCES = (  # a table, its column, the table that the column refers to, and what is lost without that table
    ("TASK", "connectionId", "CANN_API", "the calls that launched them are missing"),
    ("COMMUNICATION_TASK_INFO", "opId", "COMMUNICATION_OP", "the communication operators are missing"),
    ("COMMUNICATION_OP", "opId", "COMMUNICATION_TASK_INFO", "waiting, moving, sizes and links of it are unknown"),
    ("PYTORCH_API", "connectionId", "CONNECTION_IDS", "their links are missing"),
    ("PYTORCH_API", "callchainId", "PYTORCH_CALLCHAINS", "their stacks are missing"),
    *(
        (table, column, f"ENUM_{enum}", "the names of its numbers are missing")
        for table, column, enum in (
            ("CANN_API", "type", "API_TYPE"),
            ("PYTORCH_API", "type", "API_TYPE"),
            ("COMMUNICATION_TASK_INFO", "transportType", "HCCL_TRANSPORT_TYPE"),
            ("COMMUNICATION_TASK_INFO", "linkType", "HCCL_LINK_TYPE"),
            ("COMMUNICATION_TASK_INFO", "rdmaType", "HCCL_RDMA_TYPE"),
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
            numbers = numbers[~np.isin(numbers, _NO_NAMES)] if other.startswith("ENUM_") else numbers
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
    before = unknown & (launched_rows < calls[0]) & ~np.isin(launched_rows, of_operators)
    early = int(np.count_nonzero(before))
    message = "CANN_API lacks the call that launched a kernel, which is before all that it has: made before the "
    if early:
        database.notes.info(database.path.name, f"{message}collection began, or its rows are missing", early)
    if later := int(np.count_nonzero(unknown)) - early:
        duration = tasks.rows["duration"]
        of = share(int(duration[unknown & ~before].sum()), int(duration[kernels].sum()))
        message = f"CANN_API lacks the call that launched a kernel ({of} of kernel time): counts and times of calls are"
        database.notes.warning(database.path.name, f"{message} too low; export the result again", later, lacks=("api",))


_API = "PYTORCH_API"
_NAMED_BY_API = (  # a column of PYTORCH_API, the table whose ids it holds, and what is lost with a row of that
    ("connectionId", "CONNECTION_IDS", "links between operators, calls and tasks"),
    ("callchainId", "PYTORCH_CALLCHAINS", "stacks, and the lines of operators and kernels"),
)
_MOST_GAPS = 10  # times as many numbers as rows: then the writer does not number rows one by one


def note_lost_calls(database: Database, calls: dict[str, Records]) -> None:
    """Warn of rows of ``PYTORCH_API`` and of what it refers to whose counterpart is missing, row by row.

    `calls` are the rows of the table, with `duration`. Without any row of the other table, :func:`note_lacking` warns.
    """
    for column, table, lost in _NAMED_BY_API:
        listed = database.rows(table, ["id"])["id"]
        if not len(listed):
            continue
        lacking = ~np.isin(calls[column], _NONE) & ~np.isin(calls[column], listed)
        if count := int(np.count_nonzero(lacking)):
            of = share(int(calls["duration"][lacking].sum()), int(calls["duration"].sum()))
            message = f"{table} lacks the row that a row of {_API} refers to ({of} of its time): {lost} are missing"
            database.notes.warning(database.path.name, message, count)
        if len(orphans := np.setdiff1d(listed, calls[column])):
            message = f"{_API} lacks the row that a number of {table} belongs to: {_missing(database, table, orphans)}"
            database.notes.warning(
                database.path.name,
                f"{message}; counts, sums and {lost} are incomplete",
                len(orphans),
                lacks=("operators", "python"),
            )
    _note_lone_connections(database)
    _note_cut_chains(database)


def _missing(database: Database, table: str, orphans: Int64) -> str:
    """Return how many operators are missing, and which shares of kernel and communication time they launched."""
    if table != "CONNECTION_IDS":
        return "operators and Python calls are missing"
    ids = database.rows(table, ["id", "connectionId"])
    launched = ids["connectionId"][np.isin(ids["id"], orphans)]
    tasks = database.rows("TASK", [*_TIMES, "globalTaskId"])
    kernels = np.isin(tasks["globalTaskId"], database.rows(_INFO, ["globalTaskId"])["globalTaskId"])
    parts = {"kernel": take(tasks, kernels), "communication": database.rows("COMMUNICATION_OP", _TIMES)}
    shares = []
    for name, rows in parts.items():
        duration = np.where((rows["startNs"] >= 0) & (rows["endNs"] >= 0), rows["endNs"] - rows["startNs"], 0)
        if whole := int(duration.sum()):
            part = int(duration[np.isin(rows["connectionId"], launched)].sum())
            shares.append(f"{share(part, whole)} of {name} time")
    of = f", to which {' and '.join(shares)} belong" if shares else ""
    lost, every = f"{len(orphans):,}", counted(len(np.unique(ids["id"])), "operator")
    return f"{lost} of {every} {'is' if len(orphans) == 1 else 'are'} missing{of}"


def _note_lone_connections(database: Database) -> None:
    """Warn of connections that lead nowhere: each is that of a call or task, or of two operators."""
    numbers = database.rows("CONNECTION_IDS", ["connectionId"])["connectionId"]
    effects = ("CANN_API", "TASK", "COMMUNICATION_OP")
    known = np.concatenate([database.rows(table, ["connectionId"])["connectionId"] for table in effects])
    if not len(known):
        return
    distinct, times = np.unique(numbers[~np.isin(numbers, _NONE)], return_counts=True)
    if count := int(np.count_nonzero((times == 1) & ~np.isin(distinct, known))):
        message = "CONNECTION_IDS has a connection with one end: a row of CONNECTION_IDS, CANN_API or TASK is missing"
        database.notes.warning(database.path.name, f"{message}, and links", count)


def _note_cut_chains(database: Database) -> None:
    rows = database.rows("PYTORCH_CALLCHAINS", ["id", "stackDepth"])
    ids, number = np.unique(rows["id"], return_inverse=True)
    deepest = np.zeros(len(ids), np.int64)
    np.maximum.at(deepest, number, rows["stackDepth"])
    if count := int(np.count_nonzero(deepest + 1 > np.bincount(number, minlength=len(ids)))):
        message = (
            "PYTORCH_CALLCHAINS lacks frames of a stack: stacks, and the lines of operators and kernels, are others"
        )
        database.notes.warning(database.path.name, message, count)


def note_gaps(database: Database, tables: Collection[str]) -> None:
    """Warn of numbers that a table skips: rows were lost after they were numbered.

    SQLite numbers the rows of a table one by one as they are written; the vendor's tools number the tasks so.
    """
    tasks = database.rows("TASK", ["globalTaskId"])["globalTaskId"]
    tasks = np.unique(tasks[tasks >= 0])
    gaps = {"TASK": int(tasks[-1] - tasks[0]) + 1 - len(tasks)} if len(tasks) else {}
    for table in sorted(database.tables.keys() & tables):
        missing = gaps.get(table, 0) or database.deleted_rows(table)
        if 0 < missing <= _MOST_GAPS * max(database.count(table), 1):
            effect = f"{_MADE_OF.get(table, 'what is made of it is')} incomplete; export the result again"
            database.notes.warning(
                database.path.name,
                f"{table} lacks rows, by the numbers of others: {effect}",
                missing,
                lacks=_TABLES_OF.get(table, ANY),
            )


_TABLES_OF: Mapping[str, tuple[str, ...]] = {
    "TASK": ("tasks", "kernels", "communication_tasks"),
    "PYTORCH_API": ("operators", "python"),
    "COMMUNICATION_TASK_INFO": ("communication_tasks",),
    "CONNECTION_IDS": ("links",),
    "PYTORCH_CALLCHAINS": (),
    "MEMORY_RECORD": ("memory",),
    "OP_MEMORY": ("allocations",),
    "NPU_MEM": ("memory", "counters"),
    "NPU_MODULE_MEM": ("memory",),
    "MSTX_EVENTS": ("marks",),
    "STEP_TIME": ("steps",),
    "StepTraceTime": ("step_times",),
}
_MADE_OF = {
    "TASK": "tasks, kernels, communication_tasks and their links are",
    "PYTORCH_API": "operators, python and their links are",
    "COMMUNICATION_TASK_INFO": "communication_tasks, waiting and moving are",
    "CONNECTION_IDS": "links are",
    "PYTORCH_CALLCHAINS": "stacks are",
    "MEMORY_RECORD": "samples of the allocator in memory are",
    "OP_MEMORY": "blocks in allocations are",
    "NPU_MEM": "samples in memory and counters are",
    "NPU_MODULE_MEM": "samples in memory are",
    "MSTX_EVENTS": "marks are",
    "STEP_TIME": "steps are",
    "StepTraceTime": "steps in step_times are",
}


def _is_empty(database: Database, table: str) -> bool:
    columns = list(database.tables.get(table, ()))  # a damaged schema may hold no table
    return not columns or not database.records(table, columns[:1], 1)
