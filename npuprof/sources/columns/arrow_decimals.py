"""Exact integers from a column of decimal text in Arrow's memory, without an object for each cell.

What :func:`.decimals.scaled` does for any text, for the columns that a vendor writes: most of them are plain decimals
with no more digits than the unit has, which Arrow's own decimals hold exactly. Any other column goes the long way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from npuprof.arrays import Bools, Int64
from npuprof.sources.columns.decimals import scaled

_DIGITS = {1: 0, 1000: 3, 1_000_000: 6}  # by multiplier: digits behind the point that it makes whole
_PRECISION = 38  # of Arrow's 128 bit decimals: no int64 is too long


def scaled_column(column: Any, multiplier: int, *, exponents: bool = True) -> tuple[Int64, Bools]:
    """Do what :func:`npuprof.sources.columns.decimals.scaled` does for an Arrow array of text; null is not valid."""
    quick = _as_decimals(column, multiplier) if multiplier in _DIGITS and len(column) else None
    if quick is not None:
        return quick
    return scaled(column.fill_null("").to_pylist(), multiplier, exponents=exponents)


def characters(column: Any) -> npt.NDArray[np.uint8]:
    """Return the bytes of all texts of an Arrow array of strings, one behind the other, as they lie in its memory."""
    _, ends, data = column.buffers()
    if not len(column) or data is None:
        return np.empty(0, np.uint8)
    first, last = np.frombuffer(ends, np.int32)[[column.offset, column.offset + len(column)]].tolist()
    return np.frombuffer(data, np.uint8)[first:last]


def _as_decimals(column: Any, multiplier: int) -> tuple[Int64, Bools] | None:
    data = characters(column)
    # Arrow takes exponents and hexadecimals too, but whether one is allowed is for the long way to say.
    if len(data) and int(data.max()) >= ord("E"):
        return None
    valid = _valid(column)
    if multiplier == 1:
        try:
            return _filled(column.cast(pa.int64())).to_numpy(zero_copy_only=False), valid
        except pa.ArrowInvalid:
            pass  # such as 5.0
    try:
        decimals = _filled(column.cast(pa.decimal128(_PRECISION, _DIGITS[multiplier])))
    except pa.ArrowInvalid:
        return None
    # A decimal lies in memory as a whole number of 16 bytes; one that fits an int64 has its sign in the upper half.
    halves = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)
    halves = halves[decimals.offset : decimals.offset + len(decimals)]
    values = halves[:, 0].copy()
    if not np.array_equal(values >> 63, halves[:, 1]):
        return None
    return values, valid


def _filled(column: Any) -> Any:
    return column.fill_null(0) if column.null_count else column


def _valid(column: Any) -> Bools:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), np.bool_)
