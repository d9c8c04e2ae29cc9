"""The slices of all tables under one numbering: names, colours, details and search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from npuprof.analysis.device_words import runtime_of
from npuprof.analysis.patterns import contains
from npuprof.analysis.step_windows import of_counted_kind
from npuprof.arrays import Int64
from npuprof.figures.chart import moment
from npuprof.figures.colours import device_family
from npuprof.lines.frames import cell_text, frame_text
from npuprof.tables import rows_named
from npuprof.words.quantities import duration as duration_text
from npuprof.words.quantities import share as share_text
from npuprof.words.quantities import size as size_text

_Value = TypeVar("_Value")

TABLES = (
    *("steps", "marks", "python", "operators", "api"),
    *("kernels", "tasks", "communication", "communication_tasks", "overlap", "iterations"),
)
"""The tables with slices, in the order of the slice numbers."""

NUMBERED = ("steps", "iterations")
"""The tables whose slices have a number instead of a name."""

NAME_COLUMNS: Mapping[str, str] = {
    **{name: "name" for name in TABLES if name not in NUMBERED},
    "marks": "message",
    "communication_tasks": "task_type",
    "overlap": "kind",
}
"""The column with the slice name of each table, but for those of :data:`NUMBERED`."""

ONE_FAMILY: Mapping[str, str] = {
    "steps": "step",
    "iterations": "step",
    "marks": "step",
    "python": "python",
    "operators": "operator",
    "api": "api",
    "communication": "communication",
    "communication_tasks": "communication",
}
"""The colour family of each table whose slices share one."""

_STACK_FRAMES = 3  # stack frames in a hover text; the details have the whole stack
_MOST_RATIOS = 6
_UNITS: Mapping[str, Callable[[int], str]] = {"_ns": duration_text, "_bytes": size_text}


class Slices:
    """Consecutive numbers for the rows of all tables with slices; `stages` is the pipeline stage of each rank."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], stages: Mapping[int, int] | None = None) -> None:
        self.tables = tables
        self.stages: Mapping[int, int] = stages or {}
        self._bounds = np.cumsum([0, *(len(tables[name]) for name in TABLES)])
        self.first: dict[str, int] = dict(zip(TABLES, self._bounds.tolist(), strict=False))
        self._known_times: dict[str, tuple[Int64, Int64]] = {}
        self.runtime = runtime_of(tables["api"]["name"].cat.categories)

    @property
    def count(self) -> int:
        """The number of all slices."""
        return int(self._bounds[-1])

    def of_table(self, name: str) -> Int64:
        """Return the slice numbers of a table's rows."""
        return np.arange(self.first[name], self.first[name] + len(self.tables[name]))

    def row(self, number: int) -> tuple[str, int]:
        """Return the table and row of a slice."""
        table = TABLES[int(np.searchsorted(self._bounds, number, side="right")) - 1]
        return table, number - self.first[table]

    def span(self, number: int) -> tuple[int, int]:
        """Return the start and end of a slice, epoch nanoseconds."""
        table, row = self.row(number)
        starts, durations = self._times(table)
        start = int(starts[row])
        return start, start + int(durations[row])

    def _times(self, table: str) -> tuple[Int64, Int64]:
        if table not in self._known_times:
            frame = self.tables[table]
            self._known_times[table] = frame["start_ns"].to_numpy(np.int64), frame["duration_ns"].to_numpy(np.int64)
        return self._known_times[table]

    def name(self, number: int) -> str:
        """Return the name of a slice; not escaped."""
        return self.names(np.array([number]))[0]

    def names(self, numbers: Int64) -> list[str]:
        """Return the recorded names of slices, empty if absent; not escaped."""
        return self._each(numbers, _names)

    def families(self, numbers: Int64) -> list[str]:
        """Return the colour family of each slice (:data:`npuprof.figures.colours.FAMILIES`)."""
        return self._each(numbers, _families)

    def facts(self, numbers: Int64) -> list[list[str]]:
        """Return detail lines for each slice: shapes, stack, use of compute units; not escaped."""
        return self._each(numbers, _facts)

    def details(self, number: int) -> list[tuple[str, str, str]]:
        """Return the present columns of a slice: name, value as reports write it, and as recorded; not escaped."""
        table, row = self.row(number)
        values = ((str(column), value) for column, value in self.tables[table].iloc[row].items() if not _absent(value))
        facts = [(column, column_text(column, value), str(value)) for column, value in values]
        return [("table", f"{table}, row {row:,}", f"{table}, row {row}"), *facts]

    def by_table(self, numbers: Int64) -> Iterator[tuple[str, Int64, Int64]]:
        """Yield each table's name, the positions of its slices in `numbers`, and their rows in the table."""
        table_of = np.searchsorted(self._bounds, numbers, side="right") - 1
        for code in np.unique(table_of).tolist():
            places = np.flatnonzero(table_of == code)
            yield TABLES[code], places, numbers[places] - self._bounds[code]

    def _each(self, numbers: Int64, describe: Callable[[str, pd.DataFrame], list[_Value]]) -> list[_Value]:
        """Apply a function to the slices of each table, reading only their rows."""
        by_row: dict[int, _Value] = {}
        for table, places, rows in self.by_table(numbers):
            by_row.update(zip(places.tolist(), describe(table, self.tables[table].iloc[rows]), strict=True))
        return [by_row[at] for at in range(len(numbers))]


