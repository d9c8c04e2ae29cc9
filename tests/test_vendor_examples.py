"""The examples of the vendors' pages, told to npuprof, on the simulated NPU: each in the shape that it has there.

Those of TensorFlow need its doubles: ``test_tensorflow.py`` and ``collectors/test_tensorflow.py``. The vendors' own
code for pyACL runs on the simulated ``acl`` in ``simulator/``. Source: collectors/FRONTENDS.md section 7.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import npuprof
from npuprof import callbacks, simulator
from npuprof.options import mindspore as mindspore_options
from npuprof.simulator import acl, npu
from npuprof.simulator.models import perceptron, write_model

STEPS = 6


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The examples name directories below the working one."""
    monkeypatch.chdir(tmp_path)
    simulator.reset()
    yield
    simulator.reset()


def train_one_step(times: int = 1) -> None:
    for _ in range(times):
        npu.asarray([1.0, 2.0]) + 1.0


def profile(**options: Any) -> npuprof.Session:
    return npuprof.profile(collector="simulator", **{"activities": "npu", **options})


# torch_npu.profiler


@pytest.mark.slow
def test_a_with_block_with_a_schedule_and_a_trace_handler() -> None:
    with profile(
        schedule=npuprof.schedule(wait=0, warmup=0, active=1, repeat=1, skip_first=1),
        on_trace_ready=npuprof.trace_handler("./result"),
        level=0,
        l2=False,
        shapes=False,
        memory=False,
        stacks=False,
    ) as prof:
        for step in range(STEPS):
            train_one_step(step + 1)
            prof.step()
    assert prof.result.steps["step"].tolist() == [1]
    assert len(prof.result.kernels) == 2
    (result,) = Path("result").iterdir()
    assert len(npuprof.load(result).kernels) == 2


@pytest.mark.slow
def test_start_and_stop_around_a_loop_with_a_schedule() -> None:
    prof = profile(
        schedule=npuprof.schedule(wait=0, warmup=0, active=1, repeat=1, skip_first=1),
        on_trace_ready=npuprof.trace_handler("./result"),
        aic_metrics="ArithmeticUtilization",  # which the page asks for at Level0, where the vendor drops it
        level=1,
    )
    prof.start()
    for _ in range(STEPS):
        train_one_step()
        prof.step()
    prof.stop()
    assert len(prof.result.kernels) == 1
    assert prof.result.kernels["aiv_vec_fp32_ratio"].notna().all()


def test_metrics_at_level_0_are_refused_where_the_vendor_drops_them() -> None:
    with pytest.raises(npuprof.NpuprofError, match="needs level 1 or 2"):
        profile(level=0, aic_metrics="ArithmeticUtilization")


@pytest.mark.slow
def test_a_trace_is_exported_under_a_name_of_ones_own() -> None:
    with profile() as prof:
        train_one_step(3)
    trace = prof.export_chrome_trace(f"./chrome_trace_{os.getpid()}.json")
    names = [event.get("name", "") for event in json.loads(trace.read_text())["traceEvents"]]
    assert sum(name == str(prof.result.kernels["name"].iloc[0]) for name in names) == 3


@pytest.mark.slow
def test_some_epochs_between_start_and_stop() -> None:
    prof = profile()
    for epoch in range(3):
        train_one_step(epoch + 1)
        if epoch == 0:
            prof.start()
        if epoch == 1:
            prof.stop()
    assert prof.export_chrome_trace("result_dir/trace.json").is_file()
    assert len(prof.result.kernels) == 2


@pytest.mark.slow
def test_one_step_between_start_and_stop() -> None:
    prof = profile(on_trace_ready=npuprof.trace_handler("./result"))
    for step in range(STEPS + 2):
        if step == 5:
            prof.start()
        train_one_step(step)
        if step == 5:
            prof.stop()
    assert len(prof.result.kernels) == 5
    assert len(list(Path("result").iterdir())) == 1


@pytest.mark.slow
def test_moments_of_a_training_are_marked() -> None:
    with profile(
        level=0,
        marks=True,
        schedule=npuprof.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1),
        on_trace_ready=npuprof.trace_handler("./result"),
    ) as prof:
        for _ in range(3):
            npuprof.mark("train epoch start")
            for _ in range(3):
                for part in ("forward", "backward", "optimizer"):
                    npuprof.mark(f"{part}_start")
                    train_one_step()
                    npuprof.mark(f"{part}_stop")
                prof.step()
    assert [run.steps["step"].tolist() for run in prof.results] == [[3, 4], [7, 8]]
    counted = [run.marks["message"].value_counts().to_dict() for run in prof.results]
    assert [marks["backward_stop"] for marks in counted] == [2, 2]
    assert [marks.get("train epoch start", 0) for marks in counted] == [1, 0]  # before steps 0, 3 and 6


