"""A disk that takes no more during a run: the result comes from memory, and what is lost is told, with the reason."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import npuprof
from npuprof.options import Options
from npuprof.profiles.profile import Profile
from npuprof.recordings import unwritten
from npuprof.recordings.recording import FILE_NAME, JOURNAL_FILE_NAME, STACKS_FILE_NAME, Recording
from npuprof.session import history
from npuprof.session.session import Session
from tests import pace
from tests.conftest import FakeClock
from tests.fakes import FakeCollector
from tests.full_disk import refusing, small_disk

_ERRORS = [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES]
_STEPS = 6
_STEP_NS = 1_000_000


class _Run:
    """A run of steps, each with a marker, whose disk fails where it is told to."""

    def __init__(self, output: Path) -> None:
        self.clock = FakeClock()
        options = Options(activities=("npu", "cpu"), output=output)
        self.session = Session(options, collector=FakeCollector(), clock=self.clock).start()
        self.directory = self.session.recording.directory

    def steps(self, count: int) -> None:
        for _ in range(count):
            npuprof.mark(f"in step {self.session.step_num}", "mine")
            self.clock.advance(_STEP_NS)
            self.session.step()

    def check(self, run: Profile) -> None:
        """Check that nothing of what npuprof records itself is missing."""
        assert run.steps["step"].tolist() == list(range(_STEPS))
        assert run.marks["message"].tolist() == [f"in step {step}" for step in range(_STEPS)]
        assert run.marks["domain"].tolist() == ["mine"] * _STEPS
        assert run.info.started_ns is not None
        assert run.info.stopped_ns == run.info.started_ns + _STEPS * _STEP_NS
        assert not run.notes["message"].str.contains("killed|process ended").any()


def _is_told_below_the_title(run: Profile, number: int, place: Path) -> bool:
    shown = run._repr_html_()
    above = shown[: shown.index("Notes (")]
    return os.strerror(number) in above and str(place) in above


def _loaded_elsewhere(directory: Path) -> dict[str, object]:
    """Return what another process reads."""
    code = (
        "import json, sys, npuprof; run = npuprof.load(sys.argv[1]); print(json.dumps({'steps': len(run.steps), "
        "'marks': len(run.marks), 'stopped': run.info.stopped_ns, 'notes': run.notes['message'].tolist()}))"
    )
    command = [sys.executable, "-c", code, str(directory)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=pace.seconds(120))
    told: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.long
@pytest.mark.parametrize("number", _ERRORS)
def test_disk_failing_halfway_keeps_the_report(tmp_path: Path, number: int) -> None:
    run = _Run(tmp_path)
    run.steps(2)
    with refusing(run.directory, number):
        run.steps(_STEPS - 2)
        run.session.stop()
        run.check(run.session.result)
        run.check(npuprof.load(run.directory))  # by its path, too
        assert _is_told_below_the_title(run.session.result, number, run.directory)
        told = "\n".join(run.session.recording.problems)
        for lost in ("what fake had to write then may be missing", FILE_NAME, JOURNAL_FILE_NAME):
            assert lost in told
    unwritten.save_all()


@pytest.mark.parametrize("number", _ERRORS)
def test_disk_failing_at_stop_keeps_the_report(tmp_path: Path, number: int) -> None:
    run = _Run(tmp_path)
    run.steps(_STEPS)
    with refusing(run.directory, number):
        run.session.stop()
        run.check(run.session.result)
        assert _is_told_below_the_title(run.session.result, number, run.directory)
    unwritten.save_all()


@pytest.mark.parametrize("number", _ERRORS)
def test_memory_is_written_as_soon_as_possible(tmp_path: Path, number: int) -> None:
    run = _Run(tmp_path)
    run.steps(1)
    with refusing(run.directory, number):
        run.steps(_STEPS - 1)
        run.session.stop()
        assert unwritten.find(run.directory) is not None
    run.session.result  # noqa: B018 - the next time that somebody looks at the run
    assert unwritten.find(run.directory) is None
    kept = Recording.read(run.directory)
    (problem,) = kept.problems
    assert "took no data for a part of the run" in problem
    assert os.strerror(number) in problem
    assert (run.directory / STACKS_FILE_NAME).is_file()
    run.check(npuprof.load(run.directory))


@pytest.mark.parametrize("number", _ERRORS)
def test_mended_disk_lacks_only_front_end_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr("npuprof.recordings.journal._AGAIN_S", 0.0)
    run = _Run(tmp_path)
    run.steps(2)
    with refusing(run.directory, number):
        run.steps(2)
    run.steps(2)
    (problem,) = run.session.stop().problems
    assert problem.startswith(f"{run.directory} took no data for a part of the run: what fake had to write then may be")
    assert os.strerror(number) in problem
    assert unwritten.find(run.directory) is None
    run.check(npuprof.load(run.directory))


def test_next_run_writes_earlier_leftovers(tmp_path: Path) -> None:
    run = _Run(tmp_path / "one")
    run.steps(_STEPS)
    with refusing(run.directory, errno.ENOSPC):
        run.session.stop()
    _Run(tmp_path / "two").session.stop()
    assert unwritten.find(run.directory) is None
    assert Recording.read(run.directory).stopped_ns == run.session.recording.stopped_ns


@pytest.mark.long
def test_process_end_writes_the_rest(tmp_path: Path) -> None:
    program = f"""
