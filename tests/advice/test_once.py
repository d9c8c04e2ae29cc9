"""A step that took longer once is named, and the usual step gains nothing from it."""

from __future__ import annotations

import numpy as np
import pytest

from npuprof.advice.findings import Advice
from tests.advice.test_findings import advice
from tests.analysis.test_accounting import table


def _steps(lengths: list[int], *, busy: float = 0.5) -> Advice:
    """Return the findings of a run of consecutive steps, whose device works at the start of each."""
    starts = np.cumsum([0, *lengths])[:-1].tolist()
    usual = int(np.median(lengths))
    steps = list(zip(starts, lengths, strict=True))
    kernels = [(start, round(usual * busy)) for start in starts]
    calls = [(start, length - 1) for start, length in steps]
    return advice(steps=table("steps", steps), kernels=table("kernels", kernels), operators=table("operators", calls))


def test_a_step_that_stood_still_is_told_beside_the_mean_of_the_others() -> None:
    found = _steps([1_000] * 6 + [9_000] + [1_000] * 5)
    once = found["once"]
    assert (once.state, once.gain_hi_ns) == ("fires", 0)
    assert once.title.startswith("Once, step 6 took 8.00 µs longer")
    assert "1.00 µs without step 6, which took longer once" in found.headline()
    assert once.title in found.rest()
    assert found["host_bound"].cost_ns == 500  # of the usual step


def test_a_long_step_hides_no_finding_about_the_others() -> None:
    found = _steps([1_000] * 6 + [60_000] + [1_000] * 5)
    assert found["once"].state == found["host_bound"].state == "fires"


@pytest.mark.parametrize(
    "lengths",
    [
        [1_000] * 12,
        [1_000, 1_010, 990, 1_020, 980, 1_030] * 3,
        [1_000, 2_000] * 6,  # not once
        [1_000] * 6 + [1_100] + [1_000] * 5,
    ],
)
def test_steps_that_vary_as_usual_are_not_told(lengths: list[int]) -> None:
    found = _steps(lengths)
    assert found["once"].state == "clean"
    assert "longer once" not in found.headline()


def test_of_two_steps_none_can_be_told_from_the_others() -> None:
    assert _steps([1_000, 5_000])["once"].state == "cannot tell"


def test_a_long_step_hides_no_wait_between_the_others() -> None:
    starts = [*range(0, 6_000, 1_000), *range(66_000, 72_000, 1_000)]  # the step at 5,000 lasts 61,000
    steps = table("steps", [(start, 900) for start in starts])
    found = advice(steps=steps, kernels=table("kernels", [(start, 900) for start in starts]))
    assert (found.usual_ns, found["between_steps"].cost_ns, found["once"].state) == (1_000, 100, "fires")
    assert found["between_steps"].state == "fires"
    assert found["between_steps"] in found.fired  # 10 % of the usual step, and 2 % of the mean one
    usual = sum(found.facts.per_step([part]) for part in ("computing", "between_steps"))
    assert usual == found.usual_ns
    assert usual + found["once"].cost_ns == pytest.approx(found.step_ns, abs=1)
