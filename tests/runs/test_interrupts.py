"""Interrupts beside a native collector: one of the user's is one, whatever the collector does to its handler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.collectors import sigint_double

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


@pytest.mark.parametrize("way", ["main", "thread", "stream"])
def test_an_interrupt_while_a_collector_runs_is_one_interrupt(tmp_path: Path, way: str) -> None:
    library = sigint_double.build(tmp_path)
    command = [sys.executable, "-c", _PROGRAM, str(library), way, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told: list[Any] = json.loads(done.stdout)
    assert told == [1, True]
