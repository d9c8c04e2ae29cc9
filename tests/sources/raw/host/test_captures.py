"""Captured graphs: their streams, and the operators of tasks that no launch call is around."""

from __future__ import annotations

import struct
from pathlib import Path

import pandas as pd
import pytest

from npuprof.sources import raw
from tests.sources.raw.writers.communication import CommunicationDirectory
from tests.sources.raw.writers.directory import HOST_COUNTER, START_NS, Tensor

_STREAMS, _OPERATORS = "aging.compact.capture_stream_info", "unaging.additional.capture_op_info"
_LONG = "host/data/unaging.variable.capture_op_info"
_AIV = 2


class Captures(CommunicationDirectory):
    """A ``PROF_*`` directory with captured graphs. Stamps are as in `RawDirectory`."""

    def captured(self, stamp: int, stream: int, original: int, model: int, *, destroyed: int = 0) -> None:
        body = struct.pack("<5H", destroyed, stream, original, model, 0)
        self._host(_STREAMS, 5000, 803, stamp, 7, 10, body)

    def captured_v2(self, stamp: int, stream: int, original: int, model: int, *, destroyed: int = 0) -> None:
        body = struct.pack("<HBxIII", 0, destroyed, stream, original, model)
        self._host(_STREAMS, 5000, 809, stamp, 7, 16, body)

    def operator_body(self, name: str, stream: int, task: int, *tensors: Tensor) -> bytes:
        body = struct.pack("<6I", 9, 0, stream, task, _AIV, 4 | 2 << 16)
        body += struct.pack("<4Q", self.hash_of(name), self.hash_of("Add"), self.hash_of("axis=1"), 0)
        body += struct.pack("<2I", 1, len(tensors))
        for kind, form, dtype, shape in tensors:
            body += struct.pack("<III8I", kind, form, dtype, *shape, *[0] * (8 - len(shape)))
        return body

    def captured_operator(self, stamp: int, name: str, stream: int, task: int, *tensors: Tensor) -> None:
        body = self.operator_body(name, stream, task, *tensors)
        self._host(_OPERATORS, 5000, 805, stamp, 7, len(body), body[:232])

    def long_operator(self, stamp: int, name: str, stream: int, task: int, *tensors: Tensor) -> None:
        body = self.operator_body(name, stream, task, *tensors)
        header = struct.pack("<HHIIIQ", 0x5A5A, 5000, 805, 7, len(body), HOST_COUNTER + stamp)
        self.streams[_LONG] += header + body


@pytest.fixture
def directory(tmp_path: Path) -> Captures:
    return Captures(tmp_path / "PROF_test")


def _tensors(count: int) -> list[Tensor]:
    return [(0, 2, 1, (size, 8)) for size in range(1, count)] + [(1, 2, 0, (8,))]


def test_tasks_of_a_graph_have_the_operators_that_were_captured(directory: Captures) -> None:
    directory.captured_operator(10, "short", 40, 1, *_tensors(3))
    directory.long_operator(11, "long", 40, 2, *_tensors(7))
    directory.long_operator(12, "bare", 40, 3)
    directory.launch(0, "eager", 3, 0)
    for turn in range(2):  # the graph runs twice
        for task in (1, 2, 3, 4):
            at = 500 + 200 * turn + 20 * task
            directory.task(at, at + 10, 40, task)
    kernels = raw.read(directory.finish()).tables["kernels"]
    captured = kernels[kernels["stream_id"] == 40]
    names = ["short", "long", "bare", None] * 2
    assert captured["op_name"].astype(object).where(captured["op_name"].notna(), None).tolist() == names
    assert captured["input_shapes"].tolist()[:2] == ["1,8;2,8", "1,8;2,8;3,8;4,8;5,8;6,8"]
    assert captured["output_shapes"].tolist()[:2] == ["8", "8"]
    first = captured.iloc[0]
    assert (first["op_type"], first["core"], first["op_state"]) == ("Add", "AI_VECTOR_CORE", "static")
    assert (first["block_num"], first["mix_block_num"], first["hf32"]) == (4, 8, True)
    assert captured["connection_id"].isna().all()
    assert kernels["op_name"].tolist()[0] == "eager"
    assert captured["attributes"].tolist()[0] == "axis=1"


