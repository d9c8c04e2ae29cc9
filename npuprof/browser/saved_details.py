"""Columns of the details of slices, as a saved explorer holds them: numbers, or codes of texts.

A column that is the same in all slices of a name and colour family has a value for each of those alone.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Int64
from npuprof.browser.packing import Packed, pack, pack_floats
from npuprof.timeline.slices import column_text

_LONGEST_VALUE = 4_000
_MOST_DISTINCT = 1 << 16  # texts of a column


@dataclass(frozen=True)
class Detail:
    """A column of details."""

    facts: dict[str, Any]  # what the header says of it
    column: Packed  # its numbers, or codes of texts
    texts_bytes: int = 0  # the size of its texts, deflated


def saved_detail(name: str, series: pd.Series[Any], rows: Int64, looks: Int64, count: int) -> Detail | None:
    """Return a column of some rows.

    Parameters
    ----------
    looks, count
        The number of the name and colour family of each of these rows, and how many there are of these.
    """
    if pd.api.types.is_float_dtype(series.dtype):
        values = series.to_numpy(np.float64, na_value=np.nan)[rows]
        return Detail({"name": name, "kind": "float"}, pack_floats(values))
    if pd.api.types.is_integer_dtype(series.dtype):
        is_absent = series.isna().to_numpy()[rows]
        numbers = series.to_numpy(np.int64, na_value=0)[rows]
        absent = int(numbers.min(initial=0)) - 1
        numbers = np.where(is_absent, absent, numbers)
        by_look, numbers = _by_look(numbers, looks, count, absent)
        if (column := pack(numbers)) is not None:
            return Detail({"name": name, "kind": "int", "absent": absent, "by_look": by_look}, column)
    codes, texts = _texts_of(name, series, rows)
    if texts is None:
        return None
    by_look, codes = _by_look(codes, looks, count, 0)
    column = pack(codes)
    if column is None:
        return None
    size = len(zlib.compress(json.dumps(texts).encode("utf-8", "surrogatepass")))
    return Detail({"name": name, "kind": "text", "values": [None, *texts], "by_look": by_look}, column, size)


def _texts_of(name: str, series: pd.Series[Any], rows: Int64) -> tuple[Int64, list[str] | None]:
    """Return a code for each row, 0 if absent, and the texts of codes from 1 on; None if they are too many."""
    codes, values = pd.factorize(series.iloc[rows], sort=False)
    if len(values) > _MOST_DISTINCT:
        return codes, None
    return codes.astype(np.int64) + 1, [column_text(name, value)[:_LONGEST_VALUE] for value in values]


def _by_look(values: Int64, looks: Int64, count: int, absent: int) -> tuple[bool, Int64]:
    """Return a column once for each look, if it is the same in all rows of a look."""
    of_look = np.full(count, absent, np.int64)
    of_look[looks] = values
    return (True, of_look) if len(values) > count and bool((of_look[looks] == values).all()) else (False, values)
