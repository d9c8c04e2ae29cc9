"""Which statement of the profiled cell called a host row: the one that ran on the cell's thread at that time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.analysis.correlation import LAYERS, nearest
from npuprof.arrays import Bools, Int64

FRAME = "{file}({line}): <module>"
"""The frame of a statement, as a stack would have it."""


def statements_of(
    tables: Mapping[str, pd.DataFrame], first_row: Mapping[str, int], callers: Int64, forward: Int64, rows: Int64
) -> tuple[Int64, Bools]:
    """Return for each of some host rows the row of ``statements`` that called it, and whether that is certain.

    A row of the backward pass belongs to the statement that called its forward operator. Of a row on another thread,
    the nearest caller on the cell's thread decides, such as the operator that enqueued it. Where there is none, the
    statement is the one that the cell's thread ran meanwhile, which is not certain.
    """
    statements = tables["statements"]
    none = np.full(len(rows), -1, np.int64)
    if not len(statements) or not len(callers):
        return none, np.zeros(len(rows), bool)
    start, thread = (
        np.concatenate([tables[name][column].to_numpy(np.int64) for name in LAYERS])
        for column in ("start_ns", "thread_id")
    )
    on_cell = thread == int(statements["thread_id"].iloc[0])
    on_cell[: first_row["operators"]] = False  # a sampled call may seem to begin before its statement
    derived = nearest(callers, rows, forward >= 0)
    base = np.where(derived >= 0, forward[derived], rows)
    caller = nearest(callers, base, on_cell)
    at = np.where(caller >= 0, caller, rows)
    begins = statements["start_ns"].to_numpy(np.int64)
    ends = begins + statements["duration_ns"].to_numpy(np.int64)
    moments = start[at]
    row_of = np.searchsorted(begins, moments, side="right") - 1
    inside = (rows >= 0) & (row_of >= 0) & (moments <= ends[row_of])
    return np.where(inside, row_of, -1), inside & (caller >= 0)
