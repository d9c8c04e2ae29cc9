"""The figure of memory over time."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from npuprof import tables
from npuprof.figures.memory import memory_plot, thinned
from npuprof.info import Info


@given(hnp.arrays(np.float64, st.integers(1, 400), elements=st.floats(0, 1e12)), st.integers(4, 60))
def test_a_thinned_line_keeps_its_ends_peaks_and_troughs(values: np.ndarray, most: int) -> None:
    points = thinned(values, most)
    assert (np.diff(points) > 0).all()
    assert points[0] == 0
    assert values[points].max() == values.max()
    assert values[points].min() == values.min()
    assert len(points) <= most + 2


def test_each_device_component_and_sampled_size_is_a_line() -> None:
    memory = tables.build(
        "memory",
        {
            "time_ns": pd.array([5, 1_000_000_005], "int64"),
            "device_id": pd.array([0, 0], "Int64"),
            "component": ["PTA", "PTA"],
            "allocated_bytes": pd.array([0, 3 << 20], "Int64"),
        },
    )
    figure = memory_plot({"memory": memory}, Info(simulated=True))
    assert [line.name for line in figure.data] == ["NPU 0 PTA, allocated"]
    assert list(figure.data[0].x) == [0, 1]
    assert list(figure.data[0].y) == [0, 3]
    assert "simulated" in figure.layout.title.text


def test_a_run_without_samples_says_so() -> None:
    figure = memory_plot({"memory": tables.empty("memory")}, Info())
    assert "no memory samples" in figure.layout.annotations[0].text
