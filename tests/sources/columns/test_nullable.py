"""Columns of codes and whole numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.sources.columns.nullable import module_component, whole


def test_floats_become_the_nearest_whole_numbers_and_the_rest_is_absent() -> None:
    values = np.array([9272.727, -0.4, np.nan, np.inf, 1e300])
    found = pd.Series(whole(values))
    assert str(found.dtype) == "Int64"
    assert found.tolist() == [9273, 0, pd.NA, pd.NA, pd.NA]


def test_a_module_is_told_from_an_allocator() -> None:
    assert module_component("GE") == "GE (module)"
