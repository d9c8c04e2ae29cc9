"""Figures of real results, held against what their files say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuprof.figures.embed import saved_bytes
from npuprof.loading import load, open_path
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet

_TEXT = "torch_npu/text/level1/rank0_ascend_pt"
_RUNS = (_TEXT, "torch_npu/db/level1/rank1_ascend_pt", "torch_npu/llm_pp2dp2/rank_0_ascend_pt", "raw/everything")
_METHODS = (
    *("plot_memory", "plot_communication_matrix", "plot_communication", "plot_steps", "plot_counters", "plot_roofline"),
    *("timeline", "flamegraph"),
)


@pytest.fixture(scope="module", params=_RUNS)
def run(request: pytest.FixtureRequest, samples: Path) -> Profile:
    return load(samples / request.param)


@pytest.mark.long
@pytest.mark.parametrize("method", _METHODS)
def test_every_figure_can_be_drawn_and_is_of_bounded_size(run: Profile, method: str) -> None:
    figure = getattr(run, method)()
    assert figure.data or figure.layout.annotations[0].text
    assert saved_bytes(figure) < 1_000_000


@pytest.mark.slow
def test_the_steps_are_as_long_as_the_vendor_says(samples: Path) -> None:
    run = load(samples / _TEXT)
    parts = run.accounting.by_part()
    # The vendor's step begins with its preparation and ends with its last task, at the time that the device recorded:
    # idle time after that is none of it, and its clock is not aligned with the host's.
    (clock,) = run.info.clocks
    vendor = (run.step_times["stage_ns"] + run.step_times["preparing_ns"]).to_numpy(np.int64)
    ends = (parts["duration_ns"] - parts["idle_tail"]).to_numpy() - clock.shift_ns
    assert ends == pytest.approx(vendor, abs=1_000)


@pytest.mark.slow
def test_the_star_is_at_the_highest_allocation(samples: Path) -> None:
    run = load(samples / _TEXT)
    stars = {trace.name: trace.y[0] for trace in run.plot_memory().data if trace.name.endswith(", peak")}
    peaks = run.summary.memory_peaks.set_index("component")["allocated_bytes"]
    assert stars["device 0 PTA, peak"] == peaks["PTA"] / 2**20


@pytest.mark.slow
def test_the_bars_have_the_time_of_all_collectives(samples: Path) -> None:
    run = load(samples / _TEXT)
    bars = [trace for trace in run.plot_communication().data if trace.type == "bar"]
    assert sum(bar.x.sum() for bar in bars) == pytest.approx(run.communication["duration_ns"].sum() / 1e6)
    assert {trace.name for trace in run.plot_communication().data if trace.type == "scatter"} == {"HCCS", "ON_CHIP"}


@pytest.mark.slow
def test_gradients_of_one_step_are_no_leak(samples: Path) -> None:
    run = load(samples / _TEXT)
    lines = {trace.name: trace for trace in run.plot_memory().data}
    assert not [name for name in lines if "leak" in name or "released" in name]
    own = run.memory[run.memory["component"] == "PTA"]
    idle = (own["reserved_bytes"] - own["allocated_bytes"]).max()
    assert max(lines["device 0 PTA, reserved − allocated"].y) == idle / 2**20
    (told,) = lines["device 0 PTA, peak"].hovertext
    assert "blocks of this run in use then: " in told
    assert "aten::" in told


@pytest.mark.slow
def test_counters_have_the_time_of_memory(samples: Path) -> None:
    run = load(samples / _TEXT)
    counters, memory = run.plot_counters(), run.plot_memory()
    assert counters.layout.xaxis.range == memory.layout.xaxis.range
    assert counters.layout.xaxis.ticksuffix == memory.layout.xaxis.ticksuffix
    assert {trace.name.partition(" ")[0] for trace in counters.data} >= {"AI", "HBM", "LLC"}


@pytest.mark.slow
def test_the_steps_of_all_ranks_stand_beside_each_other(samples: Path) -> None:
    runs = open_path(samples / "torch_npu/llm_pp2dp2")
    assert isinstance(runs, ProfileSet)
    figure = runs.plot_steps()
    assert set(figure.data[0].y[1]) == {"rank 0", "rank 1"}
    whole = np.sum([trace.x for trace in figure.data], axis=0) * 1e6
    for rank, length in zip(figure.data[0].y[1], whole, strict=True):
        stage = runs[int(rank.split()[1])].step_times["stage_ns"].to_numpy(np.int64)
        assert length == pytest.approx(stage[0], rel=1e-6)


@pytest.mark.slow
def test_a_kernel_is_described_as_its_row_has_it(samples: Path) -> None:
    run = load(samples / "torch_npu/db/level1/rank1_ascend_pt")
    kernels = run.kernels
    row = int(kernels.index[kernels["op_type"] == "MatMulV2"][0])
    bars, *limits, point, _ = run.plot_kernel(row).data
    pipes = {place.partition(" ")[0]: share for place, share in zip(bars.y, bars.x, strict=True)}
    assert pipes["mte2"] == pytest.approx(100 * kernels["aic_mte2_ratio"].iloc[row])
    assert len(limits) == 2
    rows, inner, columns = 32, 9216, 4096  # as its shapes have them
    assert kernels["input_shapes"].iloc[row].startswith(f"{rows},{inner};")
    speed = 2 * rows * inner * columns / (int(kernels["duration_ns"].iloc[row]) / 1e9)
    assert point.y[0] == pytest.approx(speed)
