"""Paths of kernels are of functions and modules: the level of a cell, which a sample may or may not see, is none."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.correlation import causes
from npuprof.difference.paths import call_paths
from tests.analysis.test_launches import training


def _paths(*names: str) -> list[str]:
    """Return the distinct paths of the kernels of a training below nested functions."""
    made = training()
    count = len(names)
    made["python"] = tables.build(
        "python",
        {
            "start_ns": np.arange(count) - 1_000,
            "duration_ns": np.full(count, 10**12) - np.arange(count),
            "name": pd.Categorical(names),
            "thread_id": np.ones(count, np.int64),
            "id": np.arange(count),
            "parent_id": pd.array([None, *range(count - 1)], "Int64"),
            "depth": np.arange(count),
        },
    )
    return sorted(set(call_paths(made, causes(made)).dropna().astype(str)))


def test_the_level_of_a_cell_is_no_part_of_a_path() -> None:
    within = _paths("<cell [3]>(1): <module>", "<cell [2]>(9): forward")
    assert within == _paths("<cell [2]>(9): forward")
    assert any("forward" in path for path in within)
    assert _paths("<cell [3]>(1): <module>") == []


def test_the_level_of_a_script_is_the_outermost_part() -> None:
    assert all(path.startswith("<module>/forward") for path in _paths("train.py(1): <module>", "train.py(9): forward"))
