"""A CSV that was glued to itself, or to an earlier export of the same: each line of names begins another copy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from npuprof.notes import Notes


def each_once(cells: Any, names: list[str], notes: Notes, source: str) -> Any:
    """Return the rows of a table of text without lines of names, and without rows that an earlier copy holds too.

    Parameters
    ----------
    cells
        The rows after the first line of names.
    names
        The names in the first line.
    notes, source
        Where repeated rows are counted, and the name of the file.
    """
    is_header = _are(cells, names)
    if is_header is None:
        return cells
    keys = pd.util.hash_pandas_object(cells.to_pandas(), index=False).to_numpy()
    kept = ~is_header
    bounds = [*np.flatnonzero(is_header).tolist(), len(keys)]
    earlier = keys[: bounds[0]]
    for start, end in itertools.pairwise(bounds):
        kept[start + 1 : end] = ~np.isin(keys[start + 1 : end], earlier)
        earlier = np.union1d(earlier, keys[start + 1 : end])
    notes.ledger.read(source, int((~kept).sum()))
    notes.ledger.use(source, int(is_header.sum()))
    notes.warning(source, f"the file holds {len(bounds)} tables one after another, which are read as one")
    repeated = int((~kept & ~is_header).sum())
    notes.leave_out(source, "a row of a later table is in an earlier one too", repeated, severity="info")
    return cells.filter(pa.array(kept))


def _are(cells: Any, names: list[str]) -> Any:
    """Return which rows are lines of names; None where there is none."""
    found = None
    for place, name in enumerate(names):
        marked = name if place else f"\ufeff{name}"  # a byte order mark begins the copy as it began the file
        equal = pc.is_in(cells.column(place), value_set=pa.array([name, marked]))
        found = equal if found is None else pc.and_(found, equal)
        if not pc.any(found).as_py():  # nearly always after the first column
            return None
    return None if found is None else np.asarray(found.to_numpy(), np.bool_)
