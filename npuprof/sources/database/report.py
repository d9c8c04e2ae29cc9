"""The form of databases before ``msprof_*.db``: ``report_*.db`` of early 2024.

Its tables hold what today's hold under older names, and its times count from a moment that the file tells
(``baseTimeNs``). Some versions stored times as rounded text or floats: the digits that are left are read, and
how coarse they are is noted.

Source: sources/RESULTS.md section 5.7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npuprof.arrays import Int64, Records
from npuprof.sources.columns.decimals import scaled_one
from npuprof.sources.columns.nullable import ABSENT
from npuprof.sources.database.connection import Database

_TABLES = {
    "CANN_API": "API",
    "ENUM_API_TYPE": "ENUM_API_LEVEL",
    "ENUM_MODULE": "ENUM_NPU_MODULE",
    "NPU_INFO": "TARGET_INFO_NPU",
    "SESSION_TIME_INFO": "TARGET_INFO_SESSION_TIME",
}
OLDER_NAMES = frozenset(_TABLES.values())
_TIMES = {"startNs": "start", "endNs": "end"}
_COLUMNS = {**_TIMES, "globalTaskId": "correlationId", "blockDim": "block_dim"}
_COLUMNS_OF = {"CANN_API": {"type": "level"}}
_SIGNS = ("correlationId", "start")
_COARSEST_NS = 1_000_000  # a time that is rounded more than this tells nothing of tasks
_MAX_ROUNDED = 5_000_000  # rows whose times are read one by one


def is_report(tables: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether the tables of a file, with their columns, are those of the older form."""
    if any(old in tables and new not in tables for new, old in _TABLES.items()):
        return True
    task = tables.get("TASK", {})
    return any(sign in task for sign in _SIGNS) and "startNs" not in task


class ReportDatabase(Database):
    """A file of the older form that answers to today's names, in UTC epoch nanoseconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = database._connection
        self.path, self.notes, self.accounts = database.path, database.notes, database.accounts
        self.unread = database.unread
        self._names = {
            new: old for new, old in _TABLES.items() if old in database.tables and new not in database.tables
        }
        self.accounts.names = self._names
        self._columns_of = {self._today(table): self._renamed(table) for table in database.tables}
        self.tables = {
            table: {new: database.tables[self._old(table)][old] for new, old in columns.items()}
            for table, columns in self._columns_of.items()
        }
        self._base_ns = self._read_base()

    def rows(self, table: str, whole: Sequence[str], floats: Sequence[str] = ()) -> dict[str, Records]:
        """Read columns of a table; see :meth:`Database.rows`."""
        columns = self._columns_of.get(table, {})
        timed = [name for name in whole if columns.get(name) in _TIMES.values()]
        old = {name: columns.get(name, name) for name in (*whole, *floats)}
        found = self._database.rows(self._old(table), [old[name] for name in whole], [old[name] for name in floats])
        rows = {name: found[old[name]] for name in (*whole, *floats)}
        for name in timed:
            rows[name] = self._on_epoch(self._with_rounded(table, old[name], rows[name]))
        return rows

    def texts(self, table: str, number: str, text: str) -> tuple[Int64, list[str]]:
        """Read a table of numbered texts; see :meth:`Database.texts`."""
        return self._database.texts(self._old(table), number, text)

    def records(self, table: str, columns: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
        """Read a small table as it is; see :meth:`Database.records`."""
        names = self._columns_of.get(table, {})
        return self._database.records(self._old(table), [names.get(name, name) for name in columns], limit)

    def count(self, table: str) -> int:
        """Return the number of rows of a table; see :meth:`Database.count`."""
        return self._database.count(self._old(table))

    def _old(self, table: str) -> str:
        return self._names.get(table, table)

    def _today(self, table: str) -> str:
        return next((new for new, old in self._names.items() if old == table), table)

    def _renamed(self, table: str) -> dict[str, str]:
        """Return the file's name of each column by today's."""
        known = self._database.tables[table]
        older = {**_COLUMNS, **_COLUMNS_OF.get(self._today(table), {})}
        found = {new: old for new, old in older.items() if old in known and new not in known}
        return {**{name: name for name in known if name not in found.values()}, **found}

    def _read_base(self) -> int:
        bases = self.facts("SESSION_TIME_INFO", ["baseTimeNs"], 1)
        base = bases[0][0] if bases else None
        return base if isinstance(base, int) and 0 < base < 1 << 62 else 0

    def _on_epoch(self, times: Int64) -> Int64:
        counted = (times != ABSENT) & (times < self._base_ns)
        return np.where(counted, times + self._base_ns, times)

    def _with_rounded(self, table: str, column: str, times: Int64) -> Int64:
        """Fill in the times that are no whole numbers in the file, as far as their digits reach."""
        missing = np.flatnonzero(times == ABSENT)
        if not len(missing):
            return times
        cells = self._database.records(self._old(table), [column], _MAX_ROUNDED)
        read = [(row, rounded(cells[row][0])) for row in missing.tolist() if row < len(cells)]
        known = {row: found for row, found in read if found is not None}
        step = min((step for _, step in known.values()), default=0)  # zeros at the end of a text are not written
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
    """Return the whole nanoseconds that a cell holds, and the step that it was rounded to; None where it holds none."""
    if isinstance(cell, float):
        if not math.isfinite(cell) or not 0 <= cell < 1 << 62:
            return None
        value, step = round(cell), max(int(math.ulp(cell)), 1)
    elif isinstance(cell, str) and len(cell) < 64:
        found = scaled_one(cell, 1)
        if found is None or found < 0:
            return None
        digits = sum(one.isdigit() for one in cell.lower().partition("e")[0].replace(".", "").lstrip("0"))
        value, step = found, 10 ** max(len(str(found)) - digits, 0)
    else:
        return None
    return value, step