def _strings(rows: pd.DataFrame, column: str) -> list[str]:
    """Return a column as strings; absent values are empty."""
    if column not in rows:
        return [""] * len(rows)
    return [value if isinstance(value, str) else "" for value in rows[column].to_numpy(object)]


def _names(table: str, rows: pd.DataFrame) -> list[str]:
    if table == "steps":
        kinds = [kind * bool(other) for kind, other in zip(_strings(rows, "kind"), ~of_counted_kind(rows), strict=True)]
        steps = ["step" if pd.isna(step) else f"step {step}" for step in rows["step"]]
        return [f"{step}, {kind}" if kind else step for step, kind in zip(steps, kinds, strict=True)]
    if table == "iterations":
        columns = (rows[name].tolist() for name in ("loop", "iteration"))
        return [f"line {line}: iteration {number}" for line, number in zip(*columns, strict=True)]
    names = _strings(rows, NAME_COLUMNS[table])
    return [name.replace("_", " ") if table == "overlap" else frame_text(name) for name in names]


def _families(table: str, rows: pd.DataFrame) -> list[str]:
    if table == "overlap":
        return ["computing" if kind == "computing" else "communication" for kind in _strings(rows, "kind")]
    if table in ONE_FAMILY:
        return [ONE_FAMILY[table]] * len(rows)
    columns = (_strings(rows, "op_type"), _strings(rows, "task_type"), _strings(rows, "name"))
    return [device_family(*row) for row in zip(*columns, strict=True)]


def _facts(_table: str, rows: pd.DataFrame) -> list[list[str]]:
    lines: list[list[str]] = [[] for _ in range(len(rows))]
    for column in ("input_shapes", "output_shapes"):
        for facts, shapes in zip(lines, _strings(rows, column), strict=True):
            facts.extend([f"{column.partition('_')[0]} {shapes}"] if shapes else [])
    for facts, stack in zip(lines, _strings(rows, "stack"), strict=True):
        facts.extend(_stack_frames(stack)[:_STACK_FRAMES])
    ratios = [column for column in rows.columns if str(column).endswith("_ratio")]
    if ratios:
        values = rows[ratios].to_numpy(np.float64, na_value=np.nan)
        for facts, used in zip(lines, values, strict=True):
            facts.extend(_units_used(ratios, used))
    return lines


def _stack_frames(stack: str) -> list[str]:
    return [frame_text(frame.strip()) for frame in stack.replace(";", "\n").split("\n") if frame.strip()]


def _units_used(columns: list[str], used: np.ndarray[Any, np.dtype[np.float64]]) -> list[str]:
    """Return a line with the most used compute units of a kernel."""
    positive = [(part, column) for part, column in zip(used.tolist(), columns, strict=True) if part > 0]
    ranked = sorted(positive, key=lambda pair: -pair[0])
    words = [f"{column.removesuffix('_ratio').replace('_', ' ')} {100 * part:.0f} %" for part, column in ranked]
    return [", ".join(words[:_MOST_RATIOS])] if words else []


def _absent(value: Any) -> bool:
    return bool(pd.isna(value)) if pd.api.types.is_scalar(value) else value is None


def column_text(column: str, value: Any) -> str:
    """Return a value of a column as text, as the details of a slice have it; not escaped."""
    if column in ("start_ns", "device_start_ns"):
        return moment(int(value))
    unit = next((describe for end, describe in _UNITS.items() if column.endswith(end)), None)
    if unit is not None and isinstance(value, int | np.integer):
        return unit(int(value))
    if column.endswith("_ratio") and isinstance(value, float) and np.isfinite(value):
        return share_text(round(value * 1_000_000), 1_000_000)
    if column == "stack":
        return "\n".join(_stack_frames(str(value)))
    if column in ("name", "file"):
        return frame_text(str(value)) if column == "name" else cell_text(str(value)) or str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool) and not column.endswith("id")
    return f"{value:,}" if is_number else str(value)


_SEARCHED = ("marks", "python", "operators", "api", "kernels", "tasks", "communication", "communication_tasks")


@dataclass(frozen=True)
class Matches:
    """The slices that match a search, ordered by start, and the sum of their durations."""

    text: str
    slices: Int64
    start_ns: Int64
    total_ns: int

    def __len__(self) -> int:
        return len(self.slices)


def search(slices: Slices, text: str, *, regex: bool = False, hidden: Int64 | None = None) -> Matches:
    """Return the slices whose name contains a text, ignoring case, or matches a regular expression.

    `hidden` are rows of ``tasks`` that the timeline shows as kernels; they do not match a second time.
    """
    numbers, starts, total = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for table in _SEARCHED if text else ():
        frame = slices.tables[table]
        names = frame[NAME_COLUMNS[table]].array
        distinct = [frame_text(name) if isinstance(name, str) else name for name in names.categories.tolist()]
        rows = np.flatnonzero(rows_named(names, contains(distinct, text, regex=regex)))
        if table == "tasks" and hidden is not None:
            rows = rows[~np.isin(rows, hidden)]
        numbers.append(rows + slices.first[table])
        starts.append(frame["start_ns"].to_numpy()[rows])
        total += int(frame["duration_ns"].to_numpy()[rows].sum())
    start = np.concatenate(starts)
    order = np.argsort(start, kind="stable")
    return Matches(text, np.concatenate(numbers)[order], start[order], total)
