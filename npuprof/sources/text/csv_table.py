"""Read a vendor's CSV as text and convert its columns to exact numbers, one at a time.

Cells are read as text: a type guessed from the first rows loses digits of times, and a single ``N/A`` changes the type
of a whole column. Columns are looked up by name, never by position.

Source: sources/RESULTS.md sections 0 and 4.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from npuprof.arrays import Bools, Int64
from npuprof.errors import SourceError
from npuprof.progress import report_progress
from npuprof.sources.columns.builders import recoded
from npuprof.sources.columns.decimals import MAX_DURATION_US, MAX_TIME_NS, US_TO_NS, characters, scaled_column
from npuprof.sources.columns.repetitions import REPEATED, repetitions
from npuprof.sources.files.encodings import NOT_UTF_8, UTF_8, as_text
from npuprof.sources.files.gzip_file import is_plain, read_head, read_whole
from npuprof.sources.files.memory_limit import read_without_holes, refuse_too_large
from npuprof.sources.incomplete_files import tables_of
from npuprof.sources.text.appended_exports import each_once
from npuprof.tables.ledger import STATISTICS
from npuprof.tables.notes import Affects, Notes
from npuprof.words.texts import encodable

NONE = ("", "N/A", "INVALID_TYPE")
_TASK = re.compile(r"task[_ ]?id", re.IGNORECASE)
_BLANK_IN_SUMS = ("Input Shapes", "Call Stack", "Custom Info", "parent_id", "children_id")
UNKNOWN = "unknown column {!r}: if the vendor renamed it, its values are missing"
_HEAD_BYTES = 1 << 16
_MAX_COLUMNS = 2000
_FOREIGN = (";", "\t")  # separators of spreadsheets in locales with a decimal comma
_BLOCK_BYTES = 8 << 20  # a single row cannot be longer
_MAX_UNZIPPED_BYTES = 8 << 30
_SENTINELS = ("4294967295",)
_LINE_END = re.compile(r"\r\n|\n|\r")  # line ends for Arrow; str.splitlines knows more
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\ufffd]")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
_EARLIEST_MOMENT_US = 1e14  # in 1973; durations are shorter


class CsvTable:
    """The cells of one CSV file, as trimmed text.

    Parameters
    ----------
    may_be_blank
        Columns that the vendor leaves blank for no value; a blank cell of another column is damage.
    """

    def __init__(self, path: Path, notes: Notes, may_be_blank: Iterable[str] = ()) -> None:
        self.source = path.name
        self._notes = notes
        self._blank_columns = {*may_be_blank}
        self._newest: tuple[str, Any] = ("", None)
        self.names = column_names(path)
        size = path.stat().st_size
        report_progress(self.source, 0, size)
        self._cells = each_once(self._read(path), self.names, notes, self.source)
        notes.ledger.read(self.source, len(self))
        report_progress(self.source, size, size)
        repeated = {name for name in self.names if name and self.names.count(name) > 1}
        for name in sorted(repeated):
            notes.warning(self.source, f"the column {name!r} occurs more than once: the first is shown")
        numbers = sum(_NUMBER.fullmatch(name) is not None for name in self.names)
        self.warn("numbers among the names of the columns: a row was joined to the header and is missing", numbers)
        if not len(self):
            notes.warning(self.source, "it has a header and no rows: its table is empty")

    def _read(self, path: Path) -> Any:
        try:
            content = self._content(path)
            head = read_head(path, _HEAD_BYTES) if content is None else content
            if len(head) < _HEAD_BYTES and b"\n" not in head.rstrip():
                return pa.table({f"{place}": pa.array([], pa.string()) for place in range(len(self.names))})
            try:
                with _open(path) if content is None else nullcontext(pa.BufferReader(content)) as source:
                    return _parse(source, len(self.names))
            except pa.ArrowInvalid:
                pass  # a row is damaged or not UTF-8: read again below, to count such rows
            return self._read_damaged(path, read_whole(path, _MAX_UNZIPPED_BYTES)[0] if content is None else content)
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file") from error

    def _content(self, path: Path) -> bytes | None:
        """Return the content of a file that cannot be read in pieces: compressed, UTF-16, or with holes; else None."""
        if not is_plain(path):
            content, problem = read_whole(path, _MAX_UNZIPPED_BYTES)
            self.warn(problem, bool(problem))
            if not problem:
                note_damage(path, self._notes, content)
            return content
        written = read_without_holes(path)
        if written is None:
            refuse_too_large(path, path.stat().st_size)
        else:
            self.warn("preallocated bytes that were never written, left out", path.stat().st_size - len(written))
        note_damage(path, self._notes, written or b"")
        return written

    def _read_damaged(self, path: Path, content: bytes) -> Any:
        """Read a file with malformed rows or in GBK; Arrow passes rows as text, so they must be UTF-8."""
        bad_rows = 0

        def skip(_row: Any) -> str:
            nonlocal bad_rows
            bad_rows += 1
            return "skip"

        text, encoding, lost_count = as_text(content)
        if encoding != UTF_8:
            self._notes.info(self.source, NOT_UTF_8)
        self.warn("a character cannot be decoded: it is shown as \N{REPLACEMENT CHARACTER}", lost_count)
        try:
            cells = _parse(pa.BufferReader(text.encode()), len(self.names), skip)
        except pa.ArrowInvalid as error:
            raise SourceError(f"{path} cannot be read as CSV: {error}; export the result again") from error
        self._notes.ledger.read(self.source, bad_rows)
        affects = tables_of(path.name) or "the tables of this file"
        self._notes.leave_out(
            self.source, "a row has another number of cells than the header", bad_rows, affects=affects
        )
        return cells

    def __len__(self) -> int:
        return int(self._cells.num_rows)

    def find(self, *names: str) -> str | None:
        """Return the first of the names that is a column; None if there is none."""
        return next((name for name in names if name in self.names), None)

    def warn(self, message: str, count: int) -> None:
        """Note a repair or a loss in this file, unless the count is 0."""
        if count:
            self._notes.warning(self.source, message, count)

    def expect(self, known_names: Collection[str], others: re.Pattern[str] | None = None) -> None:
        """Warn of columns that are neither known nor match `others`."""
        for name in self.names:
            if name and name not in known_names and not (others and others.fullmatch(name)):
                self.warn(UNKNOWN.format(name), 1)

    def require(self, *columns: tuple[str, ...]) -> None:
        """Warn of missing columns, each given by all its names, that every version of the file has."""
        for names in columns:
            if self.find(*names) is None:
                self.warn(f"the column {names[0]!r} is missing: its values are absent from every row", 1)

    def put(self, table: str, rows: int | None = None) -> None:
        """Account for rows of the file as rows of a table, all of them by default."""
        self._notes.ledger.keep(self.source, table, len(self) if rows is None else rows)

    def drop(self, dropped: Bools, reason: str, affects: Affects = ()) -> None:
        """Drop rows with a note; see :meth:`npuprof.tables.notes.Notes.leave_out`."""
        count = int(np.count_nonzero(dropped))
        if not count:
            return
        self._notes.leave_out(self.source, reason, count, affects=affects)
        self.restrict(~dropped)

    def drop_repeated(self, times: Int64, lasting: Bools | None = None) -> Bools:
        """Drop the rows that equal an earlier row in every cell, and return a mask of the rows that are left.

        See :func:`npuprof.sources.columns.repetitions.repetitions` for the times and the lasting rows.
        """
        kept_rows: Bools = ~repetitions(
            times, lambda rows: self._cells.take(pa.array(rows)).to_pandas(split_blocks=True), lasting
        )
        self.drop(~kept_rows, REPEATED)
        return kept_rows

    def restrict(self, rows: Bools) -> None:
        """Restrict the columns to the rows of a mask; the other rows are of no interest, and not lost."""
        self._cells = self._cells.filter(pa.array(rows))
        self._newest = ("", None)

    def text(self, name: str) -> Any:
        """Return the trimmed cells of a column as an Arrow array; absent cells are null."""
        if self._newest[0] == name and self._newest[1] is not None:
            return self._newest[1]
        cells, blank = _without_none(self._raw(name))
        self._note_blank(name, blank)
        self._newest = (name, cells)  # a column is inspected before it is converted
        return cells

    def _raw(self, name: str) -> Any:
        column = self._cells.column(self.names.index(name))
        return column.combine_chunks() if column.num_chunks else pa.array([], pa.string())

    def time_ns(self, name: str) -> tuple[Int64, Bools]:
        """Return a column of epoch microseconds as exact nanoseconds, and a mask of the rows with a time.

        A time with an exponent lost its digits in a spreadsheet, and counts as absent.
        """
        column = self.text(name)
        values, valid = scaled_column(column, US_TO_NS, exponents=False)
        valid = valid & (np.abs(values) < MAX_TIME_NS)
        damaged = int(len(valid) - np.count_nonzero(valid)) - column.null_count
        self.warn(f"{name!r}: a time cannot be read (a spreadsheet may have rounded it)", damaged)
        return values, valid

    def scaled(self, name: str, multiplier: int, none: Iterable[str] = ()) -> Any:
        """Return a column of decimals, multiplied by an integer, as an exact Int64 array; <NA> for absent cells."""
        column = self.text(name)
        for text in none:
            column = pc.if_else(pc.equal(column, text), pa.scalar(None, pa.string()), column)
        values, valid = scaled_column(column, multiplier)
        self._note_unreadable(name, int(len(valid) - np.count_nonzero(valid)) - column.null_count)
        return pd.arrays.IntegerArray(values, ~valid)

    def durations(self, name: str) -> Any:
        """Return a column of microseconds as nanoseconds; negative ones become 0, endless ones <NA>, with notes."""
        values = self.scaled(name, US_TO_NS)
        backwards = (values < 0).fillna(False).to_numpy(np.bool_)
        self.warn(f"{name!r}: a duration is negative; taken as 0", int(np.count_nonzero(backwards)))
        values[backwards] = 0
        endless = (values >= round(MAX_DURATION_US) * US_TO_NS).fillna(False).to_numpy(np.bool_)
        self.warn(f"{name!r}: a duration is longer than 30 years; taken as absent", int(np.count_nonzero(endless)))
        values[endless] = pd.NA
        return values

    def whole(self, name: str) -> Any:
        """Return a column of whole numbers as an Int64 array; <NA> for absent cells and for 4294967295."""
        return self.scaled(name, 1, _SENTINELS)

    def whole_within(self, name: str, pattern: re.Pattern[str]) -> Any:
        """Return the first group of a pattern that matches the whole cell, as an Int64 array; <NA> for other cells."""
        labels = self.categories(name)
        matches = [pattern.fullmatch(label) for label in labels.categories]
        numbers = pd.array([int(match[1]) if match else pd.NA for match in matches] + [pd.NA], dtype="Int64")
        values = numbers[labels.codes]
        self._note_unreadable(name, int(np.count_nonzero(values.isna() & (labels.codes >= 0))))
        return values

    def numbers(self, name: str) -> Any:
        """Return a column of measured values as float64; NaN for absent cells."""
        column = self.text(name)
        try:
            values = column.cast(pa.float64())
        except pa.ArrowInvalid:
            values = pa.array(pd.to_numeric(pd.Series(column.to_pylist(), dtype=object), errors="coerce"), pa.float64())
        self._note_unreadable(name, values.null_count - column.null_count)
        return values.to_numpy(zero_copy_only=False)

    def is_numeric(self, name: str) -> bool:
        """Check whether a column has cells and all of them are numbers."""
        column = self.text(name)
        if column.null_count == len(column):
            return False
        try:
            column.cast(pa.float64())
        except pa.ArrowInvalid:
            return False
        return True

    def holds_moments(self, name: str) -> bool:
        """Check whether a column of microseconds holds times of day: numbers, the largest after 1973."""
        if not self.is_numeric(name):
            return False
        latest = pc.max(self.text(name).cast(pa.float64())).as_py()
        return latest is not None and latest > _EARLIEST_MOMENT_US

    def categories(self, name: str, change: Callable[[str], str | None] | None = None) -> pd.Categorical:
        """Return a column of names; `change` is applied to each distinct name."""
        encoded = self._raw(name).dictionary_encode()
        cells, blank = _without_none(encoded.dictionary)  # far fewer than cells
        codes, names = encoded.indices.to_numpy(zero_copy_only=False), cells.to_pylist()
        if blank:
            is_blank = np.array([not text.strip() for text in encoded.dictionary.to_pylist()])
            self._note_blank(name, int(np.count_nonzero(is_blank[codes])))
        return recoded(codes, [change(text) if change and text is not None else text for text in names])

    def note_partly_blank(self, *names: str) -> None:
        """Warn of rows with only some of these cells blank; the vendor leaves either all or none blank."""
        absent = [np.asarray(pc.is_null(self.text(name))) for name in names if name in self.names]
        if absent:
            partly = np.any(absent, axis=0) & ~np.all(absent, axis=0)
            self.warn(f"a row has only some of {names[0]!r} and the columns that belong to it", int(partly.sum()))

    def _note_blank(self, name: str, count: int) -> None:
        if name not in self._blank_columns:
            self.warn(f"{name!r}: a cell is blank; taken as absent", count)
            self._blank_columns.add(name)  # a column may be read several times

    def _note_unreadable(self, name: str, count: int) -> None:
        self.warn(f"{name!r}: a cell is no number and is left out", count)


def note_damage(path: Path, notes: Notes, content: bytes = b"") -> None:
    """Warn of a truncated file, zero bytes or an open quote; `content` is the text if it was already read."""
    end, zeros, quotes, lacks = b"", False, 0, tables_of(path.name)
    with BytesIO(content) if content else path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            end, zeros, quotes = block[-1:], zeros or b"\0" in block, quotes + block.count(b'"')
    if end != b"\n":
        notes.warning(path.name, "its last line has no line end: the file was cut, or edited by hand", lacks=lacks)
    if zeros:
        notes.warning(path.name, "it holds zero bytes: the rows around them are damaged or missing", lacks=lacks)
    if quotes % 2:
        notes.warning(
            path.name, "a quote is not closed: rows after it may be missing, as they are read as one cell", lacks=lacks
        )


def without_quotes(text: str) -> str:
    """Remove the quotes that the vendor writes around shapes within a cell."""
    return text.strip('"')


def read_statistic(path: Path, notes: Notes) -> pd.DataFrame:
    """Read a table of sums under the vendor's column names: numbers as float64 or Int64, other cells as text.

    Epoch times become integer nanoseconds, and their column ``x(us)`` becomes ``x(ns)``.
    """
    table = CsvTable(path, notes, _BLANK_IN_SUMS)
    if any(_TASK.fullmatch(name) for name in table.names):  # calls may be equal, tasks are not
        table.drop_repeated(np.zeros(len(table), np.int64))
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(table.names):
        if name.endswith("(us)") and table.holds_moments(name):
            values, valid = table.time_ns(name)
            columns[f"{name[:-4]}(ns)"] = pd.arrays.IntegerArray(values, ~valid)
        elif not table.is_numeric(name):
            columns[name] = pd.array(table.text(name).to_pylist(), dtype=object)
        elif pc.all(pc.match_substring_regex(table.text(name), r"^-?\d{1,18}$")).as_py():
            columns[name] = table.scaled(name, 1)
        else:
            columns[name] = table.numbers(name)
    table.put(STATISTICS)
    return pd.DataFrame(columns)


def _parse(source: Any, count: int, handler: Callable[[Any], str] | None = None) -> Any:
    """Parse the rows after the header into text columns, named by position.

    Line ends within cells are always allowed: otherwise Arrow silently returns a wrong last row for a file that was
    truncated within such a cell.
    """
    names = [f"{place}" for place in range(count)]
    return pyarrow.csv.read_csv(
        source,
        read_options=pyarrow.csv.ReadOptions(
            column_names=names,
            skip_rows=1,
            block_size=_BLOCK_BYTES,
            use_threads=handler is None,  # a handler runs Python code
        ),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=handler),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def _open(path: Path) -> AbstractContextManager[Any]:
    """Open a file for Arrow, which accepts only UTF-8 paths and decompresses some files by their suffix."""
    plain = encodable(str(path)) == str(path) and path.suffix not in (".gz", ".bz2")
    return nullcontext(path) if plain else path.open("rb")


def _without_none(column: Any) -> tuple[Any, int]:
    """Return trimmed cells, null for missing values, and the number of blank cells."""
    data = characters(column)
    lowest, highest = (int(data.min()), int(data.max())) if len(data) else (0, 0)
    # A column of printable ASCII needs no trimming, and a column of numbers has no words for missing values.
    trimmed = column if ord(" ") < lowest and highest < 127 else pc.utf8_trim_whitespace(column)
    none = pc.equal(trimmed, "") if highest < ord("A") else pc.is_in(trimmed, value_set=pa.array(NONE))
    if not pc.any(none).as_py():
        return trimmed, 0
    return pc.if_else(none, pa.scalar(None, pa.string()), trimmed), pc.sum(pc.equal(trimmed, "")).as_py() or 0


def column_names(path: Path) -> list[str]:
    """Read the header of a CSV file."""
    try:
        head = read_head(path, _HEAD_BYTES)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file and its rights") from error
    if head.startswith(b"version https://git-lfs"):
        raise SourceError(f"{path} is a git-LFS pointer, not the data; run `git lfs pull` in its folder")
    text = as_text(head)[0].removeprefix("\ufeff")
    if not text.strip():
        raise SourceError(f"{path} is empty: the export was stopped or the disk was full; export it again")
    line = _LINE_END.split(text, maxsplit=1)[0]
    names = [] if _NOT_TEXT.search(line) else _cells(line)
    if fault := _fault_of_separator(names):
        raise SourceError(f"{path} {fault}")
    if not any(names) or len(names) > _MAX_COLUMNS:
        raise SourceError(f"{path} is no CSV with a header; export the result again")
    return names


def fault_of_spreadsheet(path: Path) -> str:
    """Return the fault of a CSV that a spreadsheet saved with other separators; empty for other files."""
    try:
        line = read_head(path, _HEAD_BYTES).decode("utf-8-sig", "replace").partition("\n")[0]
    except OSError:
        return ""
    return "" if _NOT_TEXT.search(line) or line.startswith(("{", "[")) else _fault_of_separator(_cells(line))


def _fault_of_separator(names: list[str]) -> str:
    foreign = next((mark for mark in _FOREIGN if names and names[0].count(mark) > 1), "") if len(names) == 1 else ""
    return foreign and (
        f"separates its columns by {foreign!r}, not by a comma: a spreadsheet has saved it again and rounded its "
        "times; give the file as it was exported"
    )


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader(StringIO(line)), [])]
    except csv.Error:  # a cell beyond the limit of the csv module
        return []
