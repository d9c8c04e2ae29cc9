"""The missing data of a damaged result, by its notes: lines below the title, and the affected figures."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from npuprof.tables.notes import ANY
from npuprof.tables.schema import SCHEMA
from npuprof.words.quantities import counted

MOST_LINES = 3
"""Maximum number of lines on what is missing; the notes have all of them."""

INCOMPLETE = "incomplete"
"""The mark of a figure whose rows are not all there."""

_OF_FIGURES = {
    "computing": ("kernels", "tasks"),
    "communication alone": ("communication", "communication_tasks", "tasks"),
    "device idle": ("kernels", "tasks", "communication"),
    "kernels": ("kernels",),
    "memory peak": ("memory", "allocations"),
    "mean step": ("steps",),
}


def damage_lines(notes: pd.DataFrame) -> list[str]:
    """Return the losses of a result, counted ones first; errors have lines of their own."""
    losses = notes[((notes["lacks"] != "") & (notes["severity"] != "error")).to_numpy(bool)]
    order = np.argsort(losses["missing_rows"].isna().to_numpy(bool), kind="stable")
    columns = (losses[name].iloc[order].tolist() for name in ("source", "message", "count", "missing_rows"))
    lines = [
        f"Incomplete: {source}: {message}{_how_much(count, rows)}"
        for source, message, count, rows in list(zip(*columns, strict=True))[:MOST_LINES]
    ]
    more = len(losses) - len(lines)
    return [*lines, f"{counted(more, 'more note')} on what is missing below"] if more else lines


def _how_much(count: int, rows: Any) -> str:
    if not pd.isna(rows):
        return f" ({counted(rows, 'row')})"
    return f" ({count:,} times)" if count > 1 else ""


def damaged_tables(notes: pd.DataFrame) -> frozenset[str]:
    """Return the tables that lack rows: all of them where a loss may be of any."""
    tables = {table for lacks in notes["lacks"] for table in lacks.split()}
    return frozenset(SCHEMA.keys() if {*ANY} & tables else tables)


def marked(figures: list[tuple[str, str]], damaged: Collection[str]) -> list[tuple[str, str]]:
    """Return figures by name, with a mark on those that depend on a table that lacks rows."""
    return [
        (name, f"{value}, {INCOMPLETE}" if _depends(name, damaged) and any(map(str.isdigit, value)) else value)
        for name, value in figures
    ]


def _depends(name: str, damaged: Collection[str]) -> bool:
    tables = ("api",) if name.endswith(" calls") else _OF_FIGURES.get(name, ())
    return any(table in damaged for table in tables)


def headline_mark(damaged: Collection[str]) -> str:
    """Return what follows the headline of a step whose device time lacks rows."""
    return f" ({INCOMPLETE})" if _depends("device idle", damaged) else ""
