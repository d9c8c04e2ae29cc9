"""The vendor's CSV files: text cells, exact numbers, columns known by name."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources.text import csv_table
from npuprof.sources.text.communication_json import read_communication, read_communication_matrix
from npuprof.sources.text.csv_table import CsvTable, read_statistic
from npuprof.sources.text.kernel_details import (
    column_name,
    read_communication_operators,
    read_kernel_details,
    take_steps,
    take_task_numbers,
)
from npuprof.sources.text.memory_csv import (
    read_device_memory,
    read_memory_record,
    read_module_memory,
    read_operator_memory,
)
from npuprof.sources.text.vendor_sums import read_step_times
from npuprof.tables.notes import Notes

T = "1763600000000"
LEVEL1 = (
    "\ufeffStep Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),"
    "Duration(us),Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,"
    "Context ID,aic_mac_time(us),aic_mac_ratio,aic_total_cycles,cube_utilization(%)\r\n"
    f'7,1,4294967295,12,2,MatMul1,MatMulV2,dynamic,AI_CORE,{T}100.001\t,10.5,0,8,0,YES,"""2,3;;4""",DT_BF16;FLOAT,'
    "FORMAT_ND;ND,N/A,3.25,0.5,100,12.5\r\n"
    f",1,4294967295,N/A,N/A,hcom_allReduce__586_0_1,hcom_allReduce_,N/A,COMMUNICATION,{T}200.000\t,50,1.5,0,N/A,N/A,"
    "N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A\r\n"
)
SUMMARY = (
    f"Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Block Dim\nAdd1,Add,AI_VECTOR_CORE,{T}100,2,4\n"
)
LEVEL0 = (
    "Name,Type,Accelerator Core,Start Time(us),Duration(us)\n"
    f"A,N/A,N/A,{T}001.0\t,2\nhcom_x__1_0_1,N/A,N/A,{T}002.0\t,3\n"
)
_MEMORY = {"memory_record": read_memory_record, "npu_module_mem": read_module_memory, "npu_mem": read_device_memory}


def write(tmp_path: Path, text: str | bytes, name: str = "some.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_kernels_of_a_full_header(tmp_path: Path) -> None:
    notes = Notes()
    found = read_kernel_details(write(tmp_path, LEVEL1), notes)
    tables.check("kernels", found.kernels)
    tables.check("communication", found.communication)
    kernel = found.kernels.iloc[0]
    assert kernel["start_ns"] == 1763600000000100001
    assert kernel[["duration_ns", "device_id", "stream_id", "task_id", "step"]].tolist() == [10_500, 1, 2, 12, 7]
    assert kernel[["input_shapes", "input_dtypes", "input_formats"]].tolist() == ["2,3;;4", "DT_BF16;FLOAT", "ND;ND"]
    assert kernel[["aic_mac_time_ns", "aic_mac_ratio", "cube_utilization_percent"]].tolist() == [3250, 0.5, 12.5]
    assert bool(kernel["hf32"])
    assert found.kernels["model_id"].isna().all()
    assert found.communication["op_type"].tolist() == ["hcom_allReduce_"]
    assert found.communication["step"].isna().all()
    assert not len(notes)


def test_kernels_under_the_names_of_op_summary(tmp_path: Path) -> None:
    kernels = read_kernel_details(write(tmp_path, SUMMARY), Notes()).kernels
    assert kernels[["name", "op_type", "core", "block_num"]].iloc[0].tolist() == ["Add1", "Add", "AI_VECTOR_CORE", 4]


def test_level0_communication_is_known_by_its_name(tmp_path: Path) -> None:
    found = read_kernel_details(write(tmp_path, LEVEL0), Notes())
    assert (found.kernels["name"].tolist(), found.communication["name"].tolist()) == (["A"], ["hcom_x__1_0_1"])


@pytest.mark.parametrize("text", [LEVEL1, SUMMARY, LEVEL0])
def test_communication_operators_equal_the_whole_file(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    whole, alone = read_kernel_details(path, Notes(), 3).communication, read_communication_operators(path, Notes(), 3)
    pd.testing.assert_frame_equal(alone, whole)


def test_times_that_a_spreadsheet_rounded_are_refused_and_counted(tmp_path: Path) -> None:
    notes = Notes()
    text = SUMMARY + "Add2,Add,AI_VECTOR_CORE,1.69512E+15,2,4\n"
    assert len(read_kernel_details(write(tmp_path, text), notes).kernels) == 1
    assert any("spreadsheet" in message for message in notes.to_frame()["message"])


def test_another_file_is_no_table_of_kernels(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no column 'Start Time"):
        read_kernel_details(write(tmp_path, "Name,Count\na,1\n"), Notes())


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("aic_mac_time(us)", "aic_mac_time_ns"),
        ("aiv_vec_ratio", "aiv_vec_ratio"),
        ("aic_l2_read_bw(GB/s)", "aic_l2_read_bw_gb_s"),
        ("GM_to_L1_datas(KB)", "gm_to_l1_kb"),
        ("cube_utilization( %)", "cube_utilization_percent"),
    ],
)
def test_counter_columns_get_our_names(header: str, name: str) -> None:
    assert column_name(header.replace("( ", "("))[0] == name


def test_times_and_durations_beyond_any_run_are_left_out_and_counted(tmp_path: Path) -> None:
    notes = Notes()
    text = SUMMARY + f"Add2,Add,AI_VECTOR_CORE,9223372036854775.1,2,4\nAdd3,Add,AI_VECTOR_CORE,{T}003.0,9e15,4\n"
    assert len(read_kernel_details(write(tmp_path, text), notes).kernels) == 1
    messages = notes.to_frame().set_index("message")["count"]
    assert (
        messages["a row has no start or duration; left out; counts and sums of kernels and communication are too low"]
        == 2
    )


def test_kernels_take_the_numbers_of_their_tasks(tmp_path: Path) -> None:
    kernels = read_kernel_details(write(tmp_path, LEVEL0), Notes()).kernels
    columns: dict[str, list[Any]] = {
        "start_ns": [1763600000000001001],
        "duration_ns": [2000],
        "device_id": [0],
        "stream_id": [5],
    }
    task: dict[str, list[Any]] = {
        **columns,
        "task_id": [6],
        "batch_id": [1],
        "name": ["A"],
        "task_type": ["AI_CORE"],
        "connection_id": [9],
    }
    device_tasks = tables.build("tasks", {name: pd.array(values) for name, values in task.items()})
    joined, lonely = take_task_numbers(kernels, device_tasks)
    tables.check("kernels", joined)
    assert joined[["stream_id", "task_id", "batch_id", "connection_id"]].iloc[0].tolist() == [5, 6, 1, 9]
    assert (joined["task_type"].tolist(), lonely) == (["AI_CORE"], 0)
    assert joined["start_ns"].tolist() == device_tasks["start_ns"].tolist()  # by which links and figures know the task
    assert take_task_numbers(kernels, device_tasks.assign(start_ns=[1]))[1] == 1
    for rounded, expected in ((1763600000000001250, 0), (1763600000000001500, 1)):  # as a float keeps it
        assert take_task_numbers(kernels, device_tasks.assign(start_ns=[rounded]))[1] == expected
    unchanged, lonely = take_task_numbers(kernels, tables.empty("tasks"))
    assert (len(unchanged), lonely) == (1, 1)
    assert len(take_steps(tables.empty("communication"), tables.empty("communication"))) == 0


@pytest.mark.parametrize(("unit", "factor"), [("MB", 1 << 20), ("KB", 1 << 10)])
def test_memory_is_exact_bytes_by_the_unit_in_the_header(tmp_path: Path, unit: str, factor: int) -> None:
    header = f"Component,Timestamp(us),Total Allocated({unit}),Total Reserved({unit}),Stream Ptr,Device Type"
    text = f"{header}\r\nPTA,{T}002.5\t,1.5,2.25,77,NPU:4\r\nAPP,{T}001.0\t,,3.0,,NPU:4\r\n"
    memory = read_memory_record(write(tmp_path, text), Notes())
    tables.check("memory", memory)
    assert memory["component"].tolist() == ["APP", "PTA"]
    assert memory["reserved_bytes"].tolist() == [3 * factor, factor * 9 // 4]
    assert memory["allocated_bytes"].isna().tolist() == [True, False]
    assert set(memory["device_id"]) == {4}


@pytest.mark.parametrize("device", ["NPU:99999999999999999999", "NPU:²", "NPU:", "NPU:-1", "4"])
def test_a_device_that_has_no_number_is_reported(tmp_path: Path, device: str) -> None:
    notes = Notes()
    head = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type\n"
    text = f"{head}PTA,{T}001.0\t,1,2,{device}\nPTA,{T}002.0\t,1,2,NPU:4\nPTA,{T}003.0\t,1,2,\n"
    memory = read_memory_record(write(tmp_path, text), notes)
    assert memory["device_id"].tolist() == [pd.NA, 4, pd.NA]
    assert notes.to_frame()[["message", "count"]].to_numpy().tolist() == [
        ["'Device Type': a cell is blank; taken as absent", 1],
        ["'Device Type': a cell is no number and is left out", 1],
    ]


def test_blocks_never_released_have_no_release(tmp_path: Path) -> None:
    header = "Name,Size(KB),Allocation Time(us),Release Time(us),Device Type"
    text = f"{header}\na,0.5,{T}001.0\t,,NPU:0\nb,-2,,{T}002.0\t,NPU:0\n"
    blocks = read_operator_memory(write(tmp_path, text), Notes())
    tables.check("allocations", blocks)
    assert blocks["size_bytes"].tolist() == [512, -2048]
    assert (blocks["released_ns"].isna().tolist(), blocks["allocated_ns"].isna().tolist()) == (
        [True, False],
        [False, True],
    )


def test_blocks_know_what_their_allocator_held(tmp_path: Path) -> None:
    held = [f"{when} Total {what}(MB)" for when in ("Allocation", "Release") for what in ("Allocated", "Reserved")]
    header = ",".join(["Name", "Size(KB)", "Allocation Time(us)", "Active Release Time(us)", *held])
    text = f"{header}\na,0.5,{T}001.0\t,{T}002.0\t,1,2,3,\n"
    (block,) = read_operator_memory(write(tmp_path, text), Notes()).to_dict("records")
    assert (block["allocation_total_allocated_bytes"], block["allocation_total_reserved_bytes"]) == (1 << 20, 2 << 20)
    assert block["release_total_allocated_bytes"] == 3 << 20
    assert pd.isna(block["release_total_reserved_bytes"])
    assert block["active_released_ns"] - block["allocated_ns"] == 1000


def test_modules_do_not_pass_for_allocators_of_their_name(tmp_path: Path) -> None:
    text = f"Component,Timestamp(us),Total Reserved(MB),Device\nGE,{T}001.0\t,2,NPU:1\nAPP,{T}002.0\t,-1,NPU:1\n"
    memory = read_module_memory(write(tmp_path, text), Notes())
    assert memory["component"].tolist() == ["GE (module)", "APP (module)"]
    assert memory["reserved_bytes"].tolist() == [2 << 20, pd.NA]


def test_step_times_round_the_vendors_float_noise(tmp_path: Path) -> None:
    times = read_step_times(write(tmp_path, "Step,Computing,Free\r\n,8873.756000000001,0.1\r\n"), Notes(), 3)
    tables.check("step_times", times)
    assert times[["device_id", "computing_ns", "free_ns"]].iloc[0].tolist() == [3, 8_873_756, 100]
    assert times["step"].isna().all()


def test_rows_of_another_length_are_left_out_and_counted(tmp_path: Path) -> None:
    notes = Notes()
    table = CsvTable(write(tmp_path, "a,b\n1,2\n3\n4,5,6\n7,8\n"), notes)
    assert table.text("b").to_pylist() == ["2", "8"]
    assert notes.to_frame()["count"].tolist() == [2]


def test_cells_may_hold_line_ends_quotes_and_bad_bytes(tmp_path: Path) -> None:
    table = CsvTable(write(tmp_path, b'a,b\n"x\ny;\nz",1\n"say ""hi""",\xff\n'), Notes())
    assert table.text("a").to_pylist() == ["x\ny;\nz", 'say "hi"']
    assert table.text("b").to_pylist() == ["1", "\ufffd"]


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.text('ab,\n"\t 9é', max_size=8), st.integers(0, 99)), min_size=1, max_size=30),
    st.integers(40, 90),
)
def test_cells_are_the_same_wherever_the_file_is_cut(rows: list[tuple[str, int]], block: int) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("a", "b"), *rows])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_table, "_BLOCK_BYTES", block)
        table = CsvTable(write(Path(folder), text.getvalue()), Notes())
    assert table.text("a").to_pylist() == [cell.strip() or None for cell, _ in rows]
    assert table.text("b").to_pylist() == [str(number) for _, number in rows]


