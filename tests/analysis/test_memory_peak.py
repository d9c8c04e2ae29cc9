"""Owners of the memory at its peak, and memory that grows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.analysis.correlation import Causes, causes
from npuprof.analysis.memory_peak import leaked_blocks, memory_leaks, memory_peak
from tests import factories
from tests.analysis.test_launches import training

_GIB = 2**30


def blocks(*rows: tuple[str, int, int | None, int | None]) -> pd.DataFrame:
    names, sizes, begun, ended = zip(*rows, strict=True)
    return tables.build(
        "allocations",
        {
            "name": list(names),
            "size_bytes": np.array(sizes),
            "allocated_ns": pd.array(begun, "Int64"),
            "released_ns": pd.array(ended, "Int64"),
            "device_id": np.zeros(len(rows), np.int64),
        },
    )


def steps(count: int) -> pd.DataFrame:
    at = np.arange(count, dtype=np.int64) * 100
    return tables.build("steps", {"step": at // 100, "start_ns": at, "duration_ns": np.full(count, 100)})


def sample(time_ns: int, allocated: int) -> pd.DataFrame:
    columns: dict[str, Any] = {"time_ns": [time_ns], "device_id": [0], "component": ["PTA"]}
    return tables.build("memory", {**columns, "allocated_bytes": [allocated], "reserved_bytes": [allocated]})


def test_optimizer_memory_and_host_memory_have_owners() -> None:
    run = training()
    run["marks"] = tables.build(
        "marks",
        {
            "message": ["Optimizer.step#SGD.step"] * 2,
            "start_ns": np.array([590, 35]),
            "duration_ns": np.array([100, 300]),
            "thread_id": np.array([3, 9]),  # the other is on another thread than the linear
        },
    )
    run["allocations"] = blocks(("aten::addmm", 40, 100, None), ("AddmmBackward0", 30, 610, None)).assign(
        device_id=pd.array([None, None], "Int64"), component=pd.Categorical(["CPU"] * 2)
    )
    owners = memory_peak(run).set_index("op", drop=False)
    assert owners["category"].to_dict() == {"aten::linear": "forward", "AddmmBackward0": "optimizer"}
    assert owners["device_id"].isna().all()
    assert owners["size_bytes"].to_dict() == {"aten::linear": 40, "AddmmBackward0": 30}


@pytest.mark.slow
def test_owners_have_line_operator_and_history() -> None:
    run = training()
    run["allocations"] = blocks(("aten::addmm", 40, 100, None), ("aten::mm", 30, 650, None), ("old", 7, None, 900))
    run["memory"] = sample(700, 100)
    owners = memory_peak(run).set_index("op", drop=False)
    assert owners.loc["aten::linear", ["category", "line", "size_bytes"]].tolist() == ["forward", "main.py: train", 40]
    assert owners.loc["aten::mm", ["category", "line", "size_bytes"]].tolist() == ["backward", "main.py: train", 30]
    before = owners[owners["category"] == "allocated before this run"]
    assert sorted(before["size_bytes"]) == [7, 23]
    assert int(owners["size_bytes"].sum()) == 100


def test_runtime_allocations_belong_to_the_operator() -> None:
    operators = tables.build(
        "operators",
        {
            "start_ns": np.array([100, 200]),
            "duration_ns": np.array([100, 100]),
            "name": ["np.matmul", "np.tanh"],
            "thread_id": np.array([1, 1]),
            "kind": ["op", "op"],
            "stack": ["a.py(3): train", "a.py(4): train"],
            "id": np.array([0, 1]),
        },
    )
    run = factories.all_tables(
        operators=operators, allocations=blocks(("aclrtMalloc", 4, 100, None), ("aclrtMalloc", 3, 200, None))
    )
    owners = memory_peak(run)
    assert owners[["op", "line", "size_bytes"]].to_numpy().tolist() == [
        ["np.matmul", "a.py:3", 4],
        ["np.tanh", "a.py:4", 3],
    ]
    run["operators"] = operators.assign(thread_id=[1, 2])
    assert set(memory_peak(run)["op"]) == {"aclrtMalloc"}


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(1, 1 << 40), st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=30),
    st.booleans(),
)
def test_owners_add_up_to_the_peak(lives: list[tuple[int, int, int]], sampled: bool) -> None:
    run = factories.all_tables(allocations=blocks(*((f"op{s % 3}", s, at, at + d) for s, at, d in lives)))
    alive = {t: sum(s for s, at, d in lives if at <= t < at + d) for _, t, _ in lives}
    moment, peak = max(alive.items(), key=lambda one: one[1])
    if sampled:
        run["memory"] = sample(moment, peak + 5)
    owners = memory_peak(run)
    assert int(owners["size_bytes"].sum()) == peak + 5 * sampled
    assert owners["share"].sum() == pytest.approx(1)


def test_a_run_without_memory_has_no_owners_and_unknown_leaks() -> None:
    assert not len(memory_peak(factories.all_tables()))
    assert memory_leaks(factories.all_tables()).attrs["state"] == "cannot tell"


@pytest.mark.slow
def test_leak_needs_three_rising_steps() -> None:
    leak = [("leak", 10, 100 * step + 5, None) for step in range(4)]
    gradients = [("grad", 50, 100 * step + 6, 100 * step + 106 if step < 3 else None) for step in range(4)]
    run = factories.all_tables(steps=steps(4), allocations=blocks(*leak, *gradients, ("state", 99, 20, None)))
    leaks = memory_leaks(run)
    assert leaks[["op", "steps", "growth_bytes", "bytes_per_step"]].values.tolist() == [["leak", 4, 30, 10]]
    assert leaks.attrs["state"] == "fires"
    assert leaked_blocks(run)["allocated_ns"].tolist() == [5, 105, 205, 305]
    clean = factories.all_tables(steps=steps(4), allocations=blocks(*gradients))
    assert memory_leaks(clean).attrs["state"] == "clean"
    few = memory_leaks(factories.all_tables(steps=steps(2), allocations=blocks(*leak[:2])))
    assert [few.attrs["state"], "2 steps" in few.attrs["why"], len(few)] == ["cannot tell", True, 0]


def test_a_floor_that_grew_once_and_stays_is_no_leak() -> None:
    grown = blocks(("cache", 10, 5, None), ("cache", 10, 105, None), ("cache", 10, 205, None))
    assert not len(memory_leaks(factories.all_tables(steps=steps(5), allocations=grown)))


@pytest.mark.slow
def test_the_peaks_of_real_runs(samples: Path) -> None:
    whole = npuprof.load(samples / "torch_npu" / "llm_4ranks" / "rank_0_ascend_pt").memory_peak()
    before = whole[whole["category"] == "allocated before this run"]["size_bytes"].sum()
    assert [round(before / _GIB, 2), round(whole["size_bytes"].sum() / _GIB, 2)] == [4.2, 10.04]
    run = npuprof.load(samples / "torch_npu" / "text" / "level1" / "rank0_ascend_pt")
    owners = run.memory_peak().set_index(["line", "op", "module"])["size_bytes"]
    assert owners["main.py:354", "aten::mm", "Linear_0"] == 150_995_456
    assert owners.xs("main.py:366").sum() == 245_275_136  # the optimizer's step
    assert run.memory_leaks().attrs["state"] == "cannot tell"


@pytest.mark.slow
def test_without_allocations_the_causes_of_a_run_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(tables: Mapping[str, pd.DataFrame]) -> Causes:
        asked.append(len(tables["operators"]))
        return causes(tables)

    monkeypatch.setattr("npuprof.analysis.memory_peak.causes", counted)
    run = factories.profile(20)
    peak = memory_peak(run)
    assert max(asked) == 0
    assert peak["size_bytes"].sum() == run["memory"]["allocated_bytes"].max()
