"""Published GPU traces of torch's profiler, 2022 to 2024: where the device's time went, to the nanosecond."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuprof
from npuprof.profiles.profile import Profile
from tests.sources.kineto.real_traces import device_time

_TRACES = {
    "two_ranks/rank-0.json.gz": (210_320_000, 336_983_000, 353_000),
    "two_ranks/rank-1.json.gz": (271_973_000, 303_523_000, 4_554_000),
    "sendrecv/rank0.json.gz": (180_231_000, 162_033_000, 39_167_000),
    "nccl/nccl_data.json.gz": (115_655_847, 39_559_468, 2_284_699),
    "amd/mi250.json.gz": (110_881, 0, 38_161),
    "old_categories/inference_rank_1.json.gz": (30_000, 0, 0),
}


@pytest.fixture(params=_TRACES)
def trace(request: pytest.FixtureRequest, samples: Path) -> Path:
    return samples / "kineto" / str(request.param)


@pytest.fixture
def run(trace: Path) -> Profile:
    return npuprof.load(trace)


@pytest.mark.slow
def test_computing_communication_and_copies_are_exact(trace: Path, run: Profile) -> None:
    truth = device_time(trace)
    sums = run.breakdown().groupby("part", observed=False)["duration_ns"].sum()
    parts = tuple(int(sums.get(part, 0)) for part in ("computing", "communication", "copy"))
    assert parts == (truth.computing, truth.communication, truth.copy)
    assert parts == _TRACES[f"{trace.parent.name}/{trace.name}"]
    assert len(run.communication) == truth.collectives
    assert len(run.kernels) + len(run.communication) == (run.tasks["task_type"] == "kernel").sum()


@pytest.mark.slow
def test_healthy_traces_have_no_warnings_and_every_event_in_a_table(run: Profile) -> None:
    of_groups = run.notes["message"].str.contains("names no process group")  # which torch records since 2024
    # An excerpt without operators, which its kernels name.
    of_operators = run.notes["message"].str.contains("names an operator that is missing")
    assert of_operators.sum() == (2 if not len(run.operators) else 0)
    assert run.notes["message"][~of_groups & ~of_operators].tolist() == []
    assert (run.notes["severity"][~of_operators] == "info").all()
    assert (run.ledger["left_out"] == 0).all()


@pytest.mark.slow
def test_launched_kernels_belong_to_their_step(samples: Path) -> None:
    run = npuprof.load(samples / "kineto" / "two_ranks" / "rank-0.json.gz")
    assert run.kernels["step"].notna().all()
    assert run.kernels["op_name"].notna().mean() > 0.98
    assert set(run.communication["step"]) == {551, 552}
    assert run.communication["op_type"].unique().tolist() == ["send_recv"]
    assert run.communication["algorithm"].unique().tolist() == ["RING_SIMPLE"]
