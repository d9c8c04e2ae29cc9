"""A result of MindSpore on an NPU, and its timeline alone, give the tables that results of others give."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.profiles.profile import Profile
from tests.sources.mindspore.maker import INFO, KERNEL, LAUNCH, result, trace
from tests.sources.text.kinds import KINDS
from tests.sources.trace.maker import ns

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path: Path) -> Profile:
    loaded = npuprof.load(result(tmp_path / "renamed"))
    for name in tables.NAMES:
        tables.check(name, loaded.tables[name])
    return loaded


@pytest.fixture(params=[False, True], ids=["new", "with numbers"])
def timeline(tmp_path: Path, request: pytest.FixtureRequest) -> Profile:
    return npuprof.load(trace(with_numbers=request.param).write(tmp_path / "trace_view.json"))


@pytest.mark.slow
def test_the_run_is_known_as_one_of_mindspore(run: Profile) -> None:
    info = run.info
    assert (info.collector, info.source, info.rank) == ("mindspore", "mindspore text result", 2)
    assert info.versions == {"mindspore": "2.7.0", "cann": "8.3.RC1"}
    assert {name: info.options[name] for name in ("level", "aic_metrics", "activities", "stacks", "memory")} == {
        "level": 1,
        "aic_metrics": "PipeUtilization",
        "activities": ["cpu", "npu"],
        "stacks": True,
        "memory": True,
    }
    assert info.options["jit_level"] == "O0"
    assert "parallel_group_info" in info.metadata
    # This result has no rows of the tasks whose transfers the vendor's sums have.
    assert run.notes["source"][run.notes["severity"] != "info"].tolist() == ["communication_tasks"]


def test_without_its_info_file_the_timeline_is_used(tmp_path: Path) -> None:
    path = result(tmp_path / "renamed")
    (path / "profiler_info_2.json").unlink()
    assert (npuprof.load(path).info.collector, npuprof.load(path).info.source) == ("mindspore", "mindspore text result")
    (path / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").unlink()
    assert npuprof.load(path).info.collector == "mindspore"  # by the allocator in the memory record


def test_kernels_are_called_as_their_tasks_and_keep_the_operators_name(run: Profile) -> None:
    assert run.kernels[["name", "op_name", "op_type", "step"]].to_numpy().tolist() == [
        [KERNEL, f"{LAUNCH}/{KERNEL}", "MatMulV2", 3]
    ]
    assert run.kernels[["device_id", "stream_id", "task_id", "connection_id"]].to_numpy().tolist() == [[1, 2, 5, 10]]
    assert not run.notes["message"].str.contains("has no task").any()


@pytest.mark.slow
def test_operators_and_steps_are_those_of_the_framework(run: Profile) -> None:
    operators = run.operators.sort_values("start_ns")
    assert operators[["name", "start_ns", "duration_ns", "thread_id", "step"]].to_numpy().tolist() == [
        ["Dataset::Pipeline::Push", ns(5), 4000, 13, 3],
        ["PynativeFramework::RunOp::MatMul", ns(10), 20_000, 11, 3],
        [LAUNCH, ns(35), 10_000, 12, 3],
        ["PynativeFramework::Wait::", ns(50), 0, 11, 3],
        ["Default/Cast-op1", ns(300), 7500, 0, 3],
    ]
    assert set(operators["kind"]) == {"op"}
    assert run.steps[["step", "start_ns", "duration_ns"]].to_numpy().tolist() == [[3, ns(0), 1_000_000]]


def test_causes_are_linked_to_their_effects(run: Profile) -> None:
    found = {}
    for link in run.links.itertuples():
        ends = [
            run.tables[getattr(link, f"{end}_table")]["name"][getattr(link, f"{end}_row")]
            for end in ("source", "target")
        ]
        found[str(link.kind)] = ends
    assert found == {
        "enqueue": ["PynativeFramework::RunOp::MatMul", LAUNCH],
        "api_task": ["launch", KERNEL],
        "operator_api": [LAUNCH, "launch"],
    }


@pytest.mark.slow
def test_python_calls_nest_in_time(run: Profile) -> None:
    python = run.python
    assert python[["name", "depth"]].to_numpy().tolist() == [
        ["train.py(9): main", 0],
        ["mindspore/nn/cell.py(700): __call__", 1],
    ]
    assert python["parent_id"].tolist() == [pd.NA, python["id"][0]]


def test_layers_of_the_network_and_the_sums_are_kept(run: Profile) -> None:
    layers = run.statistics["scope_layers"]
    assert layers[["name", "depth", "start_ns", "duration_ns"]].to_numpy().tolist() == [
        ["Default", 0, ns(100), 50_000],
        ["network-Net", 1, ns(100), 50_000],
    ]
    summed = {kind.module for kind in KINDS if "mindspore" in kind.fronts and not kind.table}
    assert summed <= set(run.statistics)
    assert {"dataset", "minddata_pipeline_raw", "communication"} <= set(run.statistics)
    assert run.communication[["name", "group", "step"]].to_numpy().tolist() == [["hcom_allReduce__586_0_1", "4586", 3]]


def test_a_timeline_alone_is_known_too(timeline: Profile) -> None:
    assert timeline.info.collector == "mindspore"
    assert len(timeline.operators) == 5
    assert timeline.steps["step"].tolist() == [3]
    assert set(timeline.links["kind"]) == {"enqueue", "api_task", "operator_api"}
    assert len(timeline.kernels) == 1
    assert not timeline.notes["message"].str.contains("left out|not read").any()


def test_arguments_that_older_releases_wrote_are_taken(tmp_path: Path) -> None:
    run = npuprof.load(trace(with_numbers=True).write(tmp_path / "trace_view.json"))
    operator = run.operators[run.operators["name"] == LAUNCH].iloc[0]
    assert operator[["sequence_number", "input_shapes"]].tolist() == [4, "2,3;3,4"]


@pytest.mark.slow
def test_a_kernel_without_a_task_keeps_the_name_of_its_file(tmp_path: Path) -> None:
    path = result(tmp_path / "renamed")
    csv = path / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    text = csv.read_text()
    csv.write_text(text.replace(f"/{KERNEL}", "/another"))
    run = npuprof.load(path)
    assert run.kernels["name"].tolist() == [f"{LAUNCH}/another"]
    assert run.notes["message"].str.contains("a kernel has no task in the timeline").any()


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("node-1_311_20261120132453803_ascend_ms", "node-1"),
        ("my_host_311_20261120132453803_ascend_ms", "my_host"),
        ("rank_2_20261120132453803_ascend_ms", None),  # a worker that was named by its rank, 2
        ("rank-2_20261120132453803_ascend_ms", None),
        ("renamed", None),
    ],
)
def test_the_host_is_known_by_the_name_of_the_folder(tmp_path: Path, name: str, host: str | None) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "profiler_info_2.json").write_text(json.dumps(INFO))
    (tmp_path / name / "ASCEND_PROFILER_OUTPUT").mkdir()
    head = "Step,Computing,Communication,Free\n"
    (tmp_path / name / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").write_text(f"{head}3,10.5,50,4\n")
    assert npuprof.load(tmp_path / name).info.environment.get("hostname") == host
