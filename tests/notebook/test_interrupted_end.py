"""An interrupt while a run ends: one line says where it is, and the cell keeps what it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebook.kernel import Executed, Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

_DRAWING = """
import time
import npuprof.exports.explorer

def drawing(*arguments, **options):
    print("drawing", flush=True)
    time.sleep(600)

npuprof.exports.explorer.saved_explorer = drawing
"""

_FLUSHING = """
import threading
import npuprof.progress
from npuprof.collectors.acl import SimulatorCollector

npuprof.progress._PATIENCE_S = npuprof.progress._TICK_S = npuprof.progress._INTERVAL_S = 0.0
may_end = threading.Event()
stop = SimulatorCollector.stop

def flushing(collector):
    npuprof_shown.wait()
    print("flushing", flush=True)
    may_end.wait()
    stop(collector)

npuprof_shown = threading.Event()
show = npuprof.progress._Patient.__call__
def shown(patient, progress):
    show(patient, progress)
    npuprof_shown.set()
npuprof.progress._Patient.__call__ = shown
SimulatorCollector.stop = flushing
"""


@pytest.fixture
def own(tmp_path: Path) -> Kernel:
    """Return a kernel that a test may change; it ends with the test."""
    kernel = Kernel(tmp_path)
    kernel.run("%load_ext npuprof")
    return kernel


def place(executed: Executed) -> str:
    """Return the directory that the only line of errors names."""
    (line,) = executed.stream("stderr").splitlines()
    found = re.fullmatch(r"npuprof: interrupted: the run is kept, and npuprof\.load\('([^']+)'\) shows it", line)
    assert found, line
    return found[1]


@pytest.mark.long
def test_an_interrupt_while_the_report_is_drawn_is_one_line(own: Kernel, tmp_path: Path) -> None:
    with own as kernel:
        kernel.run(_DRAWING)
        kernel.run("import time")
        executed = kernel.run("%%npuprof --output kept\ntime.sleep(0.3)\n6 * 7", on_stream=kernel.interrupt)
        assert executed.status == "ok"
        assert executed.value == "42"
        assert not executed.traceback()
        assert kernel.run(f"npuprof.load({place(executed)!r}).info.collector").value == "'simulator'"
        again = kernel.run("%npuprof last", on_stream=kernel.interrupt)
        assert again.reply["ename"] == "SessionError"
        assert "interrupted: the run is kept, and npuprof.load(" in again.traceback()


def test_a_flush_is_reported_and_its_interrupt_is_one_line(own: Kernel, tmp_path: Path) -> None:
    with own as kernel:
        kernel.run(_FLUSHING)
        executed = kernel.run("%%npuprof --output kept\n6 * 7", on_stream=kernel.interrupt)
        assert executed.status == "ok"
        assert executed.value == "42"
        kept = place(executed)
        waited = [data["text/plain"] for data in executed.displays]
        assert re.fullmatch(r"the collector is flushing: \d+ s", waited[0])
        busy = kernel.run("%%npuprof --output kept\npass")
        assert busy.status == "ok"
        assert "runs without a report of its own" in busy.stream("stderr")
        assert kept in busy.stream("stderr")
        kernel.run("may_end.set()\nimport time\nwhile npuprof.session.active._reserved: time.sleep(0.01)")
        notes = kernel.run(f"print(*npuprof.load({kept!r}).notes['message'])").stream()
        assert "the stop of the collector was interrupted after" in notes
        assert kernel.run("%%npuprof --output kept\npass").has_report
