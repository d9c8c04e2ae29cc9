"""Several faults at once, and ranks that are missing: who is named, and what the job gains without all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice
from npuprof.advice.job_findings import advise_job
from npuprof.advice.wording import ranks_called
from npuprof.loading import load_set
from npuprof.simulator.jobs import SIZES, Faults, Plan, simulate, text
from npuprof.words.quantities import duration
from tests.advice import test_job as jobs
from tests.advice.generated import RULES, facts_of, fired, step_ns
from tests.analysis.test_rank_faults import with_steps
from tests.analysis.test_rank_waits import synchronised
from tests.benchmarks.bench_blame import judged

_PLAN = replace(SIZES[64], steps=4, microbatches=4, layers=2)


def gain_of(found: dict[str, Finding]) -> int:
    """What a step gains without all faults that last."""
    return sum(found[rule].gain_hi_ns for rule in found if rule not in ("stall", "waiting", "absent_ranks"))


def true_gain(plan: Plan, faults: Faults, seed: int) -> float:
    """What a step of the job gains without them, apart from stalls."""
    return step_ns(plan, replace(faults, stalls={}), seed) - step_ns(plan, Faults(), seed)


def test_two_slow_cards_are_named_together_though_each_alone_gains_nothing() -> None:
    faults = Faults(slow_ranks={0: 0.15, 5: 0.15})
    found = fired(simulate(_PLAN, faults, 3))
    slow = found["slow_rank"]
    assert (slow.title, slow.place, slow.confidence) == ("2 ranks are slow: 0, 5", "ranks 0 and 5", "measured")
    assert gain_of(found) == pytest.approx(true_gain(_PLAN, faults, 3), rel=0.05)
    assert slow.detail.count("alone)") == 2


def test_a_host_whose_cards_are_all_slow_replaces_them() -> None:
    faults = Faults(slow_hosts={1: 0.12})
    found = fired(simulate(_PLAN, faults, 3))
    assert found["slow_rank"].title == "8 ranks are slow: all of host 1 (8-15)"
    assert gain_of(found) == pytest.approx(true_gain(_PLAN, faults, 3), rel=0.05)


def test_several_faults_are_named_at_once() -> None:
    faults = Faults(slow_ranks=dict.fromkeys((3, 20, 40, 60), 0.15), late_hosts={1: 20_000_000}, heavy_stages={2: 0.3})
    found = fired(simulate(_PLAN, faults, 4))
    assert found["late_host"].place == "ranks 8-15"
    assert found["pipeline_imbalance"].place == "ranks 32-47"
    named = found["slow_rank"].place + found["slow_rank"].detail
    assert all(str(rank) in named for rank in (3, 20, 40, 60))
    assert gain_of(found) == pytest.approx(true_gain(_PLAN, faults, 4), rel=0.05)


def test_stall_is_named_with_its_step() -> None:
    found = fired(simulate(replace(_PLAN, steps=6), Faults(stalls={(21, 14): 200_000_000}), 3))
    assert found["stall"].title == "In step 14: rank 21 stood still for 200 ms"
    assert (found["stall"].gain_hi_ns, found["stall"].is_risk) == (0, True)
    assert "slow_rank" not in found


def test_a_stall_hides_neither_a_slow_card_nor_its_gain() -> None:
    faults = Faults(slow_ranks={21: 0.1}, stalls={(21, 12): 200_000_000, (40, 10): 300_000_000})
    found = fired(simulate(_PLAN, faults, 3))
    assert found["slow_rank"].place == "rank 21"
    assert found["slow_rank"].gain_hi_ns == pytest.approx(true_gain(_PLAN, faults, 3), rel=0.05)
    assert "n step 10: rank 40 stood still for" in found["stall"].title + found["stall"].detail


def advice_of(faults: Faults, seed: int = 3) -> Advice:
    """The findings of a job of 64 ranks."""
    return advise_job(facts_of(simulate(_PLAN, faults, seed)))


@pytest.mark.slow
def test_stall_beside_a_slow_card_is_seen() -> None:
    plan, faults = replace(_PLAN, steps=3), Faults(slow_ranks={5: 0.15}, stalls={(21, 11): 200_000_000})
    found = fired(simulate(plan, faults, 3))
    assert found["stall"].title == "In step 11: rank 21 stood still for 200 ms"
    assert (found["slow_rank"].title, found["slow_rank"].confidence) == ("Rank 5 is slow", "measured")
    assert gain_of(found) == pytest.approx(true_gain(plan, faults, 3), rel=0.05)


@pytest.mark.long
def test_two_steps_bound_a_slow_card() -> None:
    plan, faults = replace(_PLAN, steps=2), Faults(slow_ranks={5: 0.15}, stalls={(21, 11): 200_000_000})
    every = {rule.name: rule.check(facts_of(simulate(plan, faults, 3))) for rule in RULES}
    stalled, slow = every["stall"], every["slow_rank"]
    assert stalled.state == "cannot tell"
    assert "in step 11: rank 21 stood still for 201 ms, which is usual or not" in stalled.collect
    assert (slow.title, slow.confidence, slow.gain_lo_ns) == ("Rank 5 is slow", "bounded", 0)
    assert slow.gain_hi_ns == pytest.approx(true_gain(plan, faults, 3), rel=0.1)


@pytest.mark.parametrize("missing", [Faults(absent=frozenset({40})), Faults(truncated=frozenset({18}))])
def test_a_slow_card_is_named_though_a_rank_is_missing(missing: Faults) -> None:
    faults = replace(missing, slow_ranks={17: 0.15})
    slow = advice_of(faults)["slow_rank"]
    assert (slow.title, slow.gain_lo_ns, slow.confidence) == ("Rank 17 is slow", 0, "bounded")
    assert slow.gain_hi_ns == pytest.approx(true_gain(_PLAN, faults, 3), rel=0.05)


@pytest.mark.long
@pytest.mark.parametrize("absent", [{40}, {17, 18, 19}, set(range(1, 64, 2))], ids=["one", "three", "every second"])
def test_of_a_healthy_job_with_absent_ranks_nobody_is_blamed(absent: set[int]) -> None:
    found = advice_of(Faults(absent=frozenset(absent)))
    assert [found[rule].state for rule in ("slow_rank", "late_host", "slow_link", "pipeline_imbalance")] == [
        "clean"
    ] * 4


@pytest.mark.long
def test_absent_ranks_have_one_bounded_line() -> None:
    faults = Faults(slow_ranks={40: 0.2}, absent=frozenset({40}))
    found = advice_of(faults)["absent_ranks"]
    assert (found.title, found.gain_lo_ns) == ("The ranks wait for rank 40, whose collectives are not here", 0)
    assert found.gain_hi_ns >= true_gain(_PLAN, faults, 3)
    assert "rank 40 arrives later than ranks alike" in found.detail
    assert advice_of(Faults(absent=frozenset({40})))["slow_rank"].state == "clean"


@pytest.mark.slow
def test_absent_ranks_waits_raise_the_limit() -> None:
    own = [[1_000_000 + 120_000 * (rank >= 8) + 900 * (at * rank % 7) for rank in range(16)] for at in range(10)]
    whole = synchronised(own, [50_000] * 10)
    found = jobs.advice_of(whole[whole["rank"] != 3], absent=(3,), groups={"g": ("dp", tuple(range(16)))})["slow_rank"]
    assert (found.place, found.gain_lo_ns) == ("ranks 8-15", 0)
    assert found.gain_hi_ns == pytest.approx(10 * 120_000, rel=0.05)


@pytest.mark.long
def test_slow_rank_on_slow_host_is_named_too() -> None:
    faults = Faults(slow_hosts={1: 0.1}, slow_ranks={11: 0.15})
    found = fired(simulate(_PLAN, faults, 3))
    assert found["slow_rank"].title == "8 ranks are slow: all of host 1 (8-15), rank 11 slower still"
    assert gain_of(found) == pytest.approx(true_gain(_PLAN, faults, 3), rel=0.05)
    missing = replace(faults, truncated=frozenset({9}))
    assert fired(simulate(_PLAN, missing, 3))["slow_rank"].title.endswith("(8, 10-15), rank 11 slower still")


@pytest.mark.slow
@pytest.mark.parametrize(("slow", "ranks"), [(7, 8), (6, 8), (2, 3)])
def test_mostly_slow_role_bounds_the_gain(slow: int, ranks: int) -> None:
    own = [[1_000_000 + 150_000 * (rank < slow) + 900 * (at * rank % 7) for rank in range(ranks)] for at in range(10)]
    found = jobs.advice_of(synchronised(own, [50_000] * 10))
    few = found["fast_rank"]
    assert few.place == ("rank " if slow == ranks - 1 else "ranks ") + " and ".join(map(str, range(slow, ranks)))
    assert (few.state, few.gain_lo_ns, few.confidence) == ("fires", 0, "bounded")
    assert 9 * 150_000 <= few.gain_hi_ns <= 10 * 156_000
    assert found["slow_rank"].state == "clean"


@pytest.mark.long
def test_slow_role_may_lack_one_rank() -> None:
    own = [[1_000_000 + 150_000 * (rank < 13) + 900 * (at * rank % 7) for rank in range(16)] for at in range(12)]
    events = with_steps(synchronised(own, [50_000] * 12), 3)
    groups = {"g": ("dp", tuple(range(16)))}
    few = jobs.advice_of(events[(events["rank"] != 2).to_numpy(bool)], absent=(2,), groups=groups)["fast_rank"]
    assert few.place == "ranks 13-15"
    assert "ranks 0, 1 and 3-12 are all slow" in few.detail
    assert few.gain_hi_ns >= 11 * 150_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slow", "ranks", "rule"),
    [
        (6, 8, "fast_rank"),
        pytest.param(3, 4, "fast_rank", marks=pytest.mark.long),
        pytest.param(12, 16, "fast_rank", marks=pytest.mark.long),
        pytest.param(5, 8, "slow_rank", marks=pytest.mark.long),
    ],
)
def test_mostly_slow_ranks_may_lack_one(slow: int, ranks: int, rule: str) -> None:
    """What the absent one takes is taken from the others: no rank is compared with it."""
    own = [[1_000_000 + 900 * (at * rank % 7) + 150_000 * (rank < slow) for rank in range(ranks)] for at in range(24)]
    whole = with_steps(synchronised(own, [50_000] * 24), 3)
    groups = {"g": ("dp", tuple(range(ranks)))}
    found = jobs.advice_of(whole[(whole["rank"] != 0).to_numpy(bool)], absent=(0,), groups=groups)
    named = {name for name in ("fast_rank", "slow_rank") if found[name].state == "fires"}
    assert named == {rule}
    assert found[rule].place == ranks_called(range(slow, ranks) if rule == "fast_rank" else range(1, slow))
    per_step = 24 if rule == "fast_rank" else 3  # one step lies around all
    assert found[rule].gain_hi_ns == pytest.approx(per_step * 150_000, rel=0.06)


def test_faster_of_two_hosts_is_usual() -> None:
    """Host 1 has four of twelve ranks, one of them slow: the others are few, and late host 0 is still told as such."""
    job = simulate(Plan(1, 1, 12, steps=6, layers=4), Faults(late_hosts={0: 20_000_000}, slow_ranks={9: 0.3}), 3)
    found = {one.rule: one for one in advise_job(facts_of(job))}
    assert found["late_host"].place == "ranks 0-7"
    assert found["slow_rank"].place == "rank 9"
    assert "fast_rank" not in found


@pytest.mark.slow
def test_common_waits_keep_a_slow_ranks_gain() -> None:
    own = [
        [
            15_000_000 * (at % 4 == 0) + round((1 + 0.15 * (rank == 2)) * (6_000_000 + 9_000 * (at * rank % 7)))
            for rank in range(6)
        ]
        for at in range(24)
    ]
    slow = jobs.advice_of(with_steps(synchronised(own, [50_000] * 24), 4))["slow_rank"]
    assert (slow.title, slow.confidence) == ("Rank 2 is slow", "measured")
    assert slow.gain_hi_ns == pytest.approx(4 * 0.15 * 6_000_000, rel=0.03)


@pytest.mark.long
def test_absent_rank_is_not_late_beside_others() -> None:
    whole = [[6_000_000 + 9_000 * (at * rank % 7) + 9_000_000 * (rank > 2) for rank in range(8)] for at in range(24)]
    events = with_steps(synchronised(whole, [50_000] * 24), 4)
    groups = {"g": ("dp", tuple(range(8)))}
    found = jobs.advice_of(events[(events["rank"] != 1).to_numpy(bool)], absent=(1,), groups=groups)
    assert "arrive" not in found["absent_ranks"].detail


@pytest.mark.slow
def test_slower_rank_in_both_steps_is_named() -> None:
    own = [[1_000_000 + 150_000 * rank + 9_000 * (at * (rank + 3) % 5) for rank in (0, 1)] for at in range(8)]
    whole = with_steps(synchronised(own, [50_000] * 8), 4)
    slow = jobs.advice_of(whole)["slow_rank"]
    assert (slow.title, slow.place) == ("Rank 1 is slow", "rank 1")
    assert slow.gain_hi_ns == pytest.approx(4 * 150_000, rel=0.15)
    even = [[1_000_000 + 90_000 * (at * (rank + 3) % 5) for rank in (0, 1)] for at in range(8)]
    assert jobs.advice_of(with_steps(synchronised(even, [50_000] * 8), 4))["slow_rank"].state == "clean"


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_absent_late_rank_has_a_bound(ranks: int) -> None:
    own = [[1_000_000 + 900 * (at * rank % 7) + 200_000 * (rank == 1) for rank in range(ranks)] for at in range(8)]
    whole = with_steps(synchronised(own, [50_000] * 8), 4)
    here = whole[(whole["rank"] != 1).to_numpy(bool)]
    groups = {"g": ("dp", tuple(range(ranks)))}
    unknown = jobs.advice_of(here, absent=(1,), groups=groups)  # nothing tells how long transfers take
    late = unknown["absent_ranks"]
    assert late.state == "cannot tell"
    assert late.cost_ns >= 7 * 200_000
    bounds = f"0 to {duration(late.cost_ns)} a step may be transfers, or waits for rank 1"
    assert bounds in " ".join(unknown.to_collect())
    known = jobs.advice_of(here, absent=(1,), groups=groups, moved_ns={0: np.full(8, 45_000)})["absent_ranks"]
    assert known.title == "Rank 1, not here, is late in every step"
    assert 7 * 195_000 <= known.gain_hi_ns <= 8 * 210_000  # of one step around all
    even = whole.assign(duration_ns=whole["duration_ns"] - 195_000 * (whole["rank"] != 1))
    even = even[(even["rank"] != 1).to_numpy(bool)]
    healthy = jobs.advice_of(even, absent=(1,), groups=groups, moved_ns={0: np.full(8, 45_000)})["absent_ranks"]
    assert healthy.gain_hi_ns <= 8 * 15_000


@pytest.mark.long
def test_rank_lacking_steps_is_judged_by_others() -> None:
    own = [[1_000_000 + 900 * (at * rank % 7) + 200_000 * (rank == 1) for rank in range(6)] for at in range(24)]
    whole = with_steps(synchronised(own, [50_000] * 24), 3)
    for gone in ({10, 11}, {13}, {17}):
        here = whole[~((whole["rank"] == 1) & whole["step"].isin(gone)).to_numpy(bool)]
        found = jobs.advice_of(here, groups={"g": ("dp", tuple(range(6)))})
        assert (found["slow_rank"].place, found["stall"].state) == ("rank 1", "clean")
        assert found["slow_rank"].gain_hi_ns == pytest.approx(3 * 200_000, rel=0.05)


def test_more_slow_ranks_than_are_replayed_apart_are_all_named() -> None:
    slow = dict.fromkeys(range(0, 64, 3), 0.15)
    found = fired(simulate(_PLAN, Faults(slow_ranks=slow), 3))["slow_rank"]
    assert found.title.startswith("22 ranks are slow")
    assert found.gain_hi_ns == pytest.approx(true_gain(_PLAN, Faults(slow_ranks=slow), 3), rel=0.05)


@pytest.mark.long
@pytest.mark.parametrize(("count", "seed"), [(2, 1), (4, 3), (6, 2)])
def test_of_drawn_jobs_each_costly_fault_is_named_and_nobody_else(count: int, seed: int) -> None:
    job = judged(count, seed, _PLAN, as_text=False)
    costly = [one for one in job.faults if job.costs[one] >= 0.02 * job.step_ns]
    assert set(costly) <= job.named
    assert not any(job.innocent.values())
    if job.tells_gain:
        assert job.gain[1] == pytest.approx(job.true_gain, rel=0.1)  # the benchmark has the distribution


@pytest.mark.long
def test_the_vendors_text_form_tells_the_same(tmp_path: Path) -> None:
    faults = Faults(slow_ranks={1: 0.2, 6: 0.2}, truncated=frozenset({3}))
    plan = replace(SIZES[8], steps=4, microbatches=2, layers=1)
    written = load_set(text.write(simulate(plan, faults, 1), tmp_path)).advice()["slow_rank"]
    assert (written.place, written.gain_lo_ns) == ("ranks 1 and 6", 0)
    in_memory = advise_job(facts_of(simulate(plan, faults, 1)))["slow_rank"]
    assert written.gain_hi_ns == pytest.approx(in_memory.gain_hi_ns, rel=0.02)


def test_slow_hosts_of_a_stage_may_have_more_work() -> None:
    faults = Faults(slow_hosts={2: 0.28, 3: 0.2})
    found = fired(simulate(_PLAN, faults, 3))
    stage = found["pipeline_imbalance"]
    assert stage.title == "The stages are uneven, or host 2 and host 3 are slow (ranks 16-31)"
    assert (stage.place, stage.gain_lo_ns, stage.confidence) == ("ranks 16-31", 0, "bounded")
    assert found["slow_rank"].place == "ranks 16-23"
    assert gain_of(found) == pytest.approx(true_gain(_PLAN, faults, 3), rel=0.05)


def test_busy_stage_is_no_slow_host() -> None:
    found = fired(simulate(_PLAN, Faults(heavy_stages={1: 0.3}), 3))
    assert found["pipeline_imbalance"].title.startswith("The stages are uneven: ")
    assert "slow_rank" not in found


@pytest.mark.long
def test_slow_link_is_not_lateness() -> None:
    faults = Faults(slow_links={(6, 7): 4.2}, absent=frozenset({4}))
    found = advice_of(faults)
    assert found["slow_link"].place == "ranks 6 and 7"
    assert found["slow_link"].gain_hi_ns == pytest.approx(true_gain(_PLAN, faults, 3), rel=0.05)
    assert found["absent_ranks"].state == "clean"


def test_of_two_absent_members_either_may_have_stood_still() -> None:
    faults = Faults(stalls={(50, 11): 300_000_000}, truncated=frozenset({49, 50}))
    stall = advice_of(faults)["stall"]
    assert stall.title.startswith("In step 11: rank 49 or 50 stood still for")
    assert stall.place == "ranks 49 and 50"
