"""Results of msprof into the tables: both layouts, slices, damage, and nothing counted twice."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources import msprof
from npuprof.sources.base import Decoded
from tests.sources.msprof.results import (
    STAMP,
    STEP_HEAD,
    SUMMARY_HEAD,
    TX_HEAD,
    csv,
    device_trace,
    kernel,
    old_result,
    result,
)
from tests.sources.trace.maker import at, ns

OFFSET_NS = 1_692_340_024_324_979_000 - 1_000_000


def _read(root: Path) -> Decoded:
    decoded = msprof.read(root)
    for name, frame in decoded.tables.items():
        tables.check(name, frame)
    return decoded


def _messages(decoded: Decoded) -> str:
    return " | ".join(decoded.notes.to_frame()["message"])


def test_kernels_join_table_and_timeline(tmp_path: Path) -> None:
    decoded = _read(result(tmp_path / "PROF_1"))
    one = decoded.tables["kernels"].iloc[0]
    assert one[["start_ns", "duration_ns", "device_id", "stream_id", "block_num"]].tolist() == [
        ns(100),
        10_000,
        0,
        2,
        24,
    ]
    assert one[["op_name", "op_type", "core", "input_shapes"]].tolist() == ["MatMul_0", "MatMulV3", "AI_CORE", "2,3;"]
    assert one[["connection_id", "batch_id", "step"]].tolist() == [10, 0, 4]
    assert one[["aic_total_time_ns", "aic_mac_time_ns", "aic_mac_ratio"]].tolist() == [9250, 5500, 0.5]
    assert decoded.tables["steps"][["step", "start_ns", "duration_ns"]].to_numpy().tolist() == [[4, ns(90), 100_000]]
    assert decoded.tables["marks"][["message", "kind"]].to_numpy().tolist() == [["forward", "push/pop"]]
    assert len(decoded.tables["overlap"]) == 1
    assert decoded.info.source == "msprof text result"
    assert decoded.info.devices == [0]


def test_the_tables_have_the_columns_of_other_results(tmp_path: Path) -> None:
    run = npuprof.load(result(tmp_path / "PROF_1"))
    for name in tables.NAMES:
        tables.check(name, getattr(run, name))


@pytest.mark.slow
def test_slices_are_one_table(tmp_path: Path) -> None:
    output = tmp_path / "mindstudio_profiler_output"
    for number in range(3):
        row = kernel(f"Op{number}", 300 - 100 * number, 10)
        csv(output / f"op_summary_slice_{number}_{STAMP}.csv", SUMMARY_HEAD, [row])
        timeline = device_trace()
        timeline.events[-4]["name"] = f"Op{number}"
        timeline.write(output / f"msprof_slice_{number}_{STAMP}.json")
    decoded = _read(tmp_path)
    assert decoded.tables["kernels"]["name"].tolist() == ["Op2", "Op1", "Op0"]
    assert decoded.tables["tasks"]["name"].tolist() == ["Op0", "Op1", "Op2"]


def test_result_without_timeline_uses_its_csv(tmp_path: Path) -> None:
    output = tmp_path / "mindstudio_profiler_output"
    head = "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)"
    rows = [f"1,Add,AI_VECTOR_CORE,2,7,4.5,{at(50)}\t,{at(54.5)}\t", "1,N/A,MEMCPY_ASYNC,2,8,1,1.69512E+15,N/A"]
    csv(output / f"task_time_{STAMP}.csv", head, rows)
    tx = f"1,9,5,N/A,marker_ex,N/A,N/A,{at(10)}\t,{at(12)}\t,N/A,here,mine,{at(20)}\t,{at(23)}\t"
    csv(
        output / f"msprof_tx_{STAMP}.csv", TX_HEAD, [tx, f"host,9,5,0,marker,0,0,{at(11)},{at(11)},0,there,N/A,N/A,N/A"]
    )
    steps = [f"1,3,N/A,N/A,{at(60)}\t,20.5,0,0,0,7,{at(1)},5", "1,4,N/A,N/A,N/A,N/A,0,0,0,7"]
    csv(output / f"step_trace_{STAMP}.csv", STEP_HEAD, steps)
    decoded = _read(tmp_path)
    assert decoded.tables["tasks"][["start_ns", "duration_ns", "task_id", "device_id"]].to_numpy().tolist() == [
        [ns(50), 4500, 7, 1]
    ]
    assert decoded.tables["kernels"][["name", "step"]].to_numpy().tolist() == [["Add", 3]]
    marks = decoded.tables["marks"]
    assert marks[["message", "device_start_ns", "device_duration_ns"]].iloc[0].tolist() == ["here", ns(20), 3000]
    assert marks.iloc[1][["duration_ns", "device_id"]].isna().tolist() == [False, True]
    assert decoded.tables["steps"][["step", "start_ns", "model_id"]].to_numpy().tolist() == [[3, ns(39.5), 7]]
    assert "a spreadsheet may have rounded it" in _messages(decoded)
    assert "no end or time of an iteration" in _messages(decoded)


def test_tasks_of_the_timeline_are_not_counted_again(tmp_path: Path) -> None:
    root = result(tmp_path / "PROF_1")
    output = root / "mindstudio_profiler_output"
    head = "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)"
    csv(output / f"task_time_{STAMP}.csv", head, [f"0,MatMul_0,AI_CORE,2,0,10,{at(100)}\t,{at(110)}\t"])
    device_trace().write(output / f"step_trace_{STAMP}.json")
    device_trace().write(output / f"msprof_tx_{STAMP}.json")
    decoded = _read(root)
    assert [len(decoded.tables[name]) for name in ("tasks", "steps", "marks")] == [1, 1, 1]


def test_memory_is_bytes_whatever_the_unit(tmp_path: Path) -> None:
    output = tmp_path / "mindstudio_profiler_output"
    csv(
        output / f"memory_record_{STAMP}.csv",
        "Device_id,Component,Timestamp(us),Total Allocated(KB),Total Reserved(KB),Device",
        [f"0,GE,{at(3)}\t,8.5,16,NPU:0"],
    )
    head = "Device_id,event,ddr(KB),hbm(KB),memory(KB),timestamp(us)"
    csv(output / f"npu_mem_{STAMP}.csv", head, [f"0,app,1,2,3,{at(1)}\t", f"0,Device,1,2,3,{at(2)}\t"])
    csv(
        output / f"npu_module_mem_slice_0_{STAMP}.csv",
        "Device_id,Component,Timestamp(us),Total Reserved(KB),Device",
        [f"0,RUNTIME,{at(4)}\t,5,NPU:0", f"0,SLOG,{at(5)}\t,-1,NPU:0"],
    )
    csv(
        output / f"operator_memory_{STAMP}.csv",
        "Device_id,Name,Size(KB),Allocation Time(us),Duration(us),Device",
        [f"0,Add,4.0,{at(3)}\t,500.0,NPU:0", f"0,Held,1,{at(3)}\t,N/A,NPU:0"],
    )
    decoded = _read(tmp_path)
    memory = decoded.tables["memory"]
    assert memory["component"].tolist() == ["APP", "Device", "GE", "RUNTIME (module)", "SLOG (module)"]
    assert memory["reserved_bytes"].tolist() == [3072, 3072, 16384, 5120, pd.NA]
    assert memory["hbm_bytes"].tolist()[:2] == [2048, 2048]
    assert memory["allocated_bytes"].tolist()[2] == 8704
    blocks = decoded.tables["allocations"]
    assert blocks["size_bytes"].tolist() == [4096, 1024]
    assert blocks["released_ns"].tolist() == [ns(503), pd.NA]


def test_other_files_are_kept_as_they_came_with_exact_moments(tmp_path: Path) -> None:
    output = tmp_path / "mindstudio_profiler_output"
    csv(output / f"aicpu_{STAMP}.csv", "Device_id,Timestamp(us),Node,Compute_time(us)", [f"0,{at(1.001)}\t,N/A,50.5"])
    csv(output / f"fusion_op_{STAMP}.csv", "Device_id,Model Name,Fusion Op", ["host,m,a_b"])
    decoded = _read(tmp_path)
    assert decoded.statistics["aicpu"]["Timestamp(ns)"].tolist() == [ns(1.001)]
    assert decoded.statistics["aicpu"]["Compute_time(us)"].tolist() == [50.5]
    assert decoded.statistics["fusion_op"]["Fusion Op"].tolist() == ["a_b"]


def test_communication_json_of_msprof_has_no_step_level(tmp_path: Path) -> None:
    root = result(tmp_path / "PROF_1")
    (root / "analyze").mkdir()
    times = '{"Communication Time Info": {"Elapse Time(ms)": 1.5}, "Communication Bandwidth Info": {}}'
    (root / "analyze" / "communication.json").write_text(f'{{"hcom_a__1_0_1@77": {times}, "Total Op Info": {times}}}')
    matrix = '{"hcom_a@77": {"0-1": {"Transport Type": "HCCS", "Transit Size(MB)": 2}}}'
    (root / "analyze" / "communication_matrix.json").write_text(matrix)
    statistics = _read(root).statistics
    assert statistics["communication"][["name", "group", "Elapse Time(ms)"]].to_numpy().tolist() == [
        ["hcom_a__1_0_1", "77", 1.5]
    ]
    assert statistics["communication_matrix"][["src_rank", "dst_rank"]].to_numpy().tolist() == [["0", "1"]]


@pytest.mark.slow
def test_an_old_result_is_placed_on_utc_by_device(tmp_path: Path) -> None:
    decoded = _read(old_result(tmp_path / "PROF_1", devices=(0, 1)))
    tasks = decoded.tables["tasks"]
    assert tasks["start_ns"].tolist() == [OFFSET_NS + value for value in (1_100_250, 1_101_250, 1_200_250, 1_201_250)]
    assert tasks[["device_id", "name"]].to_numpy().tolist() == [[0, "Conv0"], [1, "Conv1"]] * 2
    assert decoded.tables["kernels"]["step"].tolist() == [1, 1, 2, 2]
    assert decoded.tables["steps"]["device_id"].tolist() == [0, 1, 0, 1]
    assert decoded.info.source == "msprof text result, layout of CANN 5 and 6"
    assert decoded.info.chip == "Ascend 910"


def test_old_result_uses_machine_times(tmp_path: Path) -> None:
    root = old_result(tmp_path / "PROF_1")
    (root / "device_0" / "start_info.0").unlink()
    decoded = _read(root)
    assert decoded.tables["tasks"]["start_ns"].tolist() == [1_100_250, 1_200_250]
    assert "no start_info has the time of boot" in _messages(decoded)


@pytest.mark.parametrize("damage", [b"", b"\0" * 40, b"[1,2", b"Op Name\n", SUMMARY_HEAD.encode()])
def test_a_damaged_file_is_reported_and_the_others_are_read(tmp_path: Path, damage: bytes) -> None:
    root = result(tmp_path / "PROF_1")
    (root / "mindstudio_profiler_output" / f"op_summary_{STAMP}.csv").write_bytes(damage)
    decoded = _read(root)
    assert len(decoded.tables["tasks"]) == 1
    assert len(decoded.notes)


def test_unreadable_result_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "mindstudio_profiler_output"
    output.mkdir()
    (output / f"op_summary_{STAMP}.csv").write_bytes(b"")
    with pytest.raises(SourceError, match="is empty"):
        msprof.read(tmp_path)
    with pytest.raises(SourceError, match="msprof --export=on"):
        msprof.read(tmp_path / "absent")


def test_times_that_went_through_a_spreadsheet_are_reported_and_not_used(tmp_path: Path) -> None:
    root = result(tmp_path / "PROF_1")
    row = kernel("MatMul_0", 100, 10).replace(f"{at(100)}\t", "1.69512E+15")
    csv(root / "mindstudio_profiler_output" / f"op_summary_{STAMP}.csv", SUMMARY_HEAD, [row])
    decoded = _read(root)
    assert not len(decoded.tables["kernels"])
    assert "a spreadsheet may have rounded it" in _messages(decoded)
    assert "has no start or duration" in _messages(decoded)


@pytest.mark.slow
@pytest.mark.parametrize(("sample", "collector"), [({"app": "python3"}, "msprof"), ({"app": ""}, ""), (None, "")])
def test_the_front_end_is_known_only_if_files_name_it(
    tmp_path: Path, sample: dict[str, str] | None, collector: str
) -> None:
    # GIVEN a result of msprof's own start of a program, and one of pyACL or TensorFlow, which write the same files
    root = result(tmp_path / "PROF_1")
    if sample is not None:
        (root / "host").mkdir()
        (root / "host" / "info.json").write_text('{"pid_name": "python3"}')
        (root / "host" / "sample.json").write_text(json.dumps(sample))
    run = npuprof.load(root)
    assert run.info.collector == collector
    assert run.info.source == "msprof text result"
    assert len(run.kernels) == 1
