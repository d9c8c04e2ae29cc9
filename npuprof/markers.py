"""Markers: points in time and ranges, named by the user and recorded by the running collector.

Without a running session they cost almost nothing, so they can stay in the code. They appear in the table ``marks``,
with device times if a stream is given or the front end records them.

A range is a ``with`` block or a decorator (:class:`range`), a pair of calls on any threads (:func:`range_start`,
:func:`range_end`), or nested per thread (:func:`push`, :func:`pop`).
"""

from __future__ import annotations

import builtins
import functools
import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from npuprof.errors import OptionsError
from npuprof.session import active
from npuprof.words.texts import encodable

_MAX_PUSHED = 1_000  # a loop that pushes without popping must not fill the memory


class _Pushed(threading.local):
    def __init__(self) -> None:
        self.handles: list[int] = []


_pushed = _Pushed()


def mark(message: str, domain: str = "", *, stream: Any = None) -> None:
    """Record a point in time.

    Parameters
    ----------
    message
        The marker's name; pyACL keeps the first 126 bytes.
    domain
        The marker's group, by which markers can be selected.
    stream
        A stream on which the device records the marker too: the native handle for pyACL, torch_npu's
        ``stream.npu_stream``, or MindSpore's ``mindspore.runtime.Stream``.

    Raises
    ------
    OptionsError
        If `message` or `domain` is not text, even without a session.
    """
    message, domain = _encodable_pair(message, domain)
    if (run := _run()) is not None:
        run.marking.mark(message, domain, stream)


def range_start(message: str, domain: str = "") -> int:
    """Open a range that :func:`range_end` closes, on any thread.

    Return the handle of the range, or 0 without a session. For `message` and `domain` see :func:`mark`.

    Raises
    ------
    OptionsError
        If `message` or `domain` is not text, even without a session.
    """
    message, domain = _encodable_pair(message, domain)
    return run.marking.range_start(message, domain) if (run := _run()) is not None else 0


def range_end(handle: int) -> None:
    """Close a range by its handle; 0 and handles of an earlier session are ignored."""
    if handle and (run := _run()) is not None:
        run.marking.range_end(handle)


def push(message: str, domain: str = "") -> int:
    """Open a range within the ranges that this thread has pushed, and return its depth, from 1.

    Raises
    ------
    OptionsError
        If `message` or `domain` is not text, or a thousand ranges are open because ``pop()`` is missing.
    """
    if len(_pushed.handles) >= _MAX_PUSHED:
        raise OptionsError(f"{_MAX_PUSHED} ranges of this thread are open: call npuprof.pop() once for each push()")
    _pushed.handles.append(range_start(message, domain))
    return len(_pushed.handles)


def pop() -> int:
    """Close the range that this thread pushed last, and return how many stay open; -1 if none was open."""
    if not _pushed.handles:
        return -1
    range_end(_pushed.handles.pop())
    return len(_pushed.handles)


class range(ContextDecorator):  # noqa: A001, N801 - reads as npuprof.range("forward")
    """A named range: ``with npuprof.range("forward"): ...`` or ``@npuprof.range("forward")``.

    For `message` and `domain` see :func:`mark`.

    Raises
    ------
    OptionsError
        If `message` or `domain` is not text, even without a session.

    Notes
    -----
    After ``from npuprof import *`` loops go on: of whole numbers the built-in's range is returned.
    """

    def __init__(self, message: str, domain: str = "") -> None:
        self._message, self._domain = _encodable_pair(message, domain)
        self._handle = 0

    if not TYPE_CHECKING:

        @functools.wraps(__init__)
        def __new__(cls, *given, **named):
            """Return the built-in's range of whole numbers, so that loops go on after ``from npuprof import *``."""
            if given and hasattr(given[0], "__index__"):
                return builtins.range(*given, **named)
            return super().__new__(cls)

    def _recreate_cm(self) -> range:
        # A decorated function may be recursive or run on several threads: each call gets a new range.
        return range(self._message, self._domain)

    def __enter__(self) -> range:
        self._handle = range_start(self._message, self._domain)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        range_end(self._handle)
        self._handle = 0


def _encodable_pair(message: str, domain: str) -> tuple[str, str]:
    """Return both texts in encodable form."""
    if type(message) is str and type(domain) is str:  # the usual case, and the fastest
        return encodable(message), encodable(domain)
    for subject, text in (("message", message), ("domain", domain)):
        if not isinstance(text, str):
            raise OptionsError(f"a marker's {subject} must be text, not {type(text).__name__}: wrap it in str(...)")
    return encodable(message), encodable(domain)


def _run() -> active.ActiveRun | None:
    """Return the active run if its front end collects in this process, else None."""
    run = active.current()
    return run if run is not None and run.native else None
