"""Figures of real results, held against what their files say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuprof.analysis.step_parts import step_parts
from npuprof.figures.embed import saved_bytes
from npuprof.profiles import Profile, load

_TEXT = "torch_npu/text/level1/rank0_ascend_pt"
_RUNS = (_TEXT, "torch_npu/db/level1/rank1_ascend_pt", "torch_npu/llm_pp2dp2/rank_0_ascend_pt", "raw/everything")
_METHODS = (
    *("memory_plot", "communication_matrix", "communication_plot", "step_plot", "counters_plot", "roofline"),
    *("timeline", "flamegraph"),
)


@pytest.fixture(scope="module", params=_RUNS)
def run(request: pytest.FixtureRequest, samples: Path) -> Profile:
    return load(samples / request.param)


@pytest.mark.parametrize("method", _METHODS)
def test_every_figure_can_be_drawn_and_is_of_bounded_size(run: Profile, method: str) -> None:
    figure = getattr(run, method)()
    assert figure.data or figure.layout.annotations[0].text
    assert saved_bytes(figure) < 1_000_000


def test_the_steps_are_as_long_as_the_vendor_says(samples: Path) -> None:
    run = load(samples / _TEXT)
    parts = step_parts(run.tables)
    # The vendor's stage is a sum of floating-point microseconds, and rounded to a quarter of one.
    assert parts["total_ns"].to_numpy() == pytest.approx(run.step_times["stage_ns"].to_numpy(np.int64), abs=1_000)


def test_the_star_is_at_the_highest_allocation(samples: Path) -> None:
    run = load(samples / _TEXT)
    stars = {trace.name: trace.y[0] for trace in run.memory_plot().data if trace.name.endswith(", peak")}
    peaks = run.summary.memory_peaks.set_index("component")["allocated_bytes"]
    assert stars["NPU 0 PTA, peak"] == peaks["PTA"] / 2**20


def test_the_bars_have_the_time_of_all_collectives(samples: Path) -> None:
    run = load(samples / _TEXT)
    bars = [trace for trace in run.communication_plot().data if trace.type == "bar"]
    assert sum(bar.x.sum() for bar in bars) == pytest.approx(run.communication["duration_ns"].sum() / 1e6)
    assert {trace.name for trace in run.communication_plot().data if trace.type == "scatter"} == {"HCCS", "ON_CHIP"}
