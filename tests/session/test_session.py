"""A session's life: one at a time, ended however the code ends, and never losing its recording."""

from __future__ import annotations

import errno
import gc
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.collectors import registry
from npuprof.collectors.python_stacks import PythonStacks
from npuprof.errors import CollectorError, OptionsError, SessionBusyError, SessionError
from npuprof.options import Options
from npuprof.recordings.recording import Recording
from npuprof.report.facts import origin
from npuprof.session import active as running
from npuprof.session.session import Session
from tests.conftest import FakeClock
from tests.fakes import FakeCollector

MakeSession = Callable[..., Session]


@pytest.fixture
def make_session(tmp_path: Path, clock: FakeClock) -> MakeSession:
    def make(collector: FakeCollector | None = None, **options: object) -> Session:
        plain = {"activities": "npu", "output": tmp_path / "out", **options}
        return Session(Options.from_dict(plain), collector=collector or FakeCollector(), title="a test", clock=clock)

    return make


def test_start_and_stop_leave_a_private_recording(make_session: MakeSession, clock: FakeClock) -> None:
    session = make_session(name="first run").start()
    clock.advance(5_000)
    recording = session.stop()
    assert recording.stopped_ns - recording.started_ns == 5_000
    assert stat.S_IMODE(recording.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(recording.directory.parent.stat().st_mode) == 0o700
    assert recording.directory.name.startswith("first_run_")
    assert Recording.read(recording.directory).versions["fake"] == "1.0"


def test_stopping_twice_stops_once(make_session: MakeSession) -> None:
    collector = FakeCollector()
    session = make_session(collector).start()
    assert session.stop() is session.stop()
    assert collector.calls.count("stop") == 1


def test_an_exception_in_the_block_stops_and_is_recorded(make_session: MakeSession) -> None:
    session = make_session()
    with pytest.raises(ZeroDivisionError), session:
        1 / 0  # noqa: B018
    assert not session.collecting
    assert session.recording.failed == "ZeroDivisionError: division by zero"


def test_an_interrupt_in_the_block_stops(make_session: MakeSession) -> None:
    session = make_session()
    with pytest.raises(KeyboardInterrupt), session:
        raise KeyboardInterrupt
    assert session.recording.failed == "KeyboardInterrupt"
    assert running.current() is None


def test_a_second_start_names_the_holder_and_leaves_it_running(make_session: MakeSession) -> None:
    with make_session() as outer:
        second = FakeCollector()
        with pytest.raises(SessionBusyError, match="a test has been collecting with fake since"):
            make_session(second).start()
        assert outer.collecting
        assert second.calls == []
    make_session().start().stop()


def test_starting_twice_is_refused_and_the_run_goes_on(make_session: MakeSession) -> None:
    session = make_session().start()
    with pytest.raises(SessionError, match=r"has started already: stop\(\) it first"):
        session.start()
    assert session.collecting
    session.stop()


@pytest.mark.slow
def test_a_stopped_session_can_be_started_for_a_further_run(make_session: MakeSession) -> None:
    session = make_session()
    directories = {session.start().stop().directory for _ in range(3)}
    assert len(directories) == 3


@pytest.mark.parametrize("call", ["check", "start"])
def test_a_start_that_fails_leaves_nothing_behind(make_session: MakeSession, tmp_path: Path, call: str) -> None:
    with pytest.raises(CollectorError, match="busy"):
        make_session(FakeCollector(fail={call: CollectorError("busy")})).start()
    assert not (tmp_path / "out").exists()
    make_session().start().stop()


def test_failed_start_keeps_the_output_directory(make_session: MakeSession, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(CollectorError, match="busy"):
        make_session(FakeCollector(fail={"start": CollectorError("busy")})).start()
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]

    class Untidy(FakeCollector):
        def start(self, options: Options, directory: Path) -> None:
            (directory.parent / "data").touch()
            raise CollectorError("busy")

    with pytest.raises(CollectorError, match="busy"):
        make_session(Untidy(), output=tmp_path / "deep" / "er").start()
    assert (tmp_path / "deep" / "er" / "data").is_file()


def test_a_failed_stop_keeps_the_recording_and_is_reported(make_session: MakeSession) -> None:
    session = make_session(FakeCollector(fail={"stop": CollectorError("acl.prof.stop returned 500005")})).start()
    assert session.stop().problems == ["acl.prof.stop returned 500005"]
    assert Recording.read(session.recording.directory).problems == ["acl.prof.stop returned 500005"]
    make_session().start().stop()


@pytest.mark.slow
def test_sampler_losses_are_no_front_end_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = PythonStacks.stop
    monkeypatch.setattr(PythonStacks, "stop", lambda self: [*stop(self), "stacks were cut"])
    with npuprof.profile(collector="simulator", output=tmp_path) as session:
        pass
    assert session.recording.problems == []
    notes = session.result.notes.set_index("message")
    assert notes.loc["stacks were cut", ["severity", "source"]].tolist() == ["warning", "python_stacks"]
    assert "simulator" not in set(notes["source"])


def test_an_interrupt_while_stopping_is_raised_when_all_is_ended(make_session: MakeSession) -> None:
    session = make_session(FakeCollector(fail={"stop": KeyboardInterrupt()})).start()
    with pytest.raises(KeyboardInterrupt):
        session.stop()
    assert Recording.read(session.recording.directory).stopped_ns > 0
    make_session().start().stop()


def test_an_interrupt_after_the_collector_started_stops_it(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(FakeCollector):
        def versions(self) -> Mapping[str, str]:
            raise KeyboardInterrupt

    collector = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        make_session(collector).start()
    assert collector.calls == ["check", "start", "stop"]
    make_session().start().stop()


def test_a_full_disk_at_the_start_is_one_clear_error(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(recording: Recording, **_how: bool) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Recording, "write", full)
        with pytest.raises(CollectorError, match=rf"{os.strerror(errno.ENOSPC)}.*--output"):
            make_session().start()
    make_session().start().stop()


def test_a_full_disk_at_the_stop_is_reported_and_nothing_raises(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session().start()

    def full(recording: Recording, **_how: bool) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Recording, "write", full)
    assert os.strerror(errno.ENOSPC) in session.stop().problems[0]


def test_file_as_output_is_an_error(make_session: MakeSession, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(CollectorError, match="no recording can be made in"):
        make_session().start()


@pytest.mark.slow
def test_a_forgotten_session_is_stopped(make_session: MakeSession) -> None:
    collector = FakeCollector()
    make_session(collector).start()
    gc.collect()
    assert collector.calls[-1] == "stop"
    assert running.current() is None


def test_a_forked_child_leaves_the_parents_session_alone(make_session: MakeSession) -> None:
    collector = FakeCollector()
    session = make_session(collector).start()
    child = os.fork()
    if child == 0:  # only the child: leave without running the test runner's own clean-up
        session.stop()
        os._exit(collector.calls.count("stop"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    session.stop()


@pytest.mark.slow
def test_the_end_of_the_process_stops_the_session(tmp_path: Path) -> None:
    program = (
        "from npuprof import Options, Session\n"
        "from tests.fakes import FakeCollector\n"
        f"kept = Session(Options(activities='npu', output={str(tmp_path)!r}), collector=FakeCollector()).start()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
    (directory,) = tmp_path.iterdir()
    recording = Recording.read(directory)
    assert recording.stopped_ns >= recording.started_ns > 0
    assert "the session was not stopped" in recording.problems[0]


def test_stops_from_many_threads_stop_once(make_session: MakeSession) -> None:
    collector = FakeCollector()
    session = make_session(collector).start()
    threads = [threading.Thread(target=session.stop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert collector.calls.count("stop") == 1


def test_starts_from_many_threads_give_one_session(make_session: MakeSession) -> None:
    started: list[Session] = []
    refused: list[Exception] = []

    def start() -> None:
        try:
            started.append(make_session().start())
        except SessionBusyError as error:
            refused.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(started), len(refused)) == (1, 7)
    started[0].stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("collector", "activities", "reason", "shown"),
    [
        ("auto", "npu", "no native front end is installed", r"collector simulator \(no native"),
        ("simulator", "npu", "", r"collector simulator ·"),
        ("auto", "cpu", "the activities ask for nothing else", r"collector python stacks \(the activities"),
    ],
)
def test_report_names_the_chosen_front_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, collector: str, activities: str, reason: str, shown: str
) -> None:
    for package in ("torch_npu", "mindspore", "npu_bridge", "npu_device"):
        monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(registry, "is_installed", lambda module: False)
    with npuprof.profile(collector=collector, activities=activities, output=tmp_path) as session:
        pass
    run = session.result
    assert run.info.reason.startswith(reason)
    assert bool(run.info.reason) == bool(reason)
    assert re.search(shown, " · ".join(origin(run.info)))


def test_steps_are_timed(make_session: MakeSession, clock: FakeClock) -> None:
    with make_session() as session:
        clock.advance(10)
        session.step()
        clock.advance(20)
        session.step()
    started = session.recording.started_ns
    assert session.recording.steps == [(0, started, started + 10), (1, started + 10, started + 30)]


def test_metadata_is_kept_and_must_be_json(make_session: MakeSession) -> None:
    with make_session() as session:
        session.add_metadata("model", {"layers": 12})
        with pytest.raises(OptionsError, match="JSON"):
            session.add_metadata("model", object())
        with pytest.raises(OptionsError, match="the limit is"):
            session.add_metadata("model", "x" * (2 << 20))
    assert Recording.read(session.recording.directory).metadata == {"model": {"layers": 12}}


def test_step_and_metadata_need_a_collecting_session(make_session: MakeSession) -> None:
    session = make_session()
    with pytest.raises(SessionError, match=r"step\(\) needs"):
        session.step()
    with pytest.raises(SessionError, match="has not started"):
        session.stop()
    with pytest.raises(SessionError, match="has not started"):
        _ = session.result


@pytest.mark.parametrize("collecting", [False, True])
def test_marker_must_be_text(make_session: MakeSession, collecting: bool) -> None:
    epoch: Any = 3
    share: Any = 0.5
    with make_session() if collecting else nullcontext():
        with pytest.raises(OptionsError, match="text, not int"):
            npuprof.mark(epoch)
        with pytest.raises(OptionsError, match="text, not float"):
            npuprof.range(share)
        with pytest.raises((AttributeError, TypeError)), npuprof.range(epoch):  # the built-in's, of a whole number
            pass


def test_markers_reach_the_running_collector_and_cost_nothing_else(make_session: MakeSession) -> None:
    npuprof.mark("nobody listens")
    with npuprof.range("nobody listens"):
        pass
    collector = FakeCollector()

    @npuprof.range("decorated")
    def recurse(depth: int) -> None:
        if depth:
            recurse(depth - 1)

    with make_session(collector):
        npuprof.mark("tick")
        recurse(1)
    assert collector.calls[2:7] == [
        "mark tick",
        "range_start decorated",
        "range_start decorated",
        "range_stop",
        "range_stop",
    ]


@pytest.mark.parametrize("collector", ["acl", "simulator", "msprof", "tensorflow"])
@pytest.mark.parametrize("option", ["modules", "flops", "data_process", "shapes", "record_op_args"])
def test_cpu_alone_refuses_other_front_ends_options(tmp_path: Path, collector: str, option: str) -> None:
    asked: dict[str, Any] = {option: True}
    session = npuprof.profile(activities="cpu", collector=collector, output=tmp_path / "out", **asked)
    with pytest.raises(OptionsError, match=option):
        session.start()
    assert not (tmp_path / "out").exists()


def test_cpu_alone_calls_no_native_profiler(tmp_path: Path, clock: FakeClock) -> None:
    collector = FakeCollector()
    options = Options(activities=("cpu",), output=tmp_path)
    with Session(options, collector=collector, clock=clock) as session:
        npuprof.mark("tick")
    assert collector.calls == ["check"]
    assert session.reason == "the activities ask for nothing else"
    assert session.recording.collector == "python stacks"
    assert not session.recording.simulated


@pytest.mark.slow
@pytest.mark.parametrize(
    ("set_ns", "told"), [(-3_600_000_000_000, "back by 3,600 s"), (5_000_000_000, "forward by 5.00 s")]
)
def test_setting_the_clock_changes_no_duration(tmp_path: Path, clock: FakeClock, set_ns: int, told: str) -> None:
    with Session(Options(activities=("cpu",), output=tmp_path), clock=clock) as session:
        clock.advance(1_000_000)
        clock.epoch_ns += set_ns
        session.step()
        clock.advance(2_000_000)
    run = session.result
    assert run.steps["duration_ns"].tolist() == [1_000_000]
    assert run.summary.wall_ns == 3_000_000
    (note,) = run.notes[run.notes["source"] == "clock"].itertuples()
    assert note.severity == "warning"
    assert told in note.message


def test_disciplined_clock_needs_no_note(tmp_path: Path, clock: FakeClock) -> None:
    with Session(Options(activities=("cpu",), output=tmp_path), clock=clock) as session:
        clock.advance(3_600_000_000_000)
        clock.epoch_ns += 3_600_000_000_000 // 2_000
    assert session.recording.clock_step_ns == 0


def test_run_ending_before_its_begin_has_its_rows(tmp_path: Path, clock: FakeClock) -> None:
    with Session(Options(activities=("cpu",), output=tmp_path), clock=clock) as session:
        clock.advance(1_000)
        session.step()
    recording = session.recording
    recording.stopped_ns = recording.started_ns - 3_600_000_000_000
    recording.write()
    run = npuprof.load(recording.directory)
    assert (run.summary.wall_ns or 0) >= 0
    assert run.info.stopped_ns is None
    assert run.notes["message"].str.contains("ends 3,600 s before it begins").any()
