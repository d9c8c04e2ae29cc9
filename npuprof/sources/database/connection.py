"""Open a vendor's SQLite file without modifying it, and read its tables column by column.

The file is untrusted: only plain tables are read (a view or a virtual table could run anything), names are quoted, rows
and texts are bounded, and rows lost to damage are counted while the rows before the damage are kept.

Source: sources/RESULTS.md section 5.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64, Records
from npuprof.errors import SourceError
from npuprof.progress import report_progress
from npuprof.sources.columns.builders import ABSENT
from npuprof.sources.database.accounts import Accounts
from npuprof.tables.notes import ANY, Notes
from npuprof.words.quantities import counted

_HEAD_BYTES = 100
HEADER = b"SQLite format 3\0"
_LFS_POINTER = b"version https://git-lfs"
_BATCH = 2_000  # few enough that their memory is reused at once
_MAX_TABLES = 2_000
_SCHEMA_STEPS = 1_000  # instructions of SQLite's virtual machine; an entry of the schema takes seven
# calls, each after that many instructions: 20,000 entries; the time grows with the square of their number
_MAX_SCHEMA_CALLS = 140
_CHECKED_BYTES = 64 << 20
_MAX_CHECK_CALLS = 100_000
_MAX_COLUMNS = 500
_MAX_ROWS = 200_000_000
_MAX_TEXT = 64 << 10  # the longest text kept of a name, a stack or shapes
# A damaged name raises a UnicodeError.
_DAMAGE = (sqlite3.DatabaseError, UnicodeError)
_PENDING = ("-wal", "-journal")

# A value of another storage class than the requested one is absent. Digits stored as text are cast exactly, since
# SQLite would also cast "1.2e+17", to 1.
_WHOLE = (
    "CASE typeof({0}) WHEN 'integer' THEN {0} WHEN 'text' THEN CASE WHEN length({0}) < 20 AND {0} GLOB '[0-9]*' "
    f"AND {{0}} NOT GLOB '*[^0-9]*' THEN CAST({{0}} AS INTEGER) ELSE {ABSENT} END ELSE {ABSENT} END"
)
# A text that SQLite wrote unchanged is plain digits; this is faster where nearly all values are. Only for columns of
# TEXT: elsewhere a float could pass for an integer.
_DIGITS = (
    "CASE WHEN {0} >= '0' AND CAST(CAST({0} AS INTEGER) AS TEXT) IS {0} THEN CAST({0} AS INTEGER) "
    f"ELSE {_WHOLE} END"
)
_WHOLE_DECLARED = {"INTEGER": f"IFNULL({{0}}, {ABSENT})", "TEXT": _DIGITS}
_FLOAT = "CASE WHEN typeof({0}) IN ('integer', 'real') THEN {0} ELSE 9e999 END"  # SQLite has no NaN


class Database:
    """An open file: its tables, and an account of their rows."""

    def __init__(self, connection: sqlite3.Connection, path: Path, notes: Notes) -> None:
        self._connection = connection
        self.path, self.notes = path, notes
        self.accounts = Accounts(path.name, notes)
        self.tables = self._schema()  # declared types by table and column, of the plain tables
        self.filled: dict[str, frozenset[str]] = {}  # columns that every version fills: absent values are noted
        self._noted_absent: set[tuple[str, str]] = set()
        self.unread = self._unread()  # views and virtual tables
        self._note_damaged_schema()

    def has(self, table: str, *columns: str) -> bool:
        """Return whether the file has a table with these columns."""
        known = self.tables.get(table)
        return known is not None and all(column in known for column in columns)

    def either(self, table: str, *columns: str) -> str:
        """Return the first alternative name of a column that the file has, or the first alternative."""
        known = self.tables.get(table, {})
        return next((column for column in columns if column in known), columns[0])

    def rows(self, table: str, whole: Sequence[str], floats: Sequence[str] = ()) -> dict[str, Records]:
        """Read columns of a table, in row order.

        Parameters
        ----------
        whole, floats
            Columns to read as int64 and float64. A missing column, or a value of another type, is
            :data:`~npuprof.sources.columns.builders.ABSENT` or NaN.
        """
        known = self.tables.get(table, {})
        by_name: dict[str, Records] = {}
        for columns, dtype in ((whole, np.int64), (floats, np.float64)):
            present = [column for column in columns if column in known]
            if present:
                values = self._matrix(table, present, dtype)
                by_name.update(zip(present, values.T, strict=True))
        count = min((len(values) for values in by_name.values()), default=0)  # equal unless the file is damaged
        if table in self.tables and not self.accounts.is_read(table):
            self.accounts.read(table, count if by_name else self.count(table))
        by_name = {name: np.ascontiguousarray(values[:count]) for name, values in by_name.items()}
        for name in sorted(self.filled.get(table, frozenset()).intersection(whole, by_name)):
            self._note_absent(table, name, int(np.count_nonzero(by_name[name] == ABSENT)))
        for name in floats:
            values = by_name.setdefault(name, np.full(count, np.nan))
            values[~np.isfinite(values)] = np.nan
        return {name: by_name.get(name, np.full(count, ABSENT)) for name in (*whole, *floats)}

    def _note_absent(self, table: str, column: str, count: int) -> None:
        if count and (table, column) not in self._noted_absent:
            self._noted_absent.add((table, column))
            message = f"{table}.{column}: a value is missing, or of another type; taken as absent"
            self.notes.warning(self.path.name, message, count)

    def texts(self, table: str, number: str, text: str) -> tuple[Int64, list[str]]:
        """Read a table of numbered texts: the numbers, and the texts truncated to the limit of a name."""
        if not self.has(table, number, text):
            return np.empty(0, np.int64), []
        query = (
            f"SELECT {_WHOLE.format(_quote(number))}, {_text(text)} "  # noqa: S608 - names of the file, quoted
            f"FROM {_quote(table)} NOT INDEXED LIMIT {_MAX_ROWS}"
        )
        numbers, texts = [], []
        for rows in self._batches(table, query):
            for key, value in rows:
                numbers.append(key)
                texts.append(value or "")
            self._note_absent(table, text, sum(value is None for _, value in rows))
        self.accounts.read_facts(table, len(numbers), numbers.count(ABSENT))
        return np.array(numbers, np.int64), texts

    def records(self, table: str, columns: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
        """Read the cells of a small table unconverted: text, int, float or None; None for a missing column."""
        known = self.tables.get(table)
        if known is None:
            return []
        parts = [_cell(column) if column in known else "NULL" for column in columns]
        query = f"SELECT {', '.join(parts)} FROM {_quote(table)} NOT INDEXED LIMIT {limit}"  # noqa: S608 - as above
        return list(chain.from_iterable(self._batches(table, query)))

    def facts(self, table: str, columns: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
        """Read a small table of names or facts, and register its rows; see :meth:`records`."""
        records = self.records(table, columns, limit)
        if table in self.tables:
            self.accounts.read_facts(table, len(records))
        return records

    def count(self, table: str) -> int:
        """Return the number of rows of a table; 0 for a damaged or missing table."""
        if table not in self.tables:
            return 0
        query = f"SELECT count(*) FROM {_quote(table)} NOT INDEXED"  # noqa: S608 - a name of the file, quoted
        counts = list(chain.from_iterable(self._batches(table, query)))
        return int(counts[0][0]) if counts else 0

    def deleted_rows(self, table: str) -> int:
        """Return how many row numbers up to the largest are unused; 0 for a table with a key of its own."""
        keys = self._connection.execute(f"PRAGMA table_info({_quote(table)})").fetchmany(_MAX_COLUMNS)
        if any(key for *_, key in keys):
            return 0
        query = f"SELECT max(rowid), count(*) FROM {_quote(table)} NOT INDEXED"  # noqa: S608 - as above
        try:
            last, count = self._connection.execute(query).fetchone()
        except _DAMAGE:  # the table has no such numbers, or reading it reports the damage
            return 0
        return int(last) - int(count) if isinstance(last, int) else 0

    def free_pages(self) -> int:
        """Return how many pages of the file hold nothing: those of rows and tables that were deleted."""
        try:
            (pages,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        except _DAMAGE:  # reading the tables reports the damage
            return 0
        return int(pages)

    def bounds(self, table: str, column: str) -> tuple[int, int] | None:
        """Return the minimum and maximum positive integer of a column; None if there is none."""
        if not self.has(table, column):
            return None
        name = _quote(column)
        query = (
            f"SELECT min({name}), max({name}) FROM {_quote(table)} NOT INDEXED "  # noqa: S608 - quoted
            f"WHERE typeof({name}) = 'integer' AND {name} > 0"
        )
        bounds = list(chain.from_iterable(self._batches(table, query)))
        return (int(bounds[0][0]), int(bounds[0][1])) if bounds and bounds[0][0] is not None else None

    def _matrix(self, table: str, columns: list[str], dtype: type[np.int64 | np.float64]) -> npt.NDArray[Any]:
        """Read columns of a dtype: fast where the values have the declared type, else value by value."""
        declared = self.tables[table]
        careful = _WHOLE if dtype is np.int64 else _FLOAT
        known = _WHOLE_DECLARED if dtype is np.int64 else {}
        quick = [known.get(declared[column], careful).format(_quote(column)) for column in columns]
        try:
            return self._scan(table, quick, dtype)
        except (TypeError, ValueError, OverflowError):
            return self._scan(table, [careful.format(_quote(column)) for column in columns], dtype)

    def _scan(self, table: str, expressions: list[str], dtype: type[np.int64 | np.float64]) -> npt.NDArray[Any]:
        # NOT INDEXED: rows come in the table's order, whatever columns are selected.
        query = f"SELECT {', '.join(expressions)} FROM {_quote(table)} NOT INDEXED LIMIT {_MAX_ROWS}"  # noqa: S608 - quoted
        width = len(expressions)
        parts = [
            np.fromiter(chain.from_iterable(rows), dtype, len(rows) * width) for rows in self._batches(table, query)
        ]
        values = np.concatenate(parts) if parts else np.empty(0, dtype)
        return values[: len(values) // width * width].reshape(-1, width)

    def _batches(self, table: str, query: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query in batches; damage ends the iteration and is noted."""
        count = 0
        damage: Exception | None = None
        with self._cursor() as cursor:
            rows: Iterator[tuple[Any, ...]] = iter(())
            try:
                rows = iter(cursor.execute(query))
            except _DAMAGE as error:
                damage = error
            has_more = True
            while has_more:
                batch: list[tuple[Any, ...]] = []
                try:
                    batch.extend(islice(rows, _BATCH))  # keeps the rows before the damage
                except _DAMAGE as error:
                    damage = error
                count += len(batch)
                report_progress(f"{self.path.name}, {table}", count, 0, "rows")
                has_more = damage is None and len(batch) == _BATCH
                if batch:
                    yield batch
        if damage is not None:
            self.accounts.damaged.add(table)
            said = f"{table}: damaged after {counted(count, 'row')} ({damage}); the rows before are shown"
            self.notes.error(self.path.name, said, lacks=ANY)
        if count >= _MAX_ROWS:
            self.notes.warning(self.path.name, f"{table}: only the first {_MAX_ROWS} rows are read")

    @contextmanager
    def _cursor(self) -> Iterator[sqlite3.Cursor]:
        cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            with suppress(sqlite3.ProgrammingError):  # an abandoned iteration may have closed the file
                cursor.close()

    def _schema(self) -> dict[str, dict[str, str]]:
        query = (
            "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 "
            "AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        )
        rows = self._connection.execute(query).fetchmany(_MAX_TABLES + 1)
        if len(rows) > _MAX_TABLES:
            self.notes.warning(self.path.name, f"only the first {_MAX_TABLES} tables are looked at")
        names = [name for (name,) in rows[:_MAX_TABLES] if isinstance(name, str)]
        return {name: self._columns(name) for name in names}

    def _note_damaged_schema(self) -> None:
        query = "SELECT count(*) FROM sqlite_master WHERE IFNULL(type, '') NOT IN ('table', 'index', 'trigger', 'view')"
        if count := int(self._connection.execute(query).fetchone()[0]):
            self.notes.error(
                self.path.name,
                "an entry of its schema is of no kind of SQLite: the file may lack a table; export the result again",
                count=count,
                lacks=ANY,
            )

    def _unread(self) -> list[str]:
        query = "SELECT name FROM sqlite_master WHERE type = 'view' OR (type = 'table' AND IFNULL(rootpage, 0) = 0)"
        rows = self._connection.execute(query).fetchmany(_MAX_TABLES)
        return [name for (name,) in rows if isinstance(name, str)]

    def _columns(self, table: str) -> dict[str, str]:
        rows = self._connection.execute(f"PRAGMA table_info({_quote(table)})").fetchmany(_MAX_COLUMNS)
        return {name: str(kind or "").upper() for _, name, kind, *_ in rows}


@contextmanager
def open_database(path: Path, notes: Notes) -> Iterator[Database]:
    """Open a file read-only and unlocked, without SQLite's files beside it."""
    _check_header(path)
    for suffix in _PENDING:
        if path.with_name(path.name + suffix).exists():
            notes.warning(
                path.name, f"a {path.name}{suffix} lies beside it: changes that are only in there are not seen"
            )
    if missing := _missing_bytes(path):
        notes.error(
            path.name,
            f"the file was cut: {counted(missing, 'byte')} missing at its end; export the result again",
            lacks=ANY,
        )
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as error:
        raise SourceError(f"{path} cannot be opened: {error}; check the file and its rights") from error
    with closing(connection):
        connection.text_factory = _decode
        try:
            _refuse_endless_schema(connection, path)
            for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
                connection.execute(f"PRAGMA {pragma}")
            database = _with_schema(connection, path, notes)
            if not missing and _has_damaged_pages(connection, path):
                notes.warning(
                    path.name, "pages are damaged: rows may be missing or wrong; export the result again", lacks=ANY
                )
        except _DAMAGE as error:
            raise SourceError(f"{path} is a damaged SQLite database: {error}; export the result again") from error
        yield database
        database.accounts.settle_damaged()


def _refuse_endless_schema(connection: sqlite3.Connection, path: Path) -> None:
    # No Python callback, which would swallow an interrupt: 0 for so many checks, then 1, which ends the query.
    answers = chain(repeat(0, _MAX_SCHEMA_CALLS), repeat(1))
    connection.set_progress_handler(answers.__next__, _SCHEMA_STEPS)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            raise SourceError(f"{path} has more tables or views than any profile has; is it another file?") from error
    except sqlite3.DatabaseError:
        pass  # listing the tables reports damage and works around it
    finally:
        connection.set_progress_handler(None, 0)


def _has_damaged_pages(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether pages of a small file contradict each other; a plain query silently skips such rows."""
    if path.stat().st_size > _CHECKED_BYTES:
        return False
    answers = chain(repeat(0, _MAX_CHECK_CALLS), repeat(1))
    connection.set_progress_handler(answers.__next__, _SCHEMA_STEPS)
    try:
        problems = connection.execute("PRAGMA quick_check(20)").fetchall()
    except _DAMAGE:
        return False  # reading the tables reports it
    finally:
        connection.set_progress_handler(None, 0)
    return any("page" in str(problem).lower() for (problem,) in problems)  # not a value that a constraint forbids


def _with_schema(connection: sqlite3.Connection, path: Path, notes: Notes) -> Database:
    """Read the schema; a truncated file lacks the tables that begin in its missing part."""
    try:
        return Database(connection, path, notes)
    except _DAMAGE as error:
        connection.execute("PRAGMA writable_schema = ON")  # reads the intact part of the schema; nothing is written
        database = Database(connection, path, notes)
        if not database.tables:
            raise
        notes.error(path.name, f"the file is damaged ({error}): tables are missing; export the result again", lacks=ANY)
        return database


def is_database(path: Path) -> bool:
    """Return whether a file begins with SQLite's header."""
    try:
        with path.open("rb") as file:
            return file.read(len(HEADER)) == HEADER
    except OSError:
        return False


def table_names(path: Path) -> Mapping[str, object]:
    """Return the names of a file's tables; empty where it cannot be read."""
    try:
        with open_database(path, Notes()) as database:
            return database.tables
    except SourceError:
        return {}


def _check_header(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(max(len(HEADER), len(_LFS_POINTER)))
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file and its rights") from error
    if not head:
        raise SourceError(f"{path} is empty: the tool that wrote it was stopped; export the result again")
    if head == _LFS_POINTER:
        raise SourceError(f"{path} is a git-LFS pointer, not the data: run `git lfs pull` in its repository")
    if not head.startswith(HEADER):
        raise SourceError(f"{path} is no SQLite database, whatever its name says; is it another file?")


def _missing_bytes(path: Path) -> int:
    """Return the number of bytes that a file lacks according to its header."""
    with suppress(OSError), path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        if len(head) == _HEAD_BYTES and head[24:28] == head[92:96]:  # otherwise its number of pages is not stored
            page = int.from_bytes(head[16:18], "big")
            declared = int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)
            return max(0, declared - path.stat().st_size)
    return 0


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(column: str) -> str:
    name = _quote(column)
    return f"CASE typeof({name}) WHEN 'text' THEN substr({name}, 1, {_MAX_TEXT}) END"


def _cell(column: str) -> str:
    name = _quote(column)
    return f"CASE typeof({name}) WHEN 'text' THEN substr({name}, 1, {_MAX_TEXT}) WHEN 'blob' THEN NULL ELSE {name} END"
