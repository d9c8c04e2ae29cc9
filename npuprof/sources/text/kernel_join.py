"""Join what two files tell of the same kernels and communication operators: the CSV and the timeline.

The times of the two differ by up to a nanosecond, since each was rounded on its own; a kernel has no
number that both files hold at every level.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.sources.columns.nullable import named
from npuprof.sources.raw.records import enums
from npuprof.sources.trace.calls import starting_at

_COMPUTE_TYPE = re.compile(
    r"(?:KERNEL_)?(?:AI_CORE|AI_CUBE|AICORE|AIC|AIV|AIVEC|AI_VECTOR_CORE|MIX_AI[CV]|AI_CPU|AICPU|DSA_SQE)",
    re.IGNORECASE,
)
_UNKNOWN_TYPE = "Other"  # of older tools: a task that no operator describes, or a kernel
_TYPES = frozenset(
    name
    for names in (enums.TRACK_TASK_TYPES, enums.SQE_TYPES, enums.HWTS_TYPES, enums.V6_SQE_TYPES, enums.SUB_TASK_TYPES)
    for name in names.values()
)
_TASK_COLUMNS = ("stream_id", "task_id", "batch_id", "context_id", "connection_id", "task_type")


def take_task_numbers(kernels: pd.DataFrame, device_tasks: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Assign kernels the numbers of their device tasks.

    Parameters
    ----------
    kernels, device_tasks
        Tables ``kernels`` and ``tasks`` of one run, sorted by time.

    Returns
    -------
    kernels
        The table with stream, task, batch, context, connection and task type of the task of the same name that
        starts at the same moment, within 1 ns; other rows as they were.
    unmatched
        How many have no such task.
    """
    if not len(device_tasks):
        return kernels, len(kernels)
    row = _same(kernels, device_tasks)
    known = row >= 0
    joined = kernels.copy(deep=False)
    for name in _TASK_COLUMNS:
        theirs = pd.Series(device_tasks[name].take(np.maximum(row, 0)).array, index=kernels.index)
        ours: Any = kernels[name].astype(object) if name == "task_type" else kernels[name]
        merged = theirs.astype(ours.dtype).where(known, ours)
        joined[name] = merged.astype(kernels[name].dtype if name != "task_type" else "category")
    return joined, int((~known).sum())


def take_steps(communication: pd.DataFrame, listed: pd.DataFrame) -> pd.DataFrame:
    """Return communication operators of the timeline the type and step that the CSV lists for them."""
    if not len(listed):
        return communication
    row = _same(communication, listed)
    joined: pd.DataFrame = communication.copy(deep=False)
    known = row >= 0
    step = listed["step"].take(np.maximum(row, 0)).array
    joined["step"] = pd.Series(step, index=communication.index).where(known, communication["step"])
    return joined


def compute_kernels(device_tasks: pd.DataFrame, step: Any) -> dict[str, Any]:
    """Make kernels of the device tasks that compute: what is left where there is no table of kernels.

    These are tasks of a core's type. Of a type that is not known, those with the name of an operator: a task of another
    kind is called by its type, ``MEMCPY_ASYNC``.
    """
    compute = named(device_tasks["task_type"], lambda name: _COMPUTE_TYPE.fullmatch(name) is not None)
    unknown = named(device_tasks["task_type"], lambda name: name == _UNKNOWN_TYPE)
    compute |= unknown & named(device_tasks["name"], _is_operator)
    chosen = device_tasks[compute]
    columns: dict[str, Any] = {name: chosen[name].array for name in chosen.columns}
    columns["op_name"] = chosen["name"].array
    columns["step"] = step[compute]
    return columns


def _is_operator(name: str) -> bool:
    return _COMPUTE_TYPE.fullmatch(name) is not None or name not in (_UNKNOWN_TYPE, "N/A", *_TYPES)


def _same(ours: pd.DataFrame, theirs: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Find the row of `theirs` with the same name and start, or one 1 ns off; -1 where there is none."""
    names = pd.Index(ours["name"].cat.categories)
    code = np.append(names.get_indexer(theirs["name"].cat.categories), -1)[theirs["name"].cat.codes]
    own, start = ours["name"].cat.codes.to_numpy(), ours["start_ns"].to_numpy()
    found = np.full(len(ours), -1, np.int64)
    for off in (0, -1, 1):
        rows = starting_at(code, theirs["start_ns"].to_numpy(), own, start + off)
        found = np.where((found < 0) & (own >= 0), rows, found)
    return found
