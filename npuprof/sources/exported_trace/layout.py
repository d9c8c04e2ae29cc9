"""How a Chrome trace of npuprof holds the tables of a run.

Each row with a time is a slice, a sample or an arrow that viewers draw. Its arguments have every value of the row that
the event itself does not show, among them the row's number in its table (``npuprof_row``); absent values are not
written. A kernel is part of the slice of its task: its argument ``kernel`` has the values that the task does not share.
Whatever viewers cannot draw is in metadata events, whose names viewers do not know and skip:

- ``npuprof_run``, before all others: a run's facts, notes, and the number of rows and the dtypes of its tables;
- ``npuprof_series``: the columns that all samples of a series share, by the process and thread of its samples;
- ``npuprof_rows``: rows without a place on the time axis, as columns: tables without times, links of rows that are not
  drawn, samples without a time or a number, and the vendor's sums (``statistic`` instead of ``table``).

Times are microseconds relative to ``base_ns`` of ``npuprof_run``, with three decimals. In a file of several runs, the
arguments name the run too (``npuprof_run``), and the ``base_ns`` of each puts all on one clock.
"""

from __future__ import annotations

from collections.abc import Mapping

VERSION = 1

FORMAT = "Chrome trace of npuprof"
"""``info.source`` of such a run."""

RUN, SERIES, ROWS = "npuprof_run", "npuprof_series", "npuprof_rows"
"""Names of metadata events."""

ROW, OF_RUN, KERNEL = "npuprof_row", "npuprof_run", "kernel"
"""Arguments that are no columns."""

KERNEL_CATEGORY = "kernel"
"""The category of a kernel that has no task."""

CATEGORIES: Mapping[str, str] = {
    "steps": "step",
    "python": "python_function",
    "operators": "cpu_op",
    "api": "runtime_call",
    "marks": "mark",
    "tasks": "task",
    "communication": "collective",
    "communication_tasks": "collective_task",
    "overlap": "overlap",
}
"""The category of each table's slices."""

NAMES: Mapping[str, str] = {
    "python": "name",
    "operators": "name",
    "api": "name",
    "marks": "message",
    "tasks": "name",
    "communication": "name",
    "communication_tasks": "task_type",
    "overlap": "kind",
}
"""The column that is the name of a table's slices."""

SAMPLES: Mapping[str, tuple[str, ...]] = {
    "counters": ("value",),
    "memory": ("allocated_bytes", "reserved_bytes", "active_bytes"),
}
"""The columns of the values of tables of samples."""

_TASK = {
    "model_id": "Model Id",
    "task_type": "Task Type",
    "stream_id": "Stream Id",
    "task_id": "Task Id",
    "batch_id": "Batch Id",
    "context_id": "Subtask Id",
    "copied_bytes": "size(B)",
    "copy_direction": "operation",
}
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "python": {"id": "Python id", "parent_id": "Python parent id"},
    "operators": {
        "sequence_number": "Sequence number",
        "input_shapes": "Input Dims",
        "input_dtypes": "Input type",
        "stack": "Call stack",
        "forward_thread_id": "Fwd thread id",
    },
    "api": {"item": "item_id"},
    "marks": {"kind": "event_type", "category": "Category"},
    "communication": {"algorithm": "alg_type"},
    "communication_tasks": {
        "task_type": "task type",
        "stream_id": "stream id",
        "task_id": "task id",
        "context_id": "context id",
        "src_rank": "src rank",
        "dst_rank": "dst rank",
        "transport": "transport type",
        "link": "link type",
        "size_bytes": "size(Byte)",
        "bandwidth_gb_s": "bandwidth(GB/s)",
        "data_type": "data type",
        "estimated_us": "duration estimated(us)",
    },
    "tasks": _TASK,
    "kernels": _TASK,
}
"""The vendor's name of an argument by column, where it has one."""


def argument_of(table: str, column: str) -> str:
    """Return the argument that holds a column of a table's slices."""
    return ARGUMENTS.get(table, {}).get(column, column)
