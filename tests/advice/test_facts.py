"""Facts that several rules read."""

from __future__ import annotations

import pytest

from npuprof.advice.facts import Facts
from npuprof.analysis.accounting import PARTS, account
from npuprof.info import Info
from tests import factories
from tests.analysis.test_accounting import table


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
