"""Collectives that the host runs itself: rows of ``communication`` on device -1, joined across ranks."""

from __future__ import annotations

from pathlib import Path

import npuprof
from npuprof.analysis.device_words import HOST_DEVICE
from npuprof.analysis.host_accounting import is_of_host
from npuprof.ranks.profile_set import ProfileSet
from npuprof.recordings.recording import TRACE_FILE_NAME, Recording
from tests.sources.kineto.traces import KinetoTrace

_STEP_US, _STEPS, _MOVE_US = 1_000.0, 5, 40.0


def _trace(late_us: float, *, ranges: bool = True) -> KinetoTrace:
    """Return a rank that arrives so late at the all-reduce of each step, which ends when the last rank is there."""
    trace = KinetoTrace()
    for step in range(_STEPS):
        begin = step * _STEP_US
        arrival, end = begin + 100 + late_us, begin + 400 + _MOVE_US
        trace.operator("aten::mm", begin, 100 + late_us, 10 * step + 1)
        trace.operator("c10d::allreduce_", arrival, 5, 10 * step + 2)
        if ranges:
            trace.slice("user_annotation", "gloo:all_reduce", arrival, end - arrival, lane={"tid": 401})
        trace.slice("user_annotation", "Optimizer.step#SGD.step", end + 10, 50)
    return trace


def _rank(folder: Path, rank: int, late_us: float, **groups: list[int]) -> None:
    directory = folder / f"process_{rank}"
    directory.mkdir(parents=True)
    _trace(late_us).write(directory / TRACE_FILE_NAME)
    process = {"rank": rank, "world_size": 2, "backend": "gloo", "groups": groups or {"0": [0, 1]}}
    Recording(
        directory, "process", "kineto", simulated=False, options={"activities": ["cpu"]}, started_ns=1, stopped_ns=2,
        process=process,
    ).write()  # fmt: skip


def test_the_ranges_of_gloo_are_collectives_on_host_time(tmp_path: Path) -> None:
    run = npuprof.load(_trace(50).write(tmp_path / "trace.json"))
    assert run.communication["device_id"].tolist() == [HOST_DEVICE] * _STEPS
    assert set(run.communication["op_type"]) == {"allreduce"}
    assert run.communication["duration_ns"].tolist() == [290_000] * _STEPS
    assert run.info.devices == []
    assert is_of_host(run.tables)
    assert set(run.breakdown()["part"]) == {"host"}
    assert len(run.marks) == 2 * _STEPS  # they stay what they are in the trace
    messages = run.notes["message"].str.contains("the host ran itself")
    assert run.notes["count"][messages].tolist() == [_STEPS]
    assert not len(run.notes[run.notes["severity"] != "info"])


def test_without_ranges_the_operators_that_begin_them_are_taken(tmp_path: Path) -> None:
    run = npuprof.load(_trace(50, ranges=False).write(tmp_path / "trace.json"))
    assert set(run.communication["name"]) == {"c10d::allreduce_"}
    assert run.communication["duration_ns"].tolist() == [5_000] * _STEPS


def test_device_trace_keeps_device_collectives(tmp_path: Path) -> None:
    trace = _trace(50)
    trace.on_gpu("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 10, 5, 0)
    run = npuprof.load(trace.write(tmp_path / "trace.json"))
    assert run.communication["device_id"].tolist() == [0]


def test_ranks_wait_in_optimizer_steps(tmp_path: Path) -> None:
    for rank, late_us in enumerate((0.0, 250.0)):
        _rank(tmp_path, rank, late_us)
    runs = npuprof.load_set(tmp_path)
    assert isinstance(runs, ProfileSet)
    assert runs.ranks == [0, 1]
    assert [len(run.steps) for run in runs] == [_STEPS - 1] * 2
    waits = runs.waits()
    assert waits["wait_ns"][(waits["rank"] == 0).to_numpy(bool)].tolist() == [250_000] * _STEPS
    assert waits["wait_ns"][(waits["rank"] == 1).to_numpy(bool)].tolist() == [0] * _STEPS
    assert runs.advice()["slow_rank"].place == "rank 1"
    assert not len(runs.notes[runs.notes["severity"] != "info"])


def test_groups_of_different_sizes_join_nothing_and_say_so(tmp_path: Path) -> None:
    for rank in range(2):
        _rank(tmp_path, rank, 0.0, world=[0, 1], alone=[rank])
    runs = npuprof.load_set(tmp_path)
    assert not len(runs.waits())
    assert runs[0].notes["message"].str.contains("2 groups of different sizes").any()
