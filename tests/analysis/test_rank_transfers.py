"""How long the transfers of collectives took."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof.analysis.rank_transfers import moved_ns
from tests import factories
from tests.analysis.test_accounting import table


def test_the_plane_with_the_longest_transfers_counts_and_no_wait() -> None:
    communication = table("communication", [(100, 900), (0, 50), (2_000, 80)]).assign(
        group=pd.Categorical(["g", "g", None])
    )
    tasks = table("communication_tasks", [(0, 30), (0, 40), (0, 60), (0, 500), (0, 9)]).assign(
        op_id=pd.array([0, 0, 0, 0, 2], "Int64"),
        plane_id=pd.array([0, 0, 1, 1, 0], "Int64"),
        task_type=pd.Categorical(["Memcpy", "Reduce_Inline", "RDMASend", "Notify_Wait", "Memcpy"]),
    )
    run = factories.all_tables(communication=communication, communication_tasks=tasks)
    assert moved_ns(run, {}).tolist() == [0, 70]  # by start, in groups


def test_without_tasks_the_vendor_counts_the_transfers_of_each_link() -> None:
    communication = table("communication", [(100, 900), (0, 50)]).assign(
        group=pd.Categorical(["g", "g"]), name=pd.Categorical(["b", "a"])
    )
    where = {"step": ["1", "1"], "kind": ["collective"] * 2, "name": ["a", "b"], "group": ["g", "g"]}
    operators = pd.DataFrame({**where, "start_ns": pd.array([0, 100], "Int64")})
    links = pd.DataFrame(
        {**{key: 2 * values for key, values in where.items()}, "Transit Time(ms)": [1e-5, 2e-4, 3e-5, None]}
    )
    run = factories.all_tables(communication=communication)
    assert moved_ns(run, {"communication": operators, "communication_bandwidth": links}).tolist() == [30, 200]
    assert moved_ns(factories.all_tables(), {}).tolist() == []
    assert moved_ns(factories.all_tables(communication=communication), {"communication": operators}).tolist() == [0, 0]


@pytest.mark.slow
def test_real_transfers_take_nearly_the_moving_time(samples: Path) -> None:
    runs = npuprof.load_set(samples / "torch_npu/llm_4ranks")
    run = runs[0]
    moved = moved_ns(run.tables, run.statistics)
    waits = runs.waits()
    moving = waits[(waits["rank"] == 0).to_numpy(bool)].sort_values("start_ns")["moving_ns"].to_numpy(np.int64)
    assert (moved <= moving + 1_000).all()
    assert moved.sum() > 0.8 * moving.sum()
