"""Thinned lines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from npuprof.figures.time_axis import thinned

lines = hnp.arrays(np.float64, st.integers(1, 400), elements=st.floats(-1e12, 1e12) | st.just(float("nan")))


@given(lines, st.integers(4, 60))
def test_a_thinned_line_keeps_its_ends_peaks_and_troughs(values: np.ndarray, most: int) -> None:
    points = thinned(values, most)
    assert (np.diff(points) > 0).all()
    assert points[0] == 0
    assert points[-1] == len(values) - 1
    assert len(points) <= most
    if not np.isnan(values).all():
        assert np.nanmax(values[points]) == np.nanmax(values)
        assert np.nanmin(values[points]) == np.nanmin(values)


def test_a_short_line_stays_whole() -> None:
    assert thinned(np.arange(5.0), 5).tolist() == [0, 1, 2, 3, 4]


def test_too_few_points_are_refused() -> None:
    with pytest.raises(ValueError, match="3 points are too few"):
        thinned(np.arange(9.0), 3)
