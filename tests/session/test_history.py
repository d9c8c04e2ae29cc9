"""The runs of this process that have ended."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from npuprof.options import Options
from npuprof.session import history as run_history
from npuprof.session.session import Session
from tests.conftest import FakeClock
from tests.fakes import FakeCollector


@pytest.fixture(autouse=True)
def empty() -> None:
    for run in run_history.ended_runs():
        run_history.forget(run.directory)


def _run(output: Path, name: str, clock: FakeClock) -> Session:
    session = Session(
        Options(activities=("npu",), output=output, name=name), collector=FakeCollector(), title=name, clock=clock
    )
    with session:
        clock.advance(1_000_000)
    return session


def test_ended_runs_are_kept_in_their_order(tmp_path: Path, clock: FakeClock) -> None:
    for name in ("one", "two"):
        _run(tmp_path, name, clock)
    runs = run_history.ended_runs()
    assert [run.name for run in runs] == ["one", "two"]
    assert [run.stopped_ns - run.started_ns for run in runs] == [1_000_000] * 2


@pytest.mark.slow
def test_a_list_of_runs_keeps_no_tables_alive(tmp_path: Path, clock: FakeClock) -> None:
    session = _run(tmp_path, "one", clock)
    _run(tmp_path, "two", clock)  # the newest run is kept for last()
    first = run_history.ended_runs()[0]
    run = weakref.ref(session._run)
    assert run() is not None
    del session
    gc.collect()
    assert run() is None
    assert first.profile is None


def test_listeners_hear_of_starts_and_ends_until_they_stop(tmp_path: Path, clock: FakeClock) -> None:
    heard: list[int] = []
    end = run_history.listen(lambda: heard.append(1))
    _run(tmp_path, "one", clock)
    assert len(heard) == 2
    end()
    end()
    _run(tmp_path, "two", clock)
    assert len(heard) == 2


def test_renamed_and_forgotten(tmp_path: Path, clock: FakeClock) -> None:
    for name in ("one", "two"):
        _run(tmp_path, name, clock)
    first, second = run_history.ended_runs()
    run_history.rename(second.directory, "three")
    run_history.forget(first.directory)
    assert [run.name for run in run_history.ended_runs()] == ["three"]
