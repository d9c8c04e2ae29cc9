"""The tables of a profile: frames that follow :data:`npuprof.tables.schema.SCHEMA`, and the checks that enforce it.

Every source fills these tables, and every analysis, figure and export reads them, so that a name means the same
everywhere. A source may append its own columns, in the same style (snake_case, the unit in the name). Times are
``int64`` nanoseconds of the UTC epoch. Names and units of counters are described in
:mod:`npuprof.sources.raw.samples.counter_rows`; components of `memory` are allocators
(``PTA``, ``GE`` ...), ``APP`` and ``Device`` as a whole, and modules of the driver (``HCCL (module)``).

Use :func:`build` to make a table from arrays, :func:`empty` for a table that a run does not have, and
:func:`check` to assert that a frame follows the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import outer_first
from npuprof.tables.schema import DTYPES, SCHEMA, Column, Kind, Table

_NAMELESS = pd.CategoricalDtype(pd.Index([], dtype="object"))

NAMES: tuple[str, ...] = tuple(SCHEMA)


class TableError(ValueError):
    """A frame violates the schema of its table: a bug in the code that built it."""


def build(name: str, columns: Mapping[str, Any], only: Collection[str] = ()) -> pd.DataFrame:
    """Build a table from arrays, in the schema's order and dtypes; the order of rows is kept.

    Parameters
    ----------
    columns
        Arrays of the same length by column name: NumPy arrays, Series or pandas arrays. Missing columns are filled
        with absent values, if their kind allows it. Unknown columns are appended unchanged, in the given order.
    """
    table = SCHEMA[name].with_only(only)
    length = max((len(values) for values in columns.values() if values is not None), default=0)
    known_names = {column.name for column in table.columns}
    added = {key: value for key, value in columns.items() if key not in known_names}
    if not length:
        without_rows = empty(name)[[column.name for column in table.columns]] if only else empty(name)
        for key, values in added.items():
            without_rows[key] = values
        return without_rows
    data = {column.name: _column(table, column, columns, length) for column in table.columns}
    frame: pd.DataFrame = pd.DataFrame(data | added, copy=False)
    frame.index = pd.RangeIndex(len(frame))
    return frame


def _column(table: Table, column: Column, columns: Mapping[str, Any], length: int) -> Any:
    values = columns.get(column.name)
    if values is None:
        if column.kind == "int":
            raise TableError(f"table {table.name!r} needs a value in every row of {column.name!r}")
        return _absent(column.kind, length)
    if _fits(column.kind, values):
        return values
    if column.kind in ("int", "int?"):
        _refuse_floats(table, column, values)
    try:
        return pd.Series(values, copy=False).astype(column.dtype).array
    except (TypeError, ValueError) as error:
        raise TableError(f"table {table.name!r}: {column.name!r} does not fit {column.dtype}: {error}") from error


def _fits(kind: Kind, values: Any) -> bool:
    """Return whether values are an array of the dtype of a kind, which is then taken as it is."""
    if kind == "int":
        return isinstance(values, np.ndarray) and values.dtype == np.int64
    if kind == "int?":
        return isinstance(values, pd.arrays.IntegerArray) and values.dtype == pd.Int64Dtype()
    return kind == "name" and isinstance(values, pd.Categorical)


def _absent(kind: Kind, length: int) -> Any:
    """Return an array without values."""
    if kind == "int?":
        return pd.arrays.IntegerArray(np.ones(length, np.int64), np.ones(length, np.bool_))
    return pd.Series(index=range(length), dtype=DTYPES[kind]).array


def _refuse_floats(table: Table, column: Column, values: Any) -> None:
    # float64 cannot represent epoch nanoseconds: they are off by up to 256 ns, whatever they are cast to afterwards.
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and len(values):
        raise TableError(f"table {table.name!r}: {column.name!r} must not pass through a float")


def empty(name: str) -> pd.DataFrame:
    """Return an empty table with all its columns; a copy, which the caller may change."""
    return _empty(name).copy()


@cache
def _empty(name: str) -> pd.DataFrame:
    # Built once: making empty columns takes as long as making those of a small run, copying them a twentieth of that.
    return pd.DataFrame({column.name: _absent(column.kind, 0) for column in SCHEMA[name].columns})


def check(name: str, frame: pd.DataFrame, only: Collection[str] = ()) -> None:
    """Check that a frame is a valid table; with `only`, that it has these columns of it."""
    expected = SCHEMA[name].with_only(only).columns
    if list(frame.columns[: len(expected)]) != [column.name for column in expected]:
        raise TableError(f"table {name!r} has the columns {list(frame.columns)}, not those of its schema first")
    for column in expected:
        dtype = str(frame[column.name].dtype)
        if dtype != column.dtype:
            raise TableError(f"table {name!r}: {column.name!r} is {dtype}, not {column.dtype}")
    if "duration_ns" in frame and len(frame) and int(frame["duration_ns"].min()) < 0:
        raise TableError(f"table {name!r} has a negative duration")


def categorical(codes: npt.NDArray[np.integer[Any]], names: list[str]) -> pd.Categorical:
    """Return a ``name`` column from integer codes into a list of distinct names; -1 is absent.

    This is cheaper than a column of strings, since only distinct names are processed.
    """
    if not names:
        return pd.Categorical.from_codes(codes, dtype=_NAMELESS)
    return pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype="object"))


def matching(names: pd.Series[Any] | pd.Categorical, wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows of a ``name`` column that satisfy `wanted`; an absent name does not.

    `wanted` is called once per distinct name.
    """
    column = names.array if isinstance(names, pd.Series) else names
    return rows_named(column, [wanted(str(name)) for name in column.categories])


def rows_named(names: pd.Categorical, wanted: Iterable[bool]) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows of a ``name`` column whose category is wanted; an absent name is not."""
    of_code = np.array([*wanted, False], np.bool_)
    return of_code[names.codes]  # code -1, absent, selects the last entry


def sampled(python: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return a mask of the Python calls that samples saw, whose number is not one of calls."""
    if "sampled" not in python:
        return np.zeros(len(python), np.bool_)
    return python["sampled"].to_numpy(np.bool_)


def sort_by_time(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows sorted by start, longer first at equal starts, so that callers precede their callees."""
    key = "start_ns" if "start_ns" in frame else "time_ns"
    starts = frame[key].to_numpy(np.int64)
    durations = frame["duration_ns"].to_numpy() if "duration_ns" in frame else np.zeros(len(frame), np.int64)
    is_outer = (starts[:-1] == starts[1:]) & (durations[:-1] >= durations[1:])
    in_order = (starts[:-1] < starts[1:]) | is_outer
    # Most files are sorted, which is far quicker to check than to sort again.
    ordered = frame if bool(np.all(in_order)) else frame.iloc[outer_first(starts, durations)]
    return ordered.reset_index(drop=True)


def owner(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the column that tells runs of a merged table apart: `rank`, or `run` where a rank is unknown.

    The tables of one run have neither.
    """
    if "rank" in frame and not frame["rank"].isna().any():
        return ("rank",)
    return ("run",) if "run" in frame else ()
