"""One kernel in detail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.analysis.chip_limits import ChipLimits
from npuprof.errors import NpuprofError
from npuprof.figures.kernel_detail import plot_kernel
from npuprof.tables.info import Info
from tests import factories


def run(**columns: Any) -> dict[str, pd.DataFrame]:
    kernel = {
        "start_ns": np.array([factories.START_NS]),
        "duration_ns": np.array([5_000]),
        "device_id": np.array([0]),
        "name": ["<i>MatMul</i>"],
        "op_type": ["MatMulV3"],
        **{name: [value] for name, value in columns.items()},
    }
    return factories.all_tables(kernels=tables.build("kernels", kernel))


@pytest.mark.slow
def test_each_pipe_is_a_bar_in_the_order_of_the_pipes() -> None:
    pipes = {"aic_mte2_ratio": 0.5, "aic_mac_ratio": 0.25, "aic_fixpipe_ratio": 0.125, "aiv_vec_ratio": 0.75}
    figure = plot_kernel(run(**pipes, aic_mac_time_ns=1_250), factories.info(), 0)
    cube, vector = figure.data
    assert list(cube.x) == [25.0, 50.0, 12.5]
    assert [place.partition(" ")[0] for place in cube.y] == ["mac", "mte2", "fixpipe"]
    assert list(vector.x) == [75.0]
    assert "1.25 µs" in cube.hovertext[0]
    assert "&lt;i&gt;MatMul" in figure.layout.title.text
    assert "simulated" in figure.layout.title.text


@pytest.mark.slow
def test_its_place_on_the_roofline_is_below_where_shapes_allow() -> None:
    product = {
        "input_shapes": "32,64;64,128",
        "input_dtypes": "FLOAT16;FLOAT16",
        "input_formats": "ND;ND",
        "output_shapes": "32,128",
        "output_dtypes": "FLOAT16",
    }
    flops, moved = 2 * 32 * 64 * 128, 2 * (32 * 64 + 64 * 128 + 32 * 128)
    limits = ChipLimits("a chip", 1e14, 1e13, 1e12, "a test")
    figure = plot_kernel(run(aic_mac_ratio=0.25, **product), Info(), 0, limits=limits)
    bars, cube, vector, point, _ = figure.data
    assert (bars.yaxis, point.yaxis) == ("y", "y2")
    assert list(bars.x) == [25.0]
    assert (point.x[0], point.y[0]) == (pytest.approx(flops / moved), pytest.approx(flops / 5e-6))
    assert (max(cube.y), max(vector.y)) == (1e14, 1e13)
    assert figure.layout.xaxis2.type == figure.layout.yaxis2.type == "log"
    # A chip whose limits are not known: the point alone.
    assert len(plot_kernel(run(aic_mac_ratio=0.25, **product), Info(), 0).data) == 2


def test_without_operations_there_are_the_bars_alone() -> None:
    figure = plot_kernel(run(aic_mac_ratio=0.25), factories.info(), 0)
    assert [trace.type for trace in figure.data] == ["bar"]
    assert not list(figure.select_yaxes(row=2))


def test_a_core_that_took_no_part_has_no_bars() -> None:
    figure = plot_kernel(run(aic_mac_ratio=0.5, aiv_vec_ratio=0.0, aiv_total_cycles=0), Info(), 0)
    assert [bar.name for bar in figure.data] == ["cube core"]


def test_other_metrics_are_shown_where_there_are_no_pipes() -> None:
    figure = plot_kernel(run(aic_mac_fp16_ratio=0.5, aic_mac_int8_ratio=float("nan")), Info(), 0)
    assert list(figure.data[0].y) == ["mac_fp16"]


def test_single_core_chip_has_plain_counter_names() -> None:
    figure = plot_kernel(run(mac_ratio=0.5, mte2_ratio=0.25, icache_miss_ratio=0.1, mac_time_ns=2_500), Info(), 0)
    (core,) = figure.data
    assert core.name == "AI core"
    assert [place.partition(" ")[0] for place in core.y] == ["mac", "mte2"]
    assert list(core.x) == [50.0, 25.0]
    assert "2.50 µs" in core.hovertext[0]
    idle = plot_kernel(run(mac_ratio=0.0, total_cycles=0), Info(), 0)
    assert not idle.data


def test_a_kernel_without_counters_says_what_to_collect() -> None:
    figure = plot_kernel(factories.profile(20), Info(), 3)
    assert not figure.data
    assert "PipeUtilization" in figure.layout.annotations[0].text
    assert "LayerNormV4" in figure.layout.annotations[0].text


@pytest.mark.parametrize("row", [-1, 20])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    with pytest.raises(NpuprofError, match=f"there is no kernel {row}: run.kernels has 20 rows"):
        plot_kernel(factories.profile(20), Info(), row)
