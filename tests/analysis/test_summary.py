from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.analysis.step_windows import run_window
from npuprof.analysis.summary import bound_by, summarise
from npuprof.arrays import Int64
from npuprof.report.facts import tables_of
from npuprof.tables.info import Info
from tests import factories


@pytest.mark.slow
def test_the_parts_of_a_devices_time_add_up_to_its_span() -> None:
    summary = summarise(factories.profile(100), factories.info())

    (device,) = summary.devices
    assert sum(device.parts.values()) == device.span_ns
    assert device.where == "1 step"
    assert summary.step_ns == device.span_ns


@pytest.mark.slow
def test_every_device_has_its_own_times() -> None:
    kernels = _kernels(np.array([5, 7, 9]))
    kernels["device_id"] = [3, 3, 1]

    devices = summarise(factories.all_tables(kernels=kernels), Info()).devices

    assert [(each.device_id, each.parts["computing"]) for each in devices] == [(1, 9), (3, 8)]
    assert {each.where for each in devices} == {"the run, which has no steps"}


def test_lacking_data_is_absent_and_not_zero() -> None:
    summary = summarise(factories.all_tables(), Info())

    assert summary.wall_ns is None
    assert summary.step_ns is None
    assert summary.devices == ()
    assert set(summary.counts.values()) == {None}
    for frame in (summary.top_ops, summary.longest_kernels, summary.top_api, summary.memory_peaks):
        assert frame.empty


@pytest.mark.slow
def test_wall_time_is_the_collections() -> None:
    run = factories.profile(10)

    assert summarise(run, Info(started_ns=5, stopped_ns=12)).wall_ns == 7
    first, last = run_window(run) or (0, 0)
    assert summarise(run, Info(started_ns=5)).wall_ns == last - first
    assert first == factories.START_NS - 1_000


@pytest.mark.slow
def test_top_ops_sum_all_launches_of_a_kernel() -> None:
    run = factories.profile(1_000)
    kernels = run["kernels"]

    top = summarise(run, Info()).top_ops

    assert list(top.columns) == ["name", "op_type", "count", "total_ns", "mean_ns", "max_ns", "share"]
    assert top["name"].iloc[0] == "MatMulV3_ND_FP16"
    assert top["count"].sum() == 1_000
    assert top["total_ns"].sum() == kernels["duration_ns"].sum()
    assert top["total_ns"].is_monotonic_decreasing
    assert abs(top["share"].sum() - 1) < 1e-12


def test_sums_stay_exact_where_a_float_would_not() -> None:
    duration = 2**53 + 1
    kernels = _kernels(np.array([duration, 2]))

    top = summarise(factories.all_tables(kernels=kernels), Info()).top_ops

    assert top["total_ns"].tolist() == [duration + 2]
    assert top["max_ns"].tolist() == [duration]


def test_kernels_without_name_or_type_are_counted() -> None:
    kernels = _kernels(np.array([1, 2]), name=None)

    top = summarise(factories.all_tables(kernels=kernels), Info()).top_ops

    assert top["count"].tolist() == [2]
    assert top["name"].isna().all()


@pytest.mark.slow
def test_longest_kernel_of_each_shape_is_listed() -> None:
    kernels = _kernels(np.array([5, 9, 1, 9, 7, 3, 2]))
    kernels["input_shapes"] = pd.Categorical(["4,4", "8,8", "4,4", "8,8", "4,4", None, None])

    longest = summarise(factories.all_tables(kernels=kernels), Info()).longest_kernels

    assert longest["row"].tolist() == [1, 4, 5]
    assert longest["duration_ns"].tolist() == [9, 7, 3]
    assert longest["count"].tolist() == [2, 3, 2]
    assert longest["total_ns"].tolist() == [18, 13, 5]
    assert longest["bound"].tolist() == ["", "", ""]