def test_metadata_is_written_beside_the_result() -> None:
    with profile() as prof:
        train_one_step()
        prof.add_metadata("test_key1", "test_value1")
        prof.add_metadata_json("test_key2", [1, 2, 3])
    written = json.loads((prof.recording.directory / "profiler_metadata.json").read_text())
    assert written == {"test_key1": "test_value1", "test_key2": [1, 2, 3]}


@pytest.mark.slow
def test_stacks_are_exported_for_flame_graphs() -> None:
    with profile() as prof, npuprof.range("forward"):
        train_one_step(3)
    stacks = prof.export_stacks("result_dir/stack.log", metric="self_npu_time_total")
    assert all(int(line.rpartition(" ")[2]) >= 0 for line in stacks.read_text().splitlines())
    assert stacks.read_text()


@pytest.mark.slow
def test_a_training_that_a_file_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.dynamic.monitor._CHEAP_NS", 1 << 62)  # a busy machine makes looks slow, and so seldom
    npuprof.dynamic.init("profiler_config_path", keys="torch_npu", collector="simulator")
    file = Path("profiler_config_path/profiler_config.json")
    asked = json.loads(file.read_text())
    page = {"activities", "prof_dir", "analyse", "record_shapes", "profile_memory", "with_stack", "with_flops"}
    assert page | {"with_modules", "active", "experimental_config"} <= set(asked)
    for step in range(STEPS):
        train_one_step()
        if step == 2:
            asked.update(active=2, start_step=-1, activities=["NPU"])
            file.write_text(json.dumps(asked))
        npuprof.dynamic.step()
    npuprof.dynamic.close()
    (recording,) = Path("rank0_start3_stop4").iterdir()
    assert len(npuprof.load(recording).kernels) == 2
    (log,) = Path("profiler_config_path/log").iterdir()
    assert "is recorded" not in log.read_text()
    assert "the recording is" in log.read_text()


# mindspore.Profiler


@pytest.mark.slow
def test_a_training_between_profiler_and_analyse() -> None:
    with profile(level=0, activities="cpu,npu", aic_metrics="none", output="profiler_data") as profiler:
        train_one_step(2)
    run = profiler.analyse()
    assert run is not None
    assert len(run.kernels) == 2
    assert Path("profiler_data").is_dir()


class _OwnCallback:
    """The page's callbacks: a session is started and stopped by the numbers that MindSpore counts."""

    def __init__(self, count: str, start: int, stop: int) -> None:
        self.count, self.begin, self.end_ = count, start, stop
        self.profiler = profile(start_profile=False, output=os.path.join("profiler_data", "rank_0"))  # noqa: PTH118

    def on_begin(self, run_context: Any) -> None:
        if getattr(run_context.original_args(), self.count) == self.begin:
            self.profiler.start()

    def on_end(self, run_context: Any) -> None:
        if self.count == "cur_step_num" and self.profiler.active:
            self.profiler.step()
        if getattr(run_context.original_args(), self.count) == self.end_:
            self.profiler.stop()


@pytest.mark.slow
@pytest.mark.parametrize(("count", "kernels"), [("cur_step_num", 2 + 3 + 4 + 5), ("cur_epoch_num", 2 + 3 + 4 + 5)])
def test_callbacks_of_ones_own_start_and_stop(count: str, kernels: int) -> None:
    callback = _OwnCallback(count, 2, 5)
    for number in range(1, 8):
        context = SimpleNamespace(original_args=lambda number=number: SimpleNamespace(**{count: number}))
        callback.on_begin(context)
        train_one_step(number)
        callback.on_end(context)
    assert len(callback.profiler.result.kernels) == kernels
    if count == "cur_step_num":
        chosen = callback.profiler.analyse(step_list=[1, 2], mode="sync")
        assert chosen is not None
        assert chosen.steps["step"].tolist() == [1, 2]


@pytest.mark.slow
def test_a_loop_that_starts_and_stops_by_its_index() -> None:
    profiler = profile(start_profile=False)
    for index in range(30):
        train_one_step()
        if index == 10:
            profiler.start()
        if index == 20:
            profiler.stop()
    profiler.analyse()
    assert len(profiler.result.kernels) == 10


@pytest.mark.slow
def test_results_are_analysed_offline() -> None:
    for _ in range(2):
        with profile(output="./profiling_path"):
            train_one_step()
    analysed = npuprof.offline_analyse("./profiling_path", pretty=True)
    assert isinstance(analysed, npuprof.ProfileSet)
    assert len(analysed) == 2


def test_the_variable_of_the_page_is_understood() -> None:
    options, told = mindspore_options.read(
        '{"start": true, "output_path": "/XXX", "profile_memory": false, "profile_communication": false, '
        '"aicore_metrics": 0, "l2_cache": false}'
    )
    assert options is not None
    assert (options.output, options.memory, options.l2) == (Path("/XXX"), False, False)
    assert options.aic_metrics == "ArithmeticUtilization"
    assert options.level == 1  # at the page's own level 0, the metrics that it asks for are not counted
    assert told


