from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npuprof.timeline.level_of_detail import Maxima

_VALUES = st.lists(st.integers(0, 50), min_size=1, max_size=900)


@st.composite
def _stretches(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    """Values, and stretches of them that follow each other with or without gaps."""
    values = draw(_VALUES)
    bounds = sorted(draw(st.sets(st.integers(0, len(values)), max_size=12)) | {0, len(values)})
    pairs = list(pairwise(bounds))
    kept = draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    return values, sorted(kept)


@given(_stretches(), st.integers(0, 51))
def test_all_values_that_reach_a_bound_are_found(made: tuple[list[int], list[tuple[int, int]]], least: int) -> None:
    values, stretches = made
    first, last = (np.array(side) for side in zip(*stretches, strict=True))

    found = Maxima(np.array(values)).at_least(least, first, last)

    assert found.tolist() == [i for low, high in stretches for i in range(low, high) if values[i] >= least]


@given(_stretches())
def test_the_greatest_of_each_stretch_is_found(made: tuple[list[int], list[tuple[int, int]]]) -> None:
    values, stretches = made
    first, last = (np.array(side) for side in zip(*stretches, strict=True))

    found = Maxima(np.array(values)).greatest(first, last)

    assert all(low <= at < high for at, (low, high) in zip(found.tolist(), stretches, strict=True))
    assert [values[at] for at in found] == [max(values[low:high]) for low, high in stretches]
