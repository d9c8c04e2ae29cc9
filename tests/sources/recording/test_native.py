"""What a front end left in a recording: the directory of a framework, with and without a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.recordings.recording import TRACE_FILE_NAME, Recording
from npuprof.simulator import synthesise
from npuprof.sources.raw.metadata.clocks import epoch_offset
from npuprof.sources.raw.metadata.control_files import read_sides
from npuprof.tables.notes import Notes
from tests.sources.framework.writer import EPOCH_OFFSET_NS, START_NS, Framework, small
from tests.sources.kineto.traces import KinetoTrace, ns
from tests.sources.torch_npu.test_raw_files import LAUNCHES, run_around

_OTHER_OFFSET_NS = EPOCH_OFFSET_NS + 250_000_000


def _record(directory: Path, **facts: Any) -> Path:
    plain: dict[str, Any] = {
        "name": "run",
        "collector": "torch_npu",
        "simulated": False,
        "options": {"activities": ["cpu"]},
        "started_ns": START_NS + _OTHER_OFFSET_NS,
        "stopped_ns": START_NS + _OTHER_OFFSET_NS + 1_000_000_000,
        **facts,
    }
    Recording(directory, **plain).write()
    return directory


@pytest.fixture
def with_device(tmp_path: Path) -> tuple[Path, int]:
    """A recording of torch_npu around a simulated device, and when its second step began on the host."""
    root = tmp_path / "host_1_ascend_pt"
    root.mkdir()
    device = synthesise(root, launches=LAUNCHES, streams=1)
    around = run_around(device)
    around.write(root)
    operators = npuprof.load(root).operators
    border = int(operators["start_ns"].iloc[LAUNCHES])
    assert epoch_offset(read_sides(device, Notes()), Notes()) > 0
    return tmp_path, border


def test_the_files_of_a_framework_are_read_on_the_recordings_clock(tmp_path: Path) -> None:
    small().write(tmp_path / "host_1_ascend_pt")
    _record(tmp_path, raw_clock_epoch_ns=_OTHER_OFFSET_NS)
    run = npuprof.load(tmp_path)
    first = run.operators[run.operators["name"] == "aten::linear"].iloc[0]
    assert first["start_ns"] == START_NS + 105 + _OTHER_OFFSET_NS
    assert (run.info.source, run.info.collector) == ("recording, torch_npu raw files", "torch_npu")
    assert not (run.notes["severity"] == "error").any()


def test_a_recording_that_does_not_know_its_clock_has_the_vendors(tmp_path: Path) -> None:
    small().write(tmp_path / "host_1_ascend_pt")
    run = npuprof.load(_record(tmp_path))
    assert run.operators["start_ns"].min() == START_NS + 105 + EPOCH_OFFSET_NS
    assert run.notes["message"].str.contains("slewed").any()


def test_silent_requested_device_is_an_error(tmp_path: Path) -> None:
    small().write(tmp_path / "host_1_ascend_pt")
    run = npuprof.load(_record(tmp_path, options={"activities": ["cpu", "npu"]}))
    told = run.notes[run.notes["severity"] == "error"]["message"].tolist()
    assert len(told) == 1
    assert "nothing of the device was recorded" in told[0]
    assert "~/ascend/log" in told[0]


@pytest.mark.slow
def test_operators_and_the_device_are_joined_and_have_the_sessions_steps(with_device: tuple[Path, int]) -> None:
    root, border = with_device
    steps = [(8, border - 10**9, border), (9, border, border + 10**9)]
    _record(root, steps=steps, options={"activities": ["cpu", "npu"]})
    run = npuprof.load(root)
    for name in tables.NAMES:
        tables.check(name, getattr(run, name))
    assert run.steps["step"].tolist() == [8, 9]
    assert run.kernels["step"].tolist() == [8] * 10 + [9] * 10
    assert run.operators["step"].tolist() == [8] * LAUNCHES + [9] * LAUNCHES
    assert run.info.simulated
    assert not (run.notes["severity"] == "error").any()


@pytest.mark.slow
def test_a_step_is_selected_by_the_sessions_number(with_device: tuple[Path, int]) -> None:
    root, border = with_device
    _record(root, steps=[(8, border - 10**9, border), (9, border, border + 10**9)])
    run = npuprof.load(root, steps=9)
    assert run.kernels["step"].tolist() == [9] * 10
    assert set(run.operators["step"]) == {9}


@pytest.mark.slow
def test_window_without_step_end_is_no_step(with_device: tuple[Path, int]) -> None:
    run = npuprof.load(_record(with_device[0]))
    assert not len(run.steps)
    assert run.kernels["step"].isna().all()
    assert run.operators["step"].isna().all()
    assert len(run.kernels) == LAUNCHES


def test_steps_that_other_front_ends_number_by_themselves_stay(tmp_path: Path) -> None:
    small().write(tmp_path / "host_1_ascend_pt")
    assert npuprof.load(_record(tmp_path, collector="tensorflow")).steps["step"].tolist() == [3, 4]


def test_an_earlier_start_is_named_and_not_mixed_in(tmp_path: Path) -> None:
    earlier = Framework()
    earlier.op("aten::earlier", 1, 2)
    earlier.write(tmp_path / "host_1_20260101_ascend_pt")
    small().write(tmp_path / "host_1_20260102_ascend_pt")
    (tmp_path / "host_1_20260103_ascend_pt_op_args").mkdir()
    run = npuprof.load(_record(tmp_path))
    assert "aten::earlier" not in set(run.operators["name"])
    assert run.notes[run.notes["source"] == "host_1_20260101_ascend_pt"]["severity"].tolist() == ["warning"]


def test_a_trace_of_torch_is_read(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.slice("user_annotation", "ProfilerStep#0", 0, 9)
    trace.operator("aten::add", 1, 2, 1)
    trace.write(tmp_path / TRACE_FILE_NAME)
    run = npuprof.load(_record(tmp_path, collector="kineto", steps=[(4, ns(0.5), ns(5))]))
    assert (run.info.source, run.info.collector) == ("recording, torch profiler trace", "kineto")
    assert run.operators["step"].tolist() == [4]
    assert run.steps["step"].tolist() == [4]


def test_stacks_of_a_framework_name_the_cells_of_their_code(tmp_path: Path) -> None:
    trace = KinetoTrace()
    functions = (("/tmp/ipykernel_9/12.py", "work"), ("C:\\ipykernel_9\\34.py", "loss"))
    for number, (file, function) in enumerate(functions):
        ids = {"Python id": 2 * number + 1, "Python parent id": None}
        trace.slice("python_function", f"{file}(3): {function}", 10 * number, 9, **ids)
        trace.operator("aten::add", 10 * number + 1, 2, number + 1)
    trace.slice("python_function", "/tmp/ipykernel_9/56.py(1): other", 20, 9, **{"Python id": 9})
    trace.slice("python_function", "ipykernel_9/12.py.bak(1): file", 30, 9, **{"Python id": 11})
    trace.write(tmp_path / TRACE_FILE_NAME)
    files = {"/tmp/ipykernel_9/12.py": 4, "C:\\ipykernel_9\\34.py": 5}
    run = npuprof.load(_record(tmp_path, collector="kineto", cell_files=files))
    names = ["<cell [4]>(3): work", "<cell [5]>(3): loss", "<cell>(1): other", "ipykernel_9/12.py.bak(1): file"]
    assert run.python["name"].tolist() == names
    assert run.operators["stack"].tolist() == names[:2]
    assert {"<cell [4]>", "<cell [5]>"} < set(run.code().to_frame()["file"])


def test_empty_device_recording_says_why(tmp_path: Path) -> None:
    _record(tmp_path, options={"activities": ["npu"]}, problems=["the disk is full"])
    with pytest.raises(SourceError, match="holds no data: the disk is full"):
        npuprof.load(tmp_path)
