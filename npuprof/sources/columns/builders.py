"""Columns of tables: codes of names, nullable integers, and columns that grow batch by batch.

Events of a timeline are decoded to Python objects, many of them equal: each distinct object is stored once, and rows
hold its code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int32, Int64, Records

ABSENT = int(np.iinfo(np.int64).min)
"""Stands for "no value" in arrays of whole numbers while a file is read; tables get <NA> instead."""

SENTINELS = (4294967295, 4000000000)
"""The vendor's values for "none" in numbers of connections, contexts, ranks and models."""

FIRST_MARK_CONNECTION = 4_000_000_001
"""The connection of the mark with the id 0; those of calls lie far below."""

PYTHON_GC = "python_gc"
"""The domain of the marks that are pauses of Python's garbage collector."""

_OF_ONE_KIND = ("string", "empty", "boolean")
_NUMBERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "integer": (int, "Int64"),
    "floating": (float, "float64"),
    "mixed-integer-float": (float, "float64"),
}


def recoded(codes: npt.NDArray[np.integer[Any]], names: list[str | None]) -> pd.Categorical:
    """Map a name column of codes to a list that may contain duplicates; None, an empty name and code -1 are absent."""
    distinct = list(dict.fromkeys(name for name in names if name))
    number = {name: code for code, name in enumerate(distinct)}
    table = np.array([*(number.get(name or "", -1) for name in names), -1], np.int32)
    return tables.categorical(table[codes], distinct)  # code -1 selects the last entry


def optional(values: Records, absent: tuple[int, ...] = ()) -> Any:
    """Make an Int64 array that is <NA> where the value is :data:`ABSENT` or one of the file's own "none" values."""
    mask = np.isin(values, (ABSENT, *absent))
    return pd.arrays.IntegerArray(np.where(mask, 0, values).astype(np.int64), mask)


def where_present(values: Records, present: Bools) -> pd.arrays.IntegerArray:
    """Make an Int64 array that is <NA> where the value is not present."""
    return pd.arrays.IntegerArray(np.ascontiguousarray(values, np.int64), ~present)


def flags(answers: pd.Categorical, yes: str) -> pd.arrays.BooleanArray:
    """Make a boolean array that tells which answers are `yes`; <NA> where there is none."""
    values = np.array([answer == yes for answer in answers.categories] + [False], np.bool_)
    return pd.arrays.BooleanArray(values[answers.codes], answers.codes < 0)


def missing(count: int) -> Any:
    """Make an Int64 array of <NA>."""
    return optional(np.full(count, ABSENT))


def whole(values: Records) -> Any:
    """Make an Int64 array of floats, rounded to integers; <NA> for NaN and for values out of range."""
    sound = np.abs(values) < 1 << 62  # false for NaN too
    return pd.arrays.IntegerArray(np.rint(np.where(sound, values, 0)).astype(np.int64), ~sound)


def module_component(name: str) -> str:
    """Return the `component` of `memory` for a module of the driver: ``GE (module)``.

    Modules share names with allocators (GE) and with the process (APP), but measure different memory.
    """
    return f"{name} (module)"