@pytest.mark.slow
def test_a_file_of_the_page_profiles_the_tenth_step() -> None:
    callback = callbacks.DynamicMonitor(cfg_path="./dyn_cfg", output_path="./dynprof_data", collector="simulator")
    asked = {
        "start_step": 10,
        "stop_step": 10,
        "aicore_metrics": -1,
        "profiler_level": -1,
        "profile_framework": -1,
        "analyse_mode": 0,
        "profile_communication": False,
        "parallel_strategy": False,
        "with_stack": True,
        "data_simplification": True,
    }
    Path("dyn_cfg/profiler_config.json").write_text(json.dumps(asked))
    callback.on_train_begin(None)
    for number in range(1, 13):
        train_one_step(number)
        callback.on_train_step_end(None)
    callback.on_train_end(None)
    (recording,) = Path("dynprof_data/rank0_start10_stop10").iterdir()
    assert len(npuprof.load(recording).kernels) == 10
    assert (recording / "npuprof_tables").is_dir()


# acl.prof


@pytest.fixture
def model(tmp_path: Path) -> int:
    assert acl.rt.set_device(0) == 0
    model_id, code = acl.mdl.load_from_file(str(write_model(tmp_path / "model.om", perceptron())))
    assert code == 0
    return model_id


@pytest.mark.slow
def test_a_model_is_profiled_with_samples_of_the_memory(model: int) -> None:
    with profile(level=2, aic_metrics="ArithmeticUtilization", memory=True, memory_freq=15, l2=True, hccl=True) as prof:
        assert acl.mdl.execute(model, 0, 0) == 0
    assert len(prof.result.kernels)
    assert len(prof.result.memory) + len(prof.result.counters)


@pytest.mark.slow
def test_events_are_marked_alone_and_on_a_stream(model: int) -> None:
    stream, _ = acl.rt.create_stream()
    with profile() as prof:
        npuprof.mark("model_load_mark")
        npuprof.mark("model execute start", stream=stream)
        acl.mdl.execute(model, 0, 0)
        npuprof.mark("model execute stop", stream=stream)
        npuprof.mark("model_exec_mark")
    marks = prof.result.marks
    on_device = marks[marks["device_start_ns"].notna()]["message"].tolist()
    assert on_device == ["model execute start", "model execute stop"]
    assert set(marks["message"]) - set(on_device) == {"model_load_mark", "model_exec_mark"}


@pytest.mark.slow
def test_ranges_hold_a_models_execution(model: int) -> None:
    with profile() as prof:
        npuprof.push("acl.mdl.execute_duration")
        acl.mdl.execute(model, 0, 0)
        npuprof.pop()
        handle = npuprof.range_start("acl.mdl.execute_duration")
        acl.mdl.execute(model, 0, 0)
        npuprof.range_end(handle)
    run = prof.result
    assert run.marks["message"].tolist() == 2 * ["acl.mdl.execute_duration"]
    executed = run.api[run.api["name"] == "aclmdlExecute"]
    ends = run.marks["start_ns"] + run.marks["duration_ns"]
    inside = [executed["start_ns"].between(*span) for span in zip(run.marks["start_ns"], ends, strict=True)]
    assert [int(rows.sum()) for rows in inside] == 2 * [len(executed) // 2]
    assert len(executed) >= 2


def test_a_models_operators_are_subscribed_to(model: int) -> None:
    with profile().stream(model) as stream:
        acl.mdl.execute(model, 0, 0)
    rows = [batch for batch in stream if len(batch)]
    assert sum(map(len, rows)) > 0
    assert {"op_name", "op_type", "start_ns", "duration_ns", "model_id"} <= set(rows[0])


# What the pages raise a RuntimeError for, or warn of


def test_second_start_is_a_runtime_error() -> None:
    prof = profile()
    with pytest.raises(RuntimeError, match=r"has not started, so there is no recording: call start\(\) first"):
        prof.stop()
    prof.start()
    with pytest.raises(RuntimeError, match=r"has started already: stop\(\) it first"):
        prof.start()
    prof.stop()
    with pytest.raises(RuntimeError, match=r"step\(\) needs a session that has started"):
        prof.step()


@pytest.mark.slow
@pytest.mark.parametrize("steps", [4, 5, 8])
def test_short_schedule_reports_needed_steps(steps: int) -> None:
    # skip_first + (wait + warmup + active) * repeat
    prof = profile(schedule=npuprof.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)).start()
    for _ in range(steps):
        train_one_step()
        prof.step()
    if steps == 8:  # the last one is ended by the stop itself
        prof.stop()
    else:
        with pytest.warns(npuprof.NpuprofWarning, match=f"stopped after {steps} steps; it needs 9"):
            prof.stop()
    assert 3 in prof.results[0].steps["step"].tolist()  # what had been recorded by then is kept
