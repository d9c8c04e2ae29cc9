"""Communication that AI CPUs issue on the device is among that which the host launched."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof import tables
from npuprof.sources import raw
from tests.sources.raw.host.test_captures import Captures
from tests.sources.raw.writers.directory import DEVICE_COUNTER, START_NS

_AICPU = "device_0/data/aicpu.data.0"
_NOTIFY_WAIT, _MEMCPY = 0xAB44B101F36F4B07, 0x628F0043A268D0CF  # the hashes that AI CPUs write of these names
GROUP = 13_000_000_000_000_000_339


class DeviceCollectives(Captures):
    """A ``PROF_*`` directory of a run whose AI CPUs talk to other ranks. Device times are ticks of 20 ns."""

    def group(self, stamp: int, issuer: int, *streams: int, group: int = GROUP) -> None:
        body = struct.pack("<Q5I8I", group, 8, 2, 2, issuer, len(streams), *streams, *[0] * (8 - len(streams)))
        self._host("aging.additional.mc2_comm_info", 10000, 12, stamp, 7, len(body), body)

    def issue(self, at: int, stream: int, task: int, begin: int, end: int) -> None:
        """A kernel of an AI CPU, launched at host tick `at`, which runs on the device from `begin` to `end`."""
        self.api(10000, 5, at, at + 20, item="AllReduceAicpuKernel")
        self.track(at + 5, stream, task, 1)
        self.node(at + 10, "AllReduceAicpuKernel", "AllReduce", core=1)
        self.task(begin, end, stream, task, sqe=1)

    def _aicpu(self, kind: int, tick: int | None, body: bytes) -> None:
        stamp = 0 if tick is None else DEVICE_COUNTER + tick
        record = struct.pack("<HHIIIQ", 0x5A5A, 6000, kind, 7, len(body), stamp) + body
        self.streams[_AICPU] += record.ljust(256, b"\0")

    def device_operator(self, tick: int, stream: int, task: int) -> None:
        body = struct.pack("<BBQQQIHI", 2, 4, self.hash_of("RING"), 1024, GROUP, 8, stream, task)
        self._aicpu(10, tick, body)

    def ends(self, tick: int, stream: int, task: int, main_stream: int, main_task: int, part: int) -> None:
        self._aicpu(12, tick, struct.pack("<5H", stream, task, main_stream, main_task, part))

    def steps(self, *steps: dict[str, Any]) -> None:
        """A record of one or two steps; such records have no stamp of their own."""
        body = b""
        for one in steps:
            half = struct.pack("<3Q4I", one["item"], 0, GROUP, 2, one.get("remote", 3), 8, 0)
            half += struct.pack("<QQd3Q", 77, DEVICE_COUNTER + one["tick"], 1.5, 1, 2, one.get("size", 0))
            half += struct.pack("<IIHHBBBBB", one["task"], 0, one["stream"], 1, 0, 4, 1, 0, 255)
            body += half.ljust(116, b"\0")
        self._aicpu(13, None, body)


@pytest.fixture
def directory(tmp_path: Path) -> DeviceCollectives:
    return DeviceCollectives(tmp_path / "PROF_test")


def _plain(frame: pd.DataFrame, *columns: str) -> list[list[Any]]:
    chosen = frame[list(columns)].astype(object)
    plain: list[list[Any]] = chosen.where(chosen.notna(), None).to_numpy().tolist()
    return plain


def _write_run(directory: DeviceCollectives) -> None:
    directory.group(5, 20, 30, 31)
    for turn, begin in enumerate((100, 1000)):
        directory.issue(100 * turn, 20, turn, begin, begin + 300)
        directory.device_operator(begin, 20, turn)
        directory.task(begin + 10, begin + 50, 30, 2 * turn, sqe=7)
        directory.task(begin + 60, begin + 160, 31, 2 * turn + 1, sqe=11)
        directory.steps(
            {"item": _NOTIFY_WAIT, "tick": begin + 5, "stream": 30, "task": 2 * turn},
            {"item": _MEMCPY, "tick": begin + 55, "stream": 31, "task": 2 * turn + 1, "size": 4000},
        )
    directory.task(600, 610, 30, 9, sqe=7)  # while no kernel runs


@pytest.mark.slow
def test_group_stream_tasks_are_collective_steps(directory: DeviceCollectives) -> None:
    _write_run(directory)
    decoded = raw.read(directory.finish())
    frames = decoded.tables
    for name in ("communication", "communication_tasks"):
        tables.check(name, frames[name])
    kernels = frames["kernels"]
    assert kernels["core"].tolist() == ["AI_CPU"] * 2
    operators = _plain(
        frames["communication"],
        *("start_ns", "duration_ns", "name", "op_type", "group", "data_type", "algorithm", "count"),
        *("rank_size", "relay", "retry", "connection_id"),
    )
    starts = [START_NS + 20 * (begin + 10) for begin in (100, 1000)]
    kind = "AllReduceAicpuKernel"
    assert operators == [
        [
            *(start, 3000, f"{kind}_339_{turn}_1", kind, str(GROUP), "FP32", "RING", 1024, 8, False, True),
            kernels["connection_id"][turn],
        ]
        for turn, start in enumerate(starts)
    ]
    steps = frames["communication_tasks"]
    assert steps["op_id"].tolist() == [0, 0, 1, 1]
    assert (
        _plain(steps, "task_type", "stream_id", "plane_id", "src_rank", "dst_rank", "size_bytes", "notify_id")
        == [
            ["Notify_Wait", 30, 1, 2, 3, 0, 77],
            ["Memcpy", 31, 1, 2, 3, 4000, 77],
        ]
        * 2
    )
    assert _plain(steps, "transport", "link", "data_type", "rdma_type") == [["SDMA", "HCCS", "FP32", None]] * 4
    assert steps["bandwidth_gb_s"].tolist() == [0.0, 2.0, 0.0, 2.0]
    assert decoded.statistics["mc2_comm_info"]["Stream IDs"].tolist() == ["30,31"]


@pytest.mark.slow
def test_ai_cpu_steps_fall_back_to_the_device(directory: DeviceCollectives) -> None:
    _write_run(directory)
    directory.streams.pop(_AICPU)
    steps = raw.read(directory.finish()).tables["communication_tasks"]
    assert steps["task_type"].tolist() == ["NOTIFY_WAIT", "SDMA"] * 2
    assert steps["size_bytes"].isna().all()


@pytest.mark.slow
def test_steps_of_both_sides_are_in_order_of_time(directory: DeviceCollectives) -> None:
    _write_run(directory)
    directory.collective(500, 590)
    directory.communicate(510, "Memcpy", 5, 0)
    directory.task(700, 720, 5, 0, sqe=11)
    frames = raw.read(directory.finish()).tables
    names = frames["communication"]["op_type"].tolist()
    assert names == ["AllReduceAicpuKernel", "hcom_allReduce_", "AllReduceAicpuKernel"]
    assert frames["communication_tasks"]["op_id"].tolist() == [0, 0, 1, 2, 2]
    spans = frames["overlap"].query("kind == 'communication'")
    assert spans["duration_ns"].tolist() == frames["communication"]["duration_ns"].tolist()
    pd.testing.assert_frame_equal(tables.sort_by_time(frames["communication"]), frames["communication"])


@pytest.mark.slow
def test_graph_kernels_issue_for_the_captured_stream(directory: DeviceCollectives) -> None:
    directory.group(5, 20, 30)
    directory.captured(10, 50, 20, 9)
    directory.issue(100, 50, 0, 200, 400)
    directory.task(250, 260, 30, 0, sqe=7)
    assert len(raw.read(directory.finish()).tables["communication"]) == 1


def test_a_stream_of_two_groups_goes_by_the_kernel_that_runs(directory: DeviceCollectives) -> None:
    directory.group(5, 20, 30)
    directory.group(6, 21, 30, group=GROUP + 1)
    for issuer, begin in ((20, 100), (21, 1000)):
        directory.issue(begin, issuer, 0, begin, begin + 100)
        directory.task(begin + 10, begin + 20, 30, begin, sqe=7)
    groups = raw.read(directory.finish()).tables["communication"]["group"].tolist()
    assert groups == [str(GROUP), str(GROUP + 1)]


def test_first_and_last_steps_are_rows(directory: DeviceCollectives) -> None:
    directory.ends(50, 20, 1, 30, 2, 0)
    directory.ends(60, 20, 1, 30, 9, 1)
    ends = raw.read(directory.finish()).statistics["aicpu_hccl_ends"]
    assert _plain(ends, *ends.columns) == [[0, 20, 1, 30, 2, "head"], [0, 20, 1, 30, 9, "tail"]]
