"""The process that reads runs for another: started by :mod:`npuprof.ranks.crew`, told what to read through its input.

It is a fresh interpreter that imports npuprof alone: nothing of the notebook, its ``__main__`` or an NPU's runtime
gets into it.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import cast

from npuprof.errors import SourceError
from npuprof.profiles import decode_run
from npuprof.ranks.handover import Parcel, packed, receive, send
from npuprof.sources.base import Source
from npuprof.sources.detect import Run
from npuprof.sources.selection import Selection
from npuprof.texts import encodable

READY = "ready"


@dataclass(frozen=True)
class Task:
    """What to read: the source by its name, the run's path, and what of it is wanted."""

    source: str
    path: Path
    selection: Selection | None = None


@dataclass(frozen=True)
class Failure:
    """Why a run could not be read."""

    problem: str


def main() -> None:
    """Read what comes in until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asked decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    tasks: SimpleQueue[Task] = SimpleQueue()
    Thread(target=_listen, args=(tasks,), daemon=True).start()
    send(answers, packed(READY))
    while True:
        send(answers, answer(tasks.get()))


def answer(task: Task) -> Parcel:
    """Read one run; what goes wrong is the answer too."""
    try:
        source = cast("Source", import_module(f"npuprof.sources.{task.source}"))
        return packed(decode_run(Run(task.source, source, task.path), task.selection))
    except SourceError as error:
        return packed(Failure(str(error)))
    except Exception as error:  # noqa: BLE001 - a fault in reading one run must not lose the others
        return packed(Failure(unexpected(task.path, error)))


def unexpected(path: Path, error: Exception) -> str:
    """Say what went wrong where no reader said it."""
    told = f"{path} could not be read ({type(error).__name__}: {error}): load it by itself to see where it fails"
    return encodable(told)


def _listen(tasks: SimpleQueue[Task]) -> None:
    """Take in tasks; end the process at once when nobody is there to take its answers any more."""
    try:
        while True:
            tasks.put(receive(sys.stdin.buffer))
    except (EOFError, OSError):
        os._exit(0)
