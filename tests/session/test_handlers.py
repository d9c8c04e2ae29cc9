"""What becomes of a run when it has ended: moved, decoded now or in the background."""

from __future__ import annotations

import stat
import time
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.errors import NpuprofWarning, OptionsError, SessionError, SourceError
from npuprof.session.offline import TABLES_DIRECTORY, TRACE_FILE
from npuprof.simulator import npu
from tests import pace

PATIENCE_S = 60.0


def profiled(tmp_path: Path, **how: Any) -> npuprof.Session:
    with npuprof.profile(output=tmp_path / "recordings", collector="simulator", activities="npu", **how) as prof:
        for _ in range(4):
            npu.asarray([1.0, 2.0]) + 1.0
            prof.step()
    return prof


@pytest.mark.slow
def test_each_run_goes_into_the_directory_with_its_tables(tmp_path: Path) -> None:
    handler = npuprof.trace_handler(tmp_path / "results", worker_name="worker0")
    profiled(tmp_path, schedule=npuprof.schedule(wait=1, active=1, repeat=2), on_trace_ready=handler)
    runs = sorted((tmp_path / "results").iterdir())
    assert [run.name.startswith("worker0_") and run.name.endswith("_npuprof") for run in runs] == [True, True]
    assert not list((tmp_path / "recordings").iterdir())
    for run in runs:
        assert stat.S_IMODE(run.stat().st_mode) == 0o700
        assert len(npuprof.load(run / TABLES_DIRECTORY).kernels) == len(npuprof.load(run).kernels) == 1


@pytest.mark.slow
def test_without_a_directory_or_analysis_the_recording_stays_as_it_is(tmp_path: Path) -> None:
    prof = profiled(tmp_path, on_trace_ready=npuprof.trace_handler(analyse_flag=False))
    assert not (prof.recording.directory / TABLES_DIRECTORY).exists()
    assert len(prof.result.kernels) == 4


@pytest.mark.slow
def test_the_analysis_can_run_in_a_process_of_its_own(tmp_path: Path) -> None:
    prof = profiled(tmp_path, on_trace_ready=npuprof.trace_handler(async_mode=True))
    tables = prof.recording.directory / TABLES_DIRECTORY
    deadline = time.monotonic() + pace.seconds(PATIENCE_S)
    while not tables.exists():
        assert time.monotonic() < deadline, (prof.recording.directory / "analyse.log").read_text()
        time.sleep(0.05)
    assert len(npuprof.load(tables).kernels) == 4


@pytest.mark.slow
def test_a_directory_that_cannot_be_made_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(NpuprofWarning, match="the recording cannot be moved to .*: it stays in "):
        prof = profiled(tmp_path, on_trace_ready=npuprof.trace_handler(tmp_path / "file"))
    assert len(prof.result.kernels) == 4


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"analyse_flag": 1}, "analyse_flag"), ({"async_mode": "on"}, "async_mode"), ({"worker_name": "a/b"}, "slashes")],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        npuprof.trace_handler(**wrong)


@pytest.mark.slow
def test_a_session_can_be_analysed_by_hand_with_chosen_steps(tmp_path: Path) -> None:
    prof = profiled(tmp_path)
    part = prof.analyse(step_list=[1, 2], pretty=True)
    assert part is not None
    assert part.steps["step"].tolist() == [1, 2]
    saved = prof.recording.directory / TABLES_DIRECTORY
    assert npuprof.load(saved).steps["step"].tolist() == [1, 2]
    assert (saved / TRACE_FILE).read_text().count("\n") > 5


@pytest.mark.slow
def test_a_second_analysis_saves_the_steps_that_it_was_asked_for(tmp_path: Path) -> None:
    recording = profiled(tmp_path).recording.directory
    for steps in ([1, 2], [0], None, None):
        npuprof.offline_analyse(recording, step_list=steps)
        saved = npuprof.load(recording / TABLES_DIRECTORY)
        assert saved.steps["step"].tolist() == (steps or [0, 1, 2, 3])
    assert [entry.name for entry in recording.glob(f"{TABLES_DIRECTORY}*")] == [TABLES_DIRECTORY]


