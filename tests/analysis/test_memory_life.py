"""Blocks that were alive, and blocks that stayed."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import tables
from npuprof.analysis.memory_life import alive_at, unreleased

_Block = tuple[str, int, int | None, int | None, int | None]
_times = st.none() | st.integers(0, 20)
_blocks = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-2, 50), _times, _times, st.sampled_from([None, 0, 1])), max_size=30
)


def allocations(blocks: list[_Block]) -> pd.DataFrame:
    columns = list(zip(*blocks, strict=True)) or [(), (), (), (), ()]
    return tables.build(
        "allocations",
        {
            "name": list(columns[0]),
            "size_bytes": pd.array(columns[1], "int64"),
            "allocated_ns": pd.array(columns[2], "Int64"),
            "released_ns": pd.array(columns[3], "Int64"),
            "device_id": pd.array(columns[4], "Int64"),
        },
    )


@pytest.mark.slow
@given(_blocks, st.integers(0, 20))
def test_sums_of_what_is_alive_balance(blocks: list[_Block], moment: int) -> None:
    alive = alive_at(allocations(blocks), moment, 0)
    expected = [
        size
        for _, size, begin, end, device in blocks
        if size > 0 and device != 1 and (begin is None or begin <= moment) and (end is None or end > moment)
    ]
    assert alive["size_bytes"].sum() == sum(expected)
    assert alive["blocks"].sum() == len(expected)
    assert alive["size_bytes"].is_monotonic_decreasing


def test_remaining_blocks_have_no_end() -> None:
    stayed = unreleased(
        allocations([("late", 4, 9, None, 0), ("old", 8, None, None, 0), ("a", 2, 1, None, 0), ("b", 1, 1, 5, 0)])
    )
    assert stayed["name"].tolist() == ["a", "late"]
