"""Outliers leave the usual step, and what they add to the mean is priced, with the cause that they have in common."""

from __future__ import annotations

import numpy as np
import pytest

from npuprof.advice.findings import Advice
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
from tests.analysis.test_accounting import table


def _run(lengths: list[int]) -> Profile:
    """Return a run of consecutive steps, whose device works at the start of each for half of the median."""
    starts = np.cumsum([0, *lengths])[:-1].tolist()
    steps = list(zip(starts, lengths, strict=True))
    kernels = [(start, int(np.median(lengths)) // 2) for start in starts]
    calls = [(start, length - 1) for start, length in steps]
    tables = factories.all_tables(
        steps=table("steps", steps), kernels=table("kernels", kernels), operators=table("operators", calls)
    )
    return Profile(Decoded(tables, factories.info()))


def found_of(lengths: list[int]) -> Advice:
    return _run(lengths).advice()


@pytest.mark.parametrize(
    ("lengths", "outliers"),
    [
        ([1_000] * 12, 0),
        ([1_000, 2_000] * 6, 0),  # half of them
        ([1_000] * 6 + [1_200] + [1_000] * 5, 0),  # no longer than the limit
        ([1_000] * 6 + [1_201] + [1_000] * 5, 1),
        ([1_000] * 3 + [9_000] + [1_000] * 2, 1),  # of four
        ([1_000] * 2 + [9_000] + [1_000] * 2, 0),  # of three
        ([1_000, 1_100, 1_200, 1_300, 1_400, 1_500] * 2 + [1_000], 0),
        ([1_000, 900, 1_100, 900, 1_000, 1_100, 900, 1_741, 1_000], 0),  # 5 x 1.4826 x 100 beyond
        ([1_000, 900, 1_100, 900, 1_000, 1_100, 900, 1_742, 1_000], 1),
        ([9_000] + [1_000] * 11, 0),  # the first is left out
        ([1_000] * 11 + [9_000], 0),  # the last has no end
    ],
)
def test_outliers_are_beyond_the_limit(lengths: list[int], outliers: int) -> None:
    basis = _run(lengths).accounting.basis
    assert basis.outliers == outliers
    assert basis.rows.tolist() == list(range(1, len(lengths) - 1))
    times = np.array(lengths)[basis.rows]
    assert basis.mean_ns == times.sum() // len(times)
    assert basis.usual_ns + basis.excess_ns == basis.mean_ns
    assert (basis.excess_ns > 0) == (outliers > 0)


@pytest.mark.parametrize(
    ("marks", "rows", "why"),
    [
        ([(0, 8), (30, 8), (60, 8), (90, 8)], [1, 2], ""),
        ([(0, 8), (30, 8)], [0], "the first one"),  # the second has no end
        ([(0, 8)], [0], "the only one"),
        ([(0, 40), (30, 8), (60, 8)], [1, 2], ""),  # steps that overlap have none between them
    ],
)
def test_steps_that_count(marks: list[tuple[int, int]], rows: list[int], why: str) -> None:
    run = factories.all_tables(steps=table("steps", marks), kernels=table("kernels", marks))
    basis = Profile(Decoded(run, factories.info())).accounting.basis
    assert basis.rows.tolist() == rows
    assert basis.why.startswith(why)
    assert bool(basis.why) == bool(why)


def test_a_single_outlier_shows_its_excess() -> None:
    found = found_of([1_000] * 6 + [9_000] + [1_000] * 5)
    single = found["outliers"]
    assert (single.state, single.gain_hi_ns, single.cost_ns) == ("fires", 0, 800)
    assert single.title.startswith("Step 6 takes 8.00 µs longer")
    assert "1.00 µs as usual, and 800 ns since 1 step takes longer" in found.headline()
    assert single in found.risks
    assert (found.step_ns, found.usual_ns, found.excess_ns) == (1_800, 1_000, 800)
    assert found["host_bound"].cost_ns == pytest.approx(500, abs=1)  # of the usual step
    assert "gain" not in f"{single.title} {single.detail}"


@pytest.mark.parametrize(
    ("at", "title"),
    [
        ((5, 15, 25, 35), "Every 10th step takes 8.00 µs longer"),
        ((5, 16, 25, 35), "4 of 40 steps take 8.00 µs longer"),
        ((15, 25, 35), "3 of 40 steps take 8.00 µs longer"),  # one that should be there is not
        ((2, 4, 6), "3 of 40 steps take 8.00 µs longer"),
        ((5, 18, 31), "Every 13th step takes 8.00 µs longer"),
        ((12, 33), "2 of 40 steps take 8.00 µs longer"),  # any two are some steps apart
    ],
)
def test_outliers_with_one_cause_are_priced(at: tuple[int, ...], title: str) -> None:
    lengths = [1_000] * 42
    for place in at:
        lengths[1 + place] = 9_000
    found = found_of(lengths)
    first = found.fired[0]
    assert first.rule == "outliers"
    assert first.title.startswith(title)
    assert first.gain_lo_ns == first.gain_hi_ns == found.excess_ns == 8_000 * len(at) // 40
    assert found.explained_ns <= found.step_ns


def test_a_long_step_hides_no_finding_about_the_others() -> None:
    found = found_of([1_000] * 6 + [60_000] + [1_000] * 5)
    assert found["outliers"].state == found["host_bound"].state == "fires"
    assert found["host_bound"] in found.fired


@pytest.mark.parametrize("lengths", [[1_000] * 12, [1_000, 1_010, 990, 1_020, 980, 1_030] * 3, [1_000, 2_000] * 6])
def test_steps_that_vary_as_usual_are_clean(lengths: list[int]) -> None:
    found = found_of(lengths)
    assert found["outliers"].state == "clean"
    assert "longer" not in found.headline()


def test_few_steps_have_no_outliers() -> None:
    assert found_of([1_000, 5_000])["outliers"].state == "cannot tell"


def test_a_long_step_hides_no_wait_between_the_others() -> None:
    starts = [*range(0, 6_000, 1_000), *range(66_000, 72_000, 1_000)]  # the step at 5,000 lasts 61,000
    tables = factories.all_tables(
        steps=table("steps", [(start, 900) for start in starts]),
        kernels=table("kernels", [(start, 900) for start in starts]),
    )
    found = Profile(Decoded(tables, factories.info())).advice()
    assert (found.usual_ns, found["between_steps"].cost_ns, found["outliers"].state) == (1_000, 100, "fires")
    assert found["between_steps"] in found.fired  # 10 % of the usual step, and 2 % of the mean one
    usual = sum(found.facts.per_step([part]) for part in ("computing", "between_steps"))
    assert usual == found.usual_ns
    assert usual + found["outliers"].cost_ns == pytest.approx(found.step_ns, abs=1)
