"""Rows by their ids."""

from __future__ import annotations

import numpy as np

from npuprof.sources.columns.decimals import Ints
from npuprof.sources.columns.nullable import ABSENT, Array


def row_of(ids: Ints, wanted: Ints) -> Array:
    """Find the first row that has each id; -1 where none has, or where there is no id."""
    if not len(ids):
        return np.full(len(wanted), -1)
    order = np.argsort(ids, kind="stable")
    rows = order[np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)]
    return np.where((ids[rows] == wanted) & (wanted != ABSENT), rows, -1)
