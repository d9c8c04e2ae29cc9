"""A job of 1,000 ranks with several faults: all of it, and every second rank of it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from npuprof.advice.finding import Finding
from npuprof.simulator.jobs import SIZES, Faults, simulate
from tests.advice.generated import RULES, facts_of, step_ns

_PLAN = replace(SIZES[1000], steps=4)
_FAULTS = Faults(slow_ranks={16: 0.2, 522: 0.18}, slow_hosts={40: 0.15}, late_hosts={10: 40_000_000})
_SLOW, _LATE = {16, 522, *range(320, 328)}, set(range(80, 88))


def _ranks(finding: Finding) -> set[int]:
    """Return the ranks that a finding names as its place."""
    parts = finding.place.removeprefix("ranks ").removeprefix("rank ").replace(" and ", ",").replace(" ", "").split(",")
    spans = [[int(end) for end in part.split("-")] for part in parts]
    return {rank for span in spans for rank in range(span[0], span[-1] + 1)}


@pytest.mark.long
@pytest.mark.parametrize("absent", [frozenset[int](), frozenset(range(1, 1000, 2))], ids=["complete", "every second"])
def test_faulty_ranks_of_a_thousand_are_named(absent: frozenset[int]) -> None:
    faults = replace(_FAULTS, absent=absent)
    facts = facts_of(simulate(_PLAN, faults, 3))
    busy = time.process_time()
    assert facts.job is not None
    loading = time.process_time() - busy
    busy = time.process_time()
    found = {rule.name: rule.check(facts) for rule in RULES}
    judging = time.process_time() - busy
    assert _ranks(found["slow_rank"]) == _SLOW - absent
    assert _ranks(found["late_host"]) == _LATE - absent
    for rule in ("pipeline_imbalance", "stall", "slow_link"):
        assert found[rule].state != "fires"
    gain = sum(found[rule].gain_hi_ns for rule in ("slow_rank", "late_host"))
    least = sum(found[rule].gain_lo_ns for rule in ("slow_rank", "late_host"))
    true = step_ns(_PLAN, faults, 3) - step_ns(_PLAN, Faults(absent=absent), 3)
    assert least <= 1.05 * true
    assert 0.95 * true <= gain <= 1.2 * true
    assert judging < 100 * loading + 10  # some seconds: nothing is done for each pair of ranks
