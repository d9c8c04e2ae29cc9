"""A recording read back: native data, Python stacks, steps and the session's own facts joined."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import npuprof
from npuprof import simulator, tables
from npuprof.errors import SourceError
from npuprof.options import Options
from npuprof.recordings.recording import FILE_NAME, Recording
from npuprof.session.session import Session
from npuprof.simulator import Tensor


@pytest.fixture(autouse=True)
def fresh_machine() -> Iterator[None]:
    simulator.reset()
    yield
    simulator.reset()


def _launch(count: int = 1) -> None:
    device = simulator.current().device(0)
    for _ in range(count):
        device.launch("Add", inputs=[Tensor((1024,), "float16")], outputs=[Tensor((1024,), "float16")])


def _record(output: Path, **options: object) -> Session:
    plain = {"collector": "simulator", "activities": "npu", "output": output, "name": "steps", **options}
    session = Session(Options.from_dict(plain)).start()
    for count in (2, 3):
        _launch(count)
        session.step()
    _launch(1)
    session.add_metadata("model", "tiny")
    session.stop("ValueError: told")
    return session


@pytest.mark.slow
def test_steps_own_the_kernels_launched_in_them(tmp_path: Path) -> None:
    run = _record(tmp_path).result
    assert run.steps["step"].tolist() == [0, 1]
    assert run.kernels["step"].fillna(-1).tolist() == [0, 0, 1, 1, 1, -1]


@pytest.mark.slow
def test_the_session_facts_stand_in_info(tmp_path: Path) -> None:
    run = _record(tmp_path).result
    assert (run.info.name, run.info.collector, run.info.simulated) == ("steps", "simulator", True)
    assert run.info.metadata == {"model": "tiny"}
    assert run.info.failed == "ValueError: told"
    assert run.info.options["level"] == 1
    assert run.info.recording is not None
    for name in tables.NAMES:
        tables.check(name, getattr(run, name))


@pytest.mark.slow
def test_loading_the_path_again_gives_the_same(tmp_path: Path) -> None:
    session = _record(tmp_path)
    again = npuprof.load(session.recording.directory)
    assert again.kernels.equals(session.result.kernels)


@pytest.mark.slow
def test_python_stacks_come_with_the_cpu_activity(tmp_path: Path) -> None:
    options = Options(collector="simulator", activities=("cpu",), output=tmp_path)
    with Session(options) as session:
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            sum(range(1000))
    run = session.result
    assert "test_python_stacks_come_with_the_cpu_activity" in " ".join(run.python["name"].cat.categories)
    assert not run.info.simulated
    assert len(run.tasks) == 0
    # Sampling begins before the profiled code and ends after it: calls are cut to the run.
    recording = Recording.read(session.recording.directory)
    recording.started_ns, recording.stopped_ns = recording.started_ns + 50_000_000, recording.stopped_ns - 50_000_000
    recording.write()
    shorter = npuprof.load(session.recording.directory).python
    ends = shorter["start_ns"] + shorter["duration_ns"]
    assert len(shorter) == len(run.python)
    assert (shorter["start_ns"].min(), ends.max()) == (recording.started_ns, recording.stopped_ns)
    assert (shorter["duration_ns"] >= 0).all()


@pytest.mark.slow
def test_an_interrupted_recording_opens_and_says_so(tmp_path: Path) -> None:
    directory = _record(tmp_path).recording.directory
    recording = Recording.read(directory)
    recording.stopped_ns = 0
    recording.write()
    run = npuprof.load(directory)
    assert len(run.kernels) == 6
    assert "has no end: its process was killed" in run.notes["message"].to_list()[-1]


def test_a_recording_without_data_says_what_failed(tmp_path: Path) -> None:
    recording = Recording(tmp_path, "n", "acl", False, problems=["acl.prof.stop returned 500005"], stopped_ns=1)
    recording.write()
    with pytest.raises(SourceError, match=r"holds no data: acl\.prof\.stop returned 500005"):
        npuprof.load(tmp_path)


@pytest.mark.slow
def test_a_damaged_description_points_to_the_raw_data(tmp_path: Path) -> None:
    directory = _record(tmp_path).recording.directory
    (directory / FILE_NAME).write_text("{")
    with pytest.raises(SourceError, match="load the PROF_"):
        npuprof.load(directory)
    (raw,) = directory.glob("PROF_*")
    assert len(npuprof.load(raw).kernels) == 6
    assert npuprof.load(raw).info.simulated
