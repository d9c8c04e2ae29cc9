"""Exact integers from decimal text: microseconds to nanoseconds, megabytes to bytes, never through a float.

A float64 steps by 0.25 us near today's epoch: a time that was once a float has lost its nanoseconds. Arrow's 128-bit
decimals hold the digits of a column; the few texts that are not plain decimals (exponents, very long fractions) are
parsed one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npuprof.arrays import Bools, Int64, Uint8

US_TO_NS = 1000
MS_TO_NS = 1_000_000
MB_TO_BYTES = 1 << 20
KB_TO_BYTES = 1 << 10

MAX_TIME_NS = 4 * 10**18
"""2096; beyond it a time is damage."""
MAX_DURATION_US = 1e15
"""30 years; beyond it a duration is damage."""

_FRACTION_DIGITS = 12  # 10**12 times the largest multiplier, 2**20, still fits an int64
_EXACT = pa.decimal128(30, _FRACTION_DIGITS)  # times a multiplier of 7 digits, it has the 38 digits that Arrow allows
_MULTIPLIER = pa.decimal128(7, 0)
_PLAIN = rf"^-?(?:[0-9]{{1,18}}(?:\.[0-9]{{0,{_FRACTION_DIGITS}}})?|\.[0-9]{{1,{_FRACTION_DIGITS}}})$"
_PLACES = {1: 0, 1000: 3, 1_000_000: 6}  # by multiplier: decimal places that it turns into integers
_MOST_CHARACTERS = 38  # with more digits than fit, Arrow silently keeps the lowest 128 bits
_TRIED = 64  # rows: Arrow takes five times as long for texts that it rejects
_MAX = np.iinfo(np.int64).max
_DECIMAL = re.compile(r"[+-]?(?=[0-9.])([0-9]{0,40})(?:\.([0-9]{0,60}))?(?:[eE]([+-]?[0-9]{1,2}))?", re.ASCII)


def scaled(texts: Sequence[str], multiplier: int, *, exponents: bool = True) -> tuple[Int64, Bools]:
    """Multiply decimal texts by an integer, exactly, and round to the nearest integer (halves away from 0).

    Parameters
    ----------
    exponents
        Whether exponents are accepted. A time of day with one has passed through a spreadsheet and lost its digits.

    Returns
    -------
    values, valid
        Two arrays of the length of `texts`; where `valid` is false the text is not such a number (or does not
        fit an int64) and the value is 0.
    """
    fast = _by_numpy(texts, multiplier) if len(texts) else None
    if fast is not None:
        return fast, np.ones(len(texts), np.bool_)
    try:
        column = pa.array(texts, pa.string())
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold
        column = pa.array([text.encode("utf-8", "replace") for text in texts], pa.string())
    return scaled_column(column, multiplier, exponents=exponents)


def scaled_column(column: Any, multiplier: int, *, exponents: bool = True) -> tuple[Int64, Bools]:
    """Apply :func:`scaled` to an Arrow array of text; null is not valid."""
    converted = _by_arrow(column, multiplier)
    if converted is not None:
        return converted
    plain = np.asarray(pc.match_substring_regex(column, _PLAIN).fill_null(False))
    values, valid = np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
    if (converted := _by_arrow(column.filter(pa.array(plain)), multiplier)) is not None:
        values[plain], valid[plain] = converted
    rows = np.flatnonzero(~plain)
    for row, text in zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True):
        exact = None if text is None else scaled_one(text, multiplier, exponents=exponents)
        if exact is not None:
            values[row], valid[row] = exact, True
    return values, valid


def _by_arrow(column: Any, multiplier: int) -> tuple[Int64, Bools] | None:
    """Return values and validity as :func:`scaled`; None if Arrow rejects any text or could misread it."""
    data = characters(column)
    if len(data) and int(data.max()) >= ord("E"):  # Arrow accepts any exponent, and hexadecimal integers
        return None
    if (pc.max(pc.binary_length(column)).as_py() or 0) > _MOST_CHARACTERS:
        return None
    units = _units(column, multiplier)
    if units is None:
        return None
    valid = np.array(pc.is_valid(units))
    filled = units.fill_null(0)
    if pa.types.is_integer(units.type):
        low = np.asarray(filled)
    else:  # a decimal is an integer of 16 bytes in memory: if it fits an int64, its upper half is only the sign
        halves = np.frombuffer(filled.buffers()[1], np.int64).reshape(-1, 2)
        low, high = halves[filled.offset : filled.offset + len(filled)].T
        valid &= low >> 63 == high
    valid &= low >= -_MAX
    return np.where(valid, low, 0), valid


def _units(column: Any, multiplier: int) -> Any:
    """Return a column times a multiplier as Arrow integers; None if Arrow cannot parse it."""
    kinds = [pa.int64()] if multiplier == 1 else []
    if multiplier in _PLACES:
        kinds.append(pa.decimal128(38, _PLACES[multiplier]))
    for kind in kinds:
        with suppress(pa.ArrowInvalid):  # such as 5.0, or more decimal places, which are rounded
            column[:: len(column) // _TRIED | 1].cast(kind)
            return column.cast(kind)
    try:
        product = column.cast(_EXACT)
    except pa.ArrowInvalid:
        return None
    if multiplier != 1:
        product = pc.multiply(product, pa.scalar(Decimal(multiplier), _MULTIPLIER))
    return pc.round(product, 0, "half_towards_infinity").cast(pa.decimal128(38, 0))


def characters(column: Any) -> Uint8:
    """Return the concatenated bytes of all texts of an Arrow string array, without a copy."""
    _, ends, data = column.buffers()
    if not len(column) or data is None:
        return np.empty(0, np.uint8)
    first, last = np.frombuffer(ends, np.int32)[[column.offset, column.offset + len(column)]].tolist()
    return np.frombuffer(data, np.uint8)[first:last]


def scaled_one(text: str, multiplier: int, *, exponents: bool = True) -> int | None:
    """Convert a single text as :func:`scaled` does; None if it is not a decimal or does not fit an int64."""
    stripped = text.strip()
    match = _DECIMAL.fullmatch(stripped)
    if match is None or not (match[1] or match[2]) or (match[3] and not exponents):
        return None
    fraction = match[2] or ""
    exponent = int(match[3] or 0) - len(fraction)
    number = Fraction(int(match[1] + fraction) * multiplier)
    number = number * 10**exponent if exponent >= 0 else number / 10**-exponent
    rounded = int(number + Fraction(1, 2))
    if rounded > _MAX:
        return None
    return -rounded if stripped.startswith("-") else rounded


def _by_numpy(texts: Sequence[str], multiplier: int) -> Int64 | None:
    """Convert texts of equal length and point position with NumPy only; None for other texts."""
    joined = "\n".join([*texts, ""]).encode("ascii", "replace")
    width, remainder = divmod(len(joined), len(texts))
    point = joined.find(b".", 0, width)
    places = width - 1 if point < 0 else point
    decimals = width - 2 - places if point >= 0 else 0
    if remainder or not 0 < places <= 18 or decimals > _FRACTION_DIGITS:
        return None
    columns = np.ascontiguousarray(np.frombuffer(joined, np.uint8).reshape(-1, width).T)
    if not (columns[-1] == ord("\n")).all() or (point >= 0 and not (columns[point] == ord(".")).all()):
        return None
    digits = columns - np.uint8(ord("0"))  # anything but a digit wraps to 10 or more
    digits[[point, -1]] = 0  # line ends are at -1, and `point` is -1 in texts without a point
    if int(digits.max()) > 9:
        return None
    whole = _number(digits[:places].T)
    if int(whole.max()) >= _MAX // multiplier - 1:
        return None
    whole *= multiplier
    if decimals:
        scale = 10**decimals
        whole += (_number(digits[point + 1 : -1].T) * multiplier + scale // 2) // scale
    return whole


def _number(digits: Uint8) -> Int64:
    number = np.zeros(len(digits), np.int64)
    for column in digits.T:
        number *= 10
        number += column
    return number


def column_ns(values: list[Any], *, exponents: bool = False) -> tuple[Int64, Bools]:
    """Convert microseconds of JSON (text, integers, or floats by their shortest decimal) to nanoseconds."""
    kinds = set(map(type, values))
    if kinds <= {str}:
        return scaled(values, US_TO_NS, exponents=exponents)
    if kinds == {str, type(None)}:  # events of process names have no time
        valid = np.array([value is not None for value in values])
        times = np.zeros(len(values), np.int64)
        times[valid], valid[valid] = scaled(
            [value for value in values if value is not None], US_TO_NS, exponents=exponents
        )
        return times, valid
    texts = ["" if value is None else str(value) for value in values]
    return scaled(texts, US_TO_NS, exponents=exponents or float in kinds)
