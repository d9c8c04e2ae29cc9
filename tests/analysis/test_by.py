"""Tables of kernels by line, module, operator, kernel and shapes."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof.analysis.by import KEYS, Key, sums
from npuprof.errors import OptionsError
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.analysis.test_launches import training
from tests.sources.kineto.traces import KinetoTrace


def profile(tables: dict[str, pd.DataFrame]) -> Profile:
    return Profile(Decoded(tables, factories.info(rank=3), Notes()))


@pytest.mark.slow
@given(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True), st.integers(0, 40))
def test_tables_by_any_keys_are_of_all_kernels(keys: list[Key], count: int) -> None:
    run = profile(factories.profile(count) if count else factories.all_tables())
    table = run.by(*keys)
    assert list(table.columns[: len(keys)]) == keys
    assert int(table["count"].sum()) == len(run.kernels)
    assert int(table["total_ns"].sum()) == int(run.kernels["duration_ns"].sum())
    assert not table.duplicated(list(keys)).any()
    assert table["total_ns"].is_monotonic_decreasing
    assert not count or table["share"].sum() == pytest.approx(1)
    assert {str(table[name].dtype) for name in ("total_ns", "mean_ns", "median_ns", "p95_ns", "max_ns")} == {"int64"}


@pytest.mark.slow
@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=60))
def test_median_and_p95_are_times_that_occurred_in_integers(durations: list[int]) -> None:
    tables = factories.profile(len(durations))
    tables["kernels"]["duration_ns"] = durations
    (row,) = profile(tables).by("rank").to_dict("records")
    ordered = sorted(durations)
    number = len(ordered)
    assert row["rank"] == 3
    assert row["median_ns"] == (ordered[(number - 1) // 2] + ordered[number // 2]) // 2
    assert row["p95_ns"] == ordered[-(-number * 95 // 100) - 1]
    assert [row["min_ns"], row["max_ns"], row["mean_ns"]] == [ordered[0], ordered[-1], sum(ordered) // number]
    assert row["std_ns"] == pytest.approx(float(np.std(ordered)), abs=1, rel=1e-9)


def test_host_time_is_counted_once_without_lines() -> None:
    table = profile(training()).by("line")
    assert table["line"].tolist()[:1] == ["main.py: train"]
    absent = table[table["line"].isna()]
    assert absent["count"].tolist() == [2]
    assert absent["total_ns"].tolist() == [95]
    # aten::addmm took 180, aten::mm 100; the third kernel has only its call of 20, the last nothing.
    assert table.set_index("line")["host_ns"].tolist() == [280, 20]
    assert table["launch_delay_ns"].tolist() == [80, 50]


def test_without_a_device_operators_are_summed_by_their_own_time() -> None:
    """GIVEN a linear with its product, and the backward of another thread THEN no time of a thread counts twice."""
    run = profile({**training(), **{name: factories.all_tables()[name] for name in ("kernels", "links")}})
    by_op = run.by("op").set_index("op")
    assert by_op["total_ns"].to_dict() == {
        "aten::addmm": 160,
        "aten::mm": 80,
        "AddmmBackward0": 100,
        "aten::linear": 20,
    }
    assert by_op["total_ns"].equals(by_op["host_ns"].astype("int64"))
    lines = run.by("line")
    assert lines["line"].isna().tolist() == [False, True]
    assert "NaN" not in repr(lines[["line"]])
    assert lines["count"].tolist() == [2, 2]
    assert run.by("module")["module"].tolist()[:1] == ["Linear_0"]
    assert run.by("kernel")["kernel"].isna().all()
    assert run.by("rank")["rank"].tolist() == [3]
    assert run.by("op")["launch_delay_ns"].isna().all()


def test_a_wrong_key_lists_those_that_exist() -> None:
    run = profile(training())
    for keys, told in ((["lines"], "'lines'"), ([], "at least one"), (["op", "op"], "twice")):
        with pytest.raises(OptionsError, match=told) as error:
            run.by(*keys)  # type: ignore[arg-type]
        assert told == "twice" or "line, module, op, op_type, kernel, shapes" in str(error.value)
    assert get_args(Key) == KEYS


@pytest.mark.slow
def test_real_backward_pass_lies_under_forward_lines(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu" / "text" / "level1" / "rank0_ascend_pt")
    whole = int(run.kernels["duration_ns"].sum())
    by_line = run.by("line").set_index("line")
    assert whole == 8_873_737 == int(by_line["total_ns"].sum())
    assert int(by_line.loc["main.py:354", "count"]) == 131  # the forward pass and the backward pass of the model
    assert int(by_line.loc["main.py:366", "total_ns"]) == 2_264_945
    operators = run.by("op", "shapes")
    assert "aten::_foreach_add_" in set(operators["op"])
    assert not operators["op"].astype(str).str.startswith("aclnn").any()


@pytest.mark.slow
def test_ranks_of_a_set_are_a_key(samples: Path) -> None:
    runs = npuprof.load_set(samples / "torch_npu" / "llm_4ranks")
    table = runs.by("rank", "op_type")
    sums = table.groupby("rank")["total_ns"].sum()
    assert sums.to_dict() == {rank: int(runs[rank].kernels["duration_ns"].sum()) for rank in (0, 2)}
    assert int(runs.by("kernel")["count"].sum()) == len(runs.kernels)


def test_sums_are_rounded_as_the_page_of_tables_says() -> None:
    """Means and medians are rounded down, the deviation is of the population, and the 95th percentile occurred."""
    times = [*range(1, 40), 1_000]
    rows = pd.DataFrame({"op_type": ["Add"] * 40, "duration_ns": times, "host_ns": pd.array([1] * 40, "Int64")})
    (row,) = sums(rows.assign(launch_delay_ns=pd.array([2] * 40, "Int64")), ["op_type"]).to_dict("records")
    assert row["mean_ns"] == sum(times) // 40 == 44
    assert row["std_ns"] == round(statistics.pstdev(times))
    assert row["std_ns"] != round(statistics.stdev(times))
    assert (row["median_ns"], row["p95_ns"]) == (20, 38)


def test_kernel_before_its_launch_has_no_delay() -> None:
    tables = training()
    tables["kernels"]["start_ns"] -= tables["kernels"]["start_ns"].max()
    delays = profile(tables).launches["launch_delay_ns"]
    assert not (delays.dropna() < 0).any()
    assert delays.isna().any()


def test_names_kernels_of_captured_graphs(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.operator("aten::mm", 0, 20, 1)
    for number, (name, at) in enumerate((("cudaLaunchKernel", 5), ("cudaGraphLaunch", 30), ("cudaLaunchKernel", 60))):
        trace.slice("cuda_runtime", name, at, 5, correlation=number + 1)
        for row in range(2 if "Graph" in name else 1):
            trace.on_gpu("kernel", "gemm", at + 8 + row * 4, 3, 0, stream=7, correlation=number + 1)
    by = npuprof.load(trace.write(tmp_path / "t.pt.trace.json")).by("op")
    assert dict(zip(by["op"].fillna("-"), by["count"], strict=True)) == {"aten::mm": 1, "captured graph": 2, "-": 1}
