"""What is asked of MindSpore's profiler for each option, and what becomes of its refusals."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import npuprof
from npuprof.collectors import registry
from npuprof.collectors.acl import SimulatorCollector
from npuprof.collectors.mindspore import MindSporeCollector
from npuprof.errors import CollectorError, FrontEndAbsentError, NpuprofWarning, OptionsError
from npuprof.options import Options
from npuprof.simulator import npu
from tests.collectors.mindspore_double import MakeMindSpore as Make
from tests.collectors.mindspore_double import names_of

# An option, and what the vendor's arguments then hold; members of enums by their names.
_ASKED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"profiler_level": "Level1", "aic_metrics": "PipeUtilization", "activities": ["CPU", "NPU"], "mstx": True}),
    ({"level": "none"}, {"profiler_level": "LevelNone", "aic_metrics": "AiCoreNone", "mstx": True}),
    ({"level": 0, "marks": False}, {"profiler_level": "Level0", "aic_metrics": "AiCoreNone", "mstx": False}),
    ({"level": 2, "aic_metrics": "L2Cache"}, {"profiler_level": "Level2", "aic_metrics": "L2Cache"}),
    ({"activities": "cpu"}, {"activities": ["CPU"], "profiler_level": "Level0", "mstx": False}),
    ({"activities": "cpu,gpu", "sync_enable": False}, {"activities": ["CPU", "GPU"], "sync_enable": False}),
    ({}, {"sync_enable": True, "data_simplification": True, "export_type": ["Text"], "host_sys": []}),
    ({"memory": True}, {"profile_memory": True}),
    ({"stacks": True}, {"with_stack": True}),
    ({"shapes": True}, {"record_shapes": True}),
    ({"l2": True}, {"l2_cache": True}),
    ({"parallel_strategy": True}, {"parallel_strategy": True}),
    ({"data_process": True}, {"data_process": True, "schedule": None}),
    ({"sys_io": True, "sys_interconnection": True}, {"sys_io": True, "sys_interconnection": True}),
    ({"host_sys": "osrt,cpu"}, {"host_sys": ["CPU", "OSRT"]}),
    ({"data_simplification": False}, {"data_simplification": False}),
    ({"export_type": "db,text"}, {"export_type": ["Text", "Db"]}),
    ({"mstx_domain_include": "a,b"}, {"mstx_domain_include": ["a", "b"], "mstx_domain_exclude": []}),
    ({"mstx_domain_exclude": "c"}, {"mstx_domain_include": [], "mstx_domain_exclude": ["c"]}),
]

_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"aic_metrics": "none"}, "counts PipeUtilization at level 1"),
    ({"level": "none", "activities": "cpu"}, "add npu to activities"),
    ({"activities": "npu", "shapes": True}, "MindSpore records shapes with its operators"),
    ({"activities": "npu", "memory": True}, "MindSpore records memory with its operators"),
    ({"activities": "npu", "data_process": True}, "MindSpore records data_process with its operators"),
    ({"host_sys": "cpu,numa"}, "no numa among host_sys"),
    ({"sync_enable": False}, "operators on a GPU"),
    ({"modules": True}, "mindspore has no modules"),
    ({"llc_profiling": "read", "memory": True}, "mindspore has no llc_profiling"),
    ({"memory": True, "memory_freq": 10}, "fixed rate"),
]


@pytest.mark.parametrize(("options", "asked"), _ASKED, ids=[", ".join(options) or "defaults" for options, _ in _ASKED])
def test_what_each_option_asks_of_mindspore(
    make_mindspore: Make, tmp_path: Path, options: dict[str, Any], asked: dict[str, Any]
) -> None:
    mindspore, double = make_mindspore()
    mindspore.check(Options(**options))
    mindspore.start(Options(**options), tmp_path)
    mindspore.stop()
    assert {name: names_of(double.given[name]) for name in asked} == asked
    assert double.coerced == []


@pytest.mark.parametrize(("options", "told"), _REFUSED, ids=[", ".join(options) for options, _ in _REFUSED])
def test_what_mindspore_would_change_in_silence_is_refused(
    make_mindspore: Make, options: dict[str, Any], told: str
) -> None:
    mindspore, double = make_mindspore()
    with pytest.raises(OptionsError, match=told):
        mindspore.check(Options(**options))
    assert double.calls == []


@pytest.mark.slow
def test_accepted_values_are_kept(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore()
    taken = 0
    switches = ("shapes", "data_process", "marks", "l2")
    names = ("level", "aic_metrics", "activities", *switches)
    for values in itertools.product(
        ("none", 0, 1, 2), (None, "Memory"), ("cpu", "npu", "cpu,npu"), *[(False, True)] * len(switches)
    ):
        try:
            options = Options.from_dict(dict(zip(names, values, strict=True)))
            mindspore.check(options)
        except OptionsError:
            continue
        mindspore.start(options, tmp_path)
        mindspore.stop()
        taken += 1
    assert taken > 50
    assert double.coerced == []


def test_run_starts_ends_and_reads_once(make_mindspore: Make, tmp_path: Path) -> None:
    _, double = make_mindspore(device="CPU")
    with npuprof.profile(collector="mindspore", activities="cpu", output=tmp_path) as prof:
        pass
    assert double.calls == ["init", "start", "stop", "finalize", "clear"]
    run = prof.result
    assert run.operators["name"].tolist() == ["MatMul", "ReLU"]
    assert run.info.collector == "mindspore"
    assert run.info.versions["mindspore"] == "2.10"
    assert prof.recording.problems == []


@pytest.mark.slow
def test_the_device_is_read_from_the_raw_data_inside_mindspores_directory(make_mindspore: Make, tmp_path: Path) -> None:
    make_mindspore(npu=SimulatorCollector())
    with npuprof.profile(collector="mindspore", output=tmp_path) as prof:
        npu.asarray([1.0, 2.0]) + 1.0
        prof.step()
    run = prof.result
    assert len(run.kernels) == 1
    assert run.kernels["step"].tolist() == [0]
    assert run.operators["name"].tolist() == ["MatMul", "ReLU"]
    assert (run.info.collector, run.info.simulated) == ("mindspore", True)
    assert "error" not in set(run.notes["severity"])


def test_a_run_whose_device_was_missing_says_so(make_mindspore: Make, tmp_path: Path) -> None:
    make_mindspore(device="CPU")
    session = npuprof.profile(collector="mindspore", output=tmp_path)
    with pytest.warns(NpuprofWarning, match="not Ascend"):
        session.start()
    session.stop()
    notes = session.result.notes
    assert "MindSpore ran on CPU, not on an NPU" in set(notes["message"])
    assert "error" not in set(notes["severity"])


def test_steps_exclude_the_data_pipeline(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore()
    for options in (Options(), Options(data_process=True)):
        mindspore.start(options, tmp_path)
        mindspore.step(1)
        mindspore.stop()
    assert double.calls.count("step") == 1
    assert double.coerced == []


def test_steps_are_marked_with_the_sessions_numbers(make_mindspore: Make, tmp_path: Path) -> None:
    _, double = make_mindspore()
    plan = npuprof.schedule(wait=1, active=2, repeat=2)
    with npuprof.profile(collector="mindspore", output=tmp_path, schedule=plan) as prof:
        for _ in range(6):
            prof.step()
    assert double.steps == [1, 2, 4, 5]
    assert double.coerced == []


def test_facts_of_the_session_are_handed_on(make_mindspore: Make, tmp_path: Path, monkeypatch: Any) -> None:
    _, double = make_mindspore()
    parameters = {"schedule": {"wait": 0, "active": 9, "warmup": 0, "repeat": 0, "skip_first": 0}, "mstx": True}
    module: Any = ModuleType("mindspore.profiler.common.profiler_info")
    module.ProfilerInfo = lambda: SimpleNamespace(profiler_parameters=parameters)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    kept: dict[str, str] = {}
    profile = sys.modules["mindspore.profiler"].profile
    monkeypatch.setattr(profile, "add_metadata_json", lambda _, key, value: kept.update({key: value}), raising=False)
    plan = npuprof.schedule(wait=1, active=2, repeat=1, skip_first_wait=1)
    with npuprof.profile(collector="mindspore", output=tmp_path, schedule=plan) as prof:
        prof.add_metadata("lr", 0.1)
        prof.step()
        prof.step()
    assert kept == {"lr": "0.1"}
    assert parameters["schedule"] == {"wait": 1, "active": 2, "warmup": 0, "repeat": 1, "skip_first": 0}
    assert double.coerced == []


def test_a_warm_up_initialises_and_the_start_only_starts(make_mindspore: Make, tmp_path: Path) -> None:
    _, double = make_mindspore()
    calls = []
    plan = npuprof.schedule(wait=1, warmup=1, active=1, repeat=2)
    with npuprof.profile(collector="mindspore", output=tmp_path, schedule=plan) as prof:
        for _ in range(6):
            prof.step()
            calls.append(double.calls.copy())
            double.calls.clear()
    assert calls == 2 * [["init"], ["start"], ["stop", "finalize", "clear"]]
    assert double.steps == [2, 5]
    assert double.coerced == []


@pytest.mark.parametrize("release", ["2.10", "2.4", "unlisted"])
def test_a_warm_up_without_a_start_leaves_nothing(make_mindspore: Make, tmp_path: Path, release: str) -> None:
    mindspore, double = make_mindspore(release=release)
    place = tmp_path / "run"
    place.mkdir()
    mindspore.warmup(Options(), place)
    mindspore.stop()
    assert not double.interface.is_initialized
    assert not list(place.glob("*"))
    mindspore.start(Options(), place)
    mindspore.stop()
    assert double.calls.count("start") == 1


def test_markers_reach_mstx_with_their_domains(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore()
    stream = object()  # stands for a mindspore.runtime.Stream
    mindspore.start(Options(), tmp_path)
    mindspore.mark("epoch")
    mindspore.mark("epoch", "train", stream)
    outer, inner = mindspore.range_start("forward", "train"), mindspore.range_start("attention")
    mindspore.range_stop(outer)
    mindspore.range_stop(inner)
    mindspore.range_stop(inner)
    assert double.marks == [
        ("mark", "epoch", None, "default"),
        ("mark", "epoch", stream, "train"),
        ("start", "forward", None, "train"),
        ("start", "attention", None, "default"),
        ("end", 3, "train"),
        ("end", 4, "default"),
    ]
    mindspore.stop()
    mindspore.mark("late")
    assert len(double.marks) == 6


def test_open_range_closes_with_the_run(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore()
    mindspore.start(Options(), tmp_path)
    handle = mindspore.range_start("forward", "train")
    mindspore.stop()
    mindspore.range_stop(handle)
    assert double.marks == [("start", "forward", None, "train"), ("end", 1, "train")]


def test_stream_handle_is_reported_once(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore()
    mindspore.start(Options(), tmp_path)
    with pytest.warns(NpuprofWarning, match=r"mindspore\.runtime\.Stream"):
        mindspore.mark("a", stream=281)
    mindspore.mark("b", stream=281)  # a second warning would be an error here
    assert double.marks == [("mark", "a", None, "default"), ("mark", "b", None, "default")]
    mindspore.stop()


@pytest.mark.parametrize("options", [{"marks": False}, {"activities": "cpu"}])
def test_without_markers_none_is_made(make_mindspore: Make, tmp_path: Path, options: dict[str, Any]) -> None:
    mindspore, double = make_mindspore()
    mindspore.start(Options(**options), tmp_path)
    mindspore.mark("tick")
    assert mindspore.range_start("forward") == 0
    mindspore.stop()
    assert double.marks == []


def test_a_device_other_than_the_npu_is_reported(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, _ = make_mindspore(device="CPU")
    with pytest.warns(NpuprofWarning, match=r"MindSpore's device is CPU, not Ascend"):
        mindspore.start(Options(), tmp_path)
    assert mindspore.range_start("forward") == 0
    mindspore.stop()


@pytest.mark.parametrize(("device", "takes"), [("Ascend", True), ("CPU", False)])
def test_stacks_are_mindspores_own_on_an_npu_and_sampled_elsewhere(
    make_mindspore: Make, tmp_path: Path, device: str, takes: bool
) -> None:
    mindspore, _ = make_mindspore(device=device)
    options = Options(activities=("cpu",), stacks=True)
    mindspore.start(options, tmp_path)
    assert mindspore.records_stacks(options) == takes
    assert not mindspore.records_stacks(Options())
    mindspore.stop()


@pytest.mark.parametrize(
    ("fail", "told"),
    [
        ({"start": "no device"}, r"start failed: Call to start failed\. Exception: no device"),
        ({"handler": "invalid path"}, "choose another with --output"),
        ({"profile": "CANN does not match"}, "CANN does not match.*npu-smi"),
        ({"directory": "read only"}, "made no .*_ascend_ms"),
    ],
)
def test_a_start_that_fails_is_an_error_and_leaves_nothing_running(
    make_mindspore: Make, tmp_path: Path, fail: dict[str, str], told: str
) -> None:
    mindspore, double = make_mindspore(fail=fail)
    double.context._on_trace_ready_output_path = "own"
    with pytest.raises(CollectorError, match=told):
        mindspore.start(Options(), tmp_path)
    assert not double.interface.is_initialized
    assert double.calls in ([], ["init", "start", "stop", "finalize", "clear"])
    assert double.context._on_trace_ready_output_path == "own"


def test_failing_stop_still_makes_remaining_calls(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore(fail={"stop": "broken"})
    mindspore.start(Options(), tmp_path)
    with pytest.raises(CollectorError, match=r"stop failed: .*broken"):
        mindspore.stop()
    assert double.calls == ["init", "start", "stop", "finalize", "clear"]
    del double.fail["stop"]
    mindspore.start(Options(), tmp_path)
    mindspore.stop()


def test_where_the_users_profilers_write_is_as_before(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore()
    double.context._on_trace_ready_output_path = double.paths._dir_path = "own"
    mindspore.start(Options(), tmp_path)
    assert double.paths._dir_path == str(tmp_path)
    mindspore.stop()
    assert (double.context._on_trace_ready_output_path, double.paths._dir_path) == ("own", "own")


def test_mindspore_warnings_are_reported(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore(warn={"start": "the driver is old"})
    with pytest.warns(NpuprofWarning) as caught:
        mindspore.start(Options(), tmp_path)
    mindspore.stop()  # any other warning would be an error here
    assert [str(warning.message) for warning in caught] == ["MindSpore: the driver is old"]
    assert double.logger.filters == []


def test_a_profiler_of_the_users_own_is_not_disturbed(make_mindspore: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    mindspore, double = make_mindspore()
    double.interface.is_initialized = True
    with pytest.raises(CollectorError, match=r"collecting in this process already.*stop it first"):
        mindspore.check(Options())
    monkeypatch.setenv("MS_PROFILER_OPTIONS", '{"start": true}')
    with pytest.raises(CollectorError, match=r"begun by MS_PROFILER_OPTIONS.*unset MS_PROFILER_OPTIONS"):
        mindspore.check(Options())
    assert double.calls == []


@pytest.mark.parametrize("variable", ["PROFILING_MODE", "PROFILER_SAMPLECONFIG"])
def test_outer_msprof_is_refused_for_the_npu(
    make_mindspore: Make, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    mindspore, _ = make_mindspore()
    monkeypatch.setenv(variable, "dynamic")
    with pytest.raises(CollectorError, match=f"unset {variable}"):
        mindspore.check(Options())
    mindspore.check(Options(activities=("cpu",)))


@pytest.mark.parametrize("broken", [ImportError("no"), OSError("libmindspore.so"), RuntimeError("backend")])
def test_an_import_that_fails_means_absent(monkeypatch: pytest.MonkeyPatch, broken: Exception) -> None:
    def fail(name: str) -> ModuleType:
        raise broken

    monkeypatch.setattr("npuprof.collectors.mindspore.importlib.import_module", fail)
    with pytest.raises(FrontEndAbsentError, match="pip install mindspore"):
        MindSporeCollector().check(Options())


def test_another_package_of_that_name_is_not_mindspore(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("mindspore")
    package.profiler = ModuleType("mindspore.profiler")  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "mindspore", package)
    monkeypatch.setitem(sys.modules, "mindspore.profiler", package.profiler)
    with pytest.raises(FrontEndAbsentError, match="has no profiler"):
        MindSporeCollector().check(Options())


def test_auto_takes_mindspore_where_it_is_imported(make_mindspore: Make) -> None:
    make_mindspore()
    choice = registry.choose("auto")
    assert (choice.collector.name, choice.reason) == ("mindspore", "mindspore is imported in this process")
