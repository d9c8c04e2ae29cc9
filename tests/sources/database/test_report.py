"""Databases of early 2024, whose tables, columns and clock are others, become the same tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources import database
from npuprof.sources.database.reader import rounded
from tests.sources.database.maker import ENUMS, PID, Maker, thread

BASE_NS = 1_577_808_000_000_000_000  # 2020 in Beijing: what the times of these files count from
FIRST_NS = 123_282_223_630_523_456
NONE = 4294967295
OPERANDS = "inputFormats inputDataTypes inputShapes outputFormats outputDataTypes outputShapes"
LEVELS = {30000: "pytorch", 25000: "pta", 20000: "acl", 10000: "node", 5500: "hccl"}
DATA = {name: values for name, values in ENUMS.items() if name.startswith("ENUM_HCCL")}


def at(offset_us: int) -> int:
    """Return a time of the file."""
    return FIRST_NS + offset_us * 1000


def _launches(maker: Maker, times: str, shown: Any, *, tasks: str = "", more: tuple[Any, ...] = ()) -> None:
    """Add a kernel and a step of a collective with their calls; `times` declares the type of the columns of times."""
    names = [maker.text(name) for name in ("KERNEL_AICORE", "SDMA")]
    maker.table(
        "TASK",
        f"start:{times} end:{times} {tasks} deviceId connectionId correlationId globalPid taskType contextId streamId "
        "taskId modelId",
        [
            (shown(at(20)), shown(at(29)), *more, 0, 2, 5, PID, names[0], NONE, 2, 0, NONE),
            (shown(at(40)), shown(at(45)), *more, 0, 7, 6, PID, names[1], 0, 4, 9, NONE),
        ],
    )
    operands = [maker.text(text) for text in ("ND;ND", "FLOAT16;FLOAT16", '"128,256;128,512"', "ND", "FLOAT16", '"1"')]
    maker.table(
        "COMPUTE_TASK_INFO",
        f"name correlationId block_dim mixBlockDim taskType opType {OPERANDS}",
        [(maker.text("MatMulV3_0"), 5, 24, 0, maker.text("AI_CORE"), maker.text("MatMulV3"), *operands)],
    )
    maker.table(
        "API",
        f"start:{times} end:{times} level globalTid connectionId name",
        [
            (shown(at(1)), shown(at(9)), 20000, thread(7), 1, maker.text("aclnnMatmul")),
            (shown(at(2)), shown(at(8)), 10000, thread(7), 2, maker.text("launch")),
        ],
    )


def _first(path: Path, times: str = "INTEGER", shown: Any = int) -> Path:
    """Write what the first version wrote: tasks with names, no collectives."""
    maker = Maker(path)
    _launches(maker, times, shown, tasks="name", more=(maker.text("task"),))
    maker.table(
        "TARGET_INFO_SESSION_TIME", "startTimeNs endTimeNs baseTimeNs", [(BASE_NS + at(0), BASE_NS + at(99), BASE_NS)]
    )
    maker.table("TARGET_INFO_NPU", "id name:TEXT", [(0, "Ascend910B")])
    maker.table("ENUM_API_LEVEL", "id name:TEXT", list(LEVELS.items()))
    return maker.close(DATA)


def _second(path: Path, shown: Any) -> Path:
    """Write what the second version wrote: times as text, and collectives."""
    maker = Maker(path)
    _launches(maker, "TEXT", shown)
    maker.table(
        "COMMUNICATION_OP",
        "opName start:TEXT end:TEXT connectionId groupName opId",
        [(maker.text("hcom_allReduce__210_0_1"), shown(at(40)), shown(at(45)), 7, maker.text("g"), 9)],
    )
    maker.table(
        "COMMUNICATION_TASK_INFO",
        "name correlationId taskType planeId groupName notifyId rdmaType srcRank dstRank transportType size dataType "
        "linkType opId",
        [(1, 6, maker.text("Memcpy"), 0, 1, 0, 65535, 0, 1, 0, 5000, 4, 1, 9)],
    )
    maker.table("SESSION_TIME_INFO", "startTimeNs endTimeNs baseTimeNs", [(BASE_NS + at(0), BASE_NS + at(99), BASE_NS)])
    maker.table("NPU_INFO", "id name:TEXT", [(0, "Ascend910B")])
    maker.table("ENUM_API_LEVEL", "id name:TEXT", list(LEVELS.items()))
    return maker.close(DATA)


def _rounded(time_ns: int) -> str:
    """Show a time as SQLite does where a float becomes text."""
    return f"{float(time_ns):.15g}"


def test_the_first_version(tmp_path: Path) -> None:
    run = npuprof.load(_first(tmp_path / "report_1.db"))
    assert isinstance(run, npuprof.Profile)
    (kernel,) = run.kernels.to_dict("records")
    assert (kernel["start_ns"], kernel["duration_ns"]) == (BASE_NS + at(20), 9000)
    assert (kernel["name"], kernel["core"], kernel["block_num"]) == ("MatMulV3_0", "AI_CORE", 24)
    assert kernel["input_shapes"] == "128,256;128,512"
    assert run.tasks["name"].tolist() == ["MatMulV3_0", "task"]
    assert run.api["level"].tolist() == ["acl", "node"]
    assert run.api["item"].astype(object).tolist()[1] == "MatMulV3_0"
    assert run.links["kind"].tolist() == ["api_task"]
    assert (run.info.chip, run.info.started_ns) == ("Ascend910B", BASE_NS + at(0))
    assert run.notes["message"].str.startswith("a task names a call that is not in api").tolist() == [True]


@pytest.mark.slow
def test_the_second_version_keeps_times_as_text_exactly(tmp_path: Path) -> None:
    decoded = database.read(_second(tmp_path / "report_1.db", str))
    for name, frame in decoded.tables.items():
        tables.check(name, frame)
    (collective,) = decoded.tables["communication"].to_dict("records")
    assert (collective["start_ns"], collective["duration_ns"]) == (BASE_NS + at(40), 5000)
    assert (collective["op_type"], collective["group"]) == ("hcom_allReduce_", "g")
    (step,) = decoded.tables["communication_tasks"].to_dict("records")
    assert (step["op_id"], step["transport"], step["bandwidth_gb_s"]) == (0, "SDMA", 1.0)
    assert decoded.tables["kernels"]["start_ns"].tolist() == [BASE_NS + at(20)]
    assert not len(decoded.notes)


@pytest.mark.slow
def test_rounded_times_are_read_as_far_as_they_reach_and_reported(tmp_path: Path) -> None:
    decoded = database.read(_second(tmp_path / "report_1.db", _rounded))
    (start,) = decoded.tables["kernels"]["start_ns"].tolist()
    assert start != BASE_NS + at(20)
    assert abs(start - BASE_NS - at(20)) <= 500
    told = [message for message in decoded.notes.to_frame()["message"] if "rounded to 1000 ns" in message]
    assert {message.partition(":")[0] for message in told} == {"TASK", "CANN_API", "COMMUNICATION_OP"}


def test_times_that_were_floats_are_reported_too(tmp_path: Path) -> None:
    decoded = database.read(_first(tmp_path / "report_1.db", "REAL", float))
    (start,) = decoded.tables["kernels"]["start_ns"].tolist()
    assert abs(start - BASE_NS - at(20)) <= 8
    assert any("rounded to 16 ns" in message for message in decoded.notes.to_frame()["message"])


def test_times_of_a_few_digits_are_dropped_and_counted(tmp_path: Path) -> None:
    path = _second(tmp_path / "report_1.db", lambda time_ns: f"{float(time_ns):.6g}")
    with pytest.raises(SourceError, match="empty"):
        database.read(path)


@given(st.integers(10**17, 2 * 10**17))
def test_a_rounded_time_is_near_the_true_one(time_ns: int) -> None:
    found = rounded(_rounded(time_ns))
    assert found is not None
    assert abs(found[0] - time_ns) <= 516  # half of the last digit, and of a float's step
    assert rounded(float(time_ns)) == (int(float(time_ns)), math.ulp(float(time_ns)))


@given(st.one_of(st.none(), st.binary(max_size=8), st.text(max_size=80), st.floats(), st.integers()))
def test_any_cell_is_a_time_or_none(cell: object) -> None:
    found = rounded(cell)
    assert found is None or (0 <= found[0] < 1 << 63 and found[1] >= 1)


def test_cells_that_are_no_times_are_counted(tmp_path: Path) -> None:
    path = _first(tmp_path / "report_1.db", "TEXT", lambda time_ns: str(time_ns) if time_ns != at(20) else "soon")
    decoded = database.read(path)
    assert len(decoded.tables["tasks"]) == 1
    told = decoded.notes.to_frame()
    assert told[told["message"].str.contains("no readable time")]["count"].tolist() == [1]


def test_a_report_is_found_in_a_directory(tmp_path: Path) -> None:
    _first(tmp_path / "report_1.db")
    assert database.recognises(tmp_path)
    assert database.describe(tmp_path).chip == "Ascend910B"
    assert len(database.read(tmp_path).tables["kernels"]) == 1