def test_a_column_of_names_is_trimmed_and_has_no_none(tmp_path: Path) -> None:
    table = CsvTable(write(tmp_path, "a,b\nx\t,1\n N/A,2\n,N/A\nx,INVALID_TYPE\ny, 3\n"), Notes())
    assert table.categories("a").tolist() == ["x", np.nan, np.nan, "x", "y"]
    assert table.text("b").to_pylist() == ["1", "2", None, None, "3"]
    assert table.whole("b").tolist() == [1, 2, pd.NA, pd.NA, 3]


def test_a_header_alone_is_an_empty_table(tmp_path: Path) -> None:
    assert len(read_kernel_details(write(tmp_path, LEVEL0.splitlines()[0] + "\n"), Notes()).kernels) == 0


@pytest.mark.parametrize(
    ("text", "why"), [("", "empty"), ("version https://git-lfs.github.com/spec/v1\n", "LFS"), ("\0\0\n", "no CSV")]
)
def test_what_is_no_csv_is_one_clear_error(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        CsvTable(write(tmp_path, text), Notes())


def test_statistics_keep_the_vendors_names(tmp_path: Path) -> None:
    frame = read_statistic(write(tmp_path, "OP Type,Count,Ratio(%)\nAdd,3,1.5\nMul,N/A,2\n"), Notes())
    assert frame["Ratio(%)"].tolist() == [1.5, 2.0]
    assert frame["Count"].isna().tolist() == [False, True]
    assert frame["OP Type"].tolist() == ["Add", "Mul"]


def test_communication_json_without_its_totals(tmp_path: Path) -> None:
    one = {
        "Communication Time Info": {"Elapse Time(ms)": 2.5},
        "Communication Bandwidth Info": {"HCCS": {"Transit Size(MB)": 4, "Size Distribution": {"2.0": [1, 2]}}},
    }
    text = json.dumps({"step7": {"p2p": {}, "collective": {"op@42": one, "Total Op Info": one}}})
    frames = read_communication(write(tmp_path, text, "communication.json"), Notes())
    assert frames["communication"].iloc[0].tolist() == ["7", "collective", "op", "42", 2.5]
    assert frames["communication_bandwidth"]["link"].tolist() == ["HCCS"]
    text = json.dumps({"step": {"collective": {"op-top1@42": {"0-1": {"Transport Type": "HCCS"}}}}})
    matrix = read_communication_matrix(write(tmp_path, text, "communication_matrix.json"), Notes())
    assert matrix.iloc[0].tolist() == ["", "collective", "op-top1", "42", "0", "1", "HCCS"]


def test_a_cut_communication_json_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="damaged"):
        read_communication(write(tmp_path, '{"step": {', "communication.json"), Notes())


