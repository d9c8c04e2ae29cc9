"""Facts that several rules read."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from npuprof.advice.facts import Facts
from npuprof.analysis.accounting import PARTS, account
from npuprof.info import Info
from tests import factories
from tests.analysis.test_accounting import table


def test_of_each_device_the_first_step_is_left_out_only_if_it_has_others() -> None:
    run = factories.all_tables(
        steps=table("steps", [(0, 100), (200, 100)]),
        kernels=pd.concat([table("kernels", [(0, 10), (200, 10)]), table("kernels", [(210, 10)], device_id=1)]),
    )
    accounting = account(run)
    kept = ~((accounting.steps["device_id"] == 1) & (accounting.steps["step"] == 0)).to_numpy(bool)
    facts = Facts(run, Info(), replace(accounting, steps=accounting.steps[kept].reset_index(drop=True)))
    counted = facts.accounting.steps.iloc[facts.counted]
    assert sorted(zip(counted["device_id"], counted["step"], strict=True)) == [(0, 1), (1, 1)]


@pytest.mark.parametrize("steps", [3, 4])
def test_the_parts_of_a_run_are_those_of_its_median_step_and_add_up_to_it(steps: int) -> None:
    kernels = [(number * 1000, (300, 200, 700, 500)[number]) for number in range(steps)]
    copies = [(number * 1000 + 750, (10, 90, 20, 50)[number]) for number in range(steps)]
    lengths = (1000, 860, 900, 1000)
    run = factories.all_tables(
        steps=table("steps", [(number * 1000, lengths[number]) for number in range(steps)]),
        kernels=table("kernels", kernels),
        tasks=table("tasks", copies),
    )
    facts = Facts(run, Info(), account(run))
    assert sum(facts.of_median_step([part]) for part in PARTS) == facts.step_ns
    whole = {3: (200 + 700) // 2, 4: 700}  # of the steps after the first: of two, their mean
    assert facts.of_median_step(["computing"]) == whole[steps]
