"""Rows that equal an earlier row in every column are one; what takes no time may be there several times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.sources.columns.repetitions import originals, repetitions
from tests.budget import examples

_ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from(["a", "b", None])), max_size=30)


def _columns(rows: list[tuple[int, int, str | None]]) -> dict[str, Any]:
    times, durations, names = zip(*rows, strict=True) if rows else ((), (), ())
    return {
        "time": np.array(times, np.int64),
        "duration": np.array(durations, np.int64),
        "name": pd.Categorical(names, categories=["b", "a"]),
        "value": np.where(np.array(durations, np.int64) == 1, np.nan, 0.5),
    }


@settings(max_examples=examples(100))
@given(_ROWS)
def test_equal_cells_make_a_repetition(rows: list[tuple[int, int, str | None]]) -> None:
    columns = _columns(rows)
    first = originals(columns["time"], lambda at: {name: values[at] for name, values in columns.items()})
    assert first.tolist() == [rows.index(row) for row in rows]


@settings(max_examples=examples(100))
@given(_ROWS)
def test_only_rows_that_last_are_repetitions(rows: list[tuple[int, int, str | None]]) -> None:
    columns = _columns(rows)
    lasting = columns["duration"] > 0
    mask = repetitions(columns["time"], lambda at: {name: values[at] for name, values in columns.items()}, lasting)
    assert mask.tolist() == [row[1] > 0 and rows.index(row) < place for place, row in enumerate(rows)]
