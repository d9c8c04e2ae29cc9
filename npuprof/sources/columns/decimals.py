"""Exact integers from decimal text: microseconds to nanoseconds, megabytes to bytes, never through a float.

A float64 steps by 0.25 us near today's epoch, so a time that was a float once has lost its nanoseconds
for good. Columns of text are read as digits, a column of characters at a time; the few values that are
not plain digits (exponents, very long fractions) are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Bools, Int64, Uint8

US_TO_NS = 1000
MS_TO_NS = 1_000_000
MB_TO_BYTES = 1 << 20
KB_TO_BYTES = 1 << 10

_FRACTION_DIGITS = 12  # 10**12 times the largest multiplier, 2**20, still fits an int64
_WIDTH = 40  # longer texts are read one by one
_MAX = np.iinfo(np.int64).max
_DECIMAL = re.compile(r"[+-]?(?=[0-9.])([0-9]{0,40})(?:\.([0-9]{0,60}))?(?:[eE]([+-]?[0-9]{1,2}))?", re.ASCII)


def scaled(texts: Sequence[str], multiplier: int, *, exponents: bool = True) -> tuple[Int64, Bools]:
    """Multiply decimal texts by an integer, exactly, and round to the nearest integer (halves away from 0).

    Parameters
    ----------
    texts
        Decimals such as ``"1736408883674584.732"``, ``"-3"``, ``".5"`` or ``"1e-05"``.
    multiplier
        What a unit is worth, at most 2**20: :data:`US_TO_NS`, :data:`MB_TO_BYTES` ...
    exponents
        Whether an exponent is taken. A time of day with one has passed through a spreadsheet and lost its digits.

    Returns
    -------
    values, valid
        Two arrays of the length of `texts`; where `valid` is false the text is no such number (or does not
        fit an int64) and the value is 0.
    """
    alike = _alike(texts, multiplier) if len(texts) else None
    if alike is not None:
        return alike, np.ones(len(texts), np.bool_)
    values = np.zeros(len(texts), np.int64)
    valid = np.zeros(len(texts), np.bool_)
    if not len(texts):
        return values, valid
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    plain = _plain_digits(texts, lengths, multiplier, values, valid)
    for row in np.flatnonzero(~plain).tolist():
        exact = scaled_one(texts[row], multiplier, exponents=exponents)
        if exact is not None:
            values[row], valid[row] = exact, True
    return values, valid


def scaled_one(text: str, multiplier: int, *, exponents: bool = True) -> int | None:
    """Do what :func:`scaled` does for one text; None where it is no decimal or does not fit an int64."""
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


def _alike(texts: Sequence[str], multiplier: int) -> Int64 | None:
    """Do it at once where all texts are of one length and have their point at one place; None where they are not."""
    joined = "\n".join([*texts, ""]).encode("ascii", "replace")
    width, rest = divmod(len(joined), len(texts))
    point = joined.find(b".", 0, width)
    places = width - 1 if point < 0 else point
    decimals = width - 2 - places if point >= 0 else 0
    if rest or not 0 < places <= 18 or decimals > _FRACTION_DIGITS:
        return None
    columns = np.ascontiguousarray(np.frombuffer(joined, np.uint8).reshape(-1, width).T)
    if not (columns[-1] == ord("\n")).all() or (point >= 0 and not (columns[point] == ord(".")).all()):
        return None
    digits = columns - np.uint8(ord("0"))  # anything but a digit wraps to 10 or more
    digits[[point, -1]] = 0  # the line ends are at -1, and `point` is -1 where there is none
    if int(digits.max()) > 9:
        return None
    whole = _number(digits[:places].T, places)
    if int(whole.max()) >= _MAX // multiplier - 1:
        return None
    whole *= multiplier
    if decimals:
        scale = 10**decimals
        whole += (_number(digits[point + 1 : -1].T, decimals) * multiplier + scale // 2) // scale
    return whole


def _plain_digits(texts: Sequence[str], lengths: Int64, multiplier: int, values: Int64, valid: Bools) -> Bools:
    """Fill in the rows that are plain digits with at most one point; tell which those are."""
    plain = np.zeros(len(texts), np.bool_)
    short = np.flatnonzero((lengths > 0) & (lengths <= _WIDTH))
    if not len(short):
        return plain
    chosen = texts if len(short) == len(texts) else [texts[row] for row in short.tolist()]
    characters = _characters(chosen, lengths[short])
    if characters is None:
        return plain
    for rows, point in _same_point(characters, lengths[short]):
        group = characters[rows] if len(rows) < len(characters) else characters
        amounts, good = _amounts(group, point, lengths[short][rows], multiplier)
        target = short[rows[good]]
        values[target] = amounts[good]
        plain[target] = valid[target] = True
    return plain


def _characters(texts: Sequence[str], lengths: Int64) -> Uint8 | None:
    """Return texts as rows of bytes, filled up with zero bytes; None where they hold zero bytes themselves."""
    joined = "".join(texts).encode("ascii", "replace")
    if b"\0" in joined:
        return None
    width = int(lengths.max())
    if int(lengths.min()) == width:
        return np.frombuffer(joined, np.uint8).reshape(len(texts), width)
    encoded = np.array([text.encode("ascii", "replace") for text in texts], dtype=f"S{width}")
    return encoded.view(np.uint8).reshape(len(texts), width)


def _same_point(characters: Uint8, lengths: Int64) -> list[tuple[npt.NDArray[np.intp], int]]:
    """Group rows by where their decimal point is (their length where they have none)."""
    points = characters == ord(".")
    first = int(points[0].argmax()) if points[0].any() else -1
    everything = np.arange(len(characters))
    if first >= 0 and bool(points[:, first].all()):
        return [(everything, first)]
    where = np.where(points.any(axis=1), points.argmax(axis=1), lengths)
    return [(np.flatnonzero(where == point), int(point)) for point in np.unique(where).tolist()]


def _amounts(group: Uint8, point: int, lengths: Int64, multiplier: int) -> tuple[Int64, Bools]:
    """Multiply rows of digits with the decimal point at one place; tell which rows are such digits."""
    digits = group - np.uint8(ord("0"))  # anything but a digit wraps to 10 or more
    padding = np.arange(group.shape[1]) >= lengths[:, None]
    negative = group[:, 0] == ord("-")
    digits[padding] = 0
    digits[negative, 0] = 0
    good = (digits[:, :point] < 10).all(axis=1) & (digits[:, point + 1 :] < 10).all(axis=1)
    good &= (lengths - negative - (lengths > point)) > 0  # at least one digit
    good &= lengths - point - 1 <= _FRACTION_DIGITS
    whole = _number(digits[:, :point], 18)
    part = _number(digits[:, point + 1 :][:, :_FRACTION_DIGITS], _FRACTION_DIGITS)
    part *= (
        10 ** (_FRACTION_DIGITS - min(group.shape[1] - point - 1, _FRACTION_DIGITS)) if point < group.shape[1] else 1
    )
    good &= (whole < _MAX // multiplier) & (point - negative <= 18)
    scale = 10**_FRACTION_DIGITS
    amounts = np.where(good, whole, 0) * multiplier + (part * multiplier + scale // 2) // scale
    return np.where(negative, -amounts, amounts), good


def _number(digits: Uint8, limit: int) -> Int64:
    number = np.zeros(len(digits), np.int64)
    for column in digits.T[-limit:]:
        number *= 10
        number += column
    return number


def column_ns(values: list[Any], *, exponents: bool = False) -> tuple[Int64, Bools]:
    """Turn microseconds of JSON (text, integers, or floats by their shortest decimal) into nanoseconds.

    Parameters
    ----------
    values
        A list of ``str``, ``int``, ``float`` or None, mixed as they came.
    exponents
        As in :func:`scaled`, for the texts; a float may have one.

    Returns
    -------
    values, valid
        As :func:`scaled`.
    """
    kinds = set(map(type, values))
    if kinds <= {str}:
        return scaled(values, US_TO_NS, exponents=exponents)
    texts = ["" if value is None else str(value) for value in values]
    return scaled(texts, US_TO_NS, exponents=exponents or float in kinds)
