"""Make table columns of codes and whole numbers: what the readers of different files share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Records

ABSENT = int(np.iinfo(np.int64).min)
"""Stands for "no value" in arrays of whole numbers while a file is read; tables get <NA> instead."""

SENTINELS = (4294967295, 4000000000)
"""What the vendor writes for "none" in numbers of connections, contexts, ranks and models."""

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
    """Make a name column of codes into a list in which names may repeat; None, an empty name and code -1 are absent."""
    distinct = list(dict.fromkeys(name for name in names if name))
    number = {name: code for code, name in enumerate(distinct)}
    table = np.array([*(number.get(name or "", -1) for name in names), -1], np.int32)
    return tables.categorical(table[codes], distinct)  # code -1 takes the last entry


def named(names: pd.Series[Any], what: Callable[[str], bool]) -> Bools:
    """Return where a name column holds one of the names that are so; each name is asked once, absent ones are not."""
    table = np.array([*(what(str(name)) for name in names.cat.categories), False], np.bool_)
    rows: Bools = table[names.cat.codes]
    return rows


def optional(values: Records, absent: tuple[int, ...] = ()) -> Any:
    """Make an Int64 array that is <NA> where the value is :data:`ABSENT` or one of the file's own "none" values."""
    mask = np.isin(values, (ABSENT, *absent))
    return pd.arrays.IntegerArray(np.where(mask, 0, values).astype(np.int64), mask)


def missing(count: int) -> Any:
    """Make an Int64 array without values."""
    return optional(np.full(count, ABSENT))


def whole(values: Records) -> Any:
    """Make an Int64 array of floats, rounded to whole numbers; <NA> for what is none, or is too large for one."""
    sound = np.abs(values) < 1 << 62  # false for NaN too
    return pd.arrays.IntegerArray(np.rint(np.where(sound, values, 0)).astype(np.int64), ~sound)


def module_component(name: str) -> str:
    """Return the `component` of `memory` for a module of the driver: ``GE (module)``.

    Modules share names with allocators (GE) and with the process (APP), but count other things.
    """
    return f"{name} (module)"


def of_one_kind(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns any file takes: those of mixed things hold numbers, or else text."""
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
