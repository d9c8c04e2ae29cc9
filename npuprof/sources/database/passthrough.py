"""Tables without a counterpart in a profile: kept unconverted as statistics.

Examples are ``OSRT_API``, ``SAMPLE_PMU_SUMMARY``, ``CCU``, ``UB``, ``LOW_POWER``, and tables of later versions.

Source: sources/RESULTS.md sections 5.1 and 5.6.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import pandas as pd

from npuprof.sources.columns.builders import ABSENT
from npuprof.sources.database.connection import Database
from npuprof.sources.database.names import TextsById
from npuprof.tables.ledger import STATISTICS

_OF_VIEWER = ("connectionCats", "status_info")  # MindStudio Insight adds these to a file that it opens
_NAMES = {"OSRT_API": ("name",), "SAMPLE_PMU_SUMMARY": ("metric", "coreType")}
"""Columns that hold numbers of names."""
_NOT_PLAIN = re.compile(r"[^a-z0-9_]+")
_MAX_CELLS = 5_000_000
_MAX_TABLES = 40


def rest_of(database: Database, strings: TextsById, known_names: Collection[str]) -> dict[str, pd.DataFrame]:
    """Read the tables that are not `known_names`; a note names each non-empty one.

    Name tables and tables that a viewer added are omitted. The frame is named after the table, in lower case, with
    letters, digits and underscores only, so that it can name a file of a saved profile.
    """
    other_names = [name for name in sorted(database.tables) if is_of_run(name, known_names)]
    frames: dict[str, pd.DataFrame] = {}
    for name in other_names[:_MAX_TABLES]:
        frame = _frame(database, strings, name)
        if frame is not None:
            plain = _NOT_PLAIN.sub("_", name.lower())[:80]
            frames[plain if plain not in frames else f"{plain}_{len(frames)}"] = frame
            database.notes.info(
                database.path.name,
                f"the table {name[:80]} is in no table of the profile; it is kept unconverted in `statistics`",
            )
    if left_names := other_names[_MAX_TABLES:]:
        database.notes.info(
            database.path.name, f"more tables, such as {left_names[0][:80]}, are not read", len(left_names)
        )
    return frames


def is_of_run(name: str, known_names: Collection[str]) -> bool:
    """Return whether a table may hold rows of the run: not `known_names`, no name table, and not a viewer's."""
    return name not in known_names and not name.startswith(("ENUM_", "_")) and name not in _OF_VIEWER


def _frame(database: Database, strings: TextsById, table: str) -> pd.DataFrame | None:
    columns = list(database.tables[table])
    limit = max(_MAX_CELLS // max(len(columns), 1), 1)
    records = database.records(table, columns, limit + 1)
    if len(records) > limit:
        database.notes.warning(database.path.name, f"{table[:80]}: only the first {limit} rows are read")
        del records[limit:]
    database.accounts.read(table, len(records))
    if not records:
        return None
    database.accounts.keep(table, STATISTICS, len(records))
    cells = dict(zip(columns, zip(*records, strict=True), strict=True))
    for name in _NAMES.get(table, ()):
        cells[name] = tuple(_name(strings, cell) for cell in cells.get(name, ()))
    whole = {name: _column(values) for name, values in cells.items() if len(values) == len(records)}
    return pd.DataFrame(whole)


def _name(strings: TextsById, cell: Any) -> Any:
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
