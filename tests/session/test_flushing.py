"""A collector that takes long to stop: it is told, it can be interrupted, and the recording stays."""

from __future__ import annotations

import gc
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from npuprof import progress
from npuprof.errors import CollectorError, SessionBusyError
from npuprof.options import Options
from npuprof.recordings.recording import Recording
from npuprof.session.session import Session
from tests.fakes import FakeCollector

_DEADLINE_S = 60


class Slow(FakeCollector):
    """A collector whose stop takes until it may go on."""

    stops_on_any_thread = True

    def __init__(self) -> None:
        super().__init__()
        self.stopping = threading.Event()
        self.may_end = threading.Event()

    def stop(self) -> None:
        self.stopping.set()
        assert self.may_end.wait(_DEADLINE_S)
        super().stop()


@pytest.fixture
def slow() -> Iterator[Slow]:
    """Return the collector, and let interrupts interrupt, which whatever runs the tests may ignore."""
    made = Slow()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield made
    signal.signal(signal.SIGINT, handler)
    made.may_end.set()
    _wait_for_the_end()


def _wait_for_the_end() -> None:
    for thread in threading.enumerate():
        if thread.name in ("npuprof-flush", "npuprof-patience"):
            thread.join(_DEADLINE_S)
            assert not thread.is_alive()


def session(collector: FakeCollector, output: Path) -> Session:
    return Session(Options(activities=("npu",), output=output), collector=collector)


def interrupt_when(happened: threading.Event) -> None:
    """Send this thread a signal, as a terminal does, once something has happened."""
    main = threading.get_ident()

    def interrupt() -> None:
        assert happened.wait(_DEADLINE_S)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


def test_interrupt_keeps_recording_and_collector(slow: Slow, tmp_path: Path) -> None:
    run = session(slow, tmp_path).start()
    interrupt_when(slow.stopping)
    with pytest.raises(KeyboardInterrupt):
        run.stop()
    (problem,) = Recording.read(run.recording.directory).problems
    assert re.match(r"the stop of the collector was interrupted after \d+\.\d s: data not written", problem)
    other = FakeCollector()
    with pytest.raises(SessionBusyError, match=rf"still flushing {run.recording.directory}.*wait until"):
        session(other, tmp_path).start()
    assert other.calls == []
    slow.may_end.set()
    _wait_for_the_end()
    assert slow.calls == ["check", "start", "stop"]
    session(other, tmp_path).start().stop()
    assert other.calls == ["check", "start", "stop"]


def test_ended_stop_holds_nothing(slow: Slow, tmp_path: Path) -> None:
    slow.may_end.set()
    slow.fail["stop"] = CollectorError("stop returned 500005")
    assert session(slow, tmp_path).start().stop().problems == ["stop returned 500005"]
    session(FakeCollector(), tmp_path).start().stop()


@pytest.mark.slow
def test_forgotten_run_is_stopped_on_its_thread(slow: Slow, tmp_path: Path) -> None:
    """What collects garbage may hold a lock that the collector needs."""
    stopped_by: list[threading.Thread] = []
    slow.stop = lambda: stopped_by.append(threading.current_thread())  # type: ignore[method-assign]
    session(slow, tmp_path).start()
    gc.collect()
    assert stopped_by == [threading.current_thread()]


@pytest.mark.parametrize("apart", [True, False])
def test_a_stop_that_lasts_says_how_long_it_has_taken(
    slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], apart: bool
) -> None:
    for limit in ("_PATIENCE_S", "_TICK_S"):
        monkeypatch.setattr(progress, limit, 0.0)
    slow.stops_on_any_thread = apart
    shown: list[str] = []

    class Screen:
        def show(self, progress: progress.Progress) -> None:
            shown.append(str(progress))
            slow.may_end.set()

        def close(self) -> None:
            shown.append("closed")

    monkeypatch.setattr(progress, "_display", Screen)
    session(slow, tmp_path).start().stop()
    _wait_for_the_end()
    assert re.fullmatch(r"the collector is flushing: \d+ s", shown[0])
    assert shown[-1] == "closed"


def test_a_program_without_a_terminal_is_warned_once(
    slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for limit in ("_PATIENCE_S", "_TICK_S", "_INTERVAL_S"):
        monkeypatch.setattr(progress, limit, 0.0)
    show = progress._Line.show

    def twice(line: progress._Line, told: progress.Progress) -> None:
        show(line, told)
        show(line, told)
        slow.may_end.set()

    monkeypatch.setattr(progress._Line, "show", twice)
    session(slow, tmp_path).start().stop()
    _wait_for_the_end()
    assert re.fullmatch(r"npuprof: the collector is flushing: \d+ s so far\n", capsys.readouterr().err)