@pytest.mark.parametrize(
    ("counters", "told"),
    [
        ({"aic_mac_ratio": 0.2, "aiv_mte2_ratio": 0.5, "aic_mac_time_ns": 99.0}, "mte2 50 %"),
        ({"aic_mac_fp16_ratio": 0.3, "aiv_vec_fp32_ratio": 0.75, "aic_cube_fops": 1e9}, "vec fp32 75 %"),
        ({"aiv_vec_bankgroup_cflt_ratio": 0.02}, "vec bankgroup cflt 2 %"),
        ({"aic_main_mem_read_bw_gb_s": 12.5, "aiv_ub_read_bw_gb_s": 3.0}, "main mem read 12.5 GB/s"),
        (
            {"aic_write_cache_hit": 60.0, "aic_r0_read_cache_hit": 20.0, "aic_r0_read_cache_miss_allocate": 20.0},
            "L2 hits 80 %",
        ),
        (
            {"aic_read_local_l2_hit": 1.0, "aic_read_local_l2_miss": 3.0, "aic_read_local_l2_victim": 9.0},
            "L2 hits 25 %",
        ),
        ({"aic_gm_to_l1_kb": 2048.0, "aic_l0c_to_gm_kb": 512.0}, "gm to l1 2.00 MiB"),
        ({"mac_ratio": 0.2, "vec_ratio": 0.4, "icache_miss_ratio": 0.9, "vec_time_ns": 5.0}, "vec 40 %"),
        ({"aic_mac_ratio": 0.0, "aic_total_cycles": 9.0, "aic_icache_miss_rate": 0.5}, ""),
    ],
)
def test_metrics_say_what_bounds_a_kernel(counters: dict[str, float], told: str) -> None:
    assert bound_by(pd.Series({"duration_ns": 9, "name": "a", **counters})) == told


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first"), [("ArithmeticUtilization", "mac fp16 "), ("Memory", "l1 read ")])
def test_metrics_that_a_real_run_was_recorded_with_are_shown(name: str, first: str, samples: Path) -> None:
    run = npuprof.load(samples / "msprof" / "aic_metrics" / f"PROF_{name}")
    (longest,) = [grid for grid in tables_of(run.summary) if "longest" in grid.title]
    assert longest.headings[3] == "counters"
    assert any(row[3].startswith(first) for row in longest.rows)


@pytest.mark.slow
def test_what_bounds_a_kernel_is_its_busiest_pipe() -> None:
    kernels = _kernels(np.array([5, 9])).assign(aic_mac_ratio=[0.2, np.nan], aiv_mte2_ratio=[0.5, np.nan])
    kernels["name"] = pd.Categorical(["a", "b"])
    run = factories.all_tables(kernels=kernels)

    assert summarise(run, Info()).longest_kernels["bound"].tolist() == ["", "mte2 50 %"]
    (longest,) = [grid for grid in tables_of(summarise(run, Info())) if "longest" in grid.title]
    assert longest.headings[3] == "busiest pipe"
    assert [row[3] for row in longest.rows] == ["–", "mte2 50 %"]


def test_memory_peak_is_the_first_highest() -> None:
    memory = tables.build(
        "memory",
        {
            "time_ns": np.array([1, 2, 3, 4]),
            "device_id": np.array([0, 0, 0, 1]),
            "component": ["PTA", "PTA", "PTA", "PTA"],
            "allocated_bytes": pd.array([10, 30, 30, None], dtype="Int64"),
        },
    )

    peaks = summarise(factories.all_tables(memory=memory), Info()).memory_peaks

    assert peaks[["device_id", "time_ns", "allocated_bytes"]].to_numpy().tolist() == [[0, 2, 30]]


def _kernels(duration_ns: Int64, name: str | None = "Add") -> pd.DataFrame:
    zeros = np.zeros(len(duration_ns), np.int64)
    return tables.build(
        "kernels",
        {
            "start_ns": np.arange(len(duration_ns)),
            "duration_ns": duration_ns,
            "device_id": zeros,
            "stream_id": zeros,
            "task_id": zeros,
            "batch_id": zeros,
            "name": None if name is None else factories.names([name], zeros),
        },
    )