import errno
from pathlib import Path
from tests.full_disk import refusing
from tests.session.test_full_disk import _Run

run = _Run(Path({str(tmp_path)!r}))
run.steps(6)
with refusing(run.directory, errno.ENOSPC):
    run.session.stop()
"""
    subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2], timeout=pace.seconds(120)
    )
    (directory,) = tmp_path.iterdir()
    assert all("took no data for a part of the run" in problem for problem in Recording.read(directory).problems)
    assert len(npuprof.load(directory).steps) == _STEPS


def test_a_recording_that_was_deleted_meanwhile_is_not_made_again(tmp_path: Path) -> None:
    run = _Run(tmp_path)
    with refusing(run.directory, errno.EIO):
        run.session.stop()
    for file in run.directory.iterdir():
        file.unlink()
    run.directory.rmdir()
    unwritten.save_all()
    assert not run.directory.exists()
    unwritten.remove(run.directory)


@pytest.mark.slow
def test_full_disk_still_takes_the_runs_end(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        run = _Run(disk / "out")
        run.steps(_STEPS)
        room = os.statvfs(disk)
        (disk / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize))
        run.session.stop()
        elsewhere = _loaded_elsewhere(run.directory)
        assert elsewhere["steps"] == elsewhere["marks"] == _STEPS
        assert elsewhere["stopped"] == run.session.recording.stopped_ns
        notes = "\n".join(map(str, elsewhere["notes"]))  # type: ignore[call-overload]  # a list
        assert f"{STACKS_FILE_NAME} cannot be written: {os.strerror(errno.ENOSPC)}" in notes
        assert "process was killed" not in notes
        unwritten.remove(run.directory)


@pytest.mark.slow
def test_simulated_run_survives_a_full_disk(tmp_path: Path) -> None:
    from npuprof.simulator import npu

    count = 300
    with small_disk(tmp_path / "disk", 3 << 20) as disk:
        with npuprof.profile(collector="simulator", output=disk / "out") as session:
            for step in range(count):
                if step == count // 3:
                    room = os.statvfs(disk)
                    (disk / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize))
                with npuprof.range(f"range {step}"):
                    (npu.ones((8, 8)) @ npu.ones((8, 8))).sum()
                session.step()
        run = session.result
        assert run.steps["step"].tolist() == list(range(count))
        assert run.marks["message"].tolist() == [f"range {step}" for step in range(count)]
        assert (run.info.started_ns, run.info.stopped_ns) == (
            session.recording.started_ns,
            session.recording.stopped_ns,
        )
        assert _is_told_below_the_title(run, errno.ENOSPC, session.recording.directory)
        assert len(run.kernels) > 0
        unwritten.remove(session.recording.directory)


def test_a_run_that_goes_on_is_not_called_killed(tmp_path: Path) -> None:
    run = _Run(tmp_path)
    run.steps(2)
    during = npuprof.load(run.directory)
    assert during.steps["step"].tolist() == [0, 1]
    assert during.notes["message"].str.contains("the run has not stopped").any()
    run.session.stop()


def test_a_program_whose_recording_cannot_be_written_keeps_it_in_memory(tmp_path: Path) -> None:
    recording = Recording(tmp_path, "a program", "msprof", False, started_ns=5, stopped_ns=9)
    recording.write(is_begun=True)
    run = history.RecordedRun(recording)
    with refusing(tmp_path, errno.EIO):
        run.end()
        assert os.strerror(errno.EIO) in recording.problems[0]
    run.save()
    assert Recording.read(tmp_path).stopped_ns == 9
    assert Recording.read(tmp_path).problems == []
