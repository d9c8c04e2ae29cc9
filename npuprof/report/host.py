"""Tables of a report on a run without a device: the work of the host, its time and its memory."""

from __future__ import annotations

from typing import Any

import pandas as pd

from npuprof.analysis.host_times import HOST_LABELS, HostTimes
from npuprof.report.model import Table
from npuprof.words.quantities import count, counted, duration, share, size

HOST_TIME = "Host time"
"""Prefix of the title of the table of what the host did."""


def host_grids(host: HostTimes) -> list[Table]:
    """Return the tables of the host; none for a run with a device."""
    if not host.alone:
        return []
    where = counted(host.steps, "step") if host.steps else "the run, which has no steps"
    parts = [(HOST_LABELS[name], duration(time), share(time, host.span_ns)) for name, time in host.parts.items()]
    return [
        Table(f"{HOST_TIME} of {where}", ("what the host did", "time", "share"), parts, 2),
        *(_operators(subject, table) for subject, table in host.operators_by.items()),
        _functions(host.functions),
        _memory(host.memory),
    ]


def _operators(subject: str, table: pd.DataFrame) -> Table:
    """Return the operators of each line, module, or operator with its shapes, if these were recorded."""
    keys, counted = ([subject], "operators") if subject in table else (["op", "shapes"], "count")
    keys = [key for key in keys if table[key].notna().any()]
    rows = [
        (*(_name(row[key]) for key in keys), count(row["count"]), duration(row["total_ns"]), _percent(row["share"]))
        for row in table.to_dict("records")
    ]
    title = f"{subject.capitalize()}s with the most {'time' if subject == 'operator' else 'operator time'}"
    return Table(title, (subject, *keys[1:], counted, "own time", "of operators"), rows, 3)


def _functions(functions: pd.DataFrame) -> Table:
    rows = [
        (_name(row["name"]), _times(row), duration(row["own_ns"]), duration(row["total_ns"]))
        for row in functions.to_dict("records")
    ]
    return Table(
        "Python functions with the most time", ("Python function", "count", "own time", "with callees"), rows, 3
    )


def _times(row: dict[Any, Any]) -> str:
    return f"seen {count(row['count'])}" if row["sampled"] else count(row["count"])


def _memory(owners: pd.DataFrame) -> Table:
    rows = [
        (
            *(_name(row[name]) for name in ("category", "line", "op")),
            "" if pd.isna(row["blocks"]) else count(row["blocks"]),
            size(row["size_bytes"]),
            _percent(row["share"]),
        )
        for row in owners.to_dict("records")
    ]
    return Table("Memory at its peak", ("what for", "line", "operator", "blocks", "size", "of the peak"), rows, 3)


def _percent(of_all: float) -> str:
    return f"{100 * of_all:.1f} %" if of_all >= 0 else ""  # absent where the whole is zero


def _name(value: Any) -> str:
    return value if isinstance(value, str) else ""
