from __future__ import annotations

import _thread
import gc
import os
import stat
import sys
import threading
import time
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

from npuprof.collectors import python_stacks, stack_tree
from npuprof.collectors.python_stacks import PythonStacks
from npuprof.errors import CollectorError, NpuprofError, SessionError
from npuprof.sources.recording.python_stacks import read
from npuprof.tables.notes import Notes
from tests.collectors.sampling import callers, failures, functions, has_looked, patience_s, spin, table_of
from tests.conftest import FakeClock


@pytest.fixture
def stacks() -> PythonStacks:
    return PythonStacks(interval_s=0.001)


@pytest.mark.slow
def test_a_running_function_is_seen_below_its_caller(stacks: PythonStacks, tmp_path: Path) -> None:
    def inner() -> None:
        spin(has_looked(stacks))

    def outer() -> None:
        inner()

    before_ns = time.time_ns()
    stacks.start()
    outer()
    table = table_of(stacks, tmp_path)

    assert "outer" in callers(table, "inner")
    # The test runner may have threads of its own.
    assert threading.get_native_id() in set(table["thread_id"])
    assert table["start_ns"].min() >= before_ns - 1_000_000
    line = inner.__code__.co_firstlineno
    assert f"test_python_stacks.py({line}): inner" in set(table["name"])


@pytest.mark.slow
@pytest.mark.parametrize("early", [True, False], ids=["started before", "started after"])
def test_threads_are_followed(stacks: PythonStacks, tmp_path: Path, early: bool) -> None:
    ready, leave, ids = threading.Event(), threading.Event(), []

    def worker() -> None:
        ids.append(threading.get_native_id())
        ready.set()
        leave.wait(patience_s())

    thread = threading.Thread(target=worker)
    if early:
        thread.start()
        ready.wait(patience_s())
        stacks.start()
    else:
        stacks.start()
        thread.start()
        ready.wait(patience_s())
    spin(has_looked(stacks))
    leave.set()
    thread.join()
    table = table_of(stacks, tmp_path)

    seen = table[table["name"].str.endswith(": worker")]
    assert seen["thread_id"].tolist() == ids
    assert seen["depth"].tolist() == [0]  # threading's own frames are left out


@pytest.mark.slow
def test_unknown_thread_has_pythons_ident(stacks: PythonStacks, tmp_path: Path) -> None:
    ready, leave, idents = threading.Event(), threading.Event(), []

    def worker() -> None:
        idents.append(_thread.get_ident())
        ready.set()
        leave.wait(patience_s())

    _thread.start_new_thread(worker, ())
    ready.wait(patience_s())
    stacks.start()
    spin(has_looked(stacks, 3))
    problems = stacks.stop()
    leave.set()
    stacks.write(tmp_path / "foreign.parquet")
    table = read(tmp_path / "foreign.parquet", Notes())["python"]

    assert "not started by Python's threading" in " ".join(problems)
    assert table.loc[table["name"].str.endswith(": worker"), "thread_id"].tolist() == idents


def test_a_thread_that_waits_in_the_machinery_is_left_out(stacks: PythonStacks, tmp_path: Path) -> None:
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    stacks.start()
    spin(has_looked(stacks))
    native_id = thread.native_id
    leave.set()
    thread.join()
    table = table_of(stacks, tmp_path)

    assert native_id not in set(table["thread_id"])


@pytest.mark.slow
def test_an_exception_of_the_user_passes_through(stacks: PythonStacks, tmp_path: Path) -> None:
    def fails() -> None:
        spin(has_looked(stacks))
        raise ZeroDivisionError("the user's")

    stacks.start()
    with pytest.raises(ZeroDivisionError, match="the user's"):
        fails()
    assert "fails" in functions(table_of(stacks, tmp_path))


@pytest.mark.slow
def test_nothing_of_the_user_is_kept_alive(stacks: PythonStacks) -> None:
    class Precious:
        pass

    def uses() -> tuple[weakref.ref[Any], weakref.ref[Any]]:
        precious = Precious()
        scope: dict[str, Any] = {"spin": spin, "done": has_looked(stacks)}
        exec("def made(precious):\n spin(done)", scope)
        scope["made"](precious)
        return weakref.ref(precious), weakref.ref(scope["made"].__code__)

    stacks.start()
    references = uses()
    spin(has_looked(stacks))
    gc.collect()
    alive = [reference() for reference in references]
    stacks.stop()
    assert alive == [None, None]


def test_the_users_own_profile_hook_stays(stacks: PythonStacks) -> None:
    calls = []

    def hook(frame: Any, event: str, argument: Any) -> None:
        calls.append(event)

    sys.setprofile(hook)
    try:
        stacks.start()
        spin(has_looked(stacks))
        stacks.stop()
        assert sys.getprofile() is hook
    finally:
        sys.setprofile(None)
    assert "call" in calls


def test_it_starts_in_one_thread_and_stops_in_another(stacks: PythonStacks) -> None:
    problems: list[list[str]] = []
    stacks.start()
    thread = threading.Thread(target=lambda: problems.append(failures(stacks.stop())))
    thread.start()
    thread.join(patience_s())
    assert problems == [[]]


