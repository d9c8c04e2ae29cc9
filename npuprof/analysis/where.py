"""Rows of tables that satisfy a condition: ``duration_ns > 1ms and stream_id = 3``.

The grammar is that of :mod:`npuprof.conditions`, with the name of a column on the left. ``name`` is the name of a
slice in every table, whatever its column is called.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.analysis.filters import understand
from npuprof.arrays import Bools
from npuprof.conditions import Comparison, comparisons, refusal, unquoted
from npuprof.errors import OptionsError

_EXAMPLE = "duration_ns > 1ms and stream_id = 3"


def rows_where(
    frames: Mapping[str, pd.DataFrame], text: str, names: Mapping[str, str], origin_ns: int = 0
) -> dict[str, Bools]:
    """Return for each table that has all columns of a condition which of its rows match; absent values never do."""
    parts = comparisons(text, "condition", _EXAMPLE)
    for part in parts:
        if not part.left.isidentifier():
            raise refusal(text, "condition", f"needs the name of a column instead of {part.left[:20]!r}", _EXAMPLE)
    matching = {}
    for table, frame in frames.items():
        columns = [names.get(table, part.left) if part.left == "name" else part.left for part in parts]
        if all(column in frame for column in columns):
            matches = np.ones(len(frame), bool)
            for column, part in zip(columns, parts, strict=True):
                matches &= _matches(frame, column, part, origin_ns)
            matching[table] = matches
    if not matching:
        wanted = ", ".join(dict.fromkeys(part.left for part in parts))
        raise OptionsError(f"no table of slices has the columns {wanted}: run.kernels.columns are such", "where")
    return matching


def _matches(frame: pd.DataFrame, column: str, part: Comparison, origin_ns: int) -> Bools:
    is_number = pd.api.types.is_numeric_dtype(frame[column].dtype)
    if not is_number and part.sign not in ("==", "!=", "~"):
        raise OptionsError(f"{column} is a text: compare it with =, != or ~, which means a part of it", "where")
    value = unquoted(part.right)
    is_pattern = part.sign == "~" and value == part.right and value.startswith("/")
    sign = "" if is_pattern else f"{part.sign} "
    return understand(frame, column, f"{sign}{value}", origin_ns).mask(frame).to_numpy(bool)
