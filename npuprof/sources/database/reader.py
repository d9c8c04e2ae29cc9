"""Read the tables of a database as :mod:`npuprof.sources.database.format` declares them.

Names of tables and columns are today's, whatever the file calls them. A table is read in columns; rows that
are dropped are counted, by reason, in the accounts of the file.

Source: sources/RESULTS.md sections 5.1 to 5.3 and 5.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64, Records, first_rows
from npuprof.sources.columns.builders import ABSENT, SENTINELS, flags, optional, recoded
from npuprof.sources.columns.decimals import MAX_DURATION_US, MAX_TIME_NS, US_TO_NS, scaled_one
from npuprof.sources.columns.repetitions import REPEATED, originals, repetitions
from npuprof.sources.database.connection import Database
from npuprof.sources.database.declaration import SqlTable
from npuprof.sources.database.format import CHANGES, NOTHING, OLDER_TABLES, TABLES
from npuprof.tables.notes import Affects

Change: TypeAlias = Callable[[str], str | None]
UNNAMED = "what it names has no name; tables, links, memory and sums by names are incomplete"
"""What is wrong without the names of a table."""
_UNITS_OF_TIME = {"microseconds": 10**6, "milliseconds": 10**3, "seconds": 1}
_CENTURY_S = (10**9, 4 * 10**9)  # from 2001
_THREAD = 0xFFFFFFFF
_COARSEST_NS = 1_000_000  # the coarsest resolution that is useful for tasks
_MAX_ROUNDED = 5_000_000  # number of rows whose times are read one by one
_ID_BITS = 33  # connection IDs have 32


@dataclass(frozen=True)
class Rows:
    """Rows of a table: whole numbers and floats by the names of its columns today."""

    reader: Reader  # knows the names that numbers stand for
    table: SqlTable
    values: dict[str, Records]  # of intervals in order also `duration`

    def __getitem__(self, column: str) -> Records:
        return self.values[column]

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def take(self, selected: Records | slice) -> Rows:
        return replace(self, values={name: values[selected] for name, values in self.values.items()})

    def having(self, **columns: Records) -> Rows:
        """Return the rows with other or more columns."""
        return replace(self, values={**self.values, **columns})

    def columns(self) -> dict[str, Any]:
        """Return the columns of the profile's table that the rows become."""
        return {column.to: self.column(column.name) for column in self.table.columns if column.to}

    def column(self, name: str) -> Any:
        """Return a column as its kind says; absent where the file has none."""
        column, values = self.table.by_name[name], self.values[name]
        match column.kind:
            case "end":
                return self.values["duration"]
            case "whole?":
                return optional(values, _numbers(column.more))
            case "positive":
                return np.maximum(values, 0)
            case "moment":
                return optional(np.where((values > 0) & (values < MAX_TIME_NS), values, ABSENT))
            case "text":
                return self.reader.strings.column(values, _change(column.more))
            case "names":
                return self.reader.names(column.more[0]).column(values, _change(column.more[1:]))
            case "word":
                words, _, change = " ".join(column.more).partition(" by ")
                return self.reader.names_of_words(values, words.split()).column(values, CHANGES.get(change))
            case "yes":
                return flags(self.reader.strings.column(values), "YES")
            case "bit":
                return pd.arrays.BooleanArray(values == 1, ~np.isin(values, (0, 1)))
            case "us":
                sound = np.abs(values) < MAX_DURATION_US  # false for NaN too
                whole = np.rint(np.where(sound, values, 0) * US_TO_NS).astype(np.int64)
                return pd.arrays.IntegerArray(whole, ~sound)
            case "thread":
                return values & _THREAD
            case "connection":
                return optional(self.reader.apart(values, self._processes()), SENTINELS)
            case _:
                return values

    def keep(self, table: str) -> Rows:
        """Count the rows as those of a table of the profile."""
        self.reader.accounts.keep(self.table.name, table, len(self))
        return self

    def without(self, lost: Bools, reason: str, affects: Affects | None = None) -> Rows:
        """Return the other rows; those that are lost are counted by a note."""
        self.reader.leave_out(self.table.name, reason, int(np.count_nonzero(lost)), affects)
        return self.take(~lost)

    def build(self, table: str, **more: Any) -> pd.DataFrame | None:
        """Return the rows as a table of the profile, with further columns; None without rows."""
        self.keep(table)
        return tables.build(table, {**more, **self.columns(), **more}) if len(self) else None

    def in_order(self) -> Rows:
        """Return the rows by start, longer ones first, with their `duration`.

        A row without a readable start, or that repeats another, is omitted; one that ends before its start gets
        duration 0. All are noted.
        """
        start, end = self["startNs"], self["endNs"]
        timed = (start >= 0) & (start < MAX_TIME_NS)
        self._note_other_unit(start[timed])
        whole = timed & (end >= start) & (end < MAX_TIME_NS)
        rows = self.having(duration=np.where(whole, end - np.where(timed, start, 0), 0))
        rows = rows.without(~timed, "a row has no readable time")
        if bad := int((timed & ~whole).sum()):
            self.reader.warn(f"{self.table.name}: a row has no valid end; its duration is taken as 0", bad)
        if self.table.fills != ("marks",):  # which may be there several times
            rows = rows.distinct("startNs", rows["duration"] > 0)
        return rows.take(np.lexsort((-rows["duration"], rows["startNs"])))

    def sampled(self) -> Rows:
        """Return the rows with a readable time; a note counts the rest."""
        time = self[next(column.name for column in self.table.columns if column.kind == "time")]
        timed = (time >= 0) & (time < MAX_TIME_NS)
        self._note_other_unit(time[timed])
        return self if timed.all() else self.without(~timed, "a sample has no readable time")

    def distinct(self, time: str, lasting: Bools | None = None) -> Rows:
        """Return the rows without those that equal an earlier row in every column; a note counts them.

        See :func:`npuprof.sources.columns.repetitions.repetitions` for the column of times and the lasting rows.
        """
        repeated = repetitions(self[time], lambda places: self.take(places).values, lasting)
        return self.without(repeated, REPEATED, ()) if repeated.any() else self

    def without_repeated(self, key: str) -> tuple[Rows, Replaced]:
        """Return intervals without those that equal an earlier one but for their key.

        A row that is written again has the next free key.
        """
        others = self.take(slice(None))
        numbers = others.values.pop(key)
        first = originals(self["startNs"], lambda places: others.take(places).values, self["endNs"] > self["startNs"])
        is_kept = first == np.arange(len(first))
        is_other = ~is_kept & (numbers != numbers[first])
        return self.without(~is_kept, REPEATED, ()), Replaced(numbers[is_other], numbers[first[is_other]])

    def _processes(self) -> Records:
        return self["globalPid"] if "globalPid" in self.values else self["globalTid"] >> 32

    def _note_other_unit(self, times: Records) -> None:
        """Warn of times that date from 1970 in nanoseconds, and from this century in a coarser unit."""
        middle = np.median(times) if len(times) else 0
        for unit, per_second in _UNITS_OF_TIME.items():
            if _CENTURY_S[0] * per_second <= middle < _CENTURY_S[1] * per_second:
                self.reader.warn(
                    f"{self.table.name}: a time is in 1970 in nanoseconds, which databases have, and in this century "
                    f"in {unit}: starts and durations may be {10**9 // per_second:,} times too small; export the "
                    "result again",
                    len(times),
                )


