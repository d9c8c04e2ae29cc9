"""Versions of databases: unknown tables and columns, and ``report_*.db`` of early 2024.

A ``report_*.db`` holds today's tables under older names, with times relative to ``baseTimeNs``. Some versions stored
times as rounded text or floats: the remaining digits are read, and a note states their resolution.

Source: sources/RESULTS.md sections 5.1 to 5.3 and 5.7.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from npuprof.arrays import Int64, Records
from npuprof.sources.columns.builders import ABSENT
from npuprof.sources.columns.decimals import scaled_one
from npuprof.sources.database.connection import Database
from npuprof.sources.database.known_tables import (
    OLDER_COLUMNS,
    OLDER_COLUMNS_OF,
    OLDER_TABLES,
    OLDER_TIMES,
    TABLES,
    columns,
    filled_columns,
)

_MAX_NAMED = 5
_MAX_NAME = 60
_SIGNS = ("correlationId", "start")
_COARSEST_NS = 1_000_000  # the coarsest resolution that is useful for tasks
_MAX_ROUNDED = 5_000_000  # number of rows whose times are read one by one


def note_shape(database: Database) -> None:
    """Note views in place of tables, missing or unknown columns and, after reading, absent values."""
    database.filled = {table: filled_columns(table) for table in TABLES}
    note_views(
        database, [name for name in database.unread if columns(name) is not None or name in OLDER_TABLES.values()]
    )
    for name, known in database.tables.items():
        if (expected := columns(name)) is not None:
            required, optional = expected
            missing, other_names = _difference(known, required, optional)
            if missing:
                _note_missing(database, name, missing, other_names)
            elif other_names:
                message = f"{name}: {_listed(other_names)} is not known here and not read"
                database.notes.info(database.path.name, message)


def note_views(database: Database, names: Collection[str]) -> None:
    """Note views and virtual tables that are not read."""
    for name in names:
        database.notes.warning(
            database.path.name,
            f"{name[:_MAX_NAME]} is a view or a virtual table, which could run anything: it is not read, and what it "
            "would show is missing; copy its rows into a table of that name, or export the result again",
        )


def note_renamed(database: Database, table: str, wanted_names: Collection[str], optional: Collection[str] = ()) -> None:
    """Note the missing columns of a table with many versions, if it has unknown columns."""
    missing, other_names = _difference(database.tables.get(table, {}), wanted_names, optional)
    if missing and other_names:
        _note_missing(database, table, missing, other_names)


def _difference(
    known_names: Collection[str], required: Collection[str], optional: Collection[str]
) -> tuple[set[str], set[str]]:
    """Return the missing required columns, and the unknown columns."""
    missing = {group.partition("|")[0] for group in required if not set(group.split("|")) & set(known_names)}
    return missing, set(known_names).difference(optional, *(group.split("|") for group in required))


def _note_missing(database: Database, table: str, missing: set[str], other_names: set[str]) -> None:
    message = f"{table} lacks {_listed(missing)}: values are absent, or rows are left out"
    message += f"; perhaps they are in {_listed(other_names)}, which is not known here" if other_names else ""
    database.notes.warning(database.path.name, message)


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(name[:_MAX_NAME] for name in sorted(names)[:_MAX_NAMED])
    return f"{'column' if len(names) == 1 else 'columns'} {shown}{' ...' if len(names) > _MAX_NAMED else ''}"


def is_report(tables: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether the tables and columns of a file are of the older form."""
    if any(old in tables and new not in tables for new, old in OLDER_TABLES.items()):
        return True
    task = tables.get("TASK", {})
    return any(sign in task for sign in _SIGNS) and "startNs" not in task


