"""Tables without a counterpart in a profile: kept unconverted as statistics.

Examples are ``OSRT_API``, ``SAMPLE_PMU_SUMMARY``, ``CCU``, ``UB``, ``LOW_POWER``, and tables of later versions.

Source: sources/RESULTS.md sections 5.1 and 5.6.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from npuprof.sources.columns.builders import ABSENT
from npuprof.sources.database.format import TABLES, VIEWER
from npuprof.sources.database.reader import Names, Reader
from npuprof.tables.ledger import STATISTICS

_NAMES = {"OSRT_API": ("name",), "SAMPLE_PMU_SUMMARY": ("metric", "coreType")}
"""Columns that hold numbers of names."""
_NOT_PLAIN = re.compile(r"[^a-z0-9_]+")
_MAX_CELLS = 5_000_000
_MAX_TABLES = 40


def rest_of(reader: Reader) -> dict[str, pd.DataFrame]:
    """Read the tables that are not declared; a note names each non-empty one.

    Name tables and tables that a viewer added are omitted. The frame is named after the table, in lower case, with
    letters, digits and underscores only, so that it can name a file of a saved profile.
    """
    other_names = [name for name in sorted(reader.tables) if is_of_run(name)]
    frames: dict[str, pd.DataFrame] = {}
    for name in other_names[:_MAX_TABLES]:
        frame = _frame(reader, name)
        if frame is not None:
            plain = _NOT_PLAIN.sub("_", name.lower())[:80]
            frames[plain if plain not in frames else f"{plain}_{len(frames)}"] = frame
            reader.notes.info(
                reader.database.path.name,
                f"the table {name[:80]} is in no table of the profile; it is kept unconverted in `statistics`",
            )
    if left_names := other_names[_MAX_TABLES:]:
        reader.notes.info(
            reader.database.path.name, f"more tables, such as {left_names[0][:80]}, are not read", len(left_names)
        )
    return frames


def is_of_run(name: str) -> bool:
    """Return whether a table may hold rows of the run: not declared, no name table, and not a viewer's."""
    return name not in TABLES and not name.startswith(("ENUM_", "_")) and name not in VIEWER


def _frame(reader: Reader, table: str) -> pd.DataFrame | None:
    columns = list(reader.tables[table])
    limit = max(_MAX_CELLS // max(len(columns), 1), 1)
    records = reader.database.records(table, columns, limit + 1)
    if len(records) > limit:
        reader.warn(f"{table[:80]}: only the first {limit} rows are read")
        del records[limit:]
    reader.accounts.read(table, len(records))
    if not records:
        return None
    reader.accounts.keep(table, STATISTICS, len(records))
    cells = dict(zip(columns, zip(*records, strict=True), strict=True))
    for name in _NAMES.get(table, ()):
        cells[name] = tuple(_name(reader.strings, cell) for cell in cells.get(name, ()))
    whole = {name: _column(values) for name, values in cells.items() if len(values) == len(records)}
    return pd.DataFrame(whole)


def _name(strings: Names, cell: Any) -> Any:
    text = strings.text(cell if isinstance(cell, int) else ABSENT)
    return cell if text is None else text


def _column(cells: tuple[Any, ...]) -> Any:
    """Build a column of a single dtype: integers never pass through a float, mixed cells become text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int}:
        return pd.array(cells, dtype="Int64")
    if kinds <= {int, float}:
        return pd.array(cells, dtype="Float64").to_numpy(float, na_value=float("nan"))
    return pd.Series([None if cell is None else str(cell) for cell in cells], dtype=object)
