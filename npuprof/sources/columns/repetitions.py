"""Rows that repeat an earlier row in every column: a tool wrote them twice, so they are one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64

REPEATED = "a row repeats another in every column"
"""The reason in notes."""


def originals(times: Int64, columns_at: Callable[[Int64], Mapping[str, Any]], lasting: Bools | None = None) -> Int64:
    """Return the first row that equals each row in every column: the row itself, unless it is a repetition.

    Parameters
    ----------
    lasting
        The rows that may be repetitions: what takes no time, such as a mark, may be there several times.
    """
    first, rows = np.arange(len(times)), np.arange(len(times)) if lasting is None else np.flatnonzero(lasting)
    begins = times[rows]
    if (begins[1:] < begins[:-1]).any():
        order = np.argsort(begins, kind="stable")
        rows, begins = rows[order], begins[order]
    is_same = np.diff(begins) == 0
    if is_same.any():
        rows = np.sort(rows[np.append(is_same, [False]) | np.append([False], is_same)])
        plain = pd.DataFrame({name: _plain(values) for name, values in columns_at(rows).items()})
        kind = plain.groupby(list(plain), dropna=False, sort=False).ngroup().to_numpy()
        first[rows] = rows[np.unique(kind, return_index=True)[1][kind]]
    return first


def repetitions(times: Int64, columns_at: Callable[[Int64], Mapping[str, Any]], lasting: Bools | None = None) -> Bools:
    """Return a mask of the rows that equal an earlier row in every column, for :func:`originals`."""
    return originals(times, columns_at, lasting) != np.arange(len(times))


def _plain(values: Any) -> Any:
    """Return values that compare quickly: codes in place of names."""
    return values.codes if isinstance(values, pd.Categorical) else values