@pytest.mark.parametrize("text", [LEVEL1, SUMMARY, LEVEL0])
def test_kernels_of_a_file_that_was_glued_to_itself_count_once(tmp_path: Path, text: str) -> None:
    once = read_kernel_details(write(tmp_path, text, "once.csv"), Notes())
    notes = Notes()
    twice = read_kernel_details(write(tmp_path, text * 2), notes)
    pd.testing.assert_frame_equal(twice.kernels, once.kernels)
    pd.testing.assert_frame_equal(twice.communication, once.communication)
    told = notes.to_frame().set_index("message")["count"]
    repeated = len(once.kernels) + len(once.communication)
    assert told["a row of a later table repeats a row of an earlier table; left out"] == repeated
    assert told.index.str.contains("2 tables one after another").any()
    assert notes.ledger.to_frame()["left_out"].tolist() == [repeated]


def test_a_later_export_that_goes_on_adds_its_new_rows(tmp_path: Path) -> None:
    head, row = "Component,Timestamp(us),Total Allocated(MB)\n", f"PTA,{T}100.000,1\n"
    path = write(tmp_path, head + row * 2 + head + row * 3 + f"PTA,{T}200.000,2\n" * 2)
    assert read_memory_record(path, Notes())["allocated_bytes"].tolist() == [1 << 20] * 2 + [2 << 20] * 2