@pytest.mark.slow
def test_it_can_be_started_and_stopped_a_hundred_times(stacks: PythonStacks) -> None:
    before = threading.active_count()
    for _ in range(100):
        stacks.start()
        assert failures(stacks.stop()) == []
    assert threading.active_count() == before


def test_second_stop_repeats_the_first(stacks: PythonStacks) -> None:
    assert stacks.stop() == []
    stacks.start()
    problems = stacks.stop()
    assert stacks.stop() == problems
    assert failures(problems) == []


def test_wrong_order_is_refused(stacks: PythonStacks, tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="start"):
        stacks.write(tmp_path / "x")
    stacks.start()
    with pytest.raises(SessionError, match="already"):
        stacks.start()
    with pytest.raises(SessionError, match="stop"):
        stacks.write(tmp_path / "x")
    stacks.stop()
    with pytest.raises(ValueError, match="interval_s"):
        PythonStacks(interval_s=0)


def test_a_forked_child_stops_at_once(stacks: PythonStacks) -> None:
    stacks.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork beside threads
        child = os.fork()
    if child == 0:
        problems = stacks.stop()
        os._exit(0 if "fork" in " ".join(problems) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert failures(stacks.stop()) == []


@pytest.mark.parametrize(("module", "limit"), [(python_stacks, "_MAX_CHANGES"), (stack_tree, "_MAX_NODES")])
def test_full_memory_ends_the_sampling_and_is_reported(
    stacks: PythonStacks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: Any, limit: str
) -> None:
    monkeypatch.setattr(module, limit, 1)
    looked = has_looked(stacks, 1)  # counted from before the start: there is one look only
    stacks.start()
    spin(looked)
    problems = stacks.stop()
    stacks.write(tmp_path / "full.parquet")
    assert "memory was full" in " ".join(problems)
    assert stacks.sample_count == 1


@pytest.mark.slow
def test_deep_recursion_is_cut_and_reported(stacks: PythonStacks, tmp_path: Path) -> None:
    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        else:
            spin(has_looked(stacks))

    stacks.start()
    deep(600)
    problems = stacks.stop()
    stacks.write(tmp_path / "deep.parquet")
    assert "deeper than 500 frames" in " ".join(problems)
    assert read(tmp_path / "deep.parquet", Notes())["python"]["depth"].max() < 500


def test_a_failure_of_the_sampler_is_reported_and_not_raised(
    stacks: PythonStacks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = threading.Event()

    def fails() -> dict[int, Any]:
        asked.set()
        raise RuntimeError("no frames today")

    stacks.start()
    monkeypatch.setattr(sys, "_current_frames", fails)
    assert asked.wait(patience_s())
    problems = stacks.stop()
    assert "RuntimeError: no frames today" in " ".join(problems)
    stacks.write(tmp_path / "some.parquet")


def test_times_come_from_the_clock(clock: FakeClock, tmp_path: Path) -> None:
    clock.tick_ns = 1_000
    stacks = PythonStacks(interval_s=0.001, clock=clock)
    epoch_ns = clock.epoch_ns
    began_ns = clock.now_ns
    stacks.start()
    spin(has_looked(stacks))
    stacks.stop()
    stacks.write(tmp_path / "clock.parquet")
    table = read(tmp_path / "clock.parquet", Notes())["python"]
    assert table["start_ns"].min() >= began_ns + epoch_ns - 10_000
    assert (table["start_ns"] + table["duration_ns"]).max() <= clock.now_ns + epoch_ns
    assert (table["duration_ns"] % 1_000 == 0).all()


def test_the_first_look_is_kept_at_once(clock: FakeClock, tmp_path: Path) -> None:
    """A process may be killed before the next ones are."""
    stacks = PythonStacks(clock=clock, journal=tmp_path / "journal")
    stacks.start()
    try:
        spin(has_looked(stacks, 3))  # by a clock that stands still
        assert (tmp_path / "journal").read_bytes().endswith(b"\n")
    finally:
        stacks.stop()


def test_samples_much_further_apart_than_asked_for_are_reported(clock: FakeClock) -> None:
    clock.tick_ns = 1_000_000_000
    stacks = PythonStacks(interval_s=0.001, clock=clock)
    stacks.start()
    spin(has_looked(stacks, 3))
    assert "every 1e+03 ms on average instead of every 1 ms" in " ".join(stacks.stop())


def test_the_file_is_private_and_replaces_an_older_one(stacks: PythonStacks, tmp_path: Path) -> None:
    path = tmp_path / "stacks.parquet"
    path.write_bytes(b"older")
    stacks.start()
    stacks.stop()
    stacks.write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    read(path, Notes())


def test_a_file_that_cannot_be_written_is_one_clear_error(stacks: PythonStacks, tmp_path: Path) -> None:
    stacks.start()
    stacks.stop()
    (tmp_path / "file").touch()
    with pytest.raises(NpuprofError, match="cannot be written"):
        stacks.write(tmp_path / "file" / "stacks.parquet")


def test_a_system_without_threads_to_give_is_one_clear_error(
    stacks: PythonStacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        with pytest.raises(CollectorError, match="can't start new thread"):
            stacks.start()
    stacks.start()
    assert failures(stacks.stop()) == []
