"""The figure of memory over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.figures.embed import saved_bytes
from npuprof.figures.memory import plot_memory
from npuprof.tables.info import Info
from tests import factories


def memory(rows: Sequence[tuple[int, int | None, str, int | None, int | None]]) -> pd.DataFrame:
    time, device, component, allocated, reserved = zip(*rows, strict=True)
    return tables.build(
        "memory",
        {
            "time_ns": pd.array(time, "int64"),
            "device_id": pd.array(device, "Int64"),
            "component": list(component),
            "allocated_bytes": pd.array(allocated, "Int64"),
            "reserved_bytes": pd.array(reserved, "Int64"),
        },
    )


def drawn(figure: Any) -> dict[str, Any]:
    return {line.name: line for line in figure.data}


def test_each_device_component_and_sampled_size_is_a_line() -> None:
    samples = memory([(5, 0, "PTA", 0, None), (1_000_000_005, 0, "PTA", 3 << 20, None)])
    figure = plot_memory(factories.all_tables(memory=samples), Info(simulated=True))
    assert [name for name in drawn(figure) if "peak" not in name] == ["device 0 PTA, allocated"]
    assert list(figure.data[0].x) == [0, 1_000]
    assert list(figure.data[0].y) == [0, 3]
    assert figure.layout.xaxis.ticksuffix == " ms"
    assert "simulated" in figure.layout.title.text


@pytest.mark.slow
def test_fragmentation_is_what_was_reserved_and_not_allocated() -> None:
    samples = memory([(0, 0, "PTA", 1 << 20, 4 << 20), (9, 0, "PTA", None, 4 << 20), (10, 0, "PTA", 3 << 20, 4 << 20)])
    line = drawn(plot_memory(factories.all_tables(memory=samples), Info()))["device 0 PTA, reserved − allocated"]
    assert list(line.y) == [3, 1]


def test_the_peak_names_the_operators_that_were_alive() -> None:
    samples = memory([(0, 0, "PTA", 1, None), (10, 0, "PTA", 5 << 20, None), (20, 0, "PTA", 2, None)])
    blocks = tables.build(
        "allocations",
        {
            "name": ["aten::<big>", "before", "after", "aten::<big>"],
            "size_bytes": np.array([3 << 20, 7, 9, 1 << 20]),
            "allocated_ns": pd.array([5, 1, 15, 6], "Int64"),
            "released_ns": pd.array([12, 8, None, None], "Int64"),
            "device_id": pd.array([0, 0, 0, 0], "Int64"),
        },
    )
    figure = plot_memory(factories.all_tables(memory=samples, allocations=blocks), Info())
    (told,) = drawn(figure)["device 0 PTA, peak"].hovertext
    assert "peak 5.00 MiB" in told
    assert "aten::&lt;big&gt;: 4.00 MiB in 2" in told
    assert "before" not in told
    assert "after" not in told
    assert "leaked, total" not in drawn(figure)


@pytest.mark.slow
def test_memory_that_grows_from_step_to_step_is_a_line() -> None:
    at = np.arange(4, dtype=np.int64) * 100
    run = factories.profile(20)
    run["steps"] = tables.build("steps", {"step": at // 100, "start_ns": at, "duration_ns": np.full(4, 100)})
    run["allocations"] = tables.build(
        "allocations",
        {
            "name": ["aten::empty"] * 4,
            "size_bytes": np.full(4, 1 << 20),
            "allocated_ns": at + 5,
            "released_ns": pd.array([None] * 4, "Int64"),
            "device_id": np.zeros(4, np.int64),
        },
    )
    assert list(drawn(plot_memory(run, Info()))["leaked, total"].y) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.slow
def test_a_peak_without_allocations_says_that_they_are_not_known() -> None:
    figure = plot_memory(factories.profile(20), factories.info())
    assert "not known" in drawn(figure)["device 0 PTA, peak"].hovertext[0]


@pytest.mark.slow
def test_many_components_and_samples_stay_small() -> None:
    names = [f"MODULE{number} (module)" for number in range(200)] + ["PTA"]
    rows = [(time, 0, name, time % 977, 1_000) for name in names for time in range(0, 200, 10)]
    rows += [(time, 0, "GE", time % 977, 1_000) for time in range(20_000)]
    figure = plot_memory(factories.all_tables(memory=memory(rows)), Info())
    assert saved_bytes(figure) < 300_000
    assert "the 6 largest of 202 components" in figure.layout.title.text
    assert drawn(figure)["device 0 PTA, allocated"].visible is None
    assert {line.visible for line in figure.data if "module" in line.name} == {"legendonly"}
    assert max(drawn(figure)["device 0 GE, allocated"].y) == 976 / 2**20


def test_a_run_without_samples_says_what_to_collect() -> None:
    figure = plot_memory(factories.all_tables(), Info())
    assert not figure.data
    assert "collect with --memory" in figure.layout.annotations[0].text


@pytest.mark.slow
def test_device_memory_does_not_flatten_allocators() -> None:
    rows = [
        (0, 0, "Device", None, 9 << 30),
        (5, 0, "Device", None, 9 << 30),
        (0, 0, "GE", 1 << 20, 2 << 20),
    ]
    both = drawn(plot_memory(factories.all_tables(memory=memory(rows)), Info()))
    assert both["device 0 Device, reserved"].visible == "legendonly"
    assert both["device 0 GE, allocated"].visible is None
    alone = drawn(plot_memory(factories.all_tables(memory=memory(rows[:2])), Info()))
    assert alone["device 0 Device, reserved"].visible is None
