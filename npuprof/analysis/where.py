"""Conditions on rows as text: ``duration_ns > 1ms and stream_id = 3``, a small grammar of comparisons.

::

    condition  = comparison, { "and", comparison } ;
    comparison = column, ( "<" | "<=" | ">" | ">=" | "=" | "==" | "!=" | "~" ), value ;
    value      = number, [ unit ] | word | quoted text ;

Units are those of the filters of tables: ``ns`` to ``min`` for columns in ``_ns``, ``B`` to ``TiB`` for ``_bytes``. Of
texts ``=`` and ``!=`` mean the whole text, ``~`` a part of it in any case. ``name`` is the name of a slice in every
table, whatever its column is called. Nothing is evaluated as code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.analysis.filters import understand
from npuprof.arrays import Bools
from npuprof.errors import OptionsError

_COMPARISON = re.compile(
    r"\s*(?P<column>[A-Za-z_]\w*)\s*(?P<sign><=|>=|==|!=|=|<|>|~)\s*"
    r"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<number>[+-]?[\d.][\d.,_]*(?:[eE][+-]?\d+)?\s*(?!and\b)[^\W\d_]*%?)"
    r"|(?P<word>[^\s\"']+))\s*"
)
_JOINED = re.compile(r"and\b\s*")
_LONGEST = 1_000
_EXAMPLE = "duration_ns > 1ms and stream_id = 3"
_OF_TEXTS = ("=", "==", "!=", "~")


def rows_where(
    frames: Mapping[str, pd.DataFrame], text: str, names: Mapping[str, str], origin_ns: int = 0
) -> dict[str, Bools]:
    """Return for each table that has all columns of a condition which of its rows match; absent values never do.

    Parameters
    ----------
    frames
        The tables to look in.
    text
        The condition.
    names
        The column of each table that ``name`` stands for.
    origin_ns
        What times such as ``start_ns`` count from, in nanoseconds of the epoch.

    Raises
    ------
    OptionsError
        If the text is no condition, or no table has its columns.
    """
    comparisons = _comparisons(text)
    matching = {}
    for table, frame in frames.items():
        columns = [names.get(table, name) if name == "name" else name for name, _, _ in comparisons]
        if all(column in frame for column in columns):
            matches = np.ones(len(frame), bool)
            for column, (_, sign, value) in zip(columns, comparisons, strict=True):
                matches &= _matches(frame, column, sign, value, origin_ns)
            matching[table] = matches
    if not matching:
        wanted = ", ".join(dict.fromkeys(name for name, _, _ in comparisons))
        raise OptionsError(f"no table of slices has the columns {wanted}: run.kernels.columns are such", "where")
    return matching


def _comparisons(text: str) -> list[tuple[str, str, str]]:
    """Return column, sign and value of each comparison."""
    if len(text) > _LONGEST:
        raise OptionsError(f"a condition has at most {_LONGEST:,} characters, and this one has {len(text):,}", "where")
    comparisons, place = [], 0
    while True:
        match = _COMPARISON.match(text, place)
        if match is None:
            raise _wrong(text, place)
        value = next(match[kind] for kind in ("double", "single", "number", "word") if match[kind] is not None)
        comparisons.append((match["column"], match["sign"], value.strip()))
        place = match.end()
        if place == len(text):
            return comparisons
        joined = _JOINED.match(text, place)
        if joined is None:
            raise _wrong(text, place)
        place = joined.end()


def _matches(frame: pd.DataFrame, column: str, sign: str, value: str, origin_ns: int) -> Bools:
    series = frame[column]
    if pd.api.types.is_numeric_dtype(series.dtype):
        if sign == "~":
            raise OptionsError(f"{column} is a number: compare it with <, <=, >, >=, = or !=", "where")
        condition = understand(frame, column, f"{sign} {value}" if series.dtype != bool else value, origin_ns)
        matches: Bools = condition.mask(frame).to_numpy(bool)
        return matches
    if sign not in _OF_TEXTS:
        raise OptionsError(f"{column} is a text: compare it with =, != or ~, which means a part of it", "where")
    texts, codes = series.cat.categories, series.cat.codes.to_numpy()
    folded = value.casefold()
    wanted = [folded in str(text).casefold() if sign == "~" else str(text) == value for text in texts]
    matches = np.append(np.array(wanted, bool), False)[codes]
    return ~matches & (codes >= 0) if sign == "!=" else matches


def _wrong(text: str, place: int) -> OptionsError:
    rest = text[place:].strip()[:20]
    where = f"cannot be read from {rest!r} on" if rest else "ends where a comparison should follow"
    return OptionsError(f"{' '.join(text.split())!r} is no condition: it {where}. Such as: {_EXAMPLE}", "where")
