"""Callers of callers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.analysis import correlation
from npuprof.analysis.correlation import nearest


@st.composite
def _callers(draw: st.DrawFn) -> list[int]:
    count = draw(st.integers(0, 30))
    return [draw(st.integers(-1, row - 1)) for row in range(count)]


@pytest.mark.parametrize("steps", [0, 2, 16])
@given(callers=_callers(), chosen=st.sets(st.integers(0, 29)))
def test_the_nearest_caller_is_the_first_wanted_on_the_way_up(steps: int, callers: list[int], chosen: set[int]) -> None:
    wanted = np.array([row in chosen for row in range(len(callers))], bool)
    asked = np.arange(-1, len(callers))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correlation, "_MOST_STEPS", steps)
        reached = nearest(np.array(callers, np.int64), asked, wanted)
    for row, found in zip(asked.tolist(), reached.tolist(), strict=True):
        while row >= 0 and not wanted[row]:
            row = callers[row]
        assert found == row
