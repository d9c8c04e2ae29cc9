"""The roofline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.analysis.chip_limits import ChipLimits, limits_of
from npuprof.figures.embed import saved_bytes
from npuprof.figures.roofline import plot_roofline
from npuprof.tables.info import Info
from tests import factories


def run(count: int = 2, **given: Any) -> dict[str, pd.DataFrame]:
    """Products of 1024 x 1024 matrices of growing height, 100 us each."""
    rows = 1_024 * np.arange(1, count + 1)
    columns = {
        "start_ns": factories.START_NS + np.arange(count),
        "duration_ns": np.full(count, 100_000),
        "device_id": np.zeros(count, np.int64),
        "op_type": ["MatMulV3"] * count,
        "core": ["AI_CORE"] * count,
        "input_shapes": [f"{size},1024;1024,1024" for size in rows],
        "input_dtypes": ["DT_BF16;DT_BF16"] * count,
        "output_shapes": [f"{size},1024" for size in rows],
        "output_dtypes": ["DT_BF16"] * count,
        **given,
    }
    return factories.all_tables(kernels=tables.build("kernels", columns))


def points(figure: Any) -> Any:
    return next(trace for trace in figure.data if trace.mode == "markers")


def test_a_point_is_operations_a_second_over_operations_a_byte() -> None:
    point = points(plot_roofline(run(1), factories.info()))
    flops, moved = 2 * 1_024**3, 3 * 2 * 1_024**2
    assert point.x[0] == pytest.approx(flops / moved)
    assert point.y[0] == pytest.approx(flops / 100e-6)
    assert "from shapes" in point.hovertext[0]
    assert "% of the compute roof" in point.hovertext[0]


def test_roof_is_the_chips() -> None:
    figure = plot_roofline(run(), factories.info(chip="Ascend 910B2"))
    limits = limits_of("Ascend 910B2")
    assert limits is not None
    cube, vector = (trace for trace in figure.data if trace.mode == "lines")
    assert (cube.y[-1], vector.y[-1]) == (limits.cube_flops_per_s, limits.vector_flops_per_s)
    assert cube.y[0] / cube.x[0] == pytest.approx(limits.memory_bytes_per_s)
    assert "CANN" in cube.hovertext[0]
    assert "limits: Ascend 910B2" in figure.layout.title.text


@pytest.mark.parametrize("chip", ["", "Ascend <new>", "Ascend 910B"])
def test_an_unknown_chip_is_said_and_has_no_roof(chip: str) -> None:
    figure = plot_roofline(run(), factories.info(chip=chip))
    assert all(trace.mode in ("markers", "text") for trace in figure.data)
    assert "cannot be told" in figure.layout.title.text
    assert "<new>" not in figure.layout.title.text


def test_limits_can_be_given() -> None:
    figure = plot_roofline(run(), Info(), limits=ChipLimits("mine", 1e12, 1e11, 1e12, "a data sheet"))
    assert max(max(trace.y) for trace in figure.data if trace.mode == "lines") == 1e12


def test_counted_points_are_full_and_estimated_ones_hollow() -> None:
    counted = {"aic_cube_fops": [1e9, 0.0], "aic_read_main_memory_kb": [1e3, 0.0]}
    point = points(plot_roofline(run(2, **counted), Info()))
    assert list(point.marker.symbol) == ["circle", "circle-open"]
    assert point.x[0] == pytest.approx(1e9 / 1_024e3)


@pytest.mark.slow
def test_kernels_with_most_time_are_drawn() -> None:
    figure = plot_roofline(run(3_000), Info(), max_points=200)
    assert len(points(figure).x) == 200
    assert "200 kinds of kernels with 6.7 % of the time of all kernels" in figure.layout.title.text
    assert saved_bytes(figure) < 300_000


def test_kernels_without_operations_have_no_place() -> None:
    figure = plot_roofline(run(2, op_type=["TransData", "Mystery"]), Info())
    assert not figure.data
    assert "--aic-metrics" in figure.layout.annotations[0].text
