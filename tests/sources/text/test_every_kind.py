"""Every kind of file that a front end writes is read from its result and by itself, plain or compressed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.profiles.profile import Profile
from npuprof.sources.text import csv_kinds
from tests.sources.msprof.results import STAMP, csv, device_trace
from tests.sources.text.kind import Kind
from tests.sources.text.kinds import KINDS
from tests.sources.trace.maker import at, ns, small_trace

INFO = {
    "torch_npu": {"config": {"common_config": {"activities": ["ProfilerActivity.NPU"]}}, "cann_version": "8.3"},
    "mindspore": {"profiler_parameters": {"profiler_level": "Level1"}, "ms_version": "2.7"},
}
CASES = [pytest.param(kind, front, id=f"{front}-{kind.module}") for kind in KINDS for front in kind.fronts]


def _result(root: Path, front: str, module: str) -> Path:
    """Make a result without files of tables, and give the path of a file of one in it."""
    if front == "msprof":
        output = root / "PROF_1" / "mindstudio_profiler_output"
        output.mkdir(parents=True)
        return output / f"{module}_{STAMP}.csv"
    output = root / "result" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (output.parent / "profiler_info_0.json").write_text(json.dumps(INFO[front]))
    rank = "_0" if module.startswith("minddata") else ""
    return output / f"{module}{rank}.csv"


def _check(run: Profile, kind: Kind) -> None:
    frame = run.tables[kind.table] if kind.table else run.statistics[kind.module]
    if kind.table:
        tables.check(kind.table, frame)
    assert len(frame) == 1
    for column, expected in kind.values.items():
        found = frame[column].iloc[0]
        if expected is None:
            assert pd.isna(found), column
            continue
        assert found == expected, column
        if isinstance(expected, int):
            assert pd.api.types.is_integer_dtype(frame[column]), column
        elif isinstance(expected, float):
            assert pd.api.types.is_float_dtype(frame[column]), column
    assert not (run.notes["severity"] == "error").any()


def _zipped(path: Path) -> Path:
    target = path.with_name(f"{path.name}.gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return target


def test_listed_kinds_are_known_by_their_columns() -> None:
    fronts: dict[str, set[str]] = {}
    for kind in KINDS:
        fronts.setdefault(kind.module, set()).update(kind.fronts)
        known = csv_kinds.kind_of(kind.head.split(","))
        assert known is not None
        assert kind.module in known.names
    listed = {name: {*kind.fronts} for kind in csv_kinds.KINDS for name in kind.names}
    tested_elsewhere = {"kernel_details", "op_summary", "ge_memory_record", "ge_operator_memory"}
    assert fronts == {name: of for name, of in listed.items() if name not in tested_elsewhere}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "front"), CASES)
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gz"])
def test_a_file_is_read_in_its_result(tmp_path: Path, kind: Kind, front: str, zipped: bool) -> None:
    path = csv(_result(tmp_path, front, kind.module), kind.head, [kind.row])
    if zipped:
        path = _zipped(path)
    run = npuprof.load(path.parents[1])
    _check(run, kind)
    assert run.info.collector == {"msprof": ""}.get(front, front)


@pytest.mark.long
@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.module) for kind in KINDS])
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gz"])
def test_a_file_is_read_by_itself(tmp_path: Path, kind: Kind, zipped: bool) -> None:
    path = csv(tmp_path / f"{kind.module}.csv", kind.head, [kind.row])
    _check(npuprof.load(_zipped(path) if zipped else path), kind)


def test_a_folder_of_copied_files_is_one_run(tmp_path: Path) -> None:
    chosen = [kind for kind in KINDS if "torch_npu" in kind.fronts]
    for kind in chosen:
        csv(tmp_path / "copied" / f"{kind.module}.csv", kind.head, [kind.row])
    run = npuprof.load(tmp_path / "copied")
    filled = {kind.table for kind in chosen if kind.table}
    assert filled == {name for name, frame in run.tables.items() if len(frame)}
    assert {kind.module for kind in chosen if not kind.table} == set(run.statistics)
    assert run.info.collector == ""


def test_reductions_of_a_step_trace_are_a_frame_of_their_own(tmp_path: Path) -> None:
    kind = next(kind for kind in KINDS if kind.module == "step_trace")
    run = npuprof.load(csv(_result(tmp_path, "msprof", kind.module), kind.head, [kind.row]).parents[1])
    reductions = run.statistics["step_trace_reduce"]
    assert reductions[["Iteration ID", "Reduce Start(ns)"]].to_numpy().tolist() == [[3, ns(2)], [3, ns(3)]]
    assert reductions["Reduce Duration(us)"].tolist() == [0.5, 0.25]
    step = run.statistics["step_trace"]
    assert step[["FP Start(ns)", "Iteration End(ns)"]].to_numpy().tolist() == [[ns(1), ns(9.5)]]
    assert step["FP to BP Time(us)"].tolist() == [3.0]
    assert run.notes.loc[run.notes["severity"] != "info", "source"].tolist() == ["msprof"]  # there is no timeline


TIME = {"Start Timestamp(us)": 1.5, "Elapse Time(ms)": 2.5, "Wait Time(ms)": 1}
BANDWIDTH = {"HCCS": {"Transit Size(MB)": 4, "Transit Time(ms)": 2, "Size Distribution": {"2.0": [1, 2]}}}
OPERATOR = {"Communication Time Info": TIME, "Communication Bandwidth Info": BANDWIDTH}
PAIRS = {"0-1": {"Transport Type": "HCCS", "Transit Size(MB)": 4, "Op Name": "hcom_allReduce__586_0_1"}}
ANALYSED = {
    "communication": {"hcom_allReduce__586_0_1@4586": OPERATOR, "Total Op Info": OPERATOR},
    "communication_matrix": {"allreduce-top1@4586": PAIRS},
}


def _with_steps(operators: Any) -> Any:
    return {"step50": {"p2p": {}, "collective": operators}}


@pytest.mark.slow
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("where", ["torch_npu", "mindspore", "msprof", "file"])
@pytest.mark.parametrize("name", ANALYSED)
def test_communication_is_summed_as_the_vendor_did(tmp_path: Path, name: str, where: str, zipped: bool) -> None:
    if where == "msprof":
        output = _result(tmp_path, where, "op_statistic").parent
        csv(output / f"op_statistic_{STAMP}.csv", KINDS[0].head, [KINDS[0].row])
        path, content = output.parent / "analyze" / f"{name}.json", ANALYSED[name]
        path.parent.mkdir()
    else:
        folder = tmp_path if where == "file" else _result(tmp_path, where, "").parent
        path, content = folder / f"{name}.json", _with_steps(ANALYSED[name])
    path.write_text(json.dumps(content))
    if zipped and where != "msprof":
        path = _zipped(path)
    statistics = npuprof.load(path if where == "file" else path.parents[1]).statistics
    frame = statistics[name]
    assert len(frame) == 1
    assert frame["group"].tolist() == ["4586"]
    assert frame["step"].tolist() == ["" if where == "msprof" else "50"]
    if name == "communication":
        assert frame["Elapse Time(ms)"].tolist() == [2.5]
        bandwidth = statistics["communication_bandwidth"]
        assert bandwidth[["link", "Transit Size(MB)"]].to_numpy().tolist() == [["HCCS", 4.0]]
    else:
        assert frame[["src_rank", "dst_rank", "Transport Type"]].to_numpy().tolist() == [["0", "1", "HCCS"]]


def _as_list(events: list[dict[str, Any]]) -> bytes:
    return json.dumps(events).encode()


def _wrapped(events: list[dict[str, Any]]) -> bytes:
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events, "schemaVersion": 1}, indent=1).encode()


FORMS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "list": _as_list,
    "wrapped": _wrapped,
    "gz": lambda events: gzip.compress(_as_list(events)),
    "byte order mark": lambda events: b"\xef\xbb\xbf" + _as_list(events),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["trace_view.json", "msprof_0.json", "renamed"])
def test_a_timeline_is_read_in_every_form(tmp_path: Path, form: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FORMS[form](small_trace().events))
    run = npuprof.load(path)
    assert run.info.collector == "torch_npu"
    expected = npuprof.load(small_trace().write(tmp_path / "plain.json"))
    for table in tables.NAMES:
        pd.testing.assert_frame_equal(run.tables[table], expected.tables[table])
    assert len(run.tasks) == 3


@pytest.mark.parametrize("spelling", ["text", "int", "float", "relative"])
def test_times_are_read_in_every_spelling(tmp_path: Path, spelling: str) -> None:
    spell: dict[str, Callable[[str], Any]] = {
        "text": str,
        "int": lambda ts: int(ts.partition(".")[0]),
        "float": float,
        "relative": lambda ts: round(float(ts[-10:]), 3),
    }
    events = [
        {**event, "ts": spell[spelling](event["ts"])} if "ts" in event else event for event in device_trace().events
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    run = npuprof.load(path)
    expected = ns(100) % 10**9 if spelling == "relative" else ns(100)
    assert abs(int(run.tasks["start_ns"].iloc[0]) - expected) <= (256 if spelling == "float" else 0)
    told = " ".join(run.notes["message"])
    assert ("floats" in told, "relative clock" in told) == (spelling == "float", spelling == "relative")


@pytest.mark.parametrize("module", ["msprof", "step_trace", "msprof_tx"])
def test_sliced_and_zipped_timelines_of_msprof_are_one(tmp_path: Path, module: str) -> None:
    output = tmp_path / "PROF_1" / "mindstudio_profiler_output"
    output.mkdir(parents=True)
    events = device_trace().events
    head = [event for event in events if event["ph"] == "M"]
    rest = [event for event in events if event["ph"] != "M"]
    for number, part in enumerate((head + rest[:2], head + rest[2:])):
        path = output / f"{module}_slice_{number}_{STAMP}.json"
        path.write_text(json.dumps(part))
        if number:
            _zipped(path)
    run = npuprof.load(output.parent)
    assert [len(run.tasks), len(run.steps), len(run.marks)] == [1, 1, 1]


def test_the_description_of_a_run_is_read_alone(tmp_path: Path) -> None:
    info = tmp_path / "profiler_info_3.json"
    info.write_text(json.dumps(INFO["torch_npu"]))
    run = npuprof.load(info)
    assert (run.info.collector, run.info.rank, run.info.versions) == ("torch_npu", 3, {"cann": "8.3"})
    info.write_text(json.dumps(INFO["mindspore"]))
    assert npuprof.load(info).info.versions == {"mindspore": "2.7"}
    assert npuprof.load(info).info.options["level"] == 1
    metadata = tmp_path / "profiler_metadata.json"
    metadata.write_text(json.dumps({"distributed_args": {"rank": 5, "world_size": 8}, "note": "mine"}))
    run = npuprof.load(metadata)
    assert (run.info.rank, run.info.metadata["note"]) == (5, "mine")
    assert "holds no tables" in run.notes["message"].iloc[0]


MINDSPORE_TEXTS = {
    "cpu_op_execute_timestamp_0.txt": f"MatMul;HostCpuOps;{ns(5)},3.5,7 \n",
    "cpu_ms_memory_record_0.txt": (
        f"Timestamp(ns),Total Allocated(Byte),Total Reserved(Byte),Total Active(Byte)\n{ns(5)},25600,1024,512\n"
    ),
    "cpu_framework_0.txt": "BiasAdd;BiasAdd-op0;1;input_1:[4, 8];input_2:[8];\n",
}


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("name", MINDSPORE_TEXTS)
def test_text_files_of_mindspore_are_read_by_themselves(tmp_path: Path, name: str, zipped: bool) -> None:
    path = tmp_path / name
    path.write_text(MINDSPORE_TEXTS[name])
    run = npuprof.load(_zipped(path) if zipped else path)
    assert run.info.collector == "mindspore"
    found = {
        "operators": run.operators[["start_ns", "duration_ns", "thread_id"]].to_numpy().tolist(),
        "memory": run.memory[["time_ns", "allocated_bytes"]].to_numpy().tolist(),
        "graph": run.statistics.get("cpu_framework", pd.DataFrame()).to_numpy().tolist(),
    }
    expected: dict[str, list[list[Any]]] = {"operators": [[ns(5), 3_500_000, 7]], "memory": [[ns(5), 25600]]}
    expected["graph"] = [["BiasAdd", "BiasAdd-op0", "1", "input_1:[4, 8];input_2:[8]"]]
    kind = {"e": "operators", "m": "memory", "f": "graph"}[name[7] if name.startswith("cpu_op") else name[4]]
    assert {key: rows for key, rows in found.items() if rows} == {kind: expected[kind]}


SUMMARY = {
    "op_ids": [0, 1],
    "op_names": ["Batch", "Shuffle"],
    "pipeline_ops": ["Batch(id=0)", "Shuffle(id=1)"],
    "num_workers": [8, 1],
    "queue_average_size": [-1, 2.5],
    "children_ids": [[1], []],
    "parent_id": [-1, 0],
    "per_pipeline_time": [3.25],
    "bottleneck_warning": ["Batch(id=0)"],
}


@pytest.mark.parametrize("where", ["directory", "file"])
@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_sums_over_the_data_pipeline_are_read_once(tmp_path: Path, suffix: str, where: str) -> None:
    output = _result(tmp_path, "mindspore", "").parent
    texts = {
        "json": json.dumps(SUMMARY),
        "csv": "".join(
            ",".join([key, *(f'"{value}"' for value in values)]) + "\r\n"  # type: ignore[attr-defined]
            for key, values in SUMMARY.items()
        ),
    }
    for one in (suffix,) if where == "file" else texts:
        (output / f"minddata_pipeline_summary_0.{one}").write_text(texts[one], newline="")
    run = npuprof.load(output / f"minddata_pipeline_summary_0.{suffix}" if where == "file" else output.parent)
    assert run.info.collector == "mindspore"
    operators = run.statistics["minddata_pipeline_summary"]
    assert operators["op_names"].tolist() == ["Batch", "Shuffle"]
    assert operators["num_workers"].tolist() == [8, 1]
    assert operators["queue_average_size"].isna().tolist() == [True, False]
    assert operators["children_ids"].tolist() == ["[1]", "[]"]
    findings = run.statistics["minddata_pipeline_findings"]
    assert findings.to_numpy().tolist() == [["per_pipeline_time", "3.25"], ["bottleneck_warning", "Batch(id=0)"]]


@pytest.mark.slow
def test_every_frame_survives_being_saved(tmp_path: Path) -> None:
    for kind in KINDS:
        if "msprof" in kind.fronts:
            csv(
                tmp_path / "PROF_1" / "mindstudio_profiler_output" / f"{kind.module}_{STAMP}.csv", kind.head, [kind.row]
            )
    run = npuprof.load(tmp_path / "PROF_1")
    again = npuprof.load(run.save(tmp_path / "saved"))
    assert set(again.statistics) == set(run.statistics)
    assert {name: len(frame) for name, frame in again.tables.items()} == {
        name: len(frame) for name, frame in run.tables.items()
    }
    assert at(5) not in again.notes.to_string()
