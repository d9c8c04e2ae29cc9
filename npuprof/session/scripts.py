"""Scripts that are profiled from within their own process: ``npuprof run --collector kineto script.py``.

A child of this process runs the script, with stamps of its module; see :mod:`npuprof.session.script_process`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from npuprof.collectors.msprof import MsprofProcess
from npuprof.errors import CollectorError, OptionsError
from npuprof.options import Options
from npuprof.recordings.recording import Recording
from npuprof.session.active import note_end
from npuprof.session.history import RecordedRun

REFUSED = b"refused: "
"""What precedes the reason of a run that did not begin, in place of the directory of its recording."""
_MOST_BYTES = 1 << 16
_MODULE = "npuprof.session.script_process"


def run_script(
    program: Sequence[str], options: Options, echo: Callable[[str], object] | None, timeout_s: float | None
) -> Recording:
    """Run a script in a process of its own, in which a front end profiles it.

    Parameters and result are those of :func:`npuprof.session.applications.run_application`; the collector of the
    options runs in the process of the script.
    """
    if not program or not Path(program[0]).expanduser().is_file() or not program[0].endswith(".py"):
        named = f"{program[0]} is none" if program else "none is given"
        raise OptionsError(f"{options.collector} profiles a Python script from within, and {named}: give its path")
    reading, writing = os.pipe()
    words = [str(writing), options.to_json(), str(Path(program[0]).expanduser().absolute()), *program[1:]]
    try:
        process = MsprofProcess([sys.executable, "-u", "-m", _MODULE, *words], echo, keeps=[writing])
    finally:
        os.close(writing)
    try:
        status = process.wait(timeout_s)
    finally:
        os.set_blocking(reading, False)  # a process that the script left behind may hold the other end
        message = _message(reading)
    if message.startswith(REFUSED):
        raise CollectorError(message.removeprefix(REFUSED).decode(errors="replace"))
    if not message:
        raise CollectorError(f"the script ended with status {status} before it was profiled. {process.last_words()}")
    recording = Recording.read(Path(os.fsdecode(message)))
    if status is None:
        recording.problems.append(f"it was ended after {timeout_s:g} s: what had been collected by then is kept")
    if status and not recording.failed:
        recording.failed = f"the script ended with status {status}"
    run = RecordedRun(recording)
    if recording.stopped_ns:
        run.end()
    note_end(run)
    return recording


def _message(reading: int) -> bytes:
    """Return what the process has written to its parent, and close the pipe."""
    try:
        return os.read(reading, _MOST_BYTES)
    except BlockingIOError:
        return b""
    finally:
        os.close(reading)
