"""The noise of means and differences: intervals hold the truth as often as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.noise.model import LEVEL, Estimate, Floats, difference, mean
from tests.budget import examples

_MANY = 4_000


def times(
    random: np.random.Generator, ranks: int, steps: int, *, rank: float = 0, step: float = 0, rest: float = 0
) -> Floats:
    """Return many tables of times around 100 with noise of ranks, of steps, and of each time."""
    made: Floats = (
        100
        + rank * random.standard_normal((_MANY, ranks, 1))
        + step * random.standard_normal((_MANY, 1, steps))
        + rest * random.standard_normal((_MANY, ranks, steps))
    )
    return made


def share_covered(estimate: Estimate, truth: float) -> float:
    low, high = estimate.bounds()
    return float(((low <= truth) & (truth <= high)).mean())


_SOURCES: list[dict[str, float]] = [
    {"step": 2},
    {"rank": 2},
    {"rest": 2},
    {"rank": 2, "step": 2, "rest": 2},
    {"step": 2, "rest": 0.5},
]


@pytest.mark.parametrize("noise", _SOURCES, ids=str)
@pytest.mark.parametrize(("ranks", "steps"), [(3, 3), (8, 4), (8, 9)])
def test_the_interval_of_a_set_holds_its_mean(ranks: int, steps: int, noise: dict[str, Any]) -> None:
    covered = share_covered(mean(times(np.random.default_rng(1), ranks, steps, **noise)), 100)
    assert 0.93 <= covered <= (0.999 if noise == {"rest": 2} else 0.985)  # where only the rest varies, it is wide


@pytest.mark.parametrize("steps", [3, 5, 9])
def test_the_interval_of_one_rank_holds_the_difference(steps: int) -> None:
    random = np.random.default_rng(2)
    sides = [times(random, 1, steps, rest=2) for _ in range(2)]
    assert 0.93 <= share_covered(difference(sides[0], sides[1], paired=False), 0) <= 0.985


@pytest.mark.parametrize("noise", [noise for noise in _SOURCES if "rank" not in noise or "step" in noise], ids=str)
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("ranks", "steps"), [(8, 4), (8, 9), (64, 4)])
def test_sets_of_the_same_code_differ_seldom(ranks: int, steps: int, paired: bool, noise: dict[str, Any]) -> None:
    random = np.random.default_rng(3)
    sides = [times(random, ranks, steps, **noise) for _ in range(2)]
    assert (difference(sides[0], sides[1], paired=paired).p_values() <= LEVEL).mean() <= 0.06


def test_ranks_that_differ_by_nature_are_compared_one_by_one() -> None:
    random = np.random.default_rng(4)
    stages = np.tile([0.0, 10.0, 20.0, 40.0], 2)[None, :, None]
    sides = [(times(random, 8, 4, step=1, rest=1) + stages) * factor for factor in (1.05, 1.0)]
    assert (difference(sides[0], sides[1], paired=True).p_values() <= LEVEL).mean() > 0.99
    assert (difference(sides[0], sides[1], paired=False).p_values() <= LEVEL).mean() < 0.01


@pytest.mark.long
@pytest.mark.parametrize(("correlation", "most"), [(0.0, 0.06), (0.3, 0.09), (0.7, 0.13)])
def test_steps_that_depend_on_each_other_count_as_fewer(correlation: float, most: float) -> None:
    random = np.random.default_rng(5)
    sides = []
    for _ in range(2):
        noise = random.standard_normal((_MANY, 1, 20))
        for step in range(1, 20):
            noise[..., step] = correlation * noise[..., step - 1] + np.sqrt(1 - correlation**2) * noise[..., step]
        sides.append(100 + noise)
    by_quantity = [difference(a[None], b[None], paired=False).p_values()[0] for a, b in zip(*sides, strict=True)]
    assert (np.array(by_quantity) <= LEVEL).mean() <= most


@pytest.mark.parametrize(("t", "steps", "expected"), [(2.228139, 6, 0.05), (1.0, 3, 0.373901), (5.6, 10, 2.582877e-05)])
def test_equal_spreads_have_the_p_value_of_tables_of_t(t: float, steps: int, expected: float) -> None:
    # Of equal variances and numbers, Welch's degrees of freedom are 2 (n - 1).
    side = np.arange(steps, dtype=np.float64)
    side = (side - side.mean()) / np.sqrt(side.var(ddof=1)) * np.sqrt(steps / 2)
    estimate = difference((side + t)[None, None], side[None, None], paired=False, in_sequence=False)
    assert estimate.p_values()[0] == pytest.approx(expected, rel=1e-4)


def test_one_step_tells_nothing_however_many_ranks() -> None:
    estimate = difference(np.ones((3, 8, 1)), np.ones((3, 8, 4)), paired=True)
    assert np.isnan(estimate.p_values()).all()
    assert all(np.isnan(bound).all() for bound in estimate.bounds())


@pytest.mark.parametrize("several", [3, 6, 12])
def test_runs_of_one_side_tell_their_variation(several: int) -> None:
    random = np.random.default_rng(11)
    runs, one = random.normal(100, 2, (4_000, 1, several)), random.normal(100, 2, (4_000, 1, 1))
    for sides in ((runs, one), (one, runs)):
        estimate = difference(*sides, paired=False, in_sequence=False)
        assert 0.04 <= float((estimate.p_values() <= 0.05).mean()) <= 0.06
    changed = difference(runs, one + 12, paired=False, in_sequence=False)  # six deviations
    assert float((changed.p_values() <= 0.05).mean()) > {3: 0.7, 6: 0.98, 12: 0.999}[several]
    assert np.isnan(difference(one, one, paired=False, in_sequence=False).p_values()).all()
    assert np.isnan(difference(runs, one, paired=False).p_values()).all()  # these are steps of one run


def test_constant_times_differ_surely_or_not() -> None:
    estimate = difference(np.array([[[2.0, 2.0]], [[1.0, 1.0]]]), np.ones((2, 1, 2)), paired=False)
    assert estimate.p_values().tolist() == [0.0, 1.0]


def test_one_sided_row_is_as_sure_as_its_side() -> None:
    busy = np.random.default_rng(1).normal(10, 1, (1, 2, 6))
    there = difference(np.zeros((1, 3, 6)), busy, paired=False)
    assert there.error[0] == pytest.approx(mean(busy, in_sequence=True).error[0], rel=0.5)
    assert there.p_values()[0] < LEVEL
    assert np.isfinite(there.bounds()).all()


_SIZES = st.tuples(st.integers(1, 5), st.integers(2, 8))
_SEEDS = st.integers(0, 1 << 32)


@settings(max_examples=examples(60))
@given(_SIZES, _SIZES, _SEEDS)
def test_swapping_the_sides_swaps_the_signs_and_nothing_else(a: tuple[int, int], b: tuple[int, int], seed: int) -> None:
    random = np.random.default_rng(seed)
    sides = [random.lognormal(size=(7, *size)) for size in (a, b)]
    paired = a[0] == b[0]
    there, back = (difference(*pair, paired=paired) for pair in (sides, sides[::-1]))
    assert there.value == pytest.approx(-back.value)
    assert there.p_values() == pytest.approx(back.p_values())
    assert there.bounds()[0] == pytest.approx(-back.bounds()[1])


@settings(max_examples=examples(60))
@given(_SIZES, _SEEDS, st.sampled_from([1e-9, 1.0, 1e9]))
def test_the_unit_of_time_changes_no_verdict(size: tuple[int, int], seed: int, unit: float) -> None:
    random = np.random.default_rng(seed)
    sides = [random.lognormal(size=(5, *size)) for _ in range(2)]
    once, scaled = (difference(sides[0] * by, sides[1] * by, paired=True).p_values() for by in (1.0, unit))
    assert scaled == pytest.approx(once, rel=1e-6, nan_ok=True)