@pytest.mark.slow
def test_an_analysis_of_the_same_steps_leaves_the_saved_tables(tmp_path: Path) -> None:
    recording = profiled(tmp_path).recording.directory
    npuprof.offline_analyse(recording, step_list=[1])
    before = (recording / TABLES_DIRECTORY / "profile.json").stat().st_ino
    npuprof.offline_analyse(recording, step_list=[1])
    assert (recording / TABLES_DIRECTORY / "profile.json").stat().st_ino == before


@pytest.mark.slow
def test_an_analysis_ends_the_collection(tmp_path: Path) -> None:
    prof = npuprof.profile(collector="simulator", activities="npu", output=tmp_path)
    prof.start()
    npu.asarray([1.0, 2.0]) + 1.0
    run = prof.analyse()
    assert isinstance(run, npuprof.Profile)
    assert not prof.active
    npu.asarray([1.0, 2.0]) + 1.0
    assert len(run.kernels) == len(prof.result.kernels) == 1
    assert len(npuprof.load(prof.recording.directory / TABLES_DIRECTORY).kernels) == 1


@pytest.mark.slow
def test_analysis_of_a_waiting_schedule_takes_the_newest(tmp_path: Path) -> None:
    plan = npuprof.schedule(wait=1, active=1, repeat=2)
    with npuprof.profile(collector="simulator", activities="npu", output=tmp_path, schedule=plan) as prof:
        with pytest.raises(SessionError, match="no step of a session has been recorded"):
            prof.analyse()
        for _ in range(2):
            prof.step()
        run = prof.analyse()
        assert run is not None
        assert run.steps["step"].tolist() == [1]
        for _ in range(2):
            prof.step()
    assert [run.steps["step"].tolist() for run in prof.results] == [[1], [3]]


@pytest.mark.slow
def test_an_analysis_of_another_path_leaves_the_session_alone(tmp_path: Path) -> None:
    earlier = profiled(tmp_path).recording.directory
    with npuprof.profile(collector="simulator", activities="npu", output=tmp_path / "own") as prof:
        run = prof.analyse(offline_path=str(earlier), step_list=[1])
        assert isinstance(run, npuprof.Profile)
        assert run.steps["step"].tolist() == [1]
        assert prof.active
    with pytest.raises(SourceError):
        prof.analyse(offline_path=tmp_path / "nothing")


@pytest.mark.slow
@pytest.mark.parametrize("simplify", [True, False])
def test_data_simplification_is_taken_and_deletes_nothing(tmp_path: Path, simplify: bool) -> None:
    recording = profiled(tmp_path).recording.directory
    before = {path for path in recording.rglob("*") if path.is_file()}
    npuprof.offline_analyse(recording, data_simplification=simplify)
    assert before <= set(recording.rglob("*"))
    wrong: Any = "yes"
    with pytest.raises(OptionsError, match="data_simplification"):
        npuprof.offline_analyse(recording, data_simplification=wrong)


def test_an_analysis_needs_a_mode_and_a_run(tmp_path: Path) -> None:
    mode: Any = "later"
    with pytest.raises(OptionsError, match="sync or async"):
        npuprof.profile(output=tmp_path).analyse(mode)
    with pytest.raises(SessionError, match="has not started"):
        npuprof.profile(output=tmp_path).analyse()


@pytest.mark.slow
def test_many_results_are_analysed_at_once(tmp_path: Path) -> None:
    profiled(tmp_path, schedule=npuprof.schedule(wait=0, active=1, repeat=3))
    opened = npuprof.offline_analyse(tmp_path / "recordings")
    assert len(opened) == 3  # type: ignore[arg-type]  # a set, since there are several
    assert len(list((tmp_path / "recordings").glob(f"*/{TABLES_DIRECTORY}/profile.json"))) == 3
