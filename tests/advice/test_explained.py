"""How much of a step findings explain together: each moment once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof.advice.explained import explained_ns
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding
from npuprof.analysis.accounting import IDLE, account
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import table

_KERNELS = table("kernels", [(0, 20), (30, 20), (60, 20)])


def facts(steps: list[tuple[int, int]]) -> Facts:
    run = factories.all_tables(steps=table("steps", steps), kernels=_KERNELS)
    return Facts(run, Info(), account(run))


def finding(cost: int, *, parts: tuple[str, ...] = (), rows: pd.DataFrame = _KERNELS) -> Finding:
    return Finding("any", "fires", cost_ns=cost, gain_hi_ns=cost, parts=parts, table="kernels", rows=rows)


@pytest.mark.parametrize(
    ("found", "explained"),
    [
        ([], 0),
        ([finding(40, parts=IDLE)], 40),
        ([finding(40, parts=IDLE), finding(40, parts=IDLE)], 40),  # the second says nothing that the first does not
        ([finding(10, parts=IDLE), finding(40, parts=IDLE)], 40),  # what the first leaves, the second explains
        ([finding(10, parts=IDLE), finding(10, parts=IDLE)], 20),
        ([finding(999, parts=IDLE)], 40),
        ([finding(60), finding(20, rows=_KERNELS[:1])], 60),
        ([finding(20, rows=_KERNELS[:1]), finding(60)], 60),
        ([finding(5), finding(60)], 60),
        ([finding(60), finding(40, parts=IDLE)], 100),
        ([finding(60, rows=pd.DataFrame())], 0),  # about nothing that is known
    ],
)
def test_each_moment_counts_for_one_finding(found: list[Finding], explained: int) -> None:
    assert explained_ns(facts([(0, 100)]), found) == explained


def test_mean_leaves_out_single_delays() -> None:
    four = facts([(0, 30), (30, 25), (55, 25), (80, 25), (105, 25), (130, 400), (530, 1)])  # the first is left out
    assert explained_ns(four, [finding(60)]) == (20 + 20) // 4
    two = facts([(0, 30), (30, 25), (55, 45), (100, 1)])
    assert explained_ns(two, [finding(60)]) == 20
    assert explained_ns(two, [finding(60, rows=_KERNELS[2:])]) == 10


def test_random_findings_explain_at_most_their_costs_and_the_step() -> None:
    rng = np.random.default_rng(5)
    steps = facts([(0, 100)])
    for _ in range(50):
        found = [
            finding(int(cost), parts=IDLE if cost % 3 == 0 else (), rows=_KERNELS[rng.integers(3) :])
            for cost in rng.integers(0, 60, 4)
        ]
        explained = explained_ns(steps, found)
        assert max(0, *(explained_ns(steps, [one]) for one in found)) <= explained <= 100
        assert explained <= sum(one.cost_ns for one in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "explained_ms"),
    [
        ("text/level1/rank0_ascend_pt", 144.44),
        ("db/level1/rank0_ascend_pt", 140.20),
        ("llm_4ranks", 207.1),  # 32.0 of uneven stages, 101.8 of transfers, 49.9 and 23.3 of kernels, replayed at once
    ],
)
def test_the_report_says_how_much_of_the_step_is_explained(samples: Path, name: str, explained_ms: float) -> None:
    path = samples / "torch_npu" / name
    run: Profile | ProfileSet = npuprof.load_set(path) if name == "llm_4ranks" else npuprof.load(path)
    advice = run.advice()
    assert advice.explained_ns / 1e6 == pytest.approx(explained_ms, abs=0.05)
    if name == "llm_4ranks":  # what each of them gains alone may add up to a little less
        assert sum(one.gain_hi_ns for one in advice if one.rule != "pipeline_bubble") == pytest.approx(
            advice.explained_ns, rel=0.001
        )
    assert f"Together they explain {advice.explained_ns / 1e6:.0f} ms of {advice.step_ns / 1e6:.0f} ms" in str(advice)
    if isinstance(run, Profile):
        assert "Together they explain " in run._repr_html_()
