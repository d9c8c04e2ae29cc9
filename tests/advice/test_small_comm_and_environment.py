"""Rules about small collectives and environment variables: runs in which they fire, are clean, or cannot tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice, advise
from npuprof.analysis.accounting import account
from npuprof.machine import environment as machine
from npuprof.profiles.profile import Profile
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import table

_US = 1_000


def collectives(sizes: list[int], lengths_us: list[int], transport: str = "SDMA", *, hidden: bool = False) -> Finding:
    """Collectives of one transfer each, to the ranks 1 and 2 in turn, one after the other in a step of 20 ms."""
    lengths = np.array(lengths_us, np.int64) * _US
    spans = list(zip((np.cumsum(lengths) - lengths).tolist(), lengths.tolist(), strict=True))
    tasks = table("communication_tasks", spans, transport=transport, op_id=0).assign(
        op_id=pd.array(range(len(sizes)), "Int64"),
        src_rank=pd.array([0] * len(sizes), "Int64"),
        dst_rank=pd.array([1 + number % 2 for number in range(len(sizes))], "Int64"),
        size_bytes=pd.array(sizes, "Int64"),
    )
    run = factories.all_tables(
        steps=table("steps", [(0, 20_000 * _US)]),
        kernels=table("kernels", [(0, 20_000 * _US) if hidden else (19_000 * _US, 9)]),
        communication=table("communication", spans),
        communication_tasks=tasks,
    )
    return advise(run, Info(rank=0), account(run))["small_comm"]


def test_small_collectives_take_extra_time() -> None:
    found = collectives([18 << 20] + [1 << 16] * 100, [1_048] + [50] * 100)  # 18 bytes a nanosecond
    assert found.state == "fires"
    assert found.cost_ns == pytest.approx(100 * (50_000 - (1 << 16) / 18), rel=1e-3)
    assert (found.gain_lo_ns, found.gain_hi_ns, len(found.rows)) == (0, found.cost_ns, 100)
    assert found.title == "100 collectives a step are too small for the links"
    assert found.detail.startswith("They (hcom_allReduce 100.0 %)")


def test_usual_rate_counts_without_large_transfers() -> None:
    for transport, rate in (("SDMA", 18.0), ("RDMA", 20.0)):
        found = collectives([1 << 16] * 100, [50] * 100, transport)
        assert found.cost_ns == pytest.approx(100 * (50_000 - (1 << 16) / rate), rel=1e-3)


@pytest.mark.parametrize(
    ("sizes", "lengths", "transport", "hidden"),
    [
        ([8 << 20] * 10, [900] * 10, "SDMA", False),
        ([2 << 20] * 10, [900] * 10, "RDMA", False),
        ([1 << 16] * 100, [50] * 100, "SDMA", True),
        ([1 << 16] * 4, [50] * 4, "SDMA", False),
    ],
    ids=["large", "large enough for RDMA", "hidden by kernels", "below 1 % of the step"],
)
def test_other_collectives_are_clean(sizes: list[int], lengths: list[int], transport: str, *, hidden: bool) -> None:
    assert collectives(sizes, lengths, transport, hidden=hidden).state == "clean"


def test_collectives_without_tasks_cannot_be_told_small() -> None:
    run = factories.all_tables(
        steps=table("steps", [(0, 100)]), kernels=table("kernels", [(0, 9)]), communication=table("communication", [])
    )
    assert advise(run, Info(), account(run))["small_comm"].state == "clean"  # there are none
    run["communication"] = table("communication", [(9, 50)])
    found = advise(run, Info(), account(run))["small_comm"]
    assert (found.state, found.collect) == ("cannot tell", "collect with --level 1")


def blocked(environment: dict[str, str], *, busy: bool = False, memory: pd.DataFrame | None = None) -> Advice:
    """A step in which the host waits for each of two kernels before it launches the next one."""
    kernels = [(0, 20), (20, 75)] if busy else [(0, 20), (50, 20), (90, 10)]
    run = factories.all_tables(
        steps=table("steps", [(0, 100)]),
        kernels=table("kernels", kernels),
        operators=table("operators", [(25, 25), (72, 15)]),
        api=table("api", [(5, 17), (55, 16)]),
        **({} if memory is None else {"memory": memory}),
    )
    return advise(run, Info(environment=environment), account(run))


@pytest.mark.parametrize(
    ("environment", "action", "cost"),
    [
        ({"ASCEND_LAUNCH_BLOCKING": "1"}, "Run `unset ASCEND_LAUNCH_BLOCKING` before the program.", 47),
        ({"ASCEND_GLOBAL_LOG_LEVEL": "0"}, "Run `export ASCEND_GLOBAL_LOG_LEVEL=3` before the program.", 50),
        ({"ASCEND_GLOBAL_LOG_LEVEL": "1"}, "Run `export ASCEND_GLOBAL_LOG_LEVEL=3` before the program.", 50),
    ],
)
def test_variable_is_named_with_its_cost(environment: dict[str, str], action: str, cost: int) -> None:
    found = blocked(environment)["environment"]
    assert (found.state, found.action, found.cost_ns, found.gain_lo_ns) == ("fires", action, cost, 0)
    assert next(iter(environment)) in found.detail or "debug" in found.detail or "info" in found.detail
    assert blocked(environment, busy=True)["environment"].state == "clean"  # never without a symptom


def test_expandable_segments_are_missed_where_memory_is_in_pieces() -> None:
    samples = {
        "time_ns": np.array([1]),
        "component": ["PTA"],
        "allocated_bytes": pd.array([12 << 30], "Int64"),
        "reserved_bytes": pd.array([20 << 30], "Int64"),
    }
    memory = npuprof.tables.build("memory", samples)
    found = blocked({"executable": "python"}, busy=True, memory=memory)["environment"]
    assert (found.state, found.is_risk, found.cost_ns) == ("fires", True, 0)
    assert "`export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True`" in found.action
    with_segments = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
    assert blocked(with_segments, busy=True, memory=memory)["environment"].state == "clean"


def test_variables_that_a_result_does_not_name_are_not_known() -> None:
    found = blocked({"host": "node"})["environment"]
    assert (found.state, found.collect) == ("cannot tell", "collect with npuprof, which records these variables")
    assert blocked({"executable": "python"})["environment"].state == "clean"
    assert factories.advice(factories.profile(30), factories.info())["environment"].state == "clean"  # simulated


def test_a_recording_has_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_LAUNCH_BLOCKING", "1")
    monkeypatch.delenv("ASCEND_GLOBAL_LOG_LEVEL", raising=False)
    told = machine.describe()
    assert told["ASCEND_LAUNCH_BLOCKING"] == "1"
    assert "ASCEND_GLOBAL_LOG_LEVEL" not in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variables"),
    [("text/level1/rank0_ascend_pt", "cannot tell"), ("llm_4ranks/rank_0_ascend_pt", "clean")],
)
def test_real_runs_have_neither(name: str, variables: str, samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu" / name)
    assert isinstance(run, Profile)
    advice = run.advice()
    assert advice["environment"].state == variables
    assert advice["small_comm"].state == ("clean" if "level1" in name else "cannot tell")
    assert advice["small_comm"].cost_ns <= 0.01 * advice.step_ns
