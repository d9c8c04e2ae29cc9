"""Profiling some steps or epochs of a training that calls back as MindSpore's Model does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import npuprof
from npuprof import callbacks, simulator
from npuprof.errors import CollectorError, FrontEndAbsentError, NpuprofWarning, OptionsError
from npuprof.options import Options
from npuprof.session.session import Session
from npuprof.simulator import npu
from tests.fakes import FakeCollector


class Callback:
    """Stands for mindspore.Callback: every stage calls its older name, and evaluation those of training too."""

    def begin(self, run_context: Any) -> None: ...
    def end(self, run_context: Any) -> None: ...
    def step_begin(self, run_context: Any) -> None: ...
    def step_end(self, run_context: Any) -> None: ...
    def epoch_begin(self, run_context: Any) -> None: ...
    def epoch_end(self, run_context: Any) -> None: ...

    on_train_begin = on_eval_begin = begin
    on_train_epoch_begin = on_eval_epoch_begin = epoch_begin
    on_train_epoch_end = on_eval_epoch_end = epoch_end

    def on_train_step_begin(self, run_context: Any) -> None:
        self.step_begin(run_context)

    def on_train_step_end(self, run_context: Any) -> None:
        self.step_end(run_context)

    def on_eval_step_begin(self, run_context: Any) -> None:
        self.step_begin(run_context)

    def on_eval_step_end(self, run_context: Any) -> None:
        self.step_end(run_context)

    def on_train_end(self, run_context: Any) -> None:
        self.end(run_context)

    def on_eval_end(self, run_context: Any) -> None:
        self.end(run_context)


def train(epochs: int, steps: int, callback: Any, *, sunk: bool = False) -> None:
    """Call back as Model.train does: step by step, or once an epoch where data is sunk; evaluate after each epoch."""
    counts = SimpleNamespace(cur_step_num=0, cur_epoch_num=0)
    context = SimpleNamespace(original_args=lambda: counts)

    def call(stage: str) -> None:
        getattr(callback, stage, lambda _: None)(context)  # without MindSpore, a callback has its own stages only

    call("on_train_begin")
    for _ in range(epochs):
        counts.cur_epoch_num += 1
        call("on_train_epoch_begin")
        for _ in range(1 if sunk else steps):
            counts.cur_step_num += steps if sunk else 1
            call("on_train_step_begin")
            for _ in range(counts.cur_step_num):
                npu.asarray([1.0, 2.0]) + 1.0
            call("on_train_step_end")
        call("on_train_epoch_end")
        for stage in ("on_eval_begin", "on_eval_step_begin", "on_eval_step_end", "on_eval_end"):
            call(stage)
    call("on_train_end")


@pytest.fixture(autouse=True)
def fresh_machine() -> Iterator[None]:
    simulator.reset()
    yield
    simulator.reset()


@pytest.fixture(params=[True, False], ids=["with MindSpore", "without"])
def with_mindspore(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.delitem(sys.modules, "mindspore", raising=False)
    if request.param:
        module: Any = ModuleType("mindspore")
        module.Callback = Callback
        monkeypatch.setitem(sys.modules, "mindspore", module)
    return bool(request.param)


def _simulated(tmp_path: Path) -> dict[str, Any]:
    return {"collector": "simulator", "activities": "npu", "output": tmp_path}


@pytest.mark.slow
def test_the_steps_between_two_are_profiled(with_mindspore: bool, tmp_path: Path) -> None:
    callback = callbacks.StopAtStep(4, 5, **_simulated(tmp_path))
    assert isinstance(callback, callbacks.StopAtStep)
    assert isinstance(callback, Callback) == with_mindspore
    train(2, 3, callback)
    run = callback.profiler.result
    assert len(run.kernels) == 4 + 5
    assert run.steps["step"].tolist() == [4, 5]
    fifth = npuprof.load(callback.profiler.recording.directory, steps=[5])
    assert (len(fifth.kernels), set(fifth.kernels["step"])) == (5, {5})


@pytest.mark.slow
def test_the_epochs_between_two_are_profiled(with_mindspore: bool, tmp_path: Path) -> None:
    callback = callbacks.StopAtEpoch(2, 3, **_simulated(tmp_path))
    assert isinstance(callback, Callback) == with_mindspore
    train(4, 2, callback, sunk=True)
    assert len(callback.profiler.result.kernels) == 4 + 6


@pytest.mark.slow
def test_epoch_steps_begin_with_the_first_seen(tmp_path: Path) -> None:
    callback = callbacks.StopAtStep(3, 5, **_simulated(tmp_path))
    train(3, 4, callback, sunk=True)
    assert len(callback.profiler.result.kernels) == 4 + 8


def test_a_session_of_the_users_own_is_started_and_stopped(tmp_path: Path) -> None:
    ready: list[int] = []
    mine = npuprof.profile(
        start_profile=False, on_trace_ready=lambda prof: ready.append(prof.step_num), **_simulated(tmp_path)
    )
    callback = callbacks.StopAtStep(2, 2, mine)
    train(1, 3, callback)
    assert callback.profiler is mine
    assert ready == [1]


@pytest.mark.slow
def test_a_training_that_ends_early_is_stopped_with_it(tmp_path: Path) -> None:
    callback = callbacks.StopAtStep(2, 9, **_simulated(tmp_path))
    train(1, 3, callback)
    assert not callback.profiler.active
    assert len(callback.profiler.result.kernels) == 2 + 3


def test_a_training_that_never_comes_so_far_is_reported(tmp_path: Path) -> None:
    callback = callbacks.StopAtEpoch(5, 6, **_simulated(tmp_path))
    with pytest.warns(NpuprofWarning, match="StopAtEpoch profiled nothing: the training ended at 2, before 5"):
        train(2, 1, callback)


def _faulty(call: str, error: Exception, tmp_path: Path) -> Session:
    collector = FakeCollector(fail={call: error})
    return Session(Options(activities=("npu",), output=tmp_path), collector=collector)


def test_refusals_come_before_the_first_step(tmp_path: Path) -> None:
    callback = callbacks.StopAtStep(2, 3, _faulty("check", FrontEndAbsentError("absent"), tmp_path))
    with pytest.raises(FrontEndAbsentError):
        train(1, 3, callback)


def test_a_start_that_fails_does_not_end_the_training(tmp_path: Path) -> None:
    callback = callbacks.StopAtStep(2, 3, _faulty("start", CollectorError("busy"), tmp_path))
    with pytest.warns(NpuprofWarning, match="StopAtStep profiles nothing, and training continues: busy"):
        train(1, 4, callback)


@pytest.mark.parametrize(
    ("start", "stop", "told"),
    [
        (0, 3, "the start of StopAtStep must be a whole number of at least 1"),
        (3, 2, "the stop of StopAtStep must be a whole number of at least 3"),
        (True, 2, "the start of StopAtStep"),
        (1, 2.5, "the stop of StopAtStep"),
    ],
)
def test_numbers_that_name_no_steps_are_refused(start: Any, stop: Any, told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        callbacks.StopAtStep(start, stop)


def test_a_profiler_and_options_are_refused_together() -> None:
    with pytest.raises(OptionsError, match="not both"):
        callbacks.StopAtStep(1, 2, npuprof.profile(), level=0)


@pytest.mark.slow
def test_a_file_asks_for_steps_while_the_training_runs(with_mindspore: bool, tmp_path: Path) -> None:
    callback = callbacks.DynamicMonitor(tmp_path / "cfg", collector="simulator")
    assert isinstance(callback, Callback) == with_mindspore
    npuprof.dynamic.edit(
        tmp_path / "cfg", start_step=2, stop_step=3, activities=["NPU"], prof_path=str(tmp_path / "out")
    )
    train(1, 4, callback)
    (rank,) = (tmp_path / "out").iterdir()
    assert rank.name == "rank0_start2_stop3"
    (recording,) = rank.iterdir()
    assert len(npuprof.load(recording).kernels) == 2 + 3
