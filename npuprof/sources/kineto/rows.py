"""Rows by their ids."""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Int64, Records
from npuprof.sources.columns.nullable import ABSENT


def row_of(ids: Int64, wanted: Int64) -> Records:
    """Find the first row that has each id; -1 where none has, or where there is no id."""
    if not len(ids):
        return np.full(len(wanted), -1)
    order = np.argsort(ids, kind="stable")
    rows = order[np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)]
    return np.where((ids[rows] == wanted) & (wanted != ABSENT), rows, -1)
