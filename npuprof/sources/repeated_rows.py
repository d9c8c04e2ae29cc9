"""Detect tables in which most rows are duplicates: a file was merged with itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Records
from npuprof.sources.columns.builders import ABSENT
from npuprof.tables.notes import Notes

_TIMES = ("start_ns", "time_ns", "allocated_ns")
_NUMBERS_OF_ROWS = {"id", "parent_id", "op_id", "step"}
_FEWEST = 20  # with fewer rows some may be equal by chance, but hardly each of them
_SAMPLES = "counters"  # the vendor's exporter writes each change of a frequency two or three times
_SHARE = 0.4  # about half of the rows of a duplicated table; rows may be out of order


def note_repeated_rows(tables: Mapping[str, pd.DataFrame], notes: Notes) -> None:
    """Warn of each table in which more rows equal the previous row than a run can produce."""
    for name, frame in tables.items():
        time = next((column for column in _TIMES if column in frame), None)
        if time is None or len(frame) < 2:
            continue
        if len(frame) >= _FEWEST:
            count = int(np.count_nonzero(_repeats(frame, time)))
        else:
            count = _in_few_rows(frame) if name != _SAMPLES else 0
        if count and count >= _SHARE * len(frame):
            notes.warning(
                name,
                "a row occurs more than once: a file was merged with itself, or holds one export twice; counts and "
                f"sums of {name} are too high",
                count,
            )


def _in_few_rows(frame: pd.DataFrame) -> int:
    """Return the number of repeated rows of a small table, if every row is repeated; else 0."""
    rows = frame.drop(columns=[name for name in frame.columns if name in _NUMBERS_OF_ROWS])
    return int(rows.duplicated().sum()) if rows.duplicated(keep=False).all() else 0


def _repeats(frame: pd.DataFrame, time: str) -> Bools:
    """Return a mask of the rows that equal the previous row in order of time, ignoring row numbers."""
    start = _values(frame[time])
    order = np.argsort(start, kind="stable") if (start[1:] < start[:-1]).any() else np.arange(len(start))
    equal: Bools = np.diff(start[order]) == 0
    for name in frame.columns:
        if equal.mean() < _SHARE:
            break
        if name not in _NUMBERS_OF_ROWS and name != time:
            values = _values(frame[name])[order]
            equal &= values[1:] == values[:-1]
    return equal


def _values(column: pd.Series[Any]) -> Records:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy()
    if isinstance(column.dtype, pd.Int64Dtype):
        return column.to_numpy(np.int64, na_value=ABSENT)
    if column.dtype == np.dtype(np.float64):
        return column.fillna(0).to_numpy()
    return column.to_numpy() if column.dtype == np.dtype(np.int64) else pd.factorize(column)[0]
