"""Findings cost no more than their rows of the budget have, in the usual step that all of them are of."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.advice.findings import Advice, advise
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, account
from npuprof.tables.info import Info
from tests import factories
from tests.advice.test_findings import advice
from tests.analysis.test_accounting import table
from tests.budget import examples

_NOT_OF_THE_STEP = ("first_step",)
_OF_TABLE = {
    "kernels": ("computing",),
    "communication": ("waiting", "moving", "communication"),
    "communication_tasks": ("waiting", "moving"),
    "tasks": ("copy",),
}
_OF_BOTH = ("sync_batch_norm", "unfused_optimizer")  # kernels, and what waits meanwhile


def _loop(seed: int, devices: int) -> Advice:
    """Return the findings of a loop of random steps, some of them far longer, on devices with several streams."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9))
    lengths = rng.integers(20_000, 24_000, count)
    lengths[rng.random(count) < 0.2] *= int(rng.integers(2, 30))
    starts = np.cumsum([0, *lengths[:-1]])
    marks = np.minimum(lengths, lengths * rng.integers(6, 11) // 10)
    work = int(rng.integers(1, 40))
    begins = (starts[:, None] + rng.integers(0, int(lengths.min()), (count, work))).ravel()
    took = rng.integers(0, 3_000, count * work)

    def some(of: str, share: float, **columns: object) -> pd.DataFrame:
        rows = np.flatnonzero(rng.random(len(begins)) < share)
        return table(of, list(zip(begins[rows].tolist(), took[rows].tolist(), strict=True)), **columns)

    parts = [
        some("kernels", 0.7, device_id=device, op_type=kind, stream_id=stream)
        for device in range(devices)
        for stream, kind in enumerate(rng.permutation(["Cast", "MatMulV3", "Add", "SyncBatchNorm"])[:3])
    ]
    run = factories.all_tables(
        steps=table("steps", list(zip(starts.tolist(), marks.tolist(), strict=True))),
        kernels=pd.concat(parts, ignore_index=True),
        communication=some("communication", 0.2),
        tasks=some("tasks", 0.2, task_type="MEMCPY_ASYNC"),
        operators=some("operators", 0.4, name=str(rng.choice(["aten::add", "enumerate(DataLoader)"]))),
        api=some("api", 0.4, name="aclrtSynchronizeStream"),
    )
    return advise(run, Info(), account(run))


@pytest.mark.slow
@settings(max_examples=examples(80))
@given(st.integers(0, 1 << 32), st.integers(1, 2))
def test_no_finding_costs_more_than_its_rows_of_the_budget(seed: int, devices: int) -> None:
    found = _loop(seed, devices)
    budget = found.budget()
    assert int(budget["usual_ns"].sum()) == found.usual_ns
    assert int(budget["time_ns"].sum()) == found.step_ns
    usual = {part: found.facts.per_step([part]) for part, _, _ in found.facts.usual_causes}
    for finding in found.findings:
        if finding.rule in _NOT_OF_THE_STEP:
            assert finding.gain_hi_ns == 0
            continue
        if finding.of_outliers:
            assert finding.gain_lo_ns == finding.gain_hi_ns <= finding.cost_ns <= found.excess_ns
            continue
        of_table = () if finding.rule in _OF_BOTH else _OF_TABLE.get(finding.table, ())
        parts = finding.parts or of_table or tuple(usual)
        assert 0 <= finding.cost_ns <= sum(usual.get(part, 0) for part in parts), finding
        assert finding.gain_lo_ns <= finding.gain_hi_ns <= found.usual_ns
    assert found.explained_ns <= min(found.step_ns, sum(finding.cost_ns for finding in found))
    excess = [finding.cost_ns for finding in found.findings if finding.of_outliers]
    assert found.usual_ns + found.excess_ns == found.step_ns
    assert sum(excess) <= found.excess_ns


@pytest.mark.parametrize("busy", [1, 100, 700])
def test_finding_explains_its_budget_row(busy: int) -> None:
    """Of a starved loop whose steps vary: the idle share of the headline, of the finding and of what is explained."""
    rng = np.random.default_rng(busy)
    lengths = rng.integers(1_000, 1_190, 20)
    starts = np.cumsum([0, *lengths[:-1]])
    steps = list(zip(starts.tolist(), lengths.tolist(), strict=True))
    found = advice(
        steps=table("steps", steps),
        kernels=table("kernels", [(start, busy) for start, _ in steps]),
        operators=table("operators", [(start, length - 1) for start, length in steps]),
    )
    budget = found.budget()
    idle = int(budget["usual_ns"][budget["part"].isin(["idle", "unknown"]).to_numpy(bool)].sum())
    assert found.usual_ns == found.step_ns
    assert found["host_bound"].cost_ns == pytest.approx(idle, abs=1)  # a nanosecond has no operator
    assert idle == found.step_ns - busy
    assert found.explained_ns == pytest.approx(idle, abs=1)
    assert idle == sum(found.facts.mean_step([part]) for part in (*IDLE, BETWEEN_STEPS))
