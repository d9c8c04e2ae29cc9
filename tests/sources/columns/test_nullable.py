"""Columns of codes and whole numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof.sources.columns.builders import module_component, of_one_kind, whole


def test_floats_become_the_nearest_whole_numbers_and_the_rest_is_absent() -> None:
    values = np.array([9272.727, -0.4, np.nan, np.inf, 1e300])
    found = pd.Series(whole(values))
    assert str(found.dtype) == "Int64"
    assert found.tolist() == [9273, 0, pd.NA, pd.NA, pd.NA]


def test_a_module_is_distinguished_from_an_allocator() -> None:
    assert module_component("GE") == "GE (module)"


@pytest.mark.parametrize(
    ("values", "held"),
    [
        ([1.5, "x", None], ["1.5", "x", None]),
        ([1, 2.5, None], [1.0, 2.5, None]),
        ([1 << 60, None], [1 << 60, None]),
        ([1 << 70, None], [str(1 << 70), None]),
        ([10**400, 1.5], [str(10**400), "1.5"]),
        ([True, 0.5], ["True", "0.5"]),
        ([[1], {"a": 1}, float("nan")], ["[1]", "{'a': 1}", None]),
        (["a", None], ["a", None]),
    ],
)
def test_a_column_of_mixed_things_is_written_as_numbers_or_text(
    tmp_path: Path, values: list[Any], held: list[Any]
) -> None:
    frame = of_one_kind(pd.DataFrame({"mixed": pd.Series(values, dtype=object)}))
    frame.to_parquet(tmp_path / "x.parquet")
    read = pd.read_parquet(tmp_path / "x.parquet")["mixed"]
    assert read.astype(object).where(read.notna(), None).tolist() == held
