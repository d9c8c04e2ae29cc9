"""The errors of npuprof: every message says what happened, where, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npuprof.words.texts import encodable, plain_lines

_MOST_OF_A_MESSAGE = 500


def _plain(parts: tuple[object, ...]) -> tuple[object, ...]:
    """Return the parts of a message without terminal control characters."""
    return tuple(plain_lines(part) if isinstance(part, str) else part for part in parts)


class NpuprofError(Exception):
    """Base of every error that npuprof raises on purpose.

    Notebooks show only its message: a traceback would hide what to do next.
    """

    def __init__(self, *parts: object) -> None:
        super().__init__(*_plain(parts))

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class OptionsError(NpuprofError, ValueError):
    """An option has a wrong value, or two options exclude each other.

    Parameters
    ----------
    message
        The problem, and the next step.
    *options
        The options to remove so that the rest is valid.
    remaining
        The valid part of an option's value, by option name, if only part of the value is wrong.
    """

    def __init__(self, message: str = "", *options: str, remaining: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.options = options
        self.remaining = dict(remaining or {})


class SessionError(NpuprofError, RuntimeError):
    """The state of a session does not allow the call."""


class SessionBusyError(SessionError):
    """Another session holds this process's native profiler."""


class CollectorError(NpuprofError, RuntimeError):
    """A native front end refused a call or failed."""


class FrontEndAbsentError(CollectorError):
    """The requested front end is not installed or cannot be imported."""


class NoSuchRankError(NpuprofError, KeyError):
    """A set has no run of the requested rank."""

    __str__ = Exception.__str__  # that of a KeyError quotes the message


class NoRankError(NpuprofError):
    """No run of a set has a rank, so they are no job.

    Parameters
    ----------
    problem
        What is missing.
    remedy
        What to do about it in Python.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}: {remedy}")
        self.problem = problem


class SourceError(NpuprofError):
    """A path has nothing that can be read as a profile, or its files are too damaged."""


class NpuprofWarning(UserWarning):
    """A problem that the user should know of, but that does not stop the profiled code."""

    def __init__(self, *parts: object) -> None:
        super().__init__(*_plain(parts))


def describe_failure(error: BaseException | None) -> str:
    """Return an exception of the profiled code as text; empty for None."""
    if error is None:
        return ""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the message is made by user code, whose failure must not end the recording
        message = "(its message cannot be printed)"
    return encodable(f"{type(error).__name__}: {message}"[:_MOST_OF_A_MESSAGE].rstrip(": "))