class ReportDatabase(Database):
    """A file of the older form under today's names; times are UTC epoch nanoseconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = database._connection
        self.path, self.notes, self.accounts = database.path, database.notes, database.accounts
        self.unread = database.unread
        self._names = {
            new: old for new, old in OLDER_TABLES.items() if old in database.tables and new not in database.tables
        }
        self.accounts.names = self._names
        self._columns_of = {self._present_name(table): self._rename(table) for table in database.tables}
        self.tables = {
            table: {new: database.tables[self._old(table)][old] for new, old in columns.items()}
            for table, columns in self._columns_of.items()
        }
        self._base_ns = self._read_base()

    def rows(self, table: str, whole: Sequence[str], floats: Sequence[str] = ()) -> dict[str, Records]:
        """Read columns of a table; see :meth:`Database.rows`."""
        columns = self._columns_of.get(table, {})
        timed = [name for name in whole if columns.get(name) in OLDER_TIMES.values()]
        old = {name: columns.get(name, name) for name in (*whole, *floats)}
        values = self._database.rows(self._old(table), [old[name] for name in whole], [old[name] for name in floats])
        rows = {name: values[old[name]] for name in (*whole, *floats)}
        for name in timed:
            rows[name] = self._on_epoch(self._with_rounded(table, old[name], rows[name]))
        return rows

    def texts(self, table: str, number: str, text: str) -> tuple[Int64, list[str]]:
        """Read a table of numbered texts; see :meth:`Database.texts`."""
        return self._database.texts(self._old(table), number, text)

    def records(self, table: str, columns: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
        """Read a small table unconverted; see :meth:`Database.records`."""
        names = self._columns_of.get(table, {})
        return self._database.records(self._old(table), [names.get(name, name) for name in columns], limit)

    def bounds(self, table: str, column: str) -> tuple[int, int] | None:
        """Return the bounds of a column; see :meth:`Database.bounds`."""
        return self._database.bounds(self._old(table), self._columns_of.get(table, {}).get(column, column))

    def count(self, table: str) -> int:
        """Return the number of rows of a table; see :meth:`Database.count`."""
        return self._database.count(self._old(table))

    def deleted_rows(self, table: str) -> int:
        """Return how many numbers of rows are unused; see :meth:`Database.deleted_rows`."""
        return self._database.deleted_rows(self._old(table))

    def _old(self, table: str) -> str:
        return self._names.get(table, table)

    def _present_name(self, table: str) -> str:
        return next((new for new, old in self._names.items() if old == table), table)

    def _rename(self, table: str) -> dict[str, str]:
        """Return the column names of the file by today's names."""
        known = self._database.tables[table]
        older = {**OLDER_COLUMNS, **OLDER_COLUMNS_OF.get(self._present_name(table), {})}
        renamed = {new: old for new, old in older.items() if old in known and new not in known}
        return {**{name: name for name in known if name not in renamed.values()}, **renamed}

    def _read_base(self) -> int:
        bases = self.facts("SESSION_TIME_INFO", ["baseTimeNs"], 1)
        base = bases[0][0] if bases else None
        return base if isinstance(base, int) and 0 < base < 1 << 62 else 0

    def _on_epoch(self, times: Int64) -> Int64:
        is_counted = (times != ABSENT) & (times < self._base_ns)
        return np.where(is_counted, times + self._base_ns, times)

    def _with_rounded(self, table: str, column: str, times: Int64) -> Int64:
        """Read the times that are not stored as integers, to the resolution of their digits."""
        missing = np.flatnonzero(times == ABSENT)
        if not len(missing):
            return times
        cells = self._database.records(self._old(table), [column], _MAX_ROUNDED)
        read = [(row, rounded(cells[row][0])) for row in missing.tolist() if row < len(cells)]
        known = {row: time for row, time in read if time is not None}
        step = min((step for _, step in known.values()), default=0)  # trailing zeros of a text are not written
        if not known or step > _COARSEST_NS:
            return times
        times = times.copy()
        times[list(known)] = [value for value, _ in known.values()]
        if step > 1:
            self.notes.warning(
                self.path.name,
                f"{table}: a time is rounded to {step} ns in the file; what lies closer together may seem to overlap "
                "or to change places",
                len(known),
            )
        return times


def rounded(cell: Any) -> tuple[int, int] | None:
    """Return the time in a cell in integer nanoseconds, and its resolution; None for a cell without a time."""
    if isinstance(cell, float):
        if not math.isfinite(cell) or not 0 <= cell < 1 << 62:
            return None
        value, step = round(cell), max(int(math.ulp(cell)), 1)
    elif isinstance(cell, str) and len(cell) < 64:
        value_ns = scaled_one(cell, 1)
        if value_ns is None or value_ns < 0:
            return None
        digits = sum(digit.isdigit() for digit in cell.lower().partition("e")[0].replace(".", "").lstrip("0"))
        value, step = value_ns, 10 ** max(len(str(value_ns)) - digits, 0)
    else:
        return None
    return value, step