def test_recaptured_id_is_another_operator(directory: Captures) -> None:
    directory.captured_operator(10, "first", 40, 1)
    directory.captured_operator(1000, "second", 40, 1)
    for at in (100, 600):
        directory.task(at, at + 10, 40, 1)
    assert raw.read(directory.finish()).tables["kernels"]["op_name"].tolist() == ["first", "second"]


@pytest.mark.parametrize("version", [1, 2])
def test_tasks_belong_to_the_graph_of_their_stream(version: int, directory: Captures) -> None:
    write = directory.captured if version == 1 else directory.captured_v2
    none = 0xFFFF if version == 1 else 0xFFFFFFFF
    write(100, 40, 3, 9)
    write(900, none, none, 9, destroyed=1)
    write(1400, 40, 3, 11)
    for task, at in enumerate((20, 200, 600, 800)):
        directory.task(at, at + 10, 40, task)
    decoded = raw.read(directory.finish())
    model = decoded.tables["tasks"]["model_id"]
    assert model.fillna(-1).tolist() == [-1, 9, -1, 11]
    rows = decoded.statistics["capture_stream"].astype(object).where(lambda frame: frame.notna(), None)
    assert rows.to_numpy().tolist() == [
        [0, 9, 40, 3, START_NS + 1000, START_NS + 9000],
        [0, 11, 40, 3, START_NS + 14_000, None],
    ]


def test_tasks_launched_while_a_model_runs_belong_to_it(directory: Captures) -> None:
    directory.load_model(0, 400, 7)
    directory.launch(100, "inside", 3, 0)
    directory.launch(800, "outside", 3, 1)
    kernels = raw.read(directory.finish()).tables["kernels"]
    assert kernels["op_name"].tolist() == ["inside", "outside"]
    assert kernels["model_id"].isna().tolist() == [False, True]
    assert kernels["model_id"].tolist()[0] == 7


@pytest.mark.slow
def test_a_run_without_models_has_no_such_column(directory: Captures) -> None:
    directory.launch(100, "eager", 3, 0)
    decoded = raw.read(directory.finish())
    assert "model_id" not in decoded.tables["tasks"]
    assert "capture_stream" not in decoded.statistics


def test_records_of_operators_behind_damage_are_found_again(directory: Captures) -> None:
    directory.long_operator(10, "before", 40, 1, *_tensors(2))
    directory.streams[_LONG] += b"\x5a\x5a" + b"\xff" * 37
    directory.long_operator(11, "after", 40, 2, *_tensors(2))
    directory.streams[_LONG] += struct.pack("<HHIIIQ", 0x5A5A, 5000, 805, 7, 64, HOST_COUNTER)  # cut off
    for task in (1, 2):
        directory.task(100 * task, 100 * task + 10, 40, task)
    decoded = raw.read(directory.finish())
    assert decoded.tables["kernels"]["op_name"].tolist() == ["before", "after"]
    notes: pd.Series[int] = decoded.notes.to_frame().set_index("message")["count"]
    assert notes["damaged or cut bytes skipped"] == 39 + 24


def test_operator_with_excess_tensors_keeps_recorded_ones(directory: Captures) -> None:
    directory.captured_operator(10, "greedy", 40, 1, *_tensors(5))
    directory.task(100, 110, 40, 1)
    decoded = raw.read(directory.finish())
    assert decoded.tables["kernels"]["input_shapes"].tolist() == ["1,8;2,8;3,8"]
    assert "more tensors than they hold" in " ".join(decoded.notes.to_frame()["message"])
