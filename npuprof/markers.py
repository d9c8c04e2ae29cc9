"""Markers: moments and ranges that the user names, recorded by whichever collector is running.

Without a running session they cost next to nothing, so they may stay in the code. They come back in the table
``marks``, with the device's times where a stream was named or the front end notes its own.

A range can be a ``with`` block or a decorator (:class:`range`), a pair of calls that any threads make
(:func:`range_start`, :func:`range_end`), or nested by a thread (:func:`push`, :func:`pop`).
"""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from npuprof.errors import OptionsError
from npuprof.session import active as running
from npuprof.texts import encodable

_MAX_PUSHED = 1_000  # a loop that pushes without popping should not fill the memory


class _Pushed(threading.local):
    def __init__(self) -> None:
        self.handles: list[int] = []


_pushed = _Pushed()


def mark(message: str, domain: str = "", *, stream: Any = None) -> None:
    """Record a moment.

    Parameters
    ----------
    message
        What to call it; pyACL keeps the first 126 bytes.
    domain
        The group that it belongs to; markers can be chosen by it.
    stream
        A stream, on which the device notes the moment too: pyACL's or torch_npu's ``stream.npu_stream``, by its
        native handle; MindSpore's ``mindspore.runtime.Stream`` itself.

    Raises
    ------
    OptionsError
        If message or domain is not text, whether a session is running or not.
    """
    message, domain = _taken(message, domain)
    if (run := _run()) is not None:
        run.marking.mark(message, domain, stream)


def range_start(message: str, domain: str = "") -> int:
    """Open a range that :func:`range_end` closes, on this thread or another.

    Parameters
    ----------
    message, domain
        As :func:`mark` takes them.

    Returns
    -------
    int
        The range's handle; 0 when nobody listens.

    Raises
    ------
    OptionsError
        If message or domain is not text, whether a session is running or not.
    """
    message, domain = _taken(message, domain)
    return run.marking.range_start(message, domain) if (run := _run()) is not None else 0


def range_end(handle: int) -> None:
    """Close a range by its handle; one that ended with its session, or 0, is ignored."""
    if handle and (run := _run()) is not None:
        run.marking.range_end(handle)


def push(message: str, domain: str = "") -> int:
    """Open a range within those that this thread has pushed, and tell how deep it lies, from 1.

    Raises
    ------
    OptionsError
        If message or domain is not text, or a thousand ranges are open: a ``pop()`` is missing then.
    """
    if len(_pushed.handles) >= _MAX_PUSHED:
        raise OptionsError(f"{_MAX_PUSHED} ranges of this thread are open: call npuprof.pop() for each push()")
    _pushed.handles.append(range_start(message, domain))
    return len(_pushed.handles)


def pop() -> int:
    """Close the range that this thread pushed last, and tell how many are left; -1 when there was none."""
    if not _pushed.handles:
        return -1
    range_end(_pushed.handles.pop())
    return len(_pushed.handles)


class range(ContextDecorator):  # noqa: A001, N801 - reads as npuprof.range("forward")
    """A named span of time: ``with npuprof.range("forward"): ...`` or ``@npuprof.range("forward")``.

    Parameters
    ----------
    message, domain
        As :func:`mark` takes them.

    Raises
    ------
    OptionsError
        If message or domain is not text, whether a session is running or not.
    """

    def __init__(self, message: str, domain: str = "") -> None:
        self._message, self._domain = _taken(message, domain)
        self._handle = 0

    def _recreate_cm(self) -> range:
        # A decorated function may recurse or run on several threads: each call gets a range of its own.
        return range(self._message, self._domain)

    def __enter__(self) -> range:
        self._handle = range_start(self._message, self._domain)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        range_end(self._handle)
        self._handle = 0


def _taken(message: str, domain: str) -> tuple[str, str]:
    """Return both texts in the form that every front end and file takes."""
    if type(message) is str and type(domain) is str:  # the usual case, and the quickest
        return encodable(message), encodable(domain)
    for what, text in (("message", message), ("domain", domain)):
        if not isinstance(text, str):
            raise OptionsError(f"a marker's {what} must be text, not {type(text).__name__}: write str(...) around it")
    return encodable(message), encodable(domain)


def _run() -> running.ActiveRun | None:
    """Return the run whose front end is collecting natively in this process, if one is."""
    run = running.current()
    return run if run is not None and run.native else None