def of_one_kind(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns can be written to any file: columns of mixed types become numbers, or else text."""
    for name in [name for name, dtype in frame.dtypes.items() if pd.api.types.is_object_dtype(dtype)]:
        kind = pd.api.types.infer_dtype(frame[name], skipna=True)
        if kind in _OF_ONE_KIND:
            continue
        there = frame[name].dropna()
        to, dtype = _NUMBERS.get(kind, (str, "object"))
        try:
            frame[name] = pd.Series([*map(to, there)], there.index, dtype).reindex(frame.index)
        except OverflowError:
            frame[name] = there.map(str).reindex(frame.index)
    return frame


MAX_NAME = 64 << 10
"""The longest text kept of a name, a stack or shapes."""

_NONE = (1 << 64) - 1  # how a missing value of an unsigned number is written
_STAND_FOR_NONE = (None, _NONE, float(_NONE), str(_NONE), str(float(_NONE)), "", "N/A", "NULL")


class Codebook:
    """Distinct values and their codes, in the order of first occurrence."""

    def __init__(self) -> None:
        self._numbers: defaultdict[Any, int] = defaultdict(count().__next__, {None: -1})
        self._texts: list[str] = []

    def codes(self, values: Iterable[Hashable], length: int = -1) -> Int32:
        """Return the code of each value; None is -1. A known `length` makes this faster."""
        return np.fromiter(map(self._numbers.__getitem__, values), np.int32, length)

    def code(self, value: Hashable) -> int:
        """Return the code of a value; None is -1."""
        return self._numbers[value]

    def __len__(self) -> int:
        return len(self._numbers) - 1

    @property
    def values(self) -> list[Any]:
        """Distinct values in the order of their codes."""
        return list(self._numbers)[1:]

    def texts(self) -> list[str]:
        """Return the distinct values as text, truncated to the longest text kept of a name; they stay distinct."""
        if len(self._texts) != len(self):
            self._texts = [
                text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}... (cut, #{number})"
                for number, text in enumerate(map(str, self.values))
            ]
        return self._texts


class GatheredColumns:
    """Columns of rows gathered batch by batch, joined to one array each at the end.

    Parameters
    ----------
    shared
        Codebooks of columns that several tables share; every other column gets a new codebook.
    """

    def __init__(self, shared: Mapping[str, Codebook] | None = None) -> None:
        self._parts: defaultdict[str, list[Records]] = defaultdict(list)
        self.books: defaultdict[str, Codebook] = defaultdict(Codebook, shared or {})

    def add(self, columns: dict[str, Records]) -> None:
        """Append a batch: arrays of one length by column name, the same names every time."""
        for name, values in columns.items():
            self._parts[name].append(values)

    def __getitem__(self, name: str) -> Records:
        parts = self._parts[name]
        if len(parts) > 1:
            parts[:] = [np.concatenate(parts)]
        return parts[0] if self._parts["start_ns"] else np.empty(0, np.int32)  # for an empty table

    def at(self, rows: Int64) -> dict[str, Records]:
        """Return every column of some rows."""
        return {name: self[name][rows] for name in list(self._parts)}

    def keep(self, rows: Bools) -> None:
        """Drop the rows that are not in a mask."""
        for name in self._parts:
            self._parts[name] = [self[name][rows]]

    def __len__(self) -> int:
        return sum(map(len, self._parts["start_ns"])) if self._parts else 0

    def names(self, column: str) -> list[str]:
        """Return the distinct texts that a column of codes refers to; the list may contain unused texts."""
        return self.books[column].texts()


def whole_numbers(values: Sequence[Any], lost: Callable[[int], None] | None = None) -> Int64:
    """Return an int64 array of integers or digits; :data:`ABSENT` where a value is missing or out of range.

    `lost` is called with the number of values that are invalid or out of range, if there are any.
    """
    kinds = set(map(type, values))
    if kinds == {type(None)}:
        return np.full(len(values), ABSENT, np.int64)
    if kinds <= {int, type(None)}:
        try:
            numbers = values if len(kinds) < 2 else [ABSENT if v is None else v for v in values]
            converted = np.array(numbers, dtype=np.int64)
            if np.count_nonzero(converted == ABSENT) == (values.count(None) if len(kinds) > 1 else 0):
                return converted  # otherwise a value equals the one that stands for no value
        except OverflowError:
            pass  # a value is out of range: convert one by one
    converted = np.array([_whole(value) for value in values], dtype=np.int64)
    if lost is not None and (count := _count_lost(values, converted == ABSENT)):
        lost(count)
    return converted


def _count_lost(values: Sequence[Any], absent: Records) -> int:
    """Count the values that were not converted, except those that stand for no value."""
    return sum(values[row] not in _STAND_FOR_NONE for row in np.flatnonzero(absent).tolist())


def _whole(value: Any) -> int:
    if isinstance(value, str):
        try:
            value = int(value) if len(value) <= 20 else None
        except ValueError:
            return ABSENT
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and ABSENT < value <= -(ABSENT + 1) else ABSENT


def floats(values: Sequence[Any], lost: Callable[[int], None] | None = None) -> npt.NDArray[np.float64]:
    """Return a float64 array of numbers or their texts; NaN for none, `lost` as in :func:`whole_numbers`."""
    if str not in set(map(type, values)):
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            pass  # a value cannot be converted: convert one by one
    converted = np.array([_float(value) for value in values], dtype=np.float64)
    if lost is not None and (count := _count_lost(values, np.isnan(converted))):
        lost(count)
    return converted


def _float(value: Any) -> float | None:
    try:
        number = None if value is None else float(value)
    except (ValueError, OverflowError):
        return None
    return number if number is None or isfinite(number) else None
