"""What the runtime recorded besides calls and tasks comes back as rows; the dictionary tells where it lies."""

from __future__ import annotations

import struct
from pathlib import Path

import pandas as pd
import pytest

from npuprof.sources import raw
from tests.sources.raw.writers.directory import DEVICE_COUNTER, HOST_COUNTER, START_NS, RawDirectory


class RuntimeRecords(RawDirectory):
    """A ``PROF_*`` directory with records that only some runtimes write. Stamps are as in `RawDirectory`."""

    def finish(self) -> Path:
        path = super().finish()
        types = "5000_810:memcpy_ext_info\n5000_811:memset_info\n5000_812:memory_info\n"
        (path / "host/data/unaging.additional.type_info_dic.slice_1").write_text(types)
        return path

    def compact(self, name: str, kind: int, layout: str, *values: int) -> None:
        body = struct.pack("<" + layout, *values)
        self._host(f"aging.compact.{name}", 5000, kind, 10, 7, len(body), body)


@pytest.fixture
def directory(tmp_path: Path) -> RuntimeRecords:
    return RuntimeRecords(tmp_path / "PROF_test")


def _rows(frame: pd.DataFrame) -> list[list[object]]:
    plain = frame.astype(object)
    rows: list[list[object]] = plain.where(plain.notna(), None).to_numpy().tolist()
    assert all(row[:2] == [START_NS + 100, 7] for row in rows)
    return [row[2:] for row in rows]


def test_each_kind_is_a_frame_of_its_own(directory: RuntimeRecords) -> None:
    directory.compact("stream_sq_info", 807, "HxxIHHH", 1, 70_000, 5, 2, 0)
    directory.compact("memcpy_ext_info", 810, "QHHI", 4096, 5, 1, 3)
    directory.compact("memset_info", 811, "QiIH", 64, -1, 3, 1)
    directory.compact("memory_info", 812, "QQIHHI", 0x1000, 512, 2, 4, 1, 3)
    directory.compact("dpu_track", 806, "HHIIIQ", 1 << 12 | 2, 3, 4, 66, 0, HOST_COUNTER + 20)
    threads = struct.pack("<25I", *range(100, 125))
    directory._host("aging.additional.Multi_Thread", 10000, 7, 10, 7, 104, struct.pack("<I", 2) + threads)
    decoded = raw.read(directory.finish())
    found = {name: _rows(frame) for name, frame in decoded.statistics.items()}
    assert found == {
        "stream_queue": [[2, 70_000, "destroyed", 5, 0]],
        "memory_copy": [[1, 3, "addr device to device", 4096]],
        "memory_fill": [[1, 3, -1, 64]],
        "memory_management": [[1, 3, "device", 4, 0x1000, 512]],
        "dpu_task": [[2, 3, 4, "KERNEL_AIVEC", START_NS + 200]],
        "multi_thread": [["100,101"]],
    }
    assert not decoded.notes.to_frame()["message"].str.contains("not decoded").any()


def test_a_type_that_no_dictionary_names_is_a_note(directory: RuntimeRecords) -> None:
    directory.compact("something", 810, "QHHI", 4096, 5, 1, 3)
    decoded = raw.read(directory.finish())
    assert decoded.statistics == {}
    assert decoded.notes.to_frame()["message"].str.contains("aging.compact.something: not decoded").any()


def test_numbers_of_none_are_absent(directory: RuntimeRecords) -> None:
    directory.compact("memcpy_ext_info", 810, "QHHI", (1 << 64) - 1, 99, 1, 3)
    directory.compact("dpu_track", 806, "HHIIIQ", 2, 3, 4, 9999, 0, (1 << 64) - 1)
    found = raw.read(directory.finish()).statistics
    assert _rows(found["memory_copy"]) == [[1, 3, "99", None]]
    assert _rows(found["dpu_task"]) == [[2, 3, 4, "9999", None]]


