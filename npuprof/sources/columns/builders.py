"""Columns that grow batch by batch: arrays of numbers, codes into books of names.

What the events of a timeline hold comes as Python objects, many of them the same; here each distinct one is kept
once, and a row takes the bytes of its numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int32, Int64, Records
from npuprof.sources.columns.nullable import ABSENT

MAX_NAME = 64 << 10
"""The longest text kept of a name, a stack or shapes."""

_NONE = (1 << 64) - 1  # what an unsigned number without a value is written as
_STAND_FOR_NONE = (None, _NONE, float(_NONE), str(_NONE), str(float(_NONE)), "", "N/A", "NULL")


class Codebook:
    """Distinct values and their numbers, in the order first seen."""

    def __init__(self) -> None:
        self._numbers: defaultdict[Any, int] = defaultdict(count().__next__, {None: -1})
        self._texts: list[str] = []

    def codes(self, values: Iterable[Hashable], length: int = -1) -> Int32:
        """Return the number of each value; None is -1. To know the `length` before makes it quicker."""
        return np.fromiter(map(self._numbers.__getitem__, values), np.int32, length)

    def code(self, value: Hashable) -> int:
        """Return the number of one value; None is -1."""
        return self._numbers[value]

    def __len__(self) -> int:
        return len(self._numbers) - 1

    @property
    def values(self) -> list[Any]:
        """Distinct values by number."""
        return list(self._numbers)[1:]

    def texts(self) -> list[str]:
        """Return the distinct values as text, cut where they are longer than any name is; still distinct."""
        if len(self._texts) != len(self):
            self._texts = [
                text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}... (cut, #{number})"
                for number, text in enumerate(map(str, self.values))
            ]
        return self._texts


class Columns:
    """Columns of unlike rows gathered batch by batch, each in one array at the end.

    Parameters
    ----------
    shared
        Books of columns that several tables have; every other column gets its own.
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
        return parts[0]

    def __len__(self) -> int:
        return sum(map(len, self._parts["start_ns"])) if self._parts else 0

    def names(self, column: str) -> list[str]:
        """Return the distinct texts that a column of codes refers to, and maybe others that it does not."""
        return self.books[column].texts()


def whole_numbers(values: Sequence[Any], lost: Callable[[int], None] | None = None) -> Int64:
    """Return an int64 array of numbers or digits; :data:`ABSENT` where there is none or it does not fit.

    `lost` is told how many are there and are none, or do not fit, if there are any.
    """
    kinds = set(map(type, values))
    if kinds == {type(None)}:
        return np.full(len(values), ABSENT, np.int64)
    if kinds <= {int, type(None)}:
        try:
            numbers = values if len(kinds) < 2 else [ABSENT if v is None else v for v in values]
            found = np.array(numbers, dtype=np.int64)
            if np.count_nonzero(found == ABSENT) == (values.count(None) if len(kinds) > 1 else 0):
                return found  # else one is the number that stands for none
        except OverflowError:
            pass  # one does not fit: read one by one
    found = np.array([_whole(value) for value in values], dtype=np.int64)
    if lost is not None and (count := _lost(values, found == ABSENT)):
        lost(count)
    return found


def _lost(values: Sequence[Any], absent: Records) -> int:
    """Count what was not taken, though it does not stand for no value."""
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
    """Return a float64 array of numbers or their texts; NaN where there is none, and `lost` as for whole numbers."""
    if str not in set(map(type, values)):
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            pass  # one does not fit: read one by one
    found = np.array([_float(value) for value in values], dtype=np.float64)
    if lost is not None and (count := _lost(values, np.isnan(found))):
        lost(count)
    return found


def _float(value: Any) -> float | None:
    try:
        number = None if value is None else float(value)
    except (ValueError, OverflowError):
        return None
    return number if number is None or isfinite(number) else None
