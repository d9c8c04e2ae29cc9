"""Runs of this process with incomplete files: readers take the rest from memory.

A run is here from its start until everything of it is written, which a full disk delays.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from npuprof.recordings.recording import Recording


class UnwrittenRun(Protocol):
    """A run that memory knows more of than the disk."""

    recording: Recording

    @property
    def journal_lines(self) -> bytes:
        """The end of the journal, which its file lacks."""
        ...

    @property
    def stack_columns(self) -> Mapping[str, Sequence[Any]] | None:
        """The sampled Python stacks of a run that has ended, unless their file has them."""
        ...

    @property
    def line_columns(self) -> Mapping[str, Sequence[Any]] | None:
        """The columns of the lines of a run that has ended, unless their file has them."""
        ...

    def save(self) -> None:
        """Try again to write the missing files; a failure stays among the recording's problems."""
        ...


_runs: dict[tuple[int, str], UnwrittenRun] = {}  # by process, since a forked child has none of its parent's


def add(run: UnwrittenRun) -> None:
    """Add a run, by the directory of its recording."""
    _runs[_key(run.recording.directory)] = run


def remove(directory: Path) -> None:
    """Remove the run with a recording in `directory`, if there is one."""
    _runs.pop(_key(directory), None)


def find(directory: Path) -> UnwrittenRun | None:
    """Return the run with a recording in `directory`, or None if the disk has everything of it."""
    return _runs.get(_key(directory)) if _runs else None


@atexit.register
def save_all() -> None:
    """Try again to write every run of this process that has ended, but for those whose directory was deleted."""
    for run in list(_runs.values()):
        if run.recording.directory.is_dir():
            run.save()


def _key(directory: Path) -> tuple[int, str]:
    return os.getpid(), os.path.realpath(directory)
