"""One kernel in detail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.errors import NpuprofError
from npuprof.figures.kernel_detail import kernel_detail
from npuprof.info import Info
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


def test_each_pipe_is_a_bar_in_the_order_of_the_pipes() -> None:
    pipes = {"aic_mte2_ratio": 0.5, "aic_mac_ratio": 0.25, "aic_fixpipe_ratio": 0.125, "aiv_vec_ratio": 0.75}
    figure = kernel_detail(run(**pipes, aic_mac_time_ns=1_250), factories.info(), 0)
    cube, vector = figure.data
    assert list(cube.x) == [25.0, 50.0, 12.5]
    assert [place.partition(" ")[0] for place in cube.y] == ["mac", "mte2", "fixpipe"]
    assert list(vector.x) == [75.0]
    assert "1.25 µs" in cube.hovertext[0]
    assert "&lt;i&gt;MatMul" in figure.layout.title.text
    assert "simulated" in figure.layout.title.text


def test_a_core_that_took_no_part_has_no_bars() -> None:
    figure = kernel_detail(run(aic_mac_ratio=0.5, aiv_vec_ratio=0.0, aiv_total_cycles=0), Info(), 0)
    assert [bar.name for bar in figure.data] == ["cube core"]


def test_other_metrics_are_shown_where_there_are_no_pipes() -> None:
    figure = kernel_detail(run(aic_mac_fp16_ratio=0.5, aic_mac_int8_ratio=float("nan")), Info(), 0)
    assert list(figure.data[0].y) == ["mac_fp16"]


def test_a_kernel_without_counters_says_what_to_collect() -> None:
    figure = kernel_detail(factories.profile(20), Info(), 3)
    assert not figure.data
    assert "PipeUtilization" in figure.layout.annotations[0].text
    assert "LayerNormV4" in figure.layout.annotations[0].text


@pytest.mark.parametrize("row", [-1, 20])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    with pytest.raises(NpuprofError, match=f"there is no kernel {row}: run.kernels has 20 rows"):
        kernel_detail(factories.profile(20), Info(), row)
