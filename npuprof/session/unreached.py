"""The Python processes that a cell starts and that npuprof's start-up hook does not reach, as far as they are seen.

Those with ``-I``, ``-E`` or ``-S``, or with an environment of their own, run no such hook. Seen are those that
:class:`subprocess.Popen` starts, however short they are, and those that are below this process at two looks.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

from npuprof.recordings.job_folder import is_python, python_processes_below

_YOUNG_S = 2.0  # the hook of a process that runs may still be to come


class Unreached:
    """The processes that start between :meth:`start` and :meth:`leave` and do not tell of themselves."""

    def __init__(self) -> None:
        self._before = python_processes_below(os.getpid())
        self._seen: set[int] = set()
        self._found: set[int] = set()
        self._begun_s: dict[int, float] = {}  # of those that Popen started
        self._begin: Callable[..., Any] | None = None

    def start(self) -> None:
        """Note each Python process that :class:`subprocess.Popen` starts."""
        begin: Callable[..., None] = subprocess.Popen.__init__

        @wraps(begin)
        def begin_and_note(process: subprocess.Popen[Any], *arguments: Any, **named: Any) -> None:
            begin(process, *arguments, **named)
            if self._begin is not None and is_python(process.pid):
                self._begun_s[process.pid] = time.monotonic()

        self._begin = begin_and_note
        subprocess.Popen.__init__ = begin_and_note  # type: ignore[assignment, method-assign]

    def look(self, known: Collection[int]) -> None:
        """Note the processes below this one that are not known: seen twice, so that they had the time to tell."""
        unknown = python_processes_below(os.getpid()) - self._before - set(known)
        self._found |= unknown & self._seen
        self._seen = unknown

    def leave(self) -> None:
        """Note no further ones."""
        begin, self._begin = self._begin, None
        if begin is not None and subprocess.Popen.__init__ is begin:
            subprocess.Popen.__init__ = begin.__wrapped__  # type: ignore[attr-defined, method-assign]

    def count(self, known: Collection[int]) -> int:
        """Return how many there were at least, without the known ones, some of which tell of themselves late."""
        young_s = time.monotonic() - _YOUNG_S
        started = {pid for pid, begun_s in self._begun_s.items() if begun_s < young_s or not is_python(pid)}
        return len((self._found | started) - set(known))
