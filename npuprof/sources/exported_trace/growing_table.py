"""A table that grows from JSON values of its rows, and becomes a frame of the dtypes that it had before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64, Records
from npuprof.sources.columns.builders import ABSENT, GatheredColumns, floats, optional, whole_numbers
from npuprof.sources.exported_trace.layout import ROW

_INFINITE = {"Infinity": float("inf"), "-Infinity": float("-inf")}
_WHOLE, _FLAGS = ("int64", "Int64"), ("bool", "boolean")
_NUMBER = "start_ns"  # by which GatheredColumns count their rows
_COLUMN = "_"  # before the names of the table's columns


class GrowingTable:
    """Rows of a table, each with its number.

    Parameters
    ----------
    lost
        Called with the number of values that are not of their column's dtype; they are taken as absent.
    """

    def __init__(
        self, dtypes: Mapping[str, str], lost: Callable[[int], None], arguments: Mapping[str, str] | None = None
    ) -> None:
        self.dtypes = dict(dtypes)
        self._lost, self._arguments = lost, arguments or {}
        self._columns = GatheredColumns()

    def __len__(self) -> int:
        return len(self._columns)

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows: values by key, ``npuprof_row`` is the number."""
        columns = {_NUMBER: whole_numbers([row.get(ROW) for row in rows])}
        for name in self.dtypes:
            key = self._arguments.get(name, name)
            columns[f"{_COLUMN}{name}"] = self._convert(name, [row.get(key) for row in rows])
        self._columns.add(columns)

    def _convert(self, name: str, values: list[Any]) -> Records:
        """Return integers, floats or codes of texts."""
        dtype = self.dtypes[name]
        kinds = set(map(type, values)) - {type(None)}
        if dtype in _WHOLE:
            return whole_numbers(self._of_type(values, kinds, int), self._lost)
        if dtype in _FLAGS:
            flags = self._of_type(values, kinds, bool)
            return whole_numbers([None if flag is None else int(flag) for flag in flags])
        if dtype == "float64":
            if str in kinds:
                values = [_INFINITE.get(value, value) if isinstance(value, str) else value for value in values]
                kinds = set(map(type, values)) - {type(None)}
            return floats(self._of_type(values, kinds, int, float), self._lost)
        texts = self._of_type(values, kinds, str)
        return self._columns.books[f"{_COLUMN}{name}"].codes(texts, len(texts))

    def _of_type(self, values: list[Any], kinds: set[type], *wanted: type) -> list[Any]:
        if kinds <= set(wanted):
            return values
        of_type = [value if type(value) in wanted else None for value in values]
        self._lost(of_type.count(None) - values.count(None))
        return of_type

    def numbers(self) -> Int64:
        """Return the number of each row; :data:`~npuprof.sources.columns.builders.ABSENT` for none."""
        return self._columns[_NUMBER].astype(np.int64)

    def has(self, name: str, places: Records) -> Bools:
        """Return whether each of some rows has a value in a column of integers."""
        return self._columns[f"{_COLUMN}{name}"][places] != ABSENT

    def columns(self, places: Records) -> dict[str, Any]:
        """Return some rows as arrays of the columns' dtypes."""
        return {name: self._array(name, places) for name in self.dtypes}

    def _array(self, name: str, places: Records) -> Any:
        dtype, values = self.dtypes[name], self._columns[f"{_COLUMN}{name}"][places]
        if dtype == "int64":
            return values.astype(np.int64)
        if dtype == "Int64":
            return optional(values)
        if dtype == "float64":
            return values.astype(np.float64)
        if dtype == "boolean":
            return pd.arrays.BooleanArray(values == 1, values == ABSENT)
        if dtype == "bool":
            return values == 1
        texts = self._columns.books[f"{_COLUMN}{name}"].values
        if dtype != "category":
            listed = [texts[code] if code >= 0 else None for code in values.tolist()]
            return pd.Series(listed, dtype=object if dtype == "object" else None)
        used, codes = np.unique(values[values >= 0], return_inverse=True)
        of_rows = np.full(len(values), -1, np.int32)
        of_rows[values >= 0] = codes
        return tables.categorical(of_rows, [texts[code] for code in used.tolist()])
