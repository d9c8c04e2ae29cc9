"""How steps differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.analysis.accounting import PARTS
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories


def run_of(durations: list[int], *, computing: int = 400) -> Profile:
    """Return a run of steps one after the other, each with a kernel of `computing` at its start."""
    length = np.array(durations, np.int64)
    start = factories.START_NS + np.cumsum(length) - length
    zeros = np.zeros(len(length), np.int64)
    steps = tables.build("steps", {"step": np.arange(len(length)) + 7, "start_ns": start, "duration_ns": length})
    kernels = tables.build(
        "kernels",
        {
            "start_ns": start,
            "duration_ns": np.full(len(length), computing),
            "device_id": zeros,
            "name": factories.names(["k"], zeros),
        },
    )
    return Profile(Decoded(factories.all_tables(steps=steps, kernels=kernels), factories.info(rank=2), Notes()))


def test_many_steps_have_a_median_and_outliers_by_number() -> None:
    durations = [1_000 + number % 5 for number in range(200)]
    durations[0], durations[50], durations[60] = 9_000, 1_500, 500
    table = run_of(durations).step_statistics().set_index("part")
    whole = table.loc["step"]
    figures = ["rank", "device_id", "steps", "median_ns", "p95_ns", "max_ns"]
    assert whole[figures].tolist() == [2, 0, 198, 1_002, 1_004, 1_500]  # neither the first nor the last, which is open
    assert whole["outliers"] == "67, 57"  # the farthest first: 502 and 498 away
    assert table.loc["computing", ["median_ns", "outliers"]].tolist() == [400, ""]
    assert set(table.index) <= {"step", *PARTS}


@pytest.mark.slow
def test_equal_steps_have_no_outliers() -> None:
    table = run_of([1_000] * 4).step_statistics().set_index("part")
    assert int(table.loc["step", "median_ns"]) == int(table.drop("step")["median_ns"].sum()) == 1_000
    assert (run_of([1_000] * 4 + [9_000]).step_statistics()["max_ns"] <= 1_000).all()  # the last step is open
    assert (run_of([1_000, 1_000, 9_000]).step_statistics()["outliers"] == "").all()


@pytest.mark.slow
def test_a_run_without_steps_is_one() -> None:
    """A server has requests and no steps, and a captured graph launches kernels without a call for each."""
    run = factories.profile(30)
    for name in ("steps", "links", "api", "operators", "python"):
        run[name] = tables.empty(name)
    serving = Profile(Decoded(run, factories.info(), Notes()))
    table = serving.step_statistics().set_index("part")
    assert table["steps"].tolist() == [1] * len(table)
    assert (table["outliers"] == "").all()
    by_line = serving.by("line", "op")
    assert by_line["count"].tolist() == [30]
    assert by_line[["line", "op", "host_ns", "launch_delay_ns"]].isna().all(axis=None)
    assert not len(Profile(Decoded()).step_statistics())


@pytest.mark.slow
def test_the_steps_of_real_ranks(samples: Path) -> None:
    table = npuprof.load(samples / "torch_npu" / "text" / "level1" / "rank0_ascend_pt").step_statistics()
    told = pd.Series(table["median_ns"].to_numpy(), index=table["part"].astype(str))
    assert told["step"] == told.drop("step").sum()
    assert round(told["computing"] / 1e6, 3) == 8.874
