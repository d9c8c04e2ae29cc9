"""A run whose process is killed keeps every step and marker that had ended, and the Python stacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import npuprof
from npuprof.options import Options
from npuprof.profiles.profile import Profile
from npuprof.recordings.journal import Journal
from npuprof.recordings.recording import JOURNAL_FILE_NAME, STACKS_JOURNAL_FILE_NAME, Recording
from npuprof.session.session import Session
from tests import pace
from tests.conftest import FakeClock
from tests.fakes import FakeCollector
from tests.full_disk import small_files

_CHILD = """
import os, signal, sys, threading, time
from pathlib import Path
import npuprof
from npuprof.simulator import npu
from tests.fakes import FakeCollector

def in_training():  # for as long as the sampler takes for some samples, however slow the machine is
    enough, end = prof._run.sample_count + 4, time.monotonic() + 60
    while prof._run.sample_count < enough and time.monotonic() < end:
        pass

def kept():
    (stacks,) = Path(sys.argv[1]).glob("run_*/python_stacks.jsonl")
    return stacks.stat().st_size

own = {"simulator": None, "fake": FakeCollector()}[sys.argv[2]]
prof = npuprof.Session(npuprof.Options(collector="simulator", output=sys.argv[1]), collector=own)
prof.start()
prof.add_metadata("epochs", 4)
for step in range(4):
    npuprof.mark(f"step {step}", "mine")
    with npuprof.range("work"):
        (npu.ones((4, 4)) @ npu.ones((4, 4))).sum()
        in_training()
    prof.step()
npuprof.range_start("open")
size = kept()
end = time.monotonic() + 60
while kept() == size and time.monotonic() < end:
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module", params=["simulator", "fake"])
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    output = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-c", _CHILD, str(output), request.param]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], check=False, timeout=pace.seconds(120))
    assert ended.returncode == -9
    (path,) = output.glob("run_*")
    return npuprof.load(path)


@pytest.mark.slow
def test_the_steps_that_had_ended_are_there(killed: Profile) -> None:
    assert killed.steps["step"].tolist() == [0, 1, 2, 3]
    assert (killed.steps["duration_ns"] > 0).all()
    assert killed.info.started_ns == killed.steps["start_ns"].iloc[0]
    assert killed.info.metadata == {"epochs": 4}


@pytest.mark.long
def test_the_markers_that_had_ended_are_there_once_with_their_domains(killed: Profile) -> None:
    marks = killed.marks
    assert sorted(marks["message"]) == [f"step {step}" for step in range(4)] + ["work"] * 4
    moments = marks[marks["message"] != "work"]
    assert moments["domain"].tolist() == ["mine"] * 4
    ranges = marks[marks["message"] == "work"]
    assert ranges["domain"].isna().all()
    assert (ranges["duration_ns"] > 0).all()
    steps = killed.steps
    assert (ranges["start_ns"].to_numpy() >= steps["start_ns"].to_numpy()).all()
    assert (ranges["start_ns"] + ranges["duration_ns"]).max() <= (steps["start_ns"] + steps["duration_ns"]).max()
    assert not killed.notes["message"].str.contains("for an unknown reason").any()


@pytest.mark.slow
def test_the_python_stacks_are_there(killed: Profile) -> None:
    working = killed.python[killed.python["name"].astype(str).str.contains("in_training")]
    last = killed.steps.iloc[-1]
    assert working["start_ns"].min() < killed.steps["start_ns"].iloc[1]
    assert (working["start_ns"] + working["duration_ns"]).max() > last["start_ns"]  # samples in a row are one call


@pytest.mark.slow
def test_a_note_names_what_is_lost(killed: Profile) -> None:
    (told,) = killed.notes[killed.notes["source"] == "recording"].itertuples()
    assert told.severity == "warning"
    for word in (f"what {killed.info.collector} had not written yet", "the step and the ranges that had not ended"):
        assert word in told.message


def _session(output: Path, clock: FakeClock) -> Session:
    return Session(Options(activities=("npu",), output=output), collector=FakeCollector(), clock=clock)


def test_a_run_that_stops_in_order_leaves_no_journal(tmp_path: Path) -> None:
    with Session(Options(activities=("cpu",), output=tmp_path)) as session:
        directory = session.recording.directory
        assert {JOURNAL_FILE_NAME, STACKS_JOURNAL_FILE_NAME} <= {path.name for path in directory.iterdir()}
    assert not list(directory.glob("*.jsonl"))


def test_a_journal_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.recordings.journal._MAX_BYTES", 20)
    journal = Journal()
    journal.open(tmp_path / "journal")
    for number in range(10):
        journal.write(["entry", number])
    assert (tmp_path / "journal").read_text() == '["entry",0]\n'
    assert journal.waiting == b""


def test_full_disk_delays_writes_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.recordings.journal._AGAIN_S", 0.0)
    journal = Journal()
    journal.open(tmp_path / "journal")
    with small_files(20):  # in the middle of the second entry
        for number in range(4):
            journal.write(["entry", number])
        assert (tmp_path / "journal").read_text() + journal.waiting.decode() == "".join(
            f'["entry",{number}]\n' for number in range(4)
        )
        with pytest.raises(OSError, match="File too large"):
            journal.flush()
    assert journal.outage.startswith("File too large")
    journal.write(["entry", 4])
    assert journal.waiting == b""
    assert (tmp_path / "journal").read_text() == "".join(f'["entry",{number}]\n' for number in range(5))


def test_a_forked_child_adds_nothing(tmp_path: Path) -> None:
    journal = Journal()
    journal.open(tmp_path / "journal")
    child = os.fork()
    if not child:
        journal.write(["child"])
        os._exit(0)
    os.waitpid(child, 0)
    journal.write(["parent"])
    journal.close()
    assert (tmp_path / "journal").read_text() == '["parent"]\n'


@pytest.mark.parametrize(
    "line", ["[", '["step",1]', '["step",1,2,99999999999999999999]', '["other"]', "\ud800", "{}", ""]
)
def test_a_damaged_line_of_the_journal_is_left_out_and_reported(tmp_path: Path, line: str) -> None:
    Recording(tmp_path, "killed", "acl", False, started_ns=1).write()
    entries = ['["start",5]', '["step",0,5,9]', line, '["mark","tick","",7,6,6]']
    (tmp_path / JOURNAL_FILE_NAME).write_text("\n".join(entries), errors="surrogatepass")
    run = npuprof.load(tmp_path)
    assert run.steps["step"].tolist() == [0]
    assert run.marks["message"].tolist() == ["tick"]
    assert run.notes["message"].str.contains("has 1 damaged line: left out").any()


@pytest.mark.parametrize("content", ["", "{", "[]\n", '{"time_ns":[1]}\n', json.dumps({"time_ns": [1 << 70]})])
def test_a_damaged_journal_of_stacks_costs_nothing_else(tmp_path: Path, content: str) -> None:
    Recording(tmp_path, "killed", "acl", False, started_ns=1).write()
    (tmp_path / JOURNAL_FILE_NAME).write_text('["step",0,5,9]\n')
    (tmp_path / STACKS_JOURNAL_FILE_NAME).write_text(content)
    run = npuprof.load(tmp_path)
    assert run.steps["step"].tolist() == [0]
    assert not len(run.python)
