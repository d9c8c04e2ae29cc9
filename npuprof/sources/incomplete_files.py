"""Which tables lack rows if a file of a result is damaged."""

from __future__ import annotations

from npuprof.tables.notes import ANY

_TABLES: dict[str, tuple[str, ...]] = {
    "kernel_details": ("kernels", "communication"),
    "op_summary": ("kernels", "communication"),
    "task_time": ("tasks",),
    "msprof_tx": ("marks",),
    "step_trace_time": ("step_times",),
    "step_trace": ("steps",),
    "memory_record": ("memory",),
    "ge_memory_record": ("memory",),
    "npu_module_mem": ("memory",),
    "npu_mem": ("memory",),
    "operator_memory": ("allocations",),
    "ge_operator_memory": ("allocations",),
}
_SUMS = ("communication.json", "communication_matrix.json")


def tables_of(name: str) -> tuple[str, ...]:
    """Return the tables that lack rows if the file of a name does: any of a timeline or database, none of sums."""
    if name.endswith(".csv"):
        return next((tables for begin, tables in _TABLES.items() if name.startswith(begin)), ())
    return () if name.endswith(_SUMS) else ANY
