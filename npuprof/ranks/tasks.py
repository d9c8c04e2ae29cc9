"""Runs to decode in other processes, and their results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import DetectedResult
from npuprof.sources.registry import source_named
from npuprof.sources.selection import Selection
from npuprof.words.texts import encodable


class NoProcessesError(Exception):
    """No process can be started on this machine."""


@dataclass(frozen=True)
class Task:
    """A run to decode: the name of its source, its path, and the selected part of it."""

    source: str
    path: Path
    selection: Selection | None = None


@dataclass(frozen=True)
class Died:
    """Why the process of a task died."""

    fate: str


@dataclass(frozen=True)
class Failure:
    """Why a run could not be read."""

    problem: str


def outcome_of(task: Task) -> Decoded | Failure:
    """Return a decoded run, or the reason why it could not be read."""
    try:
        return decode_run(DetectedResult(source_named(task.source), task.path), task.selection)
    except SourceError as error:
        return Failure(str(error))
    except Exception as error:  # noqa: BLE001 - a fault in reading one run must not lose the others
        return Failure(unexpected(task.path, error))


def unexpected(path: Path, error: Exception) -> str:
    """Return the message for an unexpected error."""
    problem = f"{path} could not be read ({type(error).__name__}: {error}): load it by itself to see where it fails"
    return encodable(problem)
