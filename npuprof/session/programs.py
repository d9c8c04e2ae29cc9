"""Programs whose processes are each profiled by a session of their own: ``npuprof run --processes -- torchrun ...``."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import NamedTuple

from npuprof.options import Options
from npuprof.session.applications import command
from npuprof.session.session import Session

_PATIENCE_S = 10.0  # for a program that was asked to end


class Ran(NamedTuple):
    """A program that has ended: the session, and its exit status, negative for a signal."""

    session: Session
    status: int


def run_processes(
    program: Sequence[str],
    options: Options,
    *,
    echo: Callable[[str], object] | None = None,
    timeout_s: float | None = None,
) -> Ran:
    """Run a program, and profile the Python processes that it starts, and itself if it is one.

    Parameters
    ----------
    echo
        Called with each line that the program prints; by default it prints to where this process does.
    """
    words = command(program)
    with Session(options, title="npuprof run") as session:
        output = {} if echo is None else {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(words, text=True, errors="replace", **output)  # type: ignore[call-overload]  # noqa: S603 - the user's program
        try:
            status = _wait(process, echo, timeout_s)
        except BaseException:  # an interrupt reaches both, as without npuprof
            _end(process)
            raise
    return Ran(session, status)


def _wait(process: subprocess.Popen[str], echo: Callable[[str], object] | None, timeout_s: float | None) -> int:
    try:
        if echo is not None and process.stdout is not None and timeout_s is None:
            for line in process.stdout:
                echo(line)
        elif echo is not None:
            echo(process.communicate(timeout=timeout_s)[0])
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return _end(process)


def _end(process: subprocess.Popen[str]) -> int:
    """End a program that may have been interrupted already, and return its status."""
    try:
        return process.wait(_PATIENCE_S if process.poll() is not None else 0.5)
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        return process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