@dataclass(frozen=True)
class Replaced:
    """Keys of rows that repeat others, and those of the equal rows that stay."""

    gone: Int64
    stay: Int64

    def __call__(self, numbers: Records) -> Records:
        """Return keys with those that are gone replaced by those that stay."""
        place = first_rows(self.gone, numbers)
        return np.where(place >= 0, self.stay[place], numbers) if len(self.gone) else numbers


class Names:
    """The names of a table by number: of ``STRING_IDS`` or of an enumeration."""

    def __init__(self, reader: Reader, table: str) -> None:
        text = "value" if table == "STRING_IDS" else "name"
        numbers, texts = reader.database.texts(reader.in_file(table), "id", text)
        self._by_number = dict(zip(numbers.tolist(), texts, strict=True))
        self._reader, self._table = reader, table

    def __len__(self) -> int:
        return len(self._by_number)

    def column(self, numbers: Records, change: Change | None = None) -> pd.Categorical:
        """Build a name column: absent without a number or name, and for a name that means none.

        `change` is applied once to each distinct name.
        """
        codes, used = pd.factorize(numbers)
        texts = [self.text(number) for number in used.tolist()]
        unknown = [text is None and number != ABSENT for text, number in zip(texts, used.tolist(), strict=True)]
        if any(unknown) and self._by_number:
            lost_count = int(np.array(unknown)[codes].sum())
            self._reader.warn(f"{self._table} lacks the name of a number: {UNNAMED}", lost_count)
        kept = [None if text is None or text in NOTHING else change(text) if change else text for text in texts]
        return recoded(codes.astype(np.int32), kept)

    def text(self, number: int) -> str | None:
        """Return the name of a number."""
        return self._by_number.get(number)

    def numbers_of(self, wanted: Callable[[str], bool]) -> dict[int, str]:
        """Return the names that satisfy the predicate, by number."""
        return {number: text for number, text in self._by_number.items() if wanted(text)}


