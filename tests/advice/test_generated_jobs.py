"""Faults that were planted in generated jobs are found and named, with what they cost, and none where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from npuprof.advice.finding import Finding
from npuprof.loading import load_set
from npuprof.simulator.jobs import Faults, simulate, text
from tests.advice.generated import RULES, fired, plan_of, step_ns

pytestmark = pytest.mark.slow

_FAULTS = {
    "slow_rank": (Faults(slow_ranks={5: 0.08}), "Rank 5 is slow"),
    "slow_link": (Faults(slow_links={(2, 3): 4}), "The link between ranks 2 and 3 is slow"),
    "late_host": (Faults(late_hosts={0: 20_000_000}), "The host of ranks {host} is late by "),
    "pipeline_imbalance": (Faults(heavy_stages={1: 0.25}), "The stages are uneven: "),
}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ranks", [8, 64])
def test_a_healthy_job_has_no_finding(ranks: int, seed: int) -> None:
    assert not fired(simulate(plan_of(ranks), seed=seed))


@pytest.mark.long
@pytest.mark.parametrize("rule", list(_FAULTS))
@pytest.mark.parametrize("ranks", [8, 64])
def test_single_fault_is_priced_by_its_removal(ranks: int, rule: str) -> None:
    plan, (fault, title) = plan_of(ranks), _FAULTS[rule]
    found = fired(simulate(plan, fault, 1))
    assert set(found) == {rule}
    one: Finding = found[rule]
    assert one.title.startswith(title.format(host="0 and 1" if ranks == 8 else "0-7"))
    assert one.gain_hi_ns == pytest.approx(step_ns(plan, fault, 1) - step_ns(plan, Faults(), 1), rel=0.1)
    assert one.gain_lo_ns == one.gain_hi_ns


@pytest.mark.long
@pytest.mark.parametrize("ranks", [8, 64])
def test_the_place_of_a_stage_with_more_work_is_its_ranks(ranks: int) -> None:
    found = fired(simulate(plan_of(ranks), Faults(heavy_stages={1: 0.25}), 1))["pipeline_imbalance"]
    assert found.place == ("ranks 4-7" if ranks == 8 else "ranks 16-31")


@pytest.mark.parametrize("rule", ["slow_link", pytest.param("late_host", marks=pytest.mark.long)])
def test_a_fault_is_named_in_the_vendors_text_form(rule: str, tmp_path: Path) -> None:
    job = simulate(replace(plan_of(8), steps=2), _FAULTS[rule][0], 1)
    one = load_set(text.write(job, tmp_path)).advice()[rule]
    assert one.title.startswith(_FAULTS[rule][1].format(host="0 and 1"))
    assert one.gain_hi_ns == pytest.approx(fired(job)[rule].gain_hi_ns, rel=0.01)


def test_jobs_without_clocks_in_step_have_the_same_findings() -> None:
    far = Faults(slow_ranks={5: 0.08}, clock_ms=50.0, drift=1e-5)
    assert fired(simulate(plan_of(8), far, 1))["slow_rank"].rank == 5
    assert not fired(simulate(replace(plan_of(8), jitter=0.02), replace(far, slow_ranks={}), 2))


def test_every_rule_about_ranks_is_asked() -> None:
    from npuprof.advice.job_rules import JOB_RULES

    assert {rule.name for rule in JOB_RULES} - {rule.name for rule in RULES} == {
        "exposed_communication",
        "fast_rank",
        "outliers",
        "pipeline_bubble",
    }
