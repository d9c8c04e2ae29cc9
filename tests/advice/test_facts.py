"""Facts that several rules read."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from npuprof.advice import facts
from npuprof.advice.facts import Facts
from npuprof.advice.findings import advise
from npuprof.analysis.accounting import PARTS, account
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import table


def test_first_step_of_each_device_is_left_out() -> None:
    run = factories.all_tables(
        steps=table("steps", [(0, 100), (200, 100), (300, 100)]),
        kernels=pd.concat([table("kernels", [(0, 10), (200, 10)]), table("kernels", [(210, 10)], device_id=1)]),
    )
    accounting = account(run)
    kept = ~((accounting.steps["device_id"] == 1) & (accounting.steps["step"] == 0)).to_numpy(bool)
    facts = Facts(run, Info(), replace(accounting, steps=accounting.steps[kept].reset_index(drop=True)))
    counted = facts.accounting.steps.iloc[facts.basis.rows]
    assert sorted(zip(counted["device_id"], counted["step"], strict=True)) == [(0, 1), (1, 1)]


def test_a_step_that_others_cover_is_not_counted() -> None:
    for marks in ([(0, 100), (0, 100)], [(0, 100), (0, 60), (60, 40)]):
        run = factories.all_tables(steps=table("steps", marks), kernels=table("kernels", [(0, 80)]))
        facts = Facts(run, Info(), account(run))
        assert facts.step_ns == (100 if len(marks) == 2 else 40)


@pytest.mark.parametrize("steps", [3, 4])
def test_parts_add_up_to_the_mean_step(steps: int) -> None:
    kernels = [(number * 1000, (300, 200, 700, 501)[number]) for number in range(steps)]
    copies = [(number * 1000 + 750, (10, 90, 20, 50)[number]) for number in range(steps)]
    lengths = (1000, 860, 900, 1000)
    run = factories.all_tables(
        steps=table("steps", [(number * 1000, lengths[number]) for number in range(steps)] + [(steps * 1000, 10)]),
        kernels=table("kernels", kernels),
        tasks=table("tasks", copies),
    )
    facts = Facts(run, Info(), account(run))
    assert facts.step_ns == 1000  # from start to start
    assert facts.mean_step(["between_steps"]) in (1000 - sum(lengths[1:steps]) // (steps - 1) - late for late in (0, 1))
    assert sum(facts.mean_step([part]) for part in PARTS) == facts.step_ns
    assert facts.mean_step(["computing"]) == sum(time for _, time in kernels[1:]) // (steps - 1)
    profile = Profile(Decoded(run, factories.info()))
    difference = profile - profile
    assert difference.a_ns == facts.step_ns
    of_part = difference.rows[difference.rows["depth"] == 0].set_index("part")["a_ns"]
    assert abs(of_part["computing"] - facts.mean_step(["computing"])) <= 1


def test_kernels_outside_steps_count_for_none() -> None:
    times = [*[(at, 90) for at in range(0, 900, 100)], (1000, 40), (2000, 40)]
    casts = table("kernels", times, op_type="Cast")
    run = factories.all_tables(steps=table("steps", [(1000, 100), (2000, 100)]), kernels=casts)
    found = advise(run, Info(), account(run))["layout_and_casts"]
    assert (found.cost_ns, found.gain_hi_ns, found.rows.index.tolist()) == (40, 40, [9])
    assert found.detail.endswith(": Cast (1 time, 40 ns)")


def test_of_each_device_its_own_steps_count() -> None:
    of_both = [table("kernels", [(at, 10), (at + 90, 10)], device_id=at // 500, step=1) for at in (0, 500)]
    kernels = pd.concat([*of_both, table("kernels", [(50, 10)], device_id=1)], ignore_index=True)
    run = factories.all_tables(kernels=kernels.astype({"name": "category"}))
    assert Facts(run, Info(), account(run)).in_steps.tolist() == [True, True, True, True, False]


def test_idle_lines_of_many_kernels_are_in_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would take longer than all findings."""
    run = factories.profile(60)
    assert any(finding.lines for finding in factories.advice(run, factories.info()).findings)
    monkeypatch.setattr(facts, "_MOST_LINED", 59)
    assert not any(finding.lines for finding in factories.advice(run, factories.info()).findings)