class Reader:
    """The tables of an open database, what is wrong with them, and where their rows went."""

    def __init__(self, database: Database) -> None:
        self.database, self.notes, self.accounts = database, database.notes, database.accounts
        self._older = {
            new: old for new, old in OLDER_TABLES.items() if old in database.tables and new not in database.tables
        }
        self.accounts.names = self._older
        self.tables = {self._today.get(name, name): columns for name, columns in database.tables.items()}
        task = self.tables.get("TASK", {})
        # the form of early 2024: report_*.db
        self.is_older = bool(self._older) or ("startNs" not in task and bool({"correlationId", "start"} & task.keys()))
        if not self.is_older:
            database.filled = {table.name: table.filled for table in TABLES.values()}
        self._names: dict[str, Names] = {}
        self._base_ns: int | None = None
        self._shared: Int64 | None = None  # the processes whose connection IDs coincide

    @property
    def _today(self) -> dict[str, str]:
        return {old: new for new, old in self._older.items()}

    @property
    def strings(self) -> Names:
        """The names in ``STRING_IDS``."""
        return self.names("STRING_IDS")

    def names(self, table: str) -> Names:
        """Return the names of a table, which is read once."""
        if table not in self._names:
            self._names[table] = Names(self, table)
        return self._names[table]

    def names_of_words(self, numbers: Records, words: Collection[str]) -> Names:
        """Return the names of a column that holds one of a few words, such as ``release``.

        Files of 2024 number these words in ``ENUM_MEMORY``, other files in ``STRING_IDS``, and a number may occur in
        both: the table that resolves more of the numbers to these words is returned.
        """
        enum = self.names("ENUM_MEMORY")
        if not len(enum):
            return self.strings
        of_enum, of_strings = (
            int(np.isin(numbers, list(names.numbers_of(lambda text: text.lower() in words))).sum())
            for names in (enum, self.strings)
        )
        return enum if of_enum >= of_strings else self.strings

    def in_file(self, table: str) -> str:
        """Return the name that the file has for a table."""
        return self._older.get(table, table)

    def has(self, table: str, column: str = "") -> bool:
        """Return whether the file has a table, with a column."""
        known = self.tables.get(table)
        return known is not None and (not column or self._name(table, column) in known)

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return self.database.count(self.in_file(table))

    def bounds(self, table: str, column: str) -> tuple[int, int] | None:
        """Return the bounds of a column; see :meth:`Database.bounds`."""
        return self.database.bounds(self.in_file(table), self._name(table, column))

    def facts(self, table: str, columns: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
        """Read a small table of facts; see :meth:`Database.facts`."""
        return self.database.facts(self.in_file(table), columns, limit)

    def is_empty(self, table: str) -> bool:
        """Return whether a table has no rows, or is missing."""
        columns = list(self.tables.get(table, ()))  # a damaged schema may hold no table
        return not columns or not self.database.records(self.in_file(table), columns[:1], 1)

    def warn(self, message: str, count: int = 1, lacks: tuple[str, ...] = ()) -> None:
        """Note what is wrong with the file, if it occurs at all."""
        if count:
            self.notes.warning(self.database.path.name, message, count, lacks=lacks)

    def leave_out(self, table: str, reason: str, count: int, affects: Affects | None = None) -> None:
        """Count rows that are in no table of the profile."""
        self.accounts.leave_out(table, reason, count, affects=TABLES[table].fills if affects is None else affects)

    def note_unread(self) -> None:
        """Note the rows of declared tables that were never read."""
        for table in sorted(self.tables.keys() & TABLES):
            if not self.accounts.is_read(table) and (rows := self.count(table)):
                self.accounts.read(table, rows)
                self.leave_out(table, "a row of a table that is not read", rows, ())

    def rows(self, table: str, *columns: str) -> Rows:
        """Return the rows of a table in the order of the file, or some of their columns; none of a missing table."""
        described, known = TABLES[table], self.tables.get(table, {})
        names, floats = {}, []
        for column in described.columns:
            if column.kind and (not columns or column.name in columns):
                name = column.name_in(known)
                if column.to == "value" and name not in known:
                    continue
                names[column.name] = name
                if column.to == "value" or column.kind in ("float", "us"):
                    floats.append(name)
        whole = [name for name in names.values() if name not in floats]
        values = self.database.rows(self.in_file(table), whole, floats)
        rows = {column: values[name] for column, name in names.items()}
        for column in described.columns:
            if names.get(column.name) in column.since_base:
                rows[column.name] = self._on_epoch(table, names[column.name], rows[column.name])
        return Rows(self, described, rows)

    def numbers(self, table: str, column: str) -> Records:
        return self.rows(table, column)[column]

    def apart(self, connections: Records, processes: Records) -> Records:
        """Return connection IDs that no two processes share: as recorded for the first process, or for all."""
        if self._shared is None:
            self._shared = self._processes_that_share()
        if not len(self._shared):
            return connections
        place = np.searchsorted(self._shared, processes)
        is_known = (connections >= 0) & ~np.isin(connections, SENTINELS) & np.isin(processes, self._shared)
        return np.where(is_known, connections + (place << _ID_BITS), connections)

    def _processes_that_share(self) -> Int64:
        """Return the processes of a file, if tasks or calls of two of them have the same connection ID."""
        bounds = self.bounds("TASK", "globalPid") or (), self.bounds("CANN_API", "globalTid") or ()
        none = np.empty(0, np.int64)
        if len({*bounds[0], *(number >> 32 for number in bounds[1])}) < 2:
            return none
        tasks = self.rows("TASK", "connectionId", "globalPid")
        calls = self.rows("CANN_API", "connectionId", "globalTid")
        pids = np.concatenate((tasks["globalPid"], calls["globalTid"] >> 32))
        connections = np.concatenate((tasks["connectionId"], calls["connectionId"]))
        is_known = (pids >= 0) & (connections >= 0) & ~np.isin(connections, SENTINELS)
        ids = np.unique(pids[is_known])
        pairs = np.unique(np.stack((connections[is_known], pids[is_known])), axis=1)
        count = int(np.count_nonzero(np.diff(pairs[0]) == 0))
        if len(ids) < 2 or not count:
            return none
        message = "a connection ID is of calls or tasks of several processes: it is another one for each"
        self.notes.info(self.database.path.name, message, count)
        return ids

    def _name(self, table: str, column: str) -> str:
        """Return the name that the file has for a column."""
        known = TABLES[table].by_name.get(column) if table in TABLES else None
        return known.name_in(self.tables.get(table, {})) if known else column

    def _on_epoch(self, table: str, column: str, times: Int64) -> Int64:
        """Return times of early 2024 as UTC epoch nanoseconds; some versions stored rounded text or floats."""
        times = self._with_rounded(table, column, times)
        if self._base_ns is None:
            base = next(iter(self.facts("SESSION_TIME_INFO", ["baseTimeNs"], 1)), (0,))[0]
            self._base_ns = base if isinstance(base, int) and 0 < base < 1 << 62 else 0
        return np.where((times != ABSENT) & (times < self._base_ns), times + self._base_ns, times)

    def _with_rounded(self, table: str, column: str, times: Int64) -> Int64:
        """Read the times that are not stored as integers, to the resolution of their digits."""
        missing = np.flatnonzero(times == ABSENT)
        if not len(missing):
            return times
        cells = self.database.records(self.in_file(table), [column], _MAX_ROUNDED)
        read = [(row, rounded(cells[row][0])) for row in missing.tolist() if row < len(cells)]
        known = {row: time for row, time in read if time is not None}
        step = min((step for _, step in known.values()), default=0)  # trailing zeros of a text are not written
        if not known or step > _COARSEST_NS:
            return times
        times = times.copy()
        times[list(known)] = [value for value, _ in known.values()]
        if step > 1:
            self.warn(
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
        return round(cell), max(int(math.ulp(cell)), 1)
    if not isinstance(cell, str) or len(cell) >= 64:
        return None
    value_ns = scaled_one(cell, 1)
    if value_ns is None or value_ns < 0:
        return None
    digits = sum(digit.isdigit() for digit in cell.lower().partition("e")[0].replace(".", "").lstrip("0"))
    return value_ns, 10 ** max(len(str(value_ns)) - digits, 0)


def bare(connections: Int64) -> Int64:
    """Return connection IDs as they were recorded, before :meth:`Reader.apart`."""
    return np.where(connections >= 0, connections & ((1 << _ID_BITS) - 1), connections)


def _numbers(words: Sequence[str]) -> tuple[int, ...]:
    return tuple(number for word in words for number in (SENTINELS if word == "unset" else (int(word),)))


def _change(words: Sequence[str]) -> Change | None:
    return CHANGES[words[0]] if words else None
