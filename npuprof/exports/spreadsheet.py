"""Tables as CSV and as Excel workbooks, with texts that no spreadsheet interprets as formulas.

Times are exact: CSV has all digits, and in a workbook a number with more digits than Excel keeps is stored as text.
"""

from __future__ import annotations

import csv
import importlib.util
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO, TextIO
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd

from npuprof.errors import NpuprofError, NpuprofWarning
from npuprof.words.quantities import counted
from npuprof.words.texts import plain_lines

_MOST_ROWS = (1 << 20) - 1  # of a sheet, below its headings
_MOST_COLUMNS = 1 << 14
_MOST_CHARACTERS = 32_767  # of a cell
_MOST_OF_A_TITLE = 31
_EXACT = 10**15  # Excel keeps 15 digits
_AT_ONCE = 50_000
# A reader that splits cells at semicolons, tabs or bars also splits texts there, so each part is made safe.
_FORMULA = re.compile(r"(?:^|(?<=[;|\n]))(?=\s*[=+\-@＝＋－＠])")
_NO_XML = re.compile("[\ufffe\uffff]")
_ESCAPE_OF_EXCEL = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")
_NOT_IN_A_TITLE = re.compile(r"[\[\]:*?/\\]")


def write_csv(out: TextIO, frame: pd.DataFrame) -> None:
    """Write a table as CSV, all texts in quotes; an absent value is empty.

    Text, or a part of it, that a spreadsheet would interpret as a formula is prefixed with an apostrophe. Control
    characters become spaces.
    """
    rows = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    named_rows = _with_index(frame)
    rows.writerow(_headings(named_rows))
    rows.writerows(_rows(named_rows))


def check_xlsx() -> None:
    """Check that workbooks can be written."""
    if importlib.util.find_spec("openpyxl") is None:
        raise NpuprofError("openpyxl is needed to write Excel workbooks: pip install 'npuprof[xlsx]', or use to_csv")


def write_xlsx(out: BinaryIO, frames: Mapping[str, pd.DataFrame]) -> None:
    """Write tables as an Excel workbook, one sheet per table, or several if its rows exceed the limit of a sheet.

    Texts are as in CSV; those over the length limit of a cell are cut. Warnings name what is split or cut.
    """
    from openpyxl import Workbook
    from openpyxl.writer.excel import ExcelWriter

    if not frames:
        raise NpuprofError("there is no table with rows, and a workbook needs one: name a table")
    book, titles = Workbook(write_only=True), set[str]()
    for name, frame in frames.items():
        named_rows = _with_index(frame)
        if named_rows.shape[1] > _MOST_COLUMNS:
            raise NpuprofError(f"{name} has more columns than the {_MOST_COLUMNS:,} of a sheet: use to_csv")
        rows, cut = _rows(named_rows), 0
        parts = max(1, -(-len(named_rows) // _MOST_ROWS))
        for _ in range(parts):
            sheet = book.create_sheet(_title(name, titles))
            sheet.append([_cell(sheet, heading) for heading in _headings(named_rows)])
            for row in islice(rows, _MOST_ROWS):
                cut += any(isinstance(value, str) and len(value) > _MOST_CHARACTERS for value in row)
                sheet.append([_cell(sheet, value) for value in row])
        if parts > 1:
            _warn(f"{name} has {len(named_rows):,} rows, more than a sheet holds: they are in {parts} sheets")
        if cut:
            cut_rows = counted(cut, "row")
            _warn(f"texts in {cut_rows} of {name} are cut to {_MOST_CHARACTERS:,} characters: use to_csv for all")
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:  # book.save leaves its own open where a disk is full
        ExcelWriter(book, archive).save()


def _warn(message: str) -> None:
    warnings.warn(message, NpuprofWarning, stacklevel=4)


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    if all(name is None for name in frame.index.names):
        return frame
    return frame.reset_index(allow_duplicates=True)


def _headings(frame: pd.DataFrame) -> list[str]:
    return [_safe(str(name)) for name in frame.columns]


def _rows(frame: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yield the rows as numbers, safe texts and None."""
    for start in range(0, len(frame), _AT_ONCE):
        part = frame.iloc[start : start + _AT_ONCE]
        yield from zip(*(_values(part.iloc[:, number]) for number in range(part.shape[1])), strict=True)


def _values(column: pd.Series[Any]) -> list[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        kept = column.cat.remove_unused_categories()
        texts = [*map(_value, kept.cat.categories.tolist()), None]  # code -1, absent, indexes the last element
        return [texts[code] for code in kept.cat.codes.tolist()]
    return [_value(value) for value in column.astype(object).tolist()]


def _value(value: Any) -> Any:
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (int, float)) else _safe(str(value))


def _safe(text: str) -> str:
    """Return a text without terminal control characters and spreadsheet formulas."""
    return _FORMULA.sub("'", plain_lines(text))


def _cell(sheet: Any, value: Any) -> Any:
    """Return the content of a workbook cell: numbers that Excel would round become text."""
    from openpyxl.cell import WriteOnlyCell

    if isinstance(value, float) and not math.isinf(value):
        return value
    if isinstance(value, int) and abs(value) < _EXACT:
        return value
    if value is None:
        return None
    text = _ESCAPE_OF_EXCEL.sub("_x005F_", _NO_XML.sub("\ufffd", str(value)))
    cell = WriteOnlyCell(sheet, text[:_MOST_CHARACTERS])
    cell.data_type = "s"  # even if the text looks like something else, such as an error value
    return cell


def _title(name: str, taken_names: set[str]) -> str:
    """Return a unique sheet title that Excel accepts."""
    plain = _NOT_IN_A_TITLE.sub("_", _NO_XML.sub("_", _safe(name))).replace("\n", " ").strip("' ") or "table"
    plain = f"{plain}_" if plain.lower() == "history" else plain
    number, title = 1, plain[:_MOST_OF_A_TITLE]
    while title.rstrip("'").lower() in taken_names:
        number += 1
        title = f"{plain[: _MOST_OF_A_TITLE - len(str(number)) - 3]} ({number})"
    taken_names.add(title.rstrip("'").lower())
    return title.rstrip("'")
