"""Recordings of 2, 4 and 8 devices: no figure, join or breakdown of one device has anything of another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import simulator
from npuprof.profiles.profile import Profile
from npuprof.simulator import Simulator, Tensor
from tests.conftest import FakeClock
from tests.simulator.conftest import Record, record
from tests.sources.database.maker import Maker, at
from tests.sources.trace.maker import TraceMaker

__all__ = ["record"]  # a fixture

_DEVICES = (2, 4, 8)
_LAUNCHES = 6
_NONE = 4294967295


@pytest.fixture
def machine(clock: FakeClock) -> Iterator[Simulator]:
    """Eight devices on the fake clock."""
    simulator.reset()
    yield simulator.configure(clock=clock, devices=8)
    simulator.reset()


def _load(path: Path) -> Profile:
    run = npuprof.load(path)
    assert isinstance(run, Profile)
    return run


def _work(simulated: Simulator) -> None:
    """Launch kernels of another length on each device, in turn; streams and tasks have the same numbers on each."""
    for _ in range(_LAUNCHES):
        for device in simulated.devices:
            operand = Tensor((512 * (1 + device.device_id), 512), "float16")
            device.launch("Add", inputs=(operand, operand), outputs=(operand,))
    simulated.synchronize()


def _of(frame: pd.DataFrame, device: int) -> pd.DataFrame:
    rows: pd.DataFrame = frame[(frame["device_id"] == device).to_numpy(bool)].reset_index(drop=True)
    return rows


def _computing(run: Profile, device: int) -> int:
    parts = _of(run.breakdown(), device)
    return int(parts["duration_ns"][(parts["part"] == "computing").to_numpy(bool)].sum())


@pytest.mark.long
@pytest.mark.parametrize("count", _DEVICES)
def test_raw_devices_decode_alike_alone(record: Record, tmp_path: Path, count: int) -> None:
    path = record(_work, devices=tuple(range(count)))
    together = _load(path)
    assert together.info.devices == list(range(count))
    for device in range(count):
        alone = tmp_path / f"alone_{device}" / path.name
        shutil.copytree(path, alone)
        for other in {*range(count)} - {device}:
            shutil.rmtree(alone / f"device_{other}")
        run = _load(alone)
        for name in ("kernels", "tasks", "counters", "memory"):
            pd.testing.assert_frame_equal(
                _of(together.tables[name], device).dropna(axis=1, how="all"),
                _of(run.tables[name], device).dropna(axis=1, how="all"),
                obj=name,
                check_categorical=False,
                check_dtype=False,
            )
        kernels = _of(together.kernels, device)
        assert len(kernels) == _LAUNCHES
        assert set(kernels["input_shapes"]) == {f"{512 * (1 + device)},512;{512 * (1 + device)},512"}
        assert _computing(together, device) == _computing(run, device) == kernels["duration_ns"].sum()


def _connected(run: Profile) -> list[tuple[str, str]]:
    """Return the names of each call and of the task that it launched."""
    links = run.links[(run.links["kind"] == "api_task").to_numpy()]
    calls, tasks = run.api["name"].astype(str).to_numpy(), run.tasks["name"].astype(str).to_numpy()
    return [(calls[row], tasks[other]) for row, other in zip(links["source_row"], links["target_row"], strict=True)]


def _database(path: Path, count: int) -> Path:
    """Write what each of some processes did on its own device; all number their calls from the same number."""
    maker = Maker(path)
    kind = maker.text("KERNEL_AIVEC")
    calls, tasks, described, operators, connections = [], [], [], [], []
    for device in range(count):
        pid, call, kernel = 100 + device, maker.text(f"launch{device}"), maker.text(f"Add{device}")
        for row in range(_LAUNCHES):
            number, start = device * _LAUNCHES + row, 100 * row + 10 * device
            calls.append((at(start), at(start + 2), 10000, pid << 32 | 7, row, call))
            tasks.append((at(start + 3), at(start + 5 + device), device, row, number, pid, kind, _NONE, 2, row, _NONE))
            described.append((kernel, number, 8, kind, kernel))
            name = maker.text(f"aten::add{device}")
            operators.append((at(start - 1), at(start + 3), pid << 32 | 7, number, name, 50001))
            connections.append((number, row))
    maker.table("CANN_API", "startNs endNs type globalTid connectionId name", calls)
    columns = "startNs endNs deviceId connectionId globalTaskId globalPid taskType contextId streamId taskId modelId"
    maker.table("TASK", columns, tasks)
    maker.table("COMPUTE_TASK_INFO", "name globalTaskId blockNum taskType opType", described)
    maker.table("PYTORCH_API", "startNs endNs globalTid connectionId name type", operators)
    maker.table("CONNECTION_IDS", "id connectionId", connections)
    return maker.close()


@pytest.mark.parametrize("count", _DEVICES)
def test_in_a_database_connections_of_several_processes_are_not_joined(tmp_path: Path, count: int) -> None:
    run = _load(_database(tmp_path / "ascend_pytorch_profiler.db", count))
    pairs = _connected(run)
    assert len(pairs) == count * _LAUNCHES
    assert all(call.removeprefix("launch") == task.removeprefix("Add") for call, task in pairs)
    for device in range(count):
        kernels = _of(run.kernels, device)
        assert set(kernels["name"]) == {f"Add{device}"}
        assert _computing(run, device) == kernels["duration_ns"].sum() == _LAUNCHES * (2 + device) * 1000
    totals = run.by("op").set_index("op")["total_ns"].to_dict()
    assert totals == {f"aten::add{device}": _LAUNCHES * (2 + device) * 1000 for device in range(count)}
    (message,) = run.notes["message"][run.notes["message"].str.contains("connection ID")]
    assert "of several processes" in message


def test_connections_of_one_process_are_as_recorded(tmp_path: Path) -> None:
    run = _load(_database(tmp_path / "ascend_pytorch_profiler.db", 1))
    assert run.tasks["connection_id"].tolist() == list(range(_LAUNCHES))
    assert not run.notes["message"].str.contains("several processes").any()


@pytest.mark.parametrize("count", _DEVICES)
def test_in_a_timeline_flows_of_several_processes_are_not_joined(tmp_path: Path, count: int) -> None:
    maker = TraceMaker()
    for device in range(count):
        host, npu = 1000 + device, 2000 + device
        maker.process(host, "CANN", "CPU")
        maker.process(npu, "Ascend Hardware", f"NPU {device}", 13 + device)
        for row in range(_LAUNCHES):
            start = 1000 * row + 100 * device
            call = {"Thread Id": 1, "level": "node", "connection_id": row}
            maker.slice(host, 1, f"launch{device}", start, 2, **call)
            task = {"Task Type": "AI_CORE", "Task Id": row, "Stream Id": 2, "connection_id": row}
            maker.slice(npu, 2, f"Add{device}", start + 3, 4 + device, **task)
            maker.flow("HostToDevice", str(row << 32), (host, 1, start), (npu, 2, start + 3))
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps(maker.events))
    run = _load(path)
    pairs = _connected(run)
    assert len(pairs) == count * _LAUNCHES
    assert all(call.removeprefix("launch") == task.removeprefix("Add") for call, task in pairs)
    for device in range(count):
        kernels = _of(run.kernels, device)
        assert (set(kernels["name"]), len(kernels)) == ({f"Add{device}"}, _LAUNCHES)
        assert _computing(run, device) == kernels["duration_ns"].sum()
    assert len(np.unique(run.kernels["device_id"])) == count
