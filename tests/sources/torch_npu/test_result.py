"""A result is read as far as its files go, whatever is missing or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources import torch_npu
from npuprof.sources.base import Decoded
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import detect
from tests.sources.mindspore.maker import OPERATOR, TRANSFER
from tests.sources.trace.maker import BASE_US, NPU, small_trace

KERNELS = (
    "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim\r\n"
    f"7,MatMul1,MatMulV2,AI_CORE,{BASE_US + 100}.001\t,10.5,0,8\r\n"
    f"7,Add2,Add,AI_VECTOR_CORE,{BASE_US + 150}.002\t,10.5,0,8\r\n"
    f"8,hcom_allReduce__586_0_1,hcom_allReduce_,HCCL,{BASE_US + 199}.999\t,50,0,0\r\n"
)
MEMORY = f"Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type\r\nAPP,{BASE_US}.5\t,,3,NPU:1\r\n"
INFO = {
    "config": {
        "common_config": {"activities": ["ProfilerActivity.NPU"], "with_stack": False, "with_flops": True},
        "experimental_config": {
            "_profiler_level": "Level2",
            "_aic_metrics": "ACL_AICORE_MEMORY_UB",
            "_mstx": True,
            "_l2_cache": False,
        },
    },
    "start_info": {"start_monotonic": 1000},
    "end_info": {"collectionTimeEnd": 90_000, "MonotonicTimeEnd": 41_000},
    "cann_version": "8.3.RC1",
}
OTHERS = {
    "operator_memory.csv": (
        f"Name,Size(KB),Allocation Time(us),Duration(us),Device Type\r\naten::empty,1,{BASE_US}.0\t,,NPU:1\r\n"
    ),
    "step_trace_time.csv": "Step,Computing,Communication,Free\r\n7,10.5,50,4\r\n",
    "op_statistic.csv": "OP Type,Count\r\nMatMulV2,1\r\nAdd,1\r\n",
    "api_statistic.csv": "Level,API Name,Count\r\nacl,aclnnMm,1\r\nnode,launch,1\r\nhccl,allReduce,1\r\n",
}
ENTRIES = {"communication.json": OPERATOR, "communication_matrix.json": {"0-1": TRANSFER}}


@pytest.fixture
def result(tmp_path: Path) -> Path:
    root = tmp_path / "renamed by its user"
    output = root / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    small_trace().write(output / "trace_view.json")
    (output / "kernel_details.csv").write_text(KERNELS, newline="")
    (output / "memory_record.csv").write_text(MEMORY, newline="")
    for name, content in OTHERS.items():
        (output / name).write_text(content, newline="")
    for name, entry in ENTRIES.items():
        (output / name).write_text(json.dumps({"step7": {"collective": {"hcom_allReduce__586_0_1@4242": entry}}}))
    (root / "profiler_info_3.json").write_text(json.dumps(INFO))
    (root / "profiler_metadata.json").write_text('{"ENV_VARIABLES": {"HCCL_ALGO": "x", "A": ""}, "note": "mine"}')
    return root


def messages(decoded: Decoded) -> str:
    return "\n".join(decoded.notes.to_frame()["message"])


@pytest.mark.parametrize("name", ENTRIES)
def test_communication_alone_is_recognised(tmp_path: Path, name: str) -> None:
    output = tmp_path / "rank1_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    listed = {"step7": {"collective": {"hcom_allReduce__586_0_1@4242": ENTRIES[name]}}}
    (output / name).write_text(json.dumps(listed))
    for path in (output.parent, output):
        found = detect(path).results
        assert [run.path.name for run in found] in (["rank1_ascend_pt"], ["ASCEND_PROFILER_OUTPUT"])
        assert found[0].source.name == "torch_npu"
        assert len(decode_run(found[0]).statistics[name.removesuffix(".json")]) == 1


@pytest.mark.slow
def test_the_files_are_joined_into_one_set_of_tables(result: Path) -> None:
    decoded = torch_npu.read(result)
    for name, frame in decoded.tables.items():
        tables.check(name, frame)
    kernel = decoded.tables["kernels"].iloc[0]
    assert kernel[["device_id", "stream_id", "task_id", "connection_id", "step"]].tolist() == [1, 2, 0, 10, 7]
    communication = decoded.tables["communication"]
    assert communication[["group", "step", "count"]].iloc[0].tolist() == ["4242", 8, 8]
    assert decoded.statistics["op_statistic"]["Count"].tolist() == [1, 1]
    assert not len(decoded.notes)


def test_info_is_taken_from_the_files(result: Path) -> None:
    info = torch_npu.read(result).info
    assert (info.name, info.collector, info.rank, info.devices) == ("renamed by its user", "torch_npu", 3, [1])
    assert (info.started_ns, info.stopped_ns) == (50_000, 90_000)
    assert info.options["level"] == 2
    assert (info.options["aic_metrics"], info.options["activities"], info.options["marks"]) == (
        "MemoryUB",
        ["npu"],
        True,
    )
    assert [info.options[name] for name in ("stacks", "flops", "l2")] == [False, True, False]
    assert not {"with_stack", "with_flops", "l2_cache"} & set(info.options)
    assert info.versions == {"cann": "8.3.RC1"}
    assert info.environment == {"HCCL_ALGO": "x"}
    assert info.metadata == {"note": "mine"}


def test_without_a_table_of_kernels_they_come_from_the_timeline(result: Path) -> None:
    (result / "ASCEND_PROFILER_OUTPUT/kernel_details.csv").unlink()
    decoded = torch_npu.read(result)
    decoded.settle()
    assert decoded.tables["kernels"]["name"].tolist() == ["MatMul1", "Add2"]
    assert "no table of kernels" in messages(decoded)


def test_a_collective_that_a_cut_timeline_lacks_is_counted(result: Path) -> None:
    text = KERNELS.replace(f"{BASE_US + 199}.999", f"{BASE_US + 900}.0")
    (result / "ASCEND_PROFILER_OUTPUT/kernel_details.csv").write_text(text, newline="")
    decoded = torch_npu.read(result)
    assert "a communication operator is not in the timeline; left out" in messages(decoded)
    account = decoded.notes.ledger.to_frame().set_index("input").loc["kernel_details.csv"]
    assert account[["in_tables", "used", "left_out"]].tolist() == [2, 0, 1]


@pytest.mark.slow
def test_untyped_tasks_with_operators_are_kernels(tmp_path: Path) -> None:
    trace = small_trace()
    names = ("aclnnAdd_AddAiCore_Add", "MEMCPY_ASYNC", "NOTIFY_WAIT", "Other", "N/A", "trans_Cast_1")
    for number, name in enumerate(names):
        trace.slice(NPU, 2, name, 500 + 10 * number, 5, **{"Task Type": "Other", "Physic Stream Id": 2})
    decoded = torch_npu.read(trace.write(tmp_path / "trace_view.json"))
    assert decoded.tables["kernels"]["name"].tolist() == ["MatMul1", "Add2", names[0], names[-1]]
    assert set(names) <= set(decoded.tables["tasks"]["name"])


def test_without_a_timeline_the_rest_is_read(result: Path) -> None:
    (result / "ASCEND_PROFILER_OUTPUT/trace_view.json").unlink()
    decoded = torch_npu.read(result)
    assert decoded.tables["kernels"]["name"].tolist() == ["MatMul1", "Add2"]
    assert decoded.tables["communication"]["group"].tolist() == ["4242"]


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\0\1\2"])
def test_a_damaged_file_is_noted_and_the_others_are_read(result: Path, content: bytes) -> None:
    for name in ("trace_view.json", "memory_record.csv", "communication.json"):
        (result / "ASCEND_PROFILER_OUTPUT" / name).write_bytes(content)
    (result / "profiler_info_3.json").write_bytes(content)
    decoded = torch_npu.read(result)
    assert decoded.tables["kernels"]["name"].tolist() == ["MatMul1", "Add2"]
    notes = decoded.notes.to_frame()
    assert set(notes[notes["severity"] == "error"]["source"]) == {
        "trace_view.json",
        "memory_record.csv",
        "communication.json",
    }


@pytest.mark.slow
def test_halves_of_characters_in_any_file_cost_nothing_else(result: Path) -> None:
    whole = torch_npu.read(result)
    (result / "profiler_info_3.json").write_text(json.dumps(INFO | {"cann_version": "8.3\ud800"}))
    (result / "profiler_metadata.json").write_text(r'{"note": "\ud800", "\udcff": 1}')
    output = result / "ASCEND_PROFILER_OUTPUT"
    listed = json.loads((output / "communication.json").read_text())
    (output / "communication.json").write_text(json.dumps(listed | {"\ud800": {"collective": {"\ud83d": {}}}}))
    decoded = torch_npu.read(result)
    assert decoded.info.versions["cann"] == "8.3\ufffd"
    assert decoded.info.metadata == {"note": "\ufffd", "\ufffd": 1}
    assert "cannot be read" not in messages(decoded)
    assert decoded.tables["communication"].shape == whole.tables["communication"].shape


def test_unreadable_result_is_an_error(result: Path) -> None:
    for path in (result / "ASCEND_PROFILER_OUTPUT").iterdir():
        path.write_bytes(b"")
    with pytest.raises(SourceError, match="is empty"):
        torch_npu.read(result)


def test_an_empty_folder_of_the_framework_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "FRAMEWORK").mkdir()
    assert not torch_npu.recognises(tmp_path)
    with pytest.raises(SourceError, match="no parsed result"):
        torch_npu.read(tmp_path)


@pytest.mark.slow
def test_files_that_are_not_read_are_reported(result: Path) -> None:
    (result / "ASCEND_PROFILER_OUTPUT/platform.xlsx").write_text("x")
    notes = torch_npu.read(result).notes.to_frame()
    assert notes["source"].tolist() == ["platform.xlsx"]


@pytest.mark.slow
def test_results_of_mindspore_are_named_so(result: Path) -> None:
    (result / "profiler_info_3.json").write_text('{"ms_version": "2.6"}')
    assert torch_npu.read(result).info.collector == "mindspore"


@pytest.mark.parametrize(
    ("start", "why"),
    [
        ("1763600000000100,001", "another number of cells than the header"),  # a decimal comma
        ("1763600000000100001000", "has no start or duration"),  # nanoseconds
        ("1.7636E+15", "a spreadsheet may have rounded it"),
    ],
)
def test_a_result_without_a_readable_row_is_refused_with_the_reason(tmp_path: Path, start: str, why: str) -> None:
    output = tmp_path / "rank1_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    text = f"Name,Type,Accelerator Core,Start Time(us),Duration(us)\nAdd,Add,AI_CORE,{start},2\n"
    (output / "kernel_details.csv").write_text(text)
    with pytest.raises(SourceError, match=f"kernel_details.csv.*{why}"):
        torch_npu.read(output.parent)
