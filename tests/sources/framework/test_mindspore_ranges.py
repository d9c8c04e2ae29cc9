"""Ranges of MindSpore on an NPU: names, steps, stacks, and what they launched."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npuprof import tables
from npuprof.sources.base import Decoded
from npuprof.sources.framework import mindspore_ranges, reader_of
from npuprof.sources.raw.metadata.clocks import CounterClock
from npuprof.sources.torch_npu import raw_files
from tests.budget import examples
from tests.sources.framework.conftest import CLOCK
from tests.sources.framework.test_mindspore import OPERATORS
from tests.sources.framework.writer import EPOCH_OFFSET_NS, START_NS, record, text
from tests.sources.raw.writers.directory import HOST_COUNTER, RawDirectory
from tests.sources.raw.writers.directory import START_NS as RAW_START_NS

NAME = "mindspore.op_range"
_EPOCH_NS = START_NS + EPOCH_OFFSET_NS


def op_range(start: int, end: int, name: str, full_name: str = "", thread: int = 7, **of: Any) -> bytes:
    numbers = (thread, of.get("flow", 0), of.get("step", 0), start, end)
    fixed = struct.pack("<5Qi3Hb", *numbers, 100, of.get("module", 0), of.get("event", 0), of.get("stage", 0), 0)
    fixed += struct.pack("<3?", of.get("is_graph", False), of.get("is_stage", False), of.get("is_stack", False))
    fields = text(13, name) + text(14, full_name)
    return record(0, fixed + fields + text(15, of.get("module_graph", "")) + text(16, of.get("event_graph", "")))


RANGES = (
    op_range(START_NS + 100, START_NS + 900, "", is_stage=True, stage=3, step=2),
    op_range(START_NS + 200, START_NS + 700, "Add", "Default/Add-op0", module=4, event=4, step=2, flow=5),
    op_range(START_NS + 250, START_NS + 260, "flow", "Default/Add-op0", thread=8),
    op_range(START_NS + 300, START_NS + 400, "Mul", is_graph=True, module_graph="Kernel", event_graph="Launch"),
    op_range(START_NS + 10, START_NS + 1000, "train.py(3): main", is_stack=True),
    op_range(START_NS + 20, START_NS + 950, "train.py(9): step", is_stack=True),
)


def read(folder: Path, clock: CounterClock = CLOCK) -> Decoded:
    decoded = Decoded()
    mindspore_ranges.read(folder, lambda: clock, decoded)
    for name, frame in decoded.tables.items():
        tables.check(name, frame)
    return decoded


def test_ranges_are_named_as_in_the_vendors_timeline(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"".join(RANGES))
    operators = read(tmp_path).tables["operators"]
    columns = ["start_ns", "duration_ns", "name", "thread_id", "step"]
    assert operators[columns].to_numpy(object).tolist() == [
        [_EPOCH_NS + 100, 800, "RunGraph", 7, 2],
        [_EPOCH_NS + 200, 500, "Kernel::KernelLaunch::Default/Add-op0", 7, 2],
        [_EPOCH_NS + 250, 10, "Default/Add-op0", 8, 0],
        [_EPOCH_NS + 300, 100, "Kernel::Launch::Mul", 7, 0],
    ]
    assert operators["correlation_id"].fillna(0).tolist() == [0, 5, 0, 0]


def test_stacks_are_calls_of_python(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"".join(RANGES))
    python = read(tmp_path).tables["python"]
    assert python["name"].tolist() == ["train.py(3): main", "train.py(9): step"]
    assert python["depth"].tolist() == [0, 1]
    assert python["parent_id"].fillna(-1).tolist() == [-1, 0]


def test_text_files_beside_them_are_read_too(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(RANGES[1])
    (tmp_path / "cpu_op_execute_timestamp_0.txt").write_text(OPERATORS)
    assert reader_of(tmp_path) is mindspore_ranges
    decoded = read(tmp_path)
    assert len(decoded.tables["operators"]) == 4
    assert decoded.tables["operators"]["id"].tolist() == [0, 1, 2, 3]
    assert decoded.notes.to_frame().empty


def test_a_folder_of_text_files_alone_is_the_other_readers(tmp_path: Path) -> None:
    (tmp_path / "cpu_op_execute_timestamp_0.txt").write_text(OPERATORS)
    assert reader_of(tmp_path) is not mindspore_ranges


def test_operators_are_linked_to_the_calls_that_they_made(tmp_path: Path) -> None:
    # GIVEN a run of MindSpore whose stamps are those of the host's counter, as the raw directory's are
    root = tmp_path / "host_1_ascend_ms"
    directory = RawDirectory(root / "PROF_000001_20251120005320000_ABCDEFGHIJKLMNOP")
    directory.launch(100, "Add", 3, 0)
    directory.finish()
    (root / "FRAMEWORK").mkdir()
    start, end = HOST_COUNTER + 90, HOST_COUNTER + 160
    content = op_range(start, end, "Add", "Default/Add-op0", module=4, event=4)
    (root / "FRAMEWORK" / NAME).write_bytes(content + op_range(start, end, "Mul", thread=8))
    (root / "profiler_info_0.json").write_text("{}")
    # WHEN it is read
    decoded = raw_files.read(root)
    # THEN the operator stands on the clock of the calls, and is the cause of the one that launched
    operators, links = decoded.tables["operators"], decoded.tables["links"]
    assert operators["start_ns"].tolist() == [RAW_START_NS + 900] * 2
    chosen = links[links["kind"] == "operator_api"]
    names = operators["name"].iloc[chosen["source_row"]].tolist()
    assert set(names) == {"Kernel::KernelLaunch::Default/Add-op0"}
    assert decoded.info.collector == "mindspore"


def test_a_counter_of_ten_nanoseconds_is_exact(tmp_path: Path) -> None:
    clock = CounterClock(1000, _EPOCH_NS, Fraction(10))
    (tmp_path / NAME).write_bytes(op_range(1003, 1007, "Add", "Add"))
    (row,) = read(tmp_path, clock).tables["operators"].to_dict("records")
    assert (row["start_ns"], row["duration_ns"]) == (_EPOCH_NS + 30, 40)


@pytest.mark.slow
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_ranges_give_tables(data: st.DataObject, tmp_path: Path) -> None:
    content = bytearray(b"".join(RANGES))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    (tmp_path / NAME).write_bytes(content)
    assert len(read(tmp_path).tables["operators"]) <= len(RANGES)


@pytest.mark.slow
def test_text_files_alone_beside_a_raw_directory_are_joined_with_it(tmp_path: Path) -> None:
    root = tmp_path / "host_1_ascend_ms"
    directory = RawDirectory(root / "PROF_000001_20251120005320000_ABCDEFGHIJKLMNOP")
    directory.launch(100, "Add", 3, 0)
    directory.finish()
    (root / "FRAMEWORK").mkdir()
    lines = f"MatMul;HostCpuOps;{RAW_START_NS + 900},0.0007,7 \n"
    (root / "FRAMEWORK" / "cpu_op_execute_timestamp_0.txt").write_text(lines)
    decoded = raw_files.read(root)
    assert decoded.tables["operators"]["name"].tolist() == ["MatMul"]
    assert (decoded.tables["links"]["kind"] == "operator_api").sum() > 0
