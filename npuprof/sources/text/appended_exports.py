"""Read a CSV with several concatenated exports: each repeated header begins another table."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from npuprof.tables.notes import Notes


def each_once(cells: Any, names: list[str], notes: Notes, source: str) -> Any:
    """Return the rows (text, after the first header) without repeated headers and without rows of earlier tables."""
    is_header = _header_rows(cells, names)
    if is_header is None:
        return cells
    keys = pd.util.hash_pandas_object(cells.to_pandas(), index=False).to_numpy()
    is_kept = ~is_header
    bounds = [*np.flatnonzero(is_header).tolist(), len(keys)]
    earlier = keys[: bounds[0]]
    for start, end in itertools.pairwise(bounds):
        is_kept[start + 1 : end] = ~np.isin(keys[start + 1 : end], earlier)
        earlier = np.union1d(earlier, keys[start + 1 : end])
    notes.ledger.read(source, int((~is_kept).sum()))
    notes.ledger.use(source, int(is_header.sum()))
    notes.warning(source, f"the file holds {len(bounds)} tables one after another, which are read as one")
    repeated = int((~is_kept & ~is_header).sum())
    notes.leave_out(source, "a row of a later table repeats a row of an earlier table", repeated, severity="info")
    return cells.filter(pa.array(is_kept))


def _header_rows(cells: Any, names: list[str]) -> Any:
    """Return a mask of the rows that repeat the header; None if there are none."""
    headers = None
    for place, name in enumerate(names):
        marked = name if place else f"\ufeff{name}"  # each export begins with a byte order mark if the file does
        equal = pc.is_in(cells.column(place), value_set=pa.array([name, marked]))
        headers = equal if headers is None else pc.and_(headers, equal)
        if not pc.any(headers).as_py():  # nearly always enough to compare the first column
            return None
    return None if headers is None else np.asarray(headers.to_numpy(), np.bool_)
