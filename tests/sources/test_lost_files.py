"""A file of a result that is gone, empty or damaged is named, with the tables that the run lacks without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import npuprof
from npuprof.profiles.profile import Profile
from tests.sources.database.maker import Maker, framework_database
from tests.sources.framework.writer import profiler_info, small
from tests.sources.test_broken_input import whole_result
from tests.sources.trace.maker import small_trace

_HEAD_BYTES = 4096
DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "damaged at the beginning": lambda path: path.write_bytes(bytes(_HEAD_BYTES) + path.read_bytes()[_HEAD_BYTES:]),
}
_MAIN = "ascend_pytorch_profiler_0.db"


def _result(root: Path, **config: object) -> Path:
    """Write a result of databases, one with the run and one with sums over its steps, and its options."""
    output = root / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    framework_database(output / _MAIN)
    times = ("deviceId step:TEXT computing:NUMERIC communication:NUMERIC free:NUMERIC", [(0, "50", 12, 5, 50)])
    Maker(output / "analysis.db").table("StepTraceTime", *times).close({})
    return _describe(output.parent, **config)


def _describe(root: Path, **config: object) -> Path:
    common = {"activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"], **config}
    special = {"_profiler_level": "Level1", "_export_type": config.pop("export_type", "text")}
    plain = {"config": {"common_config": common, "experimental_config": special}}
    (root / "profiler_info_0.json").write_text(json.dumps(plain))
    return root


def _errors(run: Profile) -> list[str]:
    return run.notes.loc[run.notes["severity"] == "error", "message"].tolist()


def test_a_whole_result_lacks_nothing(tmp_path: Path) -> None:
    assert not _errors(npuprof.load(_result(tmp_path, export_type="db", with_stack=True)))


@pytest.mark.parametrize("stacks", [True, False])
def test_missing_python_calls_are_told(tmp_path: Path, *, stacks: bool) -> None:
    output = tmp_path / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    trace = small_trace()
    trace.events = [event for event in trace.events if event.get("cat") != "python_function"]
    trace.write(output / "trace_view.json")
    run = npuprof.load(_describe(output.parent, with_stack=stacks))
    assert len(run.operators)
    assert not len(run.python)
    assert run.notes["message"].str.contains("it has no Python calls").any() == stacks


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lost_main_database_is_an_error_below_the_title(tmp_path: Path, damage: str) -> None:
    root = _result(tmp_path, export_type="db", with_stack=True, profile_memory=True)
    DAMAGES[damage](root / "ASCEND_PROFILER_OUTPUT" / _MAIN)
    run = npuprof.load(root)
    (message,) = _errors(run)
    name = "ascend_*_profiler*.db" if damage == "missing" else _MAIN
    lost = "steps, python, operators, api, tasks, kernels, links, memory, allocations and counters"
    assert message.startswith(f"{name} is {damage}: the run has no {lost}; ")
    assert f"Error: ASCEND_PROFILER_OUTPUT: {message}" in " ".join(str(run).split()[:80])
    assert 'role="alert"' in run.to_html(tmp_path / "report.html").read_text().partition("Notes (")[0]


@pytest.mark.parametrize("damage", DAMAGES)
def test_without_its_options_every_table_of_the_main_database_is_named(tmp_path: Path, damage: str) -> None:
    root = _result(tmp_path)
    (root / "profiler_info_0.json").unlink()
    DAMAGES[damage](root / "ASCEND_PROFILER_OUTPUT" / _MAIN)
    assert (
        " communication, communication_tasks, links, memory, allocations, counters and marks;"
        in _errors(npuprof.load(root))[0]
    )


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lost_timeline_is_an_error_while_the_rest_is_there(tmp_path: Path, damage: str) -> None:
    root = _describe(whole_result(tmp_path), with_stack=True)
    DAMAGES[damage](root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    told = "damaged or without rows" if damage != "missing" else damage
    lost = "steps, python, operators, api, tasks, communication_tasks, links and counters"
    errors = _errors(npuprof.load(root))
    assert any(message.startswith(f"trace_view.json is {told}: the run has no {lost}; ") for message in errors)


def test_a_database_takes_the_place_of_a_lost_timeline(tmp_path: Path) -> None:
    root = _result(tmp_path)
    (root / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").write_text("Step,Computing\n50,2\n")
    (message,) = _errors(npuprof.load(root))
    assert message.startswith("trace_view.json is missing: the run has no counters; ")


@pytest.mark.parametrize("damage", ["empty", "damaged at the beginning"])
def test_a_damaged_database_beside_a_whole_text_result_is_a_warning(tmp_path: Path, damage: str) -> None:
    root = whole_result(tmp_path)
    (root / "profiler_info_0.json").write_text('{"config": {"common_config": {"activities": []}}}')
    path = framework_database(root / "ASCEND_PROFILER_OUTPUT" / _MAIN)
    DAMAGES[damage](path)
    notes = npuprof.load(root).notes.set_index("source")
    assert notes.loc[_MAIN, "severity"] == "warning"
    assert notes.loc[_MAIN, "message"].startswith(f"the file is {damage}: what is shown comes from other files")


def test_rank_of_sums_alone_warns_of_files(tmp_path: Path) -> None:
    root = _describe(whole_result(tmp_path))
    for name in ("trace_view.json", "kernel_details.csv", "op_statistic.csv"):
        (root / "ASCEND_PROFILER_OUTPUT" / name).unlink()
    run = npuprof.load(root)
    assert not _errors(run)
    assert run.notes["message"].str.startswith("trace_view.json and kernel_details.csv are missing: ").any()


@pytest.mark.parametrize("name", ["job_ascend_pt", "rank0_ascend_pt"])
def test_without_profiler_info_what_is_unknown_is_told(tmp_path: Path, name: str) -> None:
    root = whole_result(tmp_path).rename(tmp_path / name)
    (root / "profiler_info_0.json").unlink()
    run = npuprof.load(root)
    (message,) = run.notes["message"][run.notes["message"].str.startswith("profiler_info*.json is missing: ")]
    assert ("the rank" in message) == (run.info.rank is None)
    assert "wall time is that of the rows" in message


def test_many_lost_files_share_one_line(tmp_path: Path) -> None:
    root = _describe(whole_result(tmp_path), profile_memory=True)
    for name in ("trace_view.json", "operator_memory.csv", "step_trace_time.csv"):
        (root / "ASCEND_PROFILER_OUTPUT" / name).unlink()
    (message,) = _errors(npuprof.load(root))
    assert message.startswith("trace_view.json, step_trace_time.csv and operator_memory.csv are missing: ")


_CONTENT = {
    "op_range": "operators and steps",
    "op_mark": "enqueues and dequeues",
    "memory_usage": "samples of the allocator and blocks",
    "python_tracer_func": "Python calls",
    "python_tracer_hash": "names of Python functions",
}


def _raw(root: Path, **options: object) -> Path:
    common = {"activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"], **options}
    config = {"common_config": common, "experimental_config": {"_profiler_level": "Level1"}}
    return small().write(root / "rank0_ascend_pt", profiler_info() | {"config": config})


@pytest.mark.parametrize("damage", ["missing", "empty"])
@pytest.mark.parametrize("file", _CONTENT)
def test_a_lost_file_of_the_framework_is_an_error(tmp_path: Path, file: str, damage: str) -> None:
    root = _raw(tmp_path, with_stack=True, profile_memory=True)
    assert not _errors(npuprof.load(root))
    DAMAGES[damage](root / "FRAMEWORK" / f"torch.{file}")
    told = npuprof.load(root).notes.set_index("source").loc[[f"torch.{file}"]]
    (message,) = told.loc[told["severity"] == "error", "message"]
    reason = "though the options of the run in profiler_info.json call for it"
    assert message.startswith(f"is {damage}, {reason}: there are no {_CONTENT[file]}")


@pytest.mark.parametrize("file", _CONTENT)
def test_unrequested_framework_file_is_not_missing(tmp_path: Path, file: str) -> None:
    root = _raw(tmp_path, activities=["ProfilerActivity.NPU"])
    (root / "FRAMEWORK" / f"torch.{file}").unlink()
    assert not _errors(npuprof.load(root))


def test_without_the_task_queue_there_are_no_records_of_it(tmp_path: Path) -> None:
    root = _raw(tmp_path)
    (root / "FRAMEWORK" / "torch.op_mark").unlink()
    (root / "profiler_metadata.json").write_text('{"ENV_VARIABLES": {"TASK_QUEUE_ENABLE": "0"}}')
    assert not _errors(npuprof.load(root))


def test_no_sample_lacks_a_file_that_it_has(samples: Path) -> None:
    for name in ("text/level0", "text/level1", "db/level0", "db/level1", "host_only_raw"):
        (path,) = (samples / "torch_npu" / name).glob("*[09]_ascend_pt")
        assert not _errors(npuprof.load(path))
