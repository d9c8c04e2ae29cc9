"""Exact integers from a column of decimal text in Arrow's memory, without an object for each cell.

What :func:`npuprof.sources.decimals.scaled` does for any text, for the columns that a vendor writes: most of them are
plain decimals with no more digits than the unit has, which Arrow's own decimals hold exactly. Any other column goes
the long way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npuprof.sources.decimals import Ints, Mask, scaled

_DIGITS = {1: 0, 1000: 3, 1_000_000: 6}  # by multiplier: digits behind the point that it makes whole
_PRECISION = 38  # of Arrow's 128 bit decimals: no int64 is too long


def scaled_column(column: Any, multiplier: int, *, exponents: bool = True) -> tuple[Ints, Mask]:
    """Do what :func:`npuprof.sources.decimals.scaled` does for an Arrow array of text; null is not valid."""
    quick = _as_decimals(column, multiplier) if multiplier in _DIGITS and len(column) else None
    if quick is not None:
        return quick
    return scaled(column.fill_null("").to_pylist(), multiplier, exponents=exponents)


def _as_decimals(column: Any, multiplier: int) -> tuple[Ints, Mask] | None:
    # Arrow takes exponents too, but whether one is allowed is for the long way to say.
    if any(pc.any(pc.match_substring(column, letter)).as_py() for letter in "eE"):
        return None
    try:
        decimals = column.cast(pa.decimal128(_PRECISION, _DIGITS[multiplier])).fill_null(0)
    except pa.ArrowInvalid:
        return None
    # A decimal lies in memory as a whole number of 16 bytes; one that fits an int64 has its sign in the upper half.
    halves = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)
    halves = halves[decimals.offset : decimals.offset + len(decimals)]
    values = halves[:, 0].copy()
    if not np.array_equal(values >> 63, halves[:, 1]):
        return None
    return values, pc.is_valid(column).to_numpy(zero_copy_only=False)
