"""What is typed to choose rows by a column."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from npuprof.analysis.filters import understand
from npuprof.errors import OptionsError

FRAME = pd.DataFrame(
    {
        "name": pd.Categorical(["MatMul", "Add", None, "matmul.grad"]),
        "duration_ns": np.array([100_000, 100_001, 99_999, 5], np.int64),
        "wait_ns": pd.array([None, 0, 1_500, 10], dtype="Int64"),
        "size_bytes": np.array([1 << 20, 1_000_000, 0, 512], np.int64),
        "start_ns": 1_763_600_000_000_000_123 + np.array([0, 1, 2_000_000_000, 3], np.int64),
        "aic_mac_ratio": [0.5, np.nan, 0.05, 1.0],
        "hf32": pd.array([True, None, False, True], dtype="boolean"),
    }
)


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ("name", "matmul", [0, 3]),
        ("name", "/^mat/", [3]),
        ("name", "/^(mat|a)/i", [0, 1, 3]),
        ("name", "= Add", [1]),
        ("name", "!= Add", [0, 3]),
        ("name", "[", []),
        ("duration_ns", "> 100 us", [1]),
        ("duration_ns", ">= 0.1ms", [0, 1]),
        ("duration_ns", "≤ 99.999 µs", [2, 3]),
        ("duration_ns", "100000", [0]),
        ("duration_ns", "!= 5 ns and < 100,001", [0, 2]),
        ("duration_ns", "50..100 us", [0, 2]),
        ("duration_ns", "5ns..99.999us", [2, 3]),
        ("wait_ns", "< 1 us", [1, 3]),
        ("wait_ns", "!= 0", [2, 3]),
        ("size_bytes", ">= 1 MiB", [0]),
        ("size_bytes", "1 MB", [1]),
        ("start_ns", "> 1 s", [2]),
        ("start_ns", "= 1 ns", [1]),
        ("aic_mac_ratio", "> 5 %", [0, 3]),
        ("aic_mac_ratio", "!= 1", [0, 2]),
        ("hf32", "yes", [0, 3]),
        ("hf32", "false", [2]),
    ],
)
def test_a_filter_and_its_expression_choose_the_same_rows(column: str, text: str, expected: list[int]) -> None:
    condition = understand(FRAME, column, text, int(FRAME["start_ns"].iloc[0]))
    assert FRAME.index[condition.mask(FRAME).to_numpy(bool)].tolist() == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas warns of groups in a regular expression
        evaluated = eval(condition.code, {"t": FRAME})
    assert FRAME.loc[evaluated].index.tolist() == expected


@pytest.mark.parametrize(
    ("column", "text", "message"),
    [
        ("duration_ns", "> 5 MiB", "not measured in MiB"),
        ("duration_ns", "0.5 ns", "whole number"),
        ("duration_ns", "long", "is not a number"),
        ("duration_ns", "> ", "is not a number"),
        ("name", "/(/", "cannot be read"),
        ("hf32", "maybe", "true or false"),
        ("nothing", "1", "no column"),
        ("name", "x" * 1001, "longer than"),
    ],
)
def test_unparsable_text_is_refused_with_reason(column: str, text: str, message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        understand(FRAME, column, text)
