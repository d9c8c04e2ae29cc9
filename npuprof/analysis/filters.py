"""Row filters on a column: text, a regular expression, or a quantity with its unit.

A filter provides a mask, and the Python expression that computes it, for the line of code that reproduces a view.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof.analysis.patterns import contains_pattern
from npuprof.conditions import LONGEST, SIGNS, SIZES, TIMES, Quantity, signed
from npuprof.errors import OptionsError
from npuprof.tables import rows_named

MOMENTS = frozenset({"start_ns", "time_ns", "allocated_ns", "released_ns", "device_start_ns", "end_ns"})
"""Columns of UTC epoch times; other ``_ns`` columns are durations."""

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_EXAMPLES = {"_ns": "> 100 us", "_bytes": ">= 1 MiB"}


@dataclass(frozen=True)
class Condition:
    """A parsed filter."""

    code: str  # an expression over the frame `t`
    # A function that returns which rows of a frame match; absent values never match.
    mask: Callable[[pd.DataFrame], pd.Series[Any]]


def understand(frame: pd.DataFrame, column: str, text: str, origin_ns: int = 0) -> Condition:
    """Parse a filter for a column.

    Parameters
    ----------
    text
        For names: a part of the name in any case, also after ``~``, ``= the whole name``, ``!= the whole name``, or
        ``/a regular expression/`` (``/.../i`` in any case). For numbers: ``> 100 us``, ``<= 1 MiB``, ``10..20 us``, or
        a number; several may be joined by ``and``. A number without a unit is in the unit of the column.
    """
    if column not in frame:
        raise OptionsError(f"there is no column {column}")
    if len(text) > LONGEST:
        raise OptionsError(f"the filter of {column} is longer than {LONGEST} characters")
    series = frame[column]
    if pd.api.types.is_bool_dtype(series.dtype):
        return _flag(column, text)
    if pd.api.types.is_numeric_dtype(series.dtype):
        return _numbers(column, text, origin_ns if column in MOMENTS else 0, series)
    return _text(column, text)


def _flag(column: str, text: str) -> Condition:
    sign, rest = signed(text)
    value = _TRUTH.get(rest.strip().lower())
    if value is None or sign not in ("", "==", "!="):
        raise OptionsError(f"{column} is true or false, not {text!r}")
    value = value != (sign == "!=")
    return Condition(f"t[{column!r}] == {value}", lambda t: (t[column] == value).fillna(value=False).astype(bool))


def _text(column: str, text: str) -> Condition:
    regular = re.fullmatch(r"/(?P<pattern>.+)/(?P<flags>i?)", text, re.DOTALL)
    if regular:
        pattern, case = regular["pattern"], not regular["flags"]
        contains_pattern([], pattern)  # raises now if it cannot be parsed
        return Condition(
            f"t[{column!r}].str.contains({pattern!r}, case={case}, na=False)",
            lambda t: _matching(t[column], lambda names: contains_pattern(names, pattern, ignore_case=not case)),
        )
    sign, remainder = signed(text)
    if sign in ("==", "!="):
        whole, equal = remainder.strip(), SIGNS[sign]
        return Condition(
            f"t[{column!r}].notna() & (t[{column!r}] {sign} {whole!r})",
            lambda t: t[column].notna() & equal(t[column], whole),
        )
    part = remainder if sign == "~" else text
    folded = part.upper()
    return Condition(
        f"t[{column!r}].str.contains({part!r}, case=False, regex=False, na=False)",
        lambda t: _matching(
            t[column], lambda names: [isinstance(name, str) and folded in name.upper() for name in names]
        ),
    )


def _matching(names: pd.Series[Any], matches: Callable[[list[object]], Iterable[bool]]) -> pd.Series[Any]:
    """Return a mask of the names that match; each distinct name is matched once."""
    if not isinstance(names.dtype, pd.CategoricalDtype):
        matched = np.array([*matches(names.tolist())], bool)
    else:
        matched = rows_named(names.array, matches(names.cat.categories.tolist()))
    return pd.Series(matched, index=names.index)


def _numbers(column: str, text: str, origin_ns: int, series: pd.Series[Any]) -> Condition:
    whole = pd.api.types.is_integer_dtype(series.dtype)
    parts: list[tuple[str, int | float]] = []
    for part in re.split(r"\s+and\s+", text.strip()):
        sign, rest = signed(part)
        low, dots, high = rest.partition("..")
        if sign == "~":
            raise OptionsError(f"{column} is a number: compare it with <, <=, >, >=, = or !=")
        if dots and sign in ("", "=="):
            # 10..20 us: the unit at the end applies to both numbers.
            first, last = Quantity.of(low), Quantity.of(high)
            unit = last.unit if first is not None and last is not None and not first.unit else ""
            parts.append((">=", _value(column, f"{low}{unit}", whole)))
            parts.append(("<=", _value(column, high, whole)))
        else:
            parts.append((sign or "==", _value(column, rest, whole)))
    compared = [(sign, value + origin_ns) for sign, value in parts]
    code = " & ".join(f"(t[{column!r}] {sign} {value!r})" for sign, value in compared)

    def mask(t: pd.DataFrame) -> pd.Series[Any]:
        matching: pd.Series[Any] = t[column].notna()
        for sign, value in compared:
            matching &= SIGNS[sign](t[column], value).astype("boolean").fillna(value=False).astype(bool)
        return matching

    # NaN is unequal to every number, but must not match.
    return Condition(f"t[{column!r}].notna() & {code}" if "!=" in code else code, mask)


def _value(column: str, text: str, whole: bool) -> int | float:
    quantity = Quantity.of(text)
    example = next((shown for end, shown in _EXAMPLES.items() if column.endswith(end)), "> 10")
    if quantity is None:
        raise OptionsError(f"{text.strip()!r} is not a number, which {column} needs: write, for example, {example}")
    units = TIMES if column.endswith("_ns") else SIZES if column.endswith("_bytes") else {}
    if column == "share" or column.endswith("_ratio"):
        units = {"%": 1}
    unit = quantity.unit
    if unit and unit not in units:
        known = f"its units are {', '.join(unit for unit in units if unit.isascii())}" if units else "it has no unit"
        raise OptionsError(f"{column} is not measured in {unit}: {known}; write, for example, {example}")
    number = quantity.number * (units[unit] if unit else 1)
    if unit == "%":
        number /= 100
    if not whole:
        return float(number)
    if number != number.to_integral_value():
        raise OptionsError(f"{column} is a whole number, and {text.strip()} is not one: write, for example, {example}")
    return int(number)
