"""Columns of gathered slices as columns of tables: spans, names, and numbers of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Int64, Records
from npuprof.sources.columns.builders import Columns
from npuprof.sources.columns.nullable import recoded
from npuprof.sources.trace.columns import LAST_THREAD, Trace


def thread_numbers(trace: Trace) -> Int64:
    """Return each lane's thread number; one that is no number gets the next free one above all others."""
    numbers = [tid if isinstance(tid, int) and abs(tid) < LAST_THREAD else None for _, tid in trace.lanes]
    free = max((number for number in numbers if number is not None), default=0) + 1
    return np.array([free + row if number is None else number for row, number in enumerate(numbers)], np.int64)


def span(slices: Columns, chosen: Records | None = None) -> dict[str, Any]:
    """Return start and duration of the chosen rows, or of all."""
    rows = slice(None) if chosen is None else chosen
    return {"start_ns": slices["start_ns"][rows], "duration_ns": slices["duration_ns"][rows]}


def names(
    slices: Columns, column: str, chosen: Records | None = None, change: Callable[[str], str | None] | None = None
) -> pd.Categorical:
    """Make a name column of the chosen rows; `change` is applied to each distinct text once."""
    codes = slices[column] if chosen is None else slices[column][chosen]
    texts = slices.names(column)
    used = np.flatnonzero(np.bincount(codes + 1, minlength=len(texts) + 1)[1:])
    own = np.full(len(texts) + 1, -1, np.int32)  # code -1 takes the last entry
    own[used] = np.arange(len(used))
    own_texts = [texts[code] for code in used.tolist()]
    return recoded(own[codes], [change(text) for text in own_texts] if change else list(own_texts))
