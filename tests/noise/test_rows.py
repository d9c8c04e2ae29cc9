"""Many rows judged together: verdict and interval agree, and false rows are few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.noise.model import LEVEL, difference
from npuprof.noise.ratios import of_ranks, ratios
from npuprof.noise.rows import levels, same_values, significant
from tests.budget import examples


def test_without_weights_it_is_the_procedure_of_benjamini_and_hochberg() -> None:
    p_values = np.array([0.01, 0.04, 0.03, 0.005, 0.5])  # adjusted: 0.025, 0.05, 0.05, 0.025, 0.5
    assert significant(p_values, levels(p_values, np.ones(5))).tolist() == [True, True, True, True, False]
    assert levels(p_values, np.ones(5)) == pytest.approx([0.04] * 5)


def test_rows_with_the_same_values_are_judged_once() -> None:
    values = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    same = same_values(values, values)
    assert same[0] == same[2] != same[1]
    p_values = np.array([0.04, 0.9, 0.04])
    alone = levels(p_values[:2], np.ones(2))
    assert levels(p_values, np.ones(3), same)[:2] == pytest.approx(alone)


def test_unjudgeable_row_has_no_level() -> None:
    found = levels(np.array([0.04, np.nan]), np.ones(2))
    assert found[0] == LEVEL
    assert np.isnan(found[1])


@settings(max_examples=examples(80))
@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 1 << 32), st.floats(0.0, 3.0))
def test_an_interval_leaves_out_0_exactly_where_a_row_is_significant(
    rows: int, steps: int, seed: int, shift: float
) -> None:
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal((rows, 3, steps)) for _ in range(2))
    a[: rows // 3] += shift
    estimate = difference(a, b, paired=True)
    p_values = estimate.p_values()
    of_rows = levels(p_values, random.lognormal(0, 2, rows))
    low, high = estimate.bounds(of_rows)
    assert (of_rows <= LEVEL).all()
    assert ((low > 0) | (high < 0)).tolist() == significant(p_values, of_rows).tolist()


def _report(random: np.random.Generator, slower: float) -> np.ndarray[tuple[int, int, int], np.dtype[np.float64]]:
    """Return 100 rows in 9 steps that vary by 3 % together, each by 1 % more; one is slower."""
    usual = np.random.default_rng(0).uniform(50, 150, (100, 1, 1))
    common = 0.03 * random.standard_normal((1, 1, 9))
    made = usual * np.exp(common + 0.01 * random.standard_normal((100, 1, 9)))
    made[0] *= slower
    return made


def test_slower_row_is_found_among_common_variation() -> None:
    random = np.random.default_rng(6)
    found, false, by_time = 0, 0, 0
    for _ in range(50):
        a, b = _report(random, 1.03), _report(random, 1.0)
        weights = (a + b).mean(axis=(1, 2))
        p_values = ratios(a, b, np.zeros(100, np.int64), paired=False).rows.p_values()
        mask = significant(p_values, levels(p_values, weights))
        found, false = found + int(mask[0]), false + int(mask[1:].any())
        p_values = difference(a, b, paired=False).p_values()
        by_time += int(significant(p_values, levels(p_values, weights))[0])
    assert found >= 40
    assert false <= 8
    assert by_time < 10  # which is what the ratio is for


def test_common_slowdown_is_a_factor() -> None:
    random = np.random.default_rng(7)
    a, b = (100 * scale * np.exp(0.005 * random.standard_normal((40, 8, 6))) for scale in (1.031, 1.0))
    a[:3] *= 1.5  # three rows that changed by themselves move no median
    found = ratios(a, b, np.zeros(40, np.int64), paired=True)
    assert np.expm1(found.common.value[0]) == pytest.approx(0.031, abs=0.004)
    assert found.common.p_values()[0] < 1e-6
    mask = significant(p := found.rows.p_values(), levels(p, np.ones(40)))
    assert mask[:3].all()
    assert mask[3:].sum() <= 2


def test_few_rows_and_rows_that_were_not_there_have_no_ratio() -> None:
    random = np.random.default_rng(8)
    a, b = (random.lognormal(size=(6, 1, 4)) for _ in range(2))
    a[0, 0, 2] = 0
    found = ratios(a, b, np.array([0, 0, 0, 0, 0, -1]), paired=True)
    assert np.isnan(found.rows.value).all()  # four rows of the kind are always there
    assert np.isnan(found.common.value).all()


def test_slow_rank_differs_from_slow_steps() -> None:
    random = np.random.default_rng(9)
    found = 0
    for _ in range(50):
        times = 100 * np.exp(0.05 * random.standard_normal((1, 4)) + 0.02 * random.standard_normal((64, 4)))
        times[5] *= 1.08
        usual = times.mean(axis=1)
        p_values = of_ranks(times, usual <= np.median(usual)).p_values()
        found += bool(significant(p_values, levels(p_values, np.ones(64)))[5])
    assert found == 50


def test_one_step_or_one_rank_confirms_nobody() -> None:
    for shape in ((4, 1), (1, 4)):
        estimate = of_ranks(np.full(shape, 5.0), np.ones(shape[0], bool))
        assert np.isnan(estimate.p_values()).all()