def test_task_types_fall_back_to_the_runtimes(directory: RuntimeRecords) -> None:
    kinds = {3: "EVENT_WAIT", 4: "KERNEL_FUSION", 55: "WriteValueTask", 107: "KERNEL_FUSION", 113: "MEM_WRITE_VALUE"}
    kinds |= {114: "MEM_WAIT_VALUE", 126: "CAPTURE_RECORD", 600: "KERNEL_SIMT", 599: "599"}
    for task, kind in enumerate(kinds):
        directory.track(10 + task, 3, task, kind=kind)
        directory.task(50 + 10 * task, 55 + 10 * task, 3, task, sqe=8)
    assert raw.read(directory.finish()).tables["tasks"]["task_type"].tolist() == [*kinds.values()]


@pytest.mark.parametrize("name", ["FLIP_TASK", "FLIP", None])
def test_flip_is_no_task(name: str | None, directory: RuntimeRecords) -> None:
    directory.track(10, 3, 0)
    directory.track(20, 3, 1, kind=98, batch=1)
    directory.track(30, 3, 0)
    flip = struct.pack("<BBHIQHHHH", 0, 0x0E, 0, 0, DEVICE_COUNTER + 60, 3, 1, 0, 1)
    directory.streams["device_0/data/ts_track.data.0"] += flip.ljust(40, b"\0")
    for at in (50, 70):
        directory.task(at, at + 5, 3, 0, sqe=8)  # the type that the device tells is not the host's
    path = directory.finish()
    if name is not None:
        (path / "host/data/unaging.additional.type_info_dic.slice_2").write_text(f"5000_98:{name}\n")
    tasks = raw.read(path).tables["tasks"]
    assert tasks[["task_type", "batch_id"]].to_numpy().tolist() == [["AI_VECTOR_CORE", 0], ["AI_VECTOR_CORE", 1]]


def test_tensor_formats_that_came_later_are_named_by_their_dictionary(directory: RuntimeRecords) -> None:
    directory.launch(0, "Add", 3, 0)
    directory.tensors(40, "Add", (0, 70, 0, (2,)), (0, 2, 0, (2,)), (1, 71 | 4 << 8, 0, (2,)))
    path = directory.finish()
    lines = "70:FRACTAL_NEW\n71:FRACTAL_SUB\n2:NOT_ND\n"
    (path / "host/data/unaging.additional.data_format_dic.slice_0").write_text(lines)
    (kernel,) = raw.read(path).tables["kernels"].to_dict("records")
    assert kernel["input_formats"] == "FRACTAL_NEW;ND"
    assert kernel["output_formats"] == "FRACTAL_SUB:4"


@pytest.mark.parametrize("name", ["expand_stream_spec", "stream_expand_spec_info"])
def test_ids_of_streams_have_more_bits_where_the_runtime_says_so(name: str, directory: RuntimeRecords) -> None:
    streams = (3000, 5000, 5000, 6000)
    directory.compact(name, 804, "BxH", 1, 0)
    for number, stream in enumerate(streams):
        directory.track(10 + 10 * number, stream, number % 2)
    directory.track(25, 5000, 1, kind=98, batch=1)  # between both tasks of its stream
    flip = struct.pack("<BBHIQHHHH", 0, 0x0E, 0, 0, DEVICE_COUNTER + 65, 5000, 1, 0, 1)
    directory.streams["device_0/data/ts_track.data.0"] += flip.ljust(40, b"\0")
    directory.task(50, 55, 3000, 0, sqe=8)
    directory.task(60, 62, 0x8000 | 1, 5000, sqe=8)  # the hardware has swapped both ids
    directory.task(70, 75, 5000, 0, sqe=8)
    directory.task(80, 85, 6000, 1, sqe=3)
    tasks = raw.read(directory.finish()).tables["tasks"]
    assert tasks["stream_id"].tolist() == list(streams)
    assert tasks["task_id"].tolist() == [0, 1, 0, 1]
    assert tasks["batch_id"].tolist() == [0, 0, 1, 0]
    assert tasks["task_type"].tolist() == ["AI_VECTOR_CORE"] * 4  # what the host says: all of them were found
