"""Tests over steps: Student's t, many rows at once, and intervals from draws."""

from __future__ import annotations

import numpy as np
import pytest

from npuprof.difference.noise import adjusted, intervals, p_values


@pytest.mark.parametrize(
    ("t", "steps", "expected"),
    [(12.7062, 2, 0.2), (2.228139, 6, 0.05), (1.0, 3, 0.373901), (5.6, 10, 2.582877e-05)],
)
def test_equal_spreads_have_the_p_value_of_tables_of_t(t: float, steps: int, expected: float) -> None:
    # Of equal variances and numbers, Welch's degrees of freedom are 2 (n - 1).
    side = np.arange(steps, dtype=np.float64)
    side = (side - side.mean()) / np.sqrt(side.var(ddof=1)) * np.sqrt(steps / 2)
    (value,) = p_values(side[None] + t, side[None])
    if steps == 2:  # two degrees of freedom have a closed form
        expected = 1 - t / np.sqrt(2 + t * t)
    assert value == pytest.approx(expected, rel=1e-4)


def test_rows_without_any_spread_differ_for_certain_or_not_at_all() -> None:
    values = p_values(np.array([[2.0, 2.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [1.0, 1.0]]))
    assert values.tolist() == [0.0, 1.0]


def test_one_step_has_no_p_value() -> None:
    assert np.isnan(p_values(np.ones((3, 1)), np.ones((3, 4)))).all()


def test_p_values_are_adjusted_for_their_number() -> None:
    values = np.array([0.01, 0.04, 0.03, 0.005, 0.5])
    assert adjusted(values) == pytest.approx([0.025, 0.05, 0.05, 0.025, 0.5])


def test_ranks_are_drawn_with_all_their_steps() -> None:
    # Within a rank steps are equal, so that all that varies is which ranks are drawn.
    a = np.array([[1.0, 1.0, 1.0, 9.0, 9.0, 9.0]])
    ranks = np.array([0, 0, 0, 1, 1, 1])
    low, high = intervals(a, np.zeros((1, 6)), (ranks, ranks))
    assert (low[0], high[0]) == (1, 9)
    low, high = intervals(a, np.zeros((1, 6)), (np.arange(6), np.arange(6)))
    assert 1 < low[0] < high[0] < 9
