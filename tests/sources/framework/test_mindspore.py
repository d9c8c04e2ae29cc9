"""MindSpore's text files of CPU operators and memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npuprof import tables
from npuprof.sources.base import Decoded
from npuprof.sources.framework import mindspore, reader_of
from tests.budget import examples
from tests.sources.framework.conftest import CLOCK

T = 1_795_181_081_964_356_555
OPERATORS = (
    f"MatMul;HostCpuOps;{T},3.63561,0 {T + 4_000_000},1e-05,7 \n"
    f"Default/BiasAdd-op0;HostCpuOps;{T + 10},0.004,0 \n"
)  # fmt: skip
MEMORY = (
    "Timestamp(ns),Total Allocated(Byte),Total Reserved(Byte),Total Active(Byte)\n"
    f"{T + 5},25600,1073741824,512\n{T},0,1073741824,0\n"
)
TYPES = "op_type,type_occurrences\nMatMul,2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cpu_op_execute_timestamp_0.txt").write_text(OPERATORS)
    (tmp_path / "cpu_ms_memory_record_0.txt").write_text(MEMORY)
    (tmp_path / "cpu_op_type_info_0.csv").write_text(TYPES)
    return tmp_path


def read(folder: Path) -> Decoded:
    decoded = Decoded()
    mindspore.read(folder, lambda: CLOCK, decoded)
    for name, frame in decoded.tables.items():
        tables.check(name, frame)
    return decoded


def test_operators_come_with_exact_times(folder: Path) -> None:
    operators = read(folder).tables["operators"]
    assert operators[["name", "start_ns", "duration_ns", "thread_id"]].to_numpy(object).tolist() == [
        ["MatMul", T, 3_635_610, 0],
        ["Default/BiasAdd-op0", T + 10, 4000, 0],
        ["MatMul", T + 4_000_000, 10, 7],
    ]


def test_oversized_file_costs_only_itself(folder: Path) -> None:
    with (folder / "cpu_op_execute_timestamp_0.txt").open("r+b") as file:
        file.truncate(5 << 30)  # set up for writing, and never filled
    decoded = read(folder)
    assert len(decoded.tables["operators"]) == 0
    assert len(decoded.tables["memory"]) == 2
    told = decoded.notes.to_frame()
    assert told["source"].tolist() == ["cpu_op_execute_timestamp_0.txt"]
    assert "is larger than 4096 MiB" in told["message"].iloc[0]


def test_samples_of_memory_come_in_order_of_time(folder: Path) -> None:
    memory = read(folder).tables["memory"]
    columns = ["time_ns", "component", "allocated_bytes", "reserved_bytes", "active_bytes"]
    assert memory[columns].to_numpy(object).tolist() == [
        [T, "MindSpore", 0, 1 << 30, 0],
        [T + 5, "MindSpore", 25600, 1 << 30, 512],
    ]


def test_sums_and_graphs_are_kept_and_other_files_named(folder: Path) -> None:
    (folder / "cpu_framework_0.txt").write_text(";;1;\nBiasAdd;BiasAdd-op0;1;input_1:[4, 8];input_2:[8];\n")
    (folder / "else.bin").write_bytes(b"x")
    decoded = read(folder)
    assert decoded.statistics["cpu_op_type_info"]["type_occurrences"].tolist() == [2]
    assert decoded.statistics["cpu_framework"].to_numpy().tolist() == [
        ["BiasAdd", "BiasAdd-op0", "1", "input_1:[4, 8];input_2:[8]"]
    ]
    assert decoded.notes.to_frame()["source"].tolist() == ["else.bin"]


def test_files_of_several_devices_are_read_one_after_another(folder: Path) -> None:
    (folder / "cpu_op_execute_timestamp_1.txt").write_text(f"ReLU;HostCpuOps;{T + 1},0.5,3 \n")
    assert read(folder).tables["operators"]["name"].tolist() == ["MatMul", "ReLU", "Default/BiasAdd-op0", "MatMul"]


def test_damaged_lines_are_reported_and_the_rest_is_kept(folder: Path) -> None:
    broken = f"{OPERATORS}nonsense\nReLU;HostCpuOps;9999999999999999999,1,0 x,1,0 {T + 20},2,0 {T},1.2.3,0 {T},4\n"
    (folder / "cpu_op_execute_timestamp_0.txt").write_text(broken)
    (folder / "cpu_ms_memory_record_0.txt").write_text(MEMORY + "1,2,3\n")
    decoded = read(folder)
    assert decoded.tables["operators"]["name"].tolist() == ["MatMul", "Default/BiasAdd-op0", "ReLU", "MatMul"]
    assert len(decoded.tables["memory"]) == 2
    assert decoded.notes.to_frame()["count"].tolist() == [1, 4, 1]


def test_a_framework_is_known_by_its_files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    assert reader_of(folder) is mindspore
    assert reader_of(other) is None
    (other / "torch.op_range").write_bytes(b"")
    found = reader_of(other)
    assert found is not None
    assert found.COLLECTOR == "torch_npu"
    assert reader_of(other / "missing") is None


@pytest.mark.slow
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_text_ends_in_tables(folder: Path, data: st.DataObject) -> None:
    for name, text in (("cpu_op_execute_timestamp_0.txt", OPERATORS), ("cpu_ms_memory_record_0.txt", MEMORY)):
        content = bytearray(text.encode())
        for _ in range(data.draw(st.integers(0, 6))):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(min_size=1, max_size=3))
        (folder / name).write_bytes(content)
    read(folder)
