"""What several files of a result tell of the same rows must agree: where one has fewer, rows are missing.

A file that was cut at the end of a row, or written while its source was being cut, shows it in no other way.

Source: sources/RESULTS.md section 4.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from npuprof.sources.base import Decoded
from npuprof.sources.columns.nullable import named
from npuprof.sources.overlapping import COMMUNICATION_KERNELS

_SUMS = "communication"
_OF_TORCH = "Host Self Duration(us)"  # MindSpore lists only the operators that have shapes


def check_sums(decoded: Decoded) -> None:
    """Warn where the vendor's sums count other rows than there are."""
    for name, counted, table, rows in _counts(decoded):
        if counted != rows:
            decoded.notes.warning(name, f"it counts {counted} rows of {table}, and there are {rows}: one is incomplete")
    _check_steps(decoded)
    _check_memory(decoded)


def _check_steps(decoded: Decoded) -> None:
    """Warn of steps that kernels name and that the timeline or the breakdown of steps lacks."""
    tables = decoded.tables
    if "operators" not in tables or "kernels" not in tables:
        return
    named = set(tables["kernels"]["step"].dropna())
    for name in ("steps", "step_times"):
        if (name in tables or name == "steps") and (
            lacking := named - set(tables[name]["step"].dropna() if name in tables else ())
        ):
            decoded.notes.warning(name, "a step that kernels name is missing", len(lacking))


def _check_memory(decoded: Decoded) -> None:
    """Warn of blocks that an allocator took or gave back after its last record."""
    memory, blocks = decoded.tables.get("memory"), decoded.tables.get("allocations")
    if memory is None or blocks is None or not len(memory) or not len(blocks):
        return
    last = memory.loc[memory["allocated_bytes"].notna(), "time_ns"].max()  # of an allocator
    if late := int((blocks[["allocated_ns", "released_ns"]] > last).any(axis=1).sum()):
        decoded.notes.warning("memory", "a block was taken or given back after the last record", late)


def _counts(decoded: Decoded) -> Iterator[tuple[str, int, str, int]]:
    """Iterate over sums: of which file, what it counts, and of which table, how many rows that has."""
    tables, statistics = decoded.tables, decoded.statistics
    if (summed := _counted(statistics.get("op_statistic"))) is not None:
        yield "op_statistic", summed, "kernels", _computing(tables.get("kernels"), summed)
    calls = tables.get("api", ())
    if len(calls) and (summed := _counted(statistics.get("api_statistic"))) is not None:
        yield "api_statistic", summed, "api", len(calls)
    operators, details = tables.get("operators"), statistics.get("operator_details")
    if operators is not None and details is not None and _OF_TORCH in details:
        yield "operator_details", len(details), "operators", int((operators["kind"] == "op").sum())
    operated, listed = tables.get("communication", ()), statistics.get(_SUMS)
    if len(operated) and listed is not None:
        yield _SUMS, len(listed), "communication", len(operated)


def _computing(kernels: pd.DataFrame | None, summed: int) -> int:
    """Return the number of kernels; without those of communication where the sum is without them too."""
    if kernels is None:
        return 0
    of_communication = int(named(kernels["name"], lambda name: name.endswith(COMMUNICATION_KERNELS)).sum())
    without = len(kernels) - of_communication
    return without if without == summed else len(kernels)


def _counted(statistic: pd.DataFrame | None) -> int | None:
    if statistic is None or "Count" not in statistic:
        return None
    return int(pd.to_numeric(statistic["Count"], errors="coerce").sum())