@pytest.mark.parametrize("time", ["", "soon", "1.76E+15", "N/A"])
@pytest.mark.parametrize("kind", ["memory_record", "npu_module_mem", "npu_mem"])
def test_samples_of_memory_with_damaged_times_are_counted_as_left_out(tmp_path: Path, kind: str, time: str) -> None:
    head = (
        "event,ddr(KB),hbm(KB),memory(KB),timestamp(us)"
        if kind == "npu_mem"
        else ("Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device")
    )
    rows = [f"app,1,2,3,{at}" if kind == "npu_mem" else f"GE,{at},1,2,NPU:0" for at in (f"{T}100.000", time, time)]
    notes = Notes()
    path = write(tmp_path, "\n".join([head, *rows, ""]), f"{kind}.csv")
    assert len(_MEMORY[kind](path, notes)) == 1
    told = notes.to_frame()
    (note,) = told[told["message"].str.contains("no readable time; left out; counts and sums of memory")].to_dict(
        "records"
    )
    assert (note["severity"], note["source"], note["count"]) == ("warning", f"{kind}.csv", 2)


def test_steps_that_no_run_has_are_reported(tmp_path: Path) -> None:
    notes = Notes()
    rows = "0,7,5,1,-2\r\n0,7,6,1,2\r\n1,7,5,1,2\r\n"
    times = read_step_times(write(tmp_path, f"Device_id,Step,Computing,Communication,Free\r\n{rows}"), notes, 3)
    assert times["free_ns"].tolist() == [-2_000, 2_000, 2_000]
    told = notes.to_frame().set_index("message")["count"]
    assert told["'Free': a time is negative; kept as it is"] == 1
    assert told["a step of a device occurs more than once: sums over steps count it each time"] == 1
