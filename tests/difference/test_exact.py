"""Whole nanoseconds per step, whose children add up to their parents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.difference.exact import per_step


@pytest.mark.slow
@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 10**15), min_size=1, max_size=4), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 50),
)
def test_children_add_up_and_no_value_is_off_by_one(tree: list[list[list[int]]], count: int) -> None:
    sums: list[int] = []
    parents: list[int] = []
    for part in tree:
        top = len(sums)
        sums.append(sum(map(sum, part)))
        parents.append(-1)
        for below in part:
            middle = len(sums)
            sums.append(sum(below))
            parents.append(top)
            sums += below
            parents += [middle] * len(below)
    whole = sum(sums[row] for row, parent in enumerate(parents) if parent < 0) // count
    values = per_step(np.array(sums, np.int64), np.array(parents, np.int64), count, whole)
    assert all(abs(int(value) * count - total) < count for value, total in zip(values, sums, strict=True))
    assert sum(int(value) for value, parent in zip(values, parents, strict=True) if parent < 0) == whole
    for row in range(len(sums)):
        below = [int(values[child]) for child, parent in enumerate(parents) if parent == row]
        assert not below or sum(below) == int(values[row])
