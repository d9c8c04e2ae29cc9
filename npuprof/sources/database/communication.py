"""``COMMUNICATION_OP`` and ``COMMUNICATION_TASK_INFO``: collectives and their steps.

Source: sources/RESULTS.md section 5.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, first_rows
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.sources.database.device import Tasks
from npuprof.sources.database.reader import Reader, Rows
from npuprof.sources.trace.communication import operator_type

_STEPS, _OPERATORS = "COMMUNICATION_TASK_INFO", "COMMUNICATION_OP"
_BYTES_PER_GB = 1e9


def read_communication(reader: Reader, tasks: Tasks) -> dict[str, pd.DataFrame | None]:
    """Read `communication` (without steps) and `communication_tasks`, where the file has them."""
    operators, same = reader.rows(_OPERATORS).without_repeated("opId")
    steps = reader.rows(_STEPS)
    # Of an operator or a task that was written twice, also the steps are.
    steps = steps.having(globalTaskId=tasks.kept(steps["globalTaskId"]), opId=same(steps["opId"]))
    steps = steps.distinct("globalTaskId")
    steps = steps.having(task=tasks.rows_of(steps["globalTaskId"]))
    steps = steps.without(steps["task"] < 0, "a step has no task, so no time")
    steps = steps.take(np.argsort(steps["task"], kind="stable"))
    operators = operators.in_order()
    device = _devices(operators, steps, tasks)
    operators = operators.having(globalPid=tasks.at(first_rows(tasks.rows["deviceId"], device), "globalPid"))
    return {
        "communication": operators.build("communication", device_id=device, op_type=_types(operators)),
        "communication_tasks": _tasks(reader, steps.keep("communication_tasks"), operators, tasks),
    }


def _devices(operators: Rows, steps: Rows, tasks: Tasks) -> Int64:
    """Return the device of each operator: from the file, else of its first step, else the only device with tasks."""
    device, on = operators["deviceId"], tasks.rows["deviceId"]
    step = first_rows(steps["opId"], operators["opId"])
    of_step = on[steps["task"][step]] if len(steps) else np.zeros(len(step), np.int64)
    only = int(on[0]) if len(on) and (on == on[0]).all() else 0
    return np.where(device >= 0, device, np.where(step >= 0, of_step, only))


def _types(operators: Rows) -> pd.Categorical:
    """Return operator types; derived from the operators' names at Level0, where the file has none."""
    types: pd.Categorical = operators.column("opType")
    named = operators.reader.strings.column(operators["opName"], operator_type)
    return types if (types.codes >= 0).any() else named


def _tasks(reader: Reader, steps: Rows, operators: Rows, tasks: Tasks) -> pd.DataFrame | None:
    if not len(steps):
        return None
    on = tasks.rows.take(steps["task"])
    operator = first_rows(operators["opId"], steps["opId"])
    columns: dict[str, Any] = {
        **{column: on.column(name) for name, column in _OF_TASK.items()},
        **steps.columns(),
        "op_id": optional(np.where(operator >= 0, operator, ABSENT)),
        "estimated_us": np.full(len(steps), np.nan),  # not in a database
    }
    size = columns["size_bytes"].to_numpy(np.float64, na_value=np.nan)
    duration = on["duration"]
    columns["bandwidth_gb_s"] = (
        steps["bandwidth"] / _BYTES_PER_GB
        if reader.has(_STEPS, "bandwidth")
        else np.where(np.isnan(size) | (duration > 0), size / np.maximum(duration, 1), 0.0)  # bytes per nanosecond
    )
    return tables.build("communication_tasks", columns)


_OF_TASK = {
    "startNs": "start_ns",
    "endNs": "duration_ns",
    "deviceId": "device_id",
    "streamId": "stream_id",
    "taskId": "task_id",
    "contextId": "context_id",
}
