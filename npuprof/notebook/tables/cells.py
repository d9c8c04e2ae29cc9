"""The texts of a table's cells: quantities with units, moments counted from the beginning of the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from npuprof import quantities
from npuprof.analysis.filters import MOMENTS

_LONGEST = 300


def texts(frame: pd.DataFrame, column: str, origin_ns: int) -> list[str]:
    """Write the values of a column of a page; an absent one is a dash.

    Parameters
    ----------
    frame, column
        The page's rows, and which column of them.
    origin_ns
        The beginning of the run, in ns of the UTC epoch.
    """
    return [_text(value, column, origin_ns) for value in _values(frame[column])]


def is_numeric(frame: pd.DataFrame, column: str) -> bool:
    """Return whether a column holds quantities."""
    dtype = frame[column].dtype
    return bool(pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype))


def _values(series: pd.Series[Any]) -> Iterable[Any]:
    # Series.tolist() would turn Int64 with absent values into objects, which is what is wanted: never into floats.
    return series.tolist()


def _text(value: Any, column: str, origin_ns: int) -> str:
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return quantities.ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        if column in MOMENTS:
            return moment(value - origin_ns)
        if column.endswith("_ns"):
            return quantities.duration(value)
        if column.endswith("_bytes"):
            return quantities.size(value)
        return quantities.count(value) if column == "count" else str(value)
    if isinstance(value, float):
        return f"{100 * value:.1f} %" if column == "share" else f"{value:,.4g}"
    return quantities.printable(str(value), _LONGEST)


def moment(since_ns: int) -> str:
    """Write a moment to the nanosecond, in seconds since the beginning of the run: ``1.234 567 890 s``."""
    sign = "-" if since_ns < 0 else ""
    seconds, rest = divmod(abs(since_ns), 1_000_000_000)
    digits = f"{rest:09d}"
    return f"{sign}{seconds:,}.{digits[:3]} {digits[3:6]} {digits[6:]} s"
