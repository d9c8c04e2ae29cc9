"""Markers: moments and ranges that the user names, recorded by whichever collector is running.

Without a running session they cost next to nothing, so they may stay in the code.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType

from npuprof import running
from npuprof.collectors.base import Collector
from npuprof.errors import OptionsError


def mark(message: str) -> None:
    """Record a moment.

    Parameters
    ----------
    message
        What to call it; pyACL keeps the first 126 bytes.

    Raises
    ------
    OptionsError
        If it is not text, whether a session is running or not.
    """
    _check(message)
    if (collector := _collector()) is not None:
        collector.mark(message)


class range(ContextDecorator):  # noqa: A001, N801 - reads as npuprof.range("forward")
    """A named span of time: ``with npuprof.range("forward"): ...`` or ``@npuprof.range("forward")``.

    Parameters
    ----------
    message
        What to call it; pyACL keeps the first 126 bytes.

    Raises
    ------
    OptionsError
        If it is not text, whether a session is running or not.
    """

    def __init__(self, message: str) -> None:
        _check(message)
        self._message = message
        self._collector: Collector | None = None
        self._handle = 0

    def _recreate_cm(self) -> range:
        # A decorated function may recurse or run on several threads: each call gets a range of its own.
        return range(self._message)

    def __enter__(self) -> range:
        self._collector = _collector()
        if self._collector is not None:
            self._handle = self._collector.range_start(self._message)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._collector is not None:
            self._collector.range_stop(self._handle)
            self._collector = None


def _check(message: object) -> None:
    if not isinstance(message, str):
        raise OptionsError(f"a marker's message must be text, not {type(message).__name__}: write str(...) around it")


def _collector() -> Collector | None:
    """Give the front end that is collecting natively in this process, if one is."""
    run = running.current()
    return run.collector if run is not None and run.native else None
