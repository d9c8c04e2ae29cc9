"""``COMMUNICATION_OP`` and ``COMMUNICATION_TASK_INFO``: collectives and their steps.

Source: sources/RESULTS.md section 5.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, Records, first_rows
from npuprof.sources.columns.builders import ABSENT, SENTINELS, optional
from npuprof.sources.database.connection import Database
from npuprof.sources.database.device import Tasks
from npuprof.sources.database.intervals import drop_repeated, in_order, kept, span, take, without_repeated
from npuprof.sources.database.names import TextsById
from npuprof.sources.database.processes import DatabaseProcesses
from npuprof.sources.trace.communication import operator_type

_OPERATOR = [
    "opName",
    "startNs",
    "endNs",
    "connectionId",
    "groupName",
    "opId",
    "dataType",
    "algType",
    "count",
    "opType",
    "deviceId",
]
_LATER = ("rankSize", "relay", "retry")  # columns that newer files have
_TASK = [
    "globalTaskId",
    "taskType",
    "planeId",
    "srcRank",
    "dstRank",
    "transportType",
    "size",
    "linkType",
    "opId",
    "dataType",
    "rdmaType",
    "notifyId",
]
_INFO = "COMMUNICATION_TASK_INFO"
_TABLE = "COMMUNICATION_OP"
_NONE = (*SENTINELS, -1)
_NO_NOTIFY = (1 << 63) - 1  # what remains of 64 set bits
_BYTES_PER_GB = 1e9


def read_communication(
    database: Database, strings: TextsById, tasks: Tasks, processes: DatabaseProcesses
) -> dict[str, pd.DataFrame]:
    """Read `communication` (without steps) and `communication_tasks`, where the file has them."""
    operators, same = without_repeated(database, _TABLE, database.rows(_TABLE, [*_OPERATOR, *_LATER]), "opId")
    steps = database.rows(_INFO, _TASK, ["bandwidth"])
    # Of an operator or a task that was written twice, also the steps are.
    steps |= {"globalTaskId": tasks.kept(steps["globalTaskId"]), "opId": kept(steps["opId"], same)}
    steps = drop_repeated(database, _INFO, steps, "globalTaskId")
    steps |= {"task": tasks.rows_of(steps["globalTaskId"])}
    lost_count = int((steps["task"] < 0).sum())
    database.accounts.leave_out(_INFO, "a step has no task, so no time", lost_count, affects=("communication_tasks",))
    order = np.argsort(steps["task"], kind="stable")
    steps = take(steps, order[steps["task"][order] >= 0])
    operators = in_order(database, _TABLE, operators, ("communication",))
    database.accounts.keep(_INFO, "communication_tasks", len(steps["task"]))
    database.accounts.keep(_TABLE, "communication", len(operators["startNs"]))
    frames = {}
    if len(operators["startNs"]):
        devices = _devices(operators, steps, tasks)
        first = first_rows(tasks.rows["deviceId"], devices)
        of_device = np.where(
            first >= 0, tasks.rows["globalPid"][first] if len(tasks.rows["globalPid"]) else ABSENT, ABSENT
        )
        connections = processes.apart(operators["connectionId"], of_device)
        frames["communication"] = _operators(database, strings, {**operators, "connectionId": connections}, devices)
    if len(steps["task"]):
        frames["communication_tasks"] = _tasks(database, strings, steps, operators, tasks)
    return frames


def _devices(operators: dict[str, Records], steps: dict[str, Records], tasks: Tasks) -> Int64:
    """Return the device of each operator: from the file, else of its first step, else the only device with tasks."""
    device = operators["deviceId"]
    step = first_rows(steps["opId"], operators["opId"])
    on = tasks.rows["deviceId"]
    of_step = on[steps["task"][step]] if len(steps["task"]) else np.zeros(len(step), np.int64)
    only = int(on[0]) if len(on) and (on == on[0]).all() else 0
    return np.where(device >= 0, device, np.where(step >= 0, of_step, only))


def _operators(database: Database, strings: TextsById, rows: dict[str, Records], device: Int64) -> pd.DataFrame:
    columns: dict[str, Any] = {
        **span(rows),
        "device_id": device,
        "name": strings.column(rows["opName"]),
        "op_type": _types(strings, rows),
        "group": strings.column(rows["groupName"]),
        "data_type": TextsById(database, "ENUM_HCCL_DATA_TYPE").column(rows["dataType"]),
        "algorithm": strings.column(rows["algType"]),
        "count": optional(rows["count"], _NONE),
        "connection_id": optional(rows["connectionId"], SENTINELS),
        **_later(rows),
    }
    return tables.build("communication", columns)


def _later(rows: dict[str, Records]) -> dict[str, Any]:
    """Return the columns of rank count, relay and retransmission that the file has."""
    flags = {name: pd.arrays.BooleanArray(rows[name] == 1, ~np.isin(rows[name], (0, 1))) for name in ("relay", "retry")}
    return {"rank_size": optional(rows["rankSize"], _NONE), **flags}


def _types(strings: TextsById, rows: dict[str, Records]) -> pd.Categorical:
    """Return operator types; derived from the operators' names at Level0, where the file has none."""
    types = strings.column(rows["opType"])
    named = strings.column(rows["opName"], operator_type)
    return types if (types.codes >= 0).any() else named


def _tasks(
    database: Database, strings: TextsById, steps: dict[str, Records], operators: dict[str, Records], tasks: Tasks
) -> pd.DataFrame:
    on = take(tasks.rows, steps["task"])
    operator = first_rows(operators["opId"], steps["opId"])
    size = np.where(np.isin(steps["size"], _NONE), ABSENT, steps["size"])
    columns: dict[str, Any] = {
        **span(on),
        "device_id": on["deviceId"],
        "op_id": optional(np.where(operator >= 0, operator, ABSENT)),
        "plane_id": optional(steps["planeId"], _NONE),
        "task_type": strings.column(steps["taskType"]),
        "src_rank": optional(steps["srcRank"], _NONE),
        "dst_rank": optional(steps["dstRank"], _NONE),
        "transport": TextsById(database, "ENUM_HCCL_TRANSPORT_TYPE").column(steps["transportType"]),
        "link": TextsById(database, "ENUM_HCCL_LINK_TYPE").column(steps["linkType"]),
        "size_bytes": optional(size),
        "bandwidth_gb_s": _bandwidth(database, steps["bandwidth"], size, on["duration"]),
        "stream_id": optional(on["streamId"], SENTINELS),
        "task_id": optional(on["taskId"], SENTINELS),
        "context_id": optional(on["contextId"], SENTINELS),
        "data_type": TextsById(database, "ENUM_HCCL_DATA_TYPE").column(steps["dataType"]),
        "rdma_type": TextsById(database, "ENUM_HCCL_RDMA_TYPE").column(steps["rdmaType"]),
        "notify_id": optional(steps["notifyId"], (*_NONE, _NO_NOTIFY)),
        "estimated_us": np.full(len(steps["task"]), np.nan),  # not in a database
    }
    return tables.build("communication_tasks", columns)


def _bandwidth(database: Database, rate: Records, size: Int64, duration_ns: Int64) -> Any:
    """Return GB/s: from the file's bytes per second, or size / time in older files."""
    if database.has(_INFO, "bandwidth"):
        return rate / _BYTES_PER_GB
    moved = size / np.maximum(duration_ns, 1)  # bytes per nanosecond
    return np.where(size == ABSENT, np.nan, np.where(duration_ns > 0, moved, 0.0))
