"""Jobs whose collectives overlap computing: who is named, and what is said to be gained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import npuprof
from npuprof.advice.findings import Advice
from npuprof.profiles.profile import Profile
from npuprof.simulator.jobs.overlapped import OverlappedPlan, simulate_overlapped
from npuprof.sources.base import Decoded
from tests.budget import examples

_PLAN = OverlappedPlan()
Advised = Callable[[OverlappedPlan, int], tuple[Advice, float]]


@pytest.fixture
def advised(tmp_path: Path) -> Advised:
    """Return the advice on a job, and what a step would gain without its faults."""

    def judge(plan: OverlappedPlan, seed: int) -> tuple[Advice, float]:
        job = simulate_overlapped(plan, seed)
        healthy = simulate_overlapped(replace(plan, slow_ranks={}, late_ranks={}), seed)
        folder = tmp_path / f"{seed} {hash(str(plan))}"
        for rank in range(plan.ranks):
            Profile(Decoded(job.tables(rank), job.info(rank))).save(folder / f"rank{rank}")
        return npuprof.load_set(folder).advice(), job.step_ns - healthy.step_ns

    return judge


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "buckets"),
    [
        (0.15, 4),
        *(pytest.param(share, buckets, marks=pytest.mark.long) for share in (0.06, 0.10, 0.30) for buckets in (2, 4)),
    ],
)
def test_bounds_the_gain_of_a_slow_card(share: float, buckets: int, advised: Advised) -> None:
    advice, truth = advised(replace(_PLAN, buckets=buckets, slow_ranks={2: share}), 3)
    found = advice["slow_rank"]
    assert found.title == "Rank 2 is slow"
    assert found.confidence == "bounded"
    assert found.gain_lo_ns <= truth <= 1.05 * found.gain_hi_ns
    assert found.gain_hi_ns <= 1.05 * truth


@pytest.mark.slow
def test_keeps_serial_collectives_measured(advised: Advised) -> None:
    advice, truth = advised(replace(_PLAN, serial=True, slow_ranks={2: 0.15}), 3)
    found = advice["slow_rank"]
    assert (found.title, found.confidence) == ("Rank 2 is slow", "measured")
    assert found.gain_hi_ns == pytest.approx(truth, rel=0.05)


@pytest.mark.long
def test_bounds_unequal_steps_and_late_hosts(advised: Advised) -> None:
    cases = {
        "slow, steps differ": replace(_PLAN, uneven=0.1, slow_ranks={1: 0.2}),
        "late": replace(_PLAN, late_ranks={3: 6_000_000}),
        "two slow": replace(_PLAN, ranks=8, slow_ranks={1: 0.2, 6: 0.2}),
        "noise": replace(_PLAN, jitter=0.05, slow_ranks={0: 0.2}),
    }
    for name, plan in cases.items():
        advice, truth = advised(plan, 5)
        found = advice["slow_rank"]
        ranks = {*plan.slow_ranks, *plan.late_ranks}
        assert found.state == "fires", name
        assert {
            int(rank) for rank in found.place.replace("ranks", "rank").split() if rank.strip(",").isdigit()
        } or ranks
        assert found.confidence == "bounded", name
        assert found.gain_lo_ns <= truth <= 1.05 * found.gain_hi_ns, (name, found.gain, truth)
        assert found.gain_hi_ns <= 1.05 * truth, (name, found.gain, truth)


@pytest.mark.long
def test_blames_no_rank_of_healthy_jobs(advised: Advised) -> None:
    for seed in range(examples(6)):
        advice, _ = advised(replace(_PLAN, jitter=0.02, buckets=2 + seed % 3, ranks=4 + 2 * (seed % 3)), seed)
        assert advice["slow_rank"].state != "fires" or not advice["slow_rank"].gain_hi_ns, seed
