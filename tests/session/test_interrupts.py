"""Interrupts beside a native collector: one of the user's is one, whatever the collector does to its handler."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from npuprof.errors import SessionError
from npuprof.options import Options
from npuprof.session import active
from npuprof.session.schedule import schedule
from npuprof.session.session import Session
from tests import pace
from tests.collectors import sigint_double
from tests.fakes import FakeCollector
from tests.interrupts import interrupted

# The simulated NPU, whose first native call brings the library's handler.
_PROGRAM = """
import ctypes, json, os, signal, sys, threading, time
import npuprof
from npuprof.simulator import acl
from npuprof.simulator.models import perceptron, write_model

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever runs the tests may ignore it
library, way, place = ctypes.CDLL(sys.argv[1]), sys.argv[2], sys.argv[3]

def bringing_the_handler(call):
    def native(*arguments):
        library.init()
        return call(*arguments)
    return native

acl.prof.init = bringing_the_handler(acl.prof.init)
acl.prof.model_subscribe = bringing_the_handler(acl.prof.model_subscribe)
collectors = {}

def begin():
    session = npuprof.profile(collector="simulator", activities="npu", output=place)
    if way == "stream":
        acl.rt.set_device(0)
        collectors["open"] = session.stream(acl.mdl.load_from_file(str(write_model(place + ".om", perceptron())))[0])
    else:
        collectors["open"] = session.start()

if way == "thread":
    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
else:
    begin()
interrupts = 0
for cell in range(2):
    try:
        if cell == 0:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            library.rest()
        for _ in range(1000):
            time.sleep(0.0001)
    except KeyboardInterrupt:
        interrupts += 1
        held = collectors["open"]
        held.close() if way == "stream" else held.stop()
handler = signal.getsignal(signal.SIGINT) is signal.default_int_handler
print(json.dumps([interrupts, handler]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["main", "thread", "stream"])
def test_an_interrupt_while_a_collector_runs_is_one_interrupt(tmp_path: Path, way: str) -> None:
    library = sigint_double.build(tmp_path)
    command = [sys.executable, "-c", _PROGRAM, str(library), way, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=pace.seconds(120), check=False)
    assert done.returncode == 0, done.stderr
    told: list[Any] = json.loads(done.stdout)
    assert told == [1, True]


class Taking(FakeCollector):
    """A front end each of whose calls that may reach the native library takes the handler of interrupts away."""

    def _called(self, call: str) -> None:
        super()._called(call)
        if call in ("warmup", "start"):
            ctypes.CDLL(None).signal(signal.SIGINT, ctypes.c_void_p(1))  # SIG_IGN


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("warmup", [0, 1])
def test_interrupts_return_after_start(tmp_path: Path, warmup: int) -> None:
    collector = Taking()
    plan = schedule(wait=0, warmup=warmup, active=1, repeat=1)
    session = Session(Options(activities=("npu",), output=tmp_path), collector=collector, schedule=plan).start()
    for _ in range(warmup + 1):
        with pytest.raises(KeyboardInterrupt):
            _interrupt()
        session.step()
    session.stop()
    assert [call for call in collector.calls if call in ("warmup", "start")] == ["warmup"] * warmup + ["start"]


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100_000):
        pass


@pytest.mark.long
@pytest.mark.parametrize("warmup", [0, 1])
@pytest.mark.filterwarnings("ignore::npuprof.errors.NpuprofWarning")
def test_after_an_interrupt_at_any_line_of_a_start_nothing_runs(
    tmp_path: Path, warmup: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session is held, as by the traceback that a notebook keeps."""
    # A trace may raise between a block and the release of its lock, where no signal comes.
    monkeypatch.setattr(active, "_process_lock", threading.RLock())
    sessions, options = [], Options(activities=("npu",), output=tmp_path)
    modules = {"npuprof.session.session", "npuprof.session.active", "npuprof.recordings.recording"}
    for line in count():
        plan = schedule(wait=0, warmup=warmup, active=1)
        sessions.append(Session(options, collector=FakeCollector(), schedule=plan))
        came = interrupted(sessions[-1].start, modules, line)
        if not came:
            break
        assert not sessions[-1].active, line
        assert all((directory / "recording.json").is_file() for directory in tmp_path.iterdir()), line
        Session(options, collector=FakeCollector()).start().stop()
    assert line > 40
    with suppress(SessionError):
        sessions[-1].stop()


@pytest.mark.long
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.filterwarnings("ignore::npuprof.errors.NpuprofWarning")
def test_interrupted_stop_stops_the_collector_once(
    tmp_path: Path, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active, "_process_lock", threading.RLock())
    modules = {f"npuprof.session.{name}" for name in ("session", "active", "flushing")}
    sessions = []
    for line in count():
        collector = FakeCollector()
        collector.stops_on_any_thread = apart
        session = Session(Options(activities=("npu",), output=tmp_path), collector=collector)
        sessions.append(session.start())  # held: no finalizer of an earlier one is interrupted
        came = interrupted(session.stop, modules, line)
        session.stop()
        deadline = time.monotonic() + pace.seconds(60)
        while not collector.calls.count("stop") and time.monotonic() < deadline:
            time.sleep(0.01)  # a thread may do it
        assert collector.calls.count("stop") == 1, line
        assert (session.recording.directory / "recording.json").is_file(), line
        if not came:
            break
    assert line > 40
