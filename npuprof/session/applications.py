"""Programs that are profiled from their beginning: ``npuprof run script.py``, by msprof unless another is asked for.

Source: collectors/FRONTENDS.md section 5 (application mode).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from npuprof.collectors import capabilities, msprof_flags
from npuprof.collectors.msprof import LOG_NAME, MsprofProcess, find, has_data
from npuprof.errors import CollectorError, OptionsError
from npuprof.files import atomic
from npuprof.machine import cann, environment
from npuprof.options import Options
from npuprof.recordings.clock import Clock, SystemClock, epoch_ns_of, step_ns
from npuprof.recordings.recording import Recording, make_directory
from npuprof.session.active import note_end
from npuprof.session.history import RecordedRun, attempt
from npuprof.session.scripts import run_script

_COLLECTORS = ("auto", "msprof")
_NO_STACKS = "npuprof: Python stacks are sampled in the profiling process only; a program that msprof runs has none\n"


def run_application(
    program: Sequence[str],
    options: Options | None = None,
    *,
    echo: Callable[[str], object] | None = None,
    timeout_s: float | None = None,
    clock: Clock | None = None,
) -> Recording:
    """Run a program under msprof, or a script with the front end that the options name; see :func:`run_script`.

    Parameters
    ----------
    timeout_s, clock
        Seconds after which both are ended, as by an interrupt; by default never. The source of timestamps.

    Returns
    -------
    Recording
        With the ``PROF_*`` directories of msprof; `failed` is set if the program failed.
    """
    options, clock = options or Options(collector="msprof"), clock or SystemClock()
    if options.collector not in _COLLECTORS:
        return run_script(program, options, echo, timeout_s)
    _check(options)
    flags, ran = [str(find()), *msprof_flags.flags(options)], command(program)
    with ExitStack() as undo:
        directory = make_directory(options.output, options.name, undo)
        epoch_ns = epoch_ns_of(clock)
        recording = _recording(directory, program, options, clock.monotonic_raw_ns() + epoch_ns)
        _announce_missing_stacks(options, echo)
        msprof = MsprofProcess([*flags, f"--output={directory}", *ran], echo)
        undo.pop_all()
    _judge(recording, _wait(recording, msprof, timeout_s, clock, epoch_ns), msprof, timeout_s)
    run = RecordedRun(recording)
    run.end()
    note_end(run)
    return recording


def _announce_missing_stacks(options: Options, echo: Callable[[str], object] | None) -> None:
    if "cpu" in options.activities and echo is not None:
        echo(_NO_STACKS)


def _wait(
    recording: Recording, msprof: MsprofProcess, timeout_s: float | None, clock: Clock, epoch_ns: int
) -> int | None:
    try:
        status = msprof.wait(timeout_s)
        recording.stopped_ns = clock.monotonic_raw_ns() + epoch_ns
        recording.clock_step_ns = step_ns(clock, epoch_ns, recording.stopped_ns - recording.started_ns)
        return status
    finally:

        def write_log() -> None:
            atomic.write(recording.directory / LOG_NAME, msprof.output.encode(errors="backslashreplace"))

        attempt(write_log, recording)


def _recording(directory: Path, program: Sequence[str], options: Options, started_ns: int) -> Recording:
    recording = Recording(
        directory=directory,
        name=options.name or Path(program[0]).name,
        collector="msprof",
        simulated=False,
        options=options.to_dict(),
        started_ns=started_ns,
        versions=environment.versions() | {"cann": cann.toolkit_version()},
        environment=environment.describe(),
    )
    recording.write(is_begun=True)
    return recording


def _judge(recording: Recording, status: int | None, msprof: MsprofProcess, timeout_s: float | None) -> None:
    """Note how msprof ended; raise a CollectorError if it left no data."""
    ended = f"msprof ended with status {status}" if status is not None else f"it was ended after {timeout_s:g} s"
    if not has_data(recording.directory):
        raise CollectorError(
            f"{ended} and left no PROF_* directory. {msprof.last_words()}. A program is recorded only if it uses CANN; "
            f"the whole output is {recording.directory / LOG_NAME}"
        )
    if status:
        recording.failed = f"{ended}. {msprof.last_words()}"
    elif status is None:
        recording.problems.append(f"{ended}: what had been collected by then is kept")


def _check(options: Options) -> None:
    if "npu" not in options.activities:
        raise OptionsError("msprof collects from the NPU: add npu to activities")
    capabilities.check("msprof", options)
    msprof_flags.refuse(options, attached=False)


def command(program: Sequence[str]) -> list[str]:
    """Return the words of a command; a script runs with this Python."""
    if not program:
        raise OptionsError("there is no program to run: give a script and its arguments")
    path = Path(program[0]).expanduser()
    if path.suffix == ".py":
        if not path.is_file():
            raise OptionsError(f"{path} is not a file: give the path of a script")
        return [sys.executable, str(path), *program[1:]]
    if (executable := shutil.which(str(path))) is None:
        raise OptionsError(f"{path} is neither a script (*.py) nor an executable on PATH: check the name")
    return [executable, *program[1:]]
