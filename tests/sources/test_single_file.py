"""One file of a result by itself is known by its content, under any name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from tests.sources.msprof.results import STEP_HEAD, SUMMARY_HEAD, TX_HEAD, device_trace, kernel
from tests.sources.trace.maker import at, ns, small_trace

T = at(5) + "\t"
TABLES = {
    "kernels": [
        (SUMMARY_HEAD, kernel("Op", 5, 1)),
        ("Name,Accelerator Core,Start Time(us),Duration(us)", f"Op,AI_CORE,{T},1"),
        ("Step Id,Op Name,OP Type,Start Time(us),Task Duration(us)", f"1,Op,Add,{T},1"),
    ],
    "tasks": [
        ("Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us)", f"0,Op,X,1,1,1,{T}")
    ],
    "marks": [(TX_HEAD, f"host,9,5,0,marker,0,0,{T},{T},0,there,N/A,N/A,N/A")],
    "steps": [(STEP_HEAD, f"1,3,N/A,N/A,{at(6)}\t,1,0,0,0,7,{at(1)},5,{at(1)},5")],
    "step_times": [("Device_id,Step,Computing,Communication,Free", "0,1,5,6,7")],
    "memory": [
        ("Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type", f"PTA,{T},1,2,NPU:0"),
        ("Device_id,Component,Timestamp(us),Total Reserved(KB),Device", f"0,SLOG,{T},1,NPU:0"),
        ("Device_id,event,ddr(KB),hbm(KB),memory(KB),timestamp(us)", f"0,app,1,2,3,{T}"),
    ],
    "allocations": [("Name,Size(KB),Allocation Time(us),Release Time(us)", f"aten::add,1,{T},{T}")],
}
SUMMED = {
    "op_statistic_20260101000000.csv": "Device_id,OP Type,Core Type,Count",
    "api_statistic.csv": "Level,API Name,Time(us)",
    "l2_cache.csv": "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name",
    "fusion_op_0_1_1.csv": "Model Name,Fusion Op,Original Ops",
    "roce_20260101000000.csv": "Device_id,Timestamp(us),rxPacket/s",
    "data_preprocess.csv": "Timestamp(us),Node,Compute_time(us)",
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "head", "row"), [(name, *one) for name, files in TABLES.items() for one in files])
def test_a_csv_fills_its_table(tmp_path: Path, name: str, head: str, row: str) -> None:
    path = tmp_path / "renamed.txt"
    path.write_text(f"\ufeff{head}\r\n{row}\r\n", encoding="utf-8")
    run = npuprof.load(path)
    frame = run.tables[name]
    tables.check(name, frame)
    assert len(frame) == 1
    moment = next((column for column in ("start_ns", "time_ns", "allocated_ns") if column in frame), None)
    assert moment is None or frame[moment].tolist() == [ns(5)]
    assert run.info.source == f"single file, {name}"


@pytest.mark.parametrize(("name", "head"), SUMMED.items())
def test_a_summed_csv_is_kept_by_its_module(tmp_path: Path, name: str, head: str) -> None:
    path = tmp_path / name
    path.write_text(f"{head}\n{','.join('1' for _ in head.split(','))}\n")
    module = name.partition("_2026")[0].partition("_0_")[0].removesuffix(".csv")
    assert {key: len(frame) for key, frame in npuprof.load(path).statistics.items()} == {module: 1}


@pytest.mark.slow
def test_the_framework_is_known_from_a_timeline_alone(tmp_path: Path) -> None:
    torch = npuprof.load(small_trace().write(tmp_path / "a.json"))
    plain = npuprof.load(device_trace().write(tmp_path / "b.json"))
    assert [torch.info.collector, plain.info.collector] == ["torch_npu", ""]
    assert [len(plain.tasks), len(plain.steps), len(plain.marks)] == [1, 1, 1]
    assert plain.info.source == "single file, timeline"


@pytest.mark.slow
def test_communication_files_are_known_by_their_keys(tmp_path: Path) -> None:
    times = tmp_path / "a.json"
    times.write_text(json.dumps({"step1": {"p2p": {"hcom@1": {"Communication Time Info": {"Idle Time(ms)": 1}}}}}))
    assert len(npuprof.load(times).statistics["communication"]) == 1
    matrix = tmp_path / "b.json"
    matrix.write_text(json.dumps({"step1": {"p2p": {"hcom@1": {"0-1": {"Transport Type": "HCCS"}}}}}))
    assert len(npuprof.load(matrix).statistics["communication_matrix"]) == 1


def test_header_alone_gives_no_rows_and_a_note(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{SUMMARY_HEAD}\n")
    run = npuprof.load(path)
    assert not len(run.kernels)
    assert "no rows" in run.notes["message"].iloc[0]


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"Name\0,b\n1,2\n", b'{"a": 1}', b"\x89PNG", b'"' * 300_000])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(SourceError, match="holds nothing that npuprof can read"):
        npuprof.load(path)


def test_lines_that_were_cut_or_filled_with_zero_bytes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(f"Name,Start Time(us),Duration(us)\nA,{T},1\n\0\0\0\nB,{T},2\0\nC,{T}".encode())
    run = npuprof.load(path)
    assert run.kernels["name"].tolist() == ["A"]
    assert run.notes["count"].sum() >= 3
