"""The tables that a page shows as grids, and their columns before the first row arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from npuprof.analysis.table_view import View
from npuprof.tables.schema import SCHEMA
from npuprof.timeline.slices import column_text

_LONGEST_NAME = 300


@dataclass(frozen=True)
class GridTable:
    """A table that has a grid."""

    # table, title, noun: its name in a profile, its title, and the noun for its rows.
    table: str
    title: str
    noun: str
    groups: tuple[tuple[str, ...], ...]  # the ways to group its rows, each a tuple of columns; the first is shown first


KINDS: tuple[GridTable, ...] = (
    GridTable("python", "Python", "calls", (("name",), ("thread_id",))),
    GridTable("operators", "Operators", "operators", (("name",), ("name", "input_shapes"), ("thread_id",), ("step",))),
    GridTable(
        "kernels",
        "Kernels",
        "kernels",
        (("name", "op_type"), ("op_type",), ("core",), ("op_type", "input_shapes"), ("stream_id",), ("step",)),
    ),
    GridTable("tasks", "Tasks", "tasks", (("name",), ("task_type",), ("stream_id",))),
    GridTable("api", "API", "calls", (("name", "level"), ("level",), ("thread_id",))),
    GridTable("communication", "Communication", "operators", (("op_type",), ("group",), ("name",), ("step",))),
    GridTable("communication_tasks", "Communication tasks", "tasks", (("task_type",), ("transport",), ("link",))),
    GridTable("iterations", "Iterations", "iterations", (("loop",),)),
    GridTable("marks", "Marks", "markers", (("message",), ("domain",), ("thread_id",))),
    GridTable("allocations", "Allocations", "blocks", (("name",), ("device_id",), ("stream",))),
)
"""The tables with a grid, in order."""


def kind_of(table: str) -> GridTable | None:
    """Return the grid of a table, None if it has none."""
    return next((kind for kind in KINDS if kind.table == table), None)


def described(kind: GridTable, frame: pd.DataFrame) -> dict[str, Any]:
    """Return the description of a table for a page: JSON values, and the columns with any value."""
    present = [str(name) for name in frame.columns if frame[name].notna().any()] or [*map(str, frame.columns)]
    groups = [list(group) for group in kind.groups if set(group) <= set(present)]
    return {
        "table": kind.table,
        "title": kind.title,
        "noun": kind.noun,
        "weight": View(kind.table).weight,
        "count": len(frame),
        "groups": groups,
        "columns": [
            {
                "name": name,
                "kind": (of := _kind_of(frame[name])),
                "meaning": SCHEMA[kind.table].meaning_of(name),
                # A page holds single precision, and texts as they are shown.
                "exact": of in ("int", "flag") or (of == "text" and _is_shown_as_it_is(name, frame[name])),
            }
            for name in sorted(present, key=lambda name: name not in kind.groups[0])  # what names a row comes first
        ],
    }


def _kind_of(series: pd.Series[Any]) -> str:
    if pd.api.types.is_bool_dtype(series.dtype):
        return "flag"
    if pd.api.types.is_integer_dtype(series.dtype):
        return "int"
    return "float" if pd.api.types.is_float_dtype(series.dtype) else "text"


def _is_shown_as_it_is(name: str, series: pd.Series[Any]) -> bool:
    is_coded = isinstance(series.dtype, pd.CategoricalDtype)
    texts: Sequence[object] = (series.cat.categories if is_coded else series.dropna().unique()).tolist()
    some = [text for text in texts if isinstance(text, str)]
    if len(some) < len(texts) or not all(some) or max(map(len, some), default=0) > _LONGEST_NAME:
        return False
    if not "".join(some).isprintable():
        return False
    return name not in ("name", "file", "stack") or all(column_text(name, text) == text for text in some)
