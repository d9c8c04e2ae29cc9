"""Operators of pyACL models as they run: ``acl.prof.model_subscribe`` over a pipe that a thread reads.

Subscription and collection exclude each other in one process (EK0007). Versions of pyACL differ in the order in which
getters give a value and its code, and in the spelling of one call; every form is taken.
Source: collectors/FRONTENDS.md section 3; pyACL's page "Profile Data Collection" (subscription).
"""

from __future__ import annotations

import ctypes
import os
import select
import stat
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from types import ModuleType
from typing import Any, NamedTuple

from npuprof.clock import Clock
from npuprof.collectors import acl_codes as codes
from npuprof.errors import CollectorError, NpuprofWarning

_NO_METRIC = 0xFF
_TYPE_BYTES, _NAME_BYTES = 65, 257  # the longest type and name that there are
_DESCRIPTIONS = 256  # read at once
_MOST_ROWS = 1_000_000  # kept for a reader that does not come
_MONOTONIC_NS = 1 << 58  # nine years: what is above counts from the epoch
_UNSUBSCRIBE = ("model_unsubscribe", "model_un_subscribe")
_END_S = 10.0


class Row(NamedTuple):
    """One operator that ran."""

    start_ns: int
    duration_ns: int
    op_name: str
    op_type: str
    model_id: int


class ModelStream:
    """A subscription to models: the operators of their executions, in the order of their arrival.

    Parameters
    ----------
    acl
        pyACL, or what looks like it.
    models
        Ids of loaded models.
    clock
        For the moments on the host's monotonic clock, which become moments of UTC.
    told
        Called, by the reading thread, with the rows of each arrival.

    Raises
    ------
    CollectorError
        If pyACL refuses; nothing is left open then.
    """

    def __init__(
        self,
        acl: ModuleType,
        models: Iterable[int],
        clock: Clock,
        told: Callable[[list[Row]], object] | None = None,
    ) -> None:
        self._prof: Any = acl.prof
        self._rt: Any = getattr(acl, "rt", None)
        self._told = told
        self._to_utc_ns = clock.realtime_ns() - clock.monotonic_raw_ns()
        self._news = threading.Condition()
        self._rows: deque[Row] = deque(maxlen=_MOST_ROWS)
        self._closing = threading.Lock()
        self._subscribed: list[int] = []
        self._config = 0
        self._ended = False
        self._closes_itself = False  # a callback has closed what calls it
        self.dropped = 0
        self.problems: list[str] = []
        self._size = _size(self._prof.get_op_desc_size())
        with ExitStack() as undo:
            self._read_fd, self._write_fd = os.pipe()
            self._wake_read_fd, self._wake_fd = os.pipe()
            self._pipe = os.fstat(self._write_fd).st_ino
            self._reader = threading.Thread(
                target=self._read, args=(self._context(),), name="npuprof-model-stream", daemon=True
            )
            undo.callback(self.close)
            self._reader.start()
            self._subscribe(models)
            undo.pop_all()

    def _subscribe(self, models: Iterable[int]) -> None:
        self._config = self._prof.create_subscribe_config(1, _NO_METRIC, self._write_fd)
        if not self._config:
            raise CollectorError("acl.prof.create_subscribe_config refused: check that this pyACL has subscription")
        for model in models:
            code = self._prof.model_subscribe(model, self._config)
            if code != codes.SUCCESS:
                raise CollectorError(codes.explain(f"model_subscribe({model})", code))
            self._subscribed.append(model)

    def take(self, timeout_s: float | None) -> list[Row]:
        """Return the rows that have arrived; wait for some, and give none when it has ended or the time is over."""
        with self._news:
            self._news.wait_for(lambda: self._rows or self._ended, timeout_s)
            rows = list(self._rows)
            self._rows.clear()
        return rows

    @property
    def ended(self) -> bool:
        """Whether no more rows can arrive."""
        return self._ended

    def close(self) -> None:
        """End the subscription; what has arrived by then is read first. Closing again changes nothing."""
        with self._closing:
            if self._wake_fd < 0:
                return
            with ExitStack() as last_first:
                last_first.callback(self._close_files)
                last_first.callback(self._join)
                if self._config:
                    last_first.callback(self._prof.destroy_subscribe_config, self._config)
                for model in self._subscribed:
                    last_first.callback(self._unsubscribe, model)
            self._subscribed, self._config = [], 0

    def _unsubscribe(self, model: int) -> None:
        for spelling in _UNSUBSCRIBE:
            if (call := getattr(self._prof, spelling, None)) is not None:
                code = call(model)
                if code != codes.SUCCESS:
                    self.problems.append(codes.explain(f"{spelling}({model})", code))
                return
        self.problems.append(f"this pyACL has neither {' nor '.join(_UNSUBSCRIBE)}")

    def _join(self) -> None:
        if self._reader.is_alive():
            with suppress(OSError):  # it has just ended by itself
                os.write(self._wake_fd, b".")
            if threading.current_thread() is self._reader:
                self._closes_itself = True
            else:
                self._reader.join(_END_S)

    def _close_files(self, *, at_end: bool = False) -> None:
        if self._closes_itself and not at_end:
            return
        # The library may have closed its end, whose number may be another file's by now.
        with suppress(OSError):
            state = os.fstat(self._write_fd)
            if stat.S_ISFIFO(state.st_mode) and state.st_ino == self._pipe:
                os.close(self._write_fd)
        for number in (self._read_fd, self._wake_read_fd, self._wake_fd):
            with suppress(OSError):
                os.close(number)
        self._wake_fd = -1

    def _read(self, context: int) -> None:
        """Read descriptions until the end is told and the pipe is empty."""
        try:
            if context:
                self._rt.set_context(context)  # getters of some versions look at it
            poll = select.poll()
            poll.register(self._read_fd, select.POLLIN)
            poll.register(self._wake_read_fd, select.POLLIN)
            rest, closing = b"", False
            while True:
                ready = {number for number, _ in poll.poll(0 if closing else None)}
                if self._read_fd in ready:
                    data = os.read(self._read_fd, self._size * _DESCRIPTIONS)
                    if not data:
                        break
                    # What cannot be decoded is still read, or the library would wait for room in the pipe.
                    rest = b"" if self._ended else self._arrived(rest + data)
                elif closing:
                    break
                closing = closing or self._wake_read_fd in ready
        except Exception as error:  # noqa: BLE001 - on a thread, it would be lost; whoever waits must not hang
            self._fail(error)
        finally:
            self._tell_end()
            if self._closes_itself:
                self._close_files(at_end=True)

    def _arrived(self, data: bytes) -> bytes:
        """Take the whole descriptions out of what was read, and give the rest."""
        whole = len(data) - len(data) % self._size
        try:
            rows = self._decode(data[:whole]) if whole else []
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
            return b""
        if rows:
            with self._news:
                self.dropped += max(0, len(self._rows) + len(rows) - _MOST_ROWS)
                self._rows.extend(rows)
                self._news.notify_all()
            self._tell(rows)
        return data[whole:]

    def _fail(self, error: Exception) -> None:
        self.problems.append(f"reading the subscription failed: {type(error).__name__}: {error}")
        self._tell_end()

    def _tell_end(self) -> None:
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _tell(self, rows: list[Row]) -> None:
        if self._told is None:
            return
        try:
            self._told(rows)
        except Exception as error:  # noqa: BLE001 - code of the user's, which must not end the stream
            self._told = None
            message = f"the callback of a stream failed and is not called again: {type(error).__name__}: {error}"
            self.problems.append(message)
            with suppress(NpuprofWarning):  # where warnings are errors, it is in the problems
                warnings.warn(message, NpuprofWarning, stacklevel=2)

    def _decode(self, data: bytes) -> list[Row]:
        memory = (ctypes.c_char * len(data)).from_buffer_copy(data)
        place = (ctypes.addressof(memory), len(data))
        prof = self._prof
        count = _counted(prof.get_op_num(*place), len(data) // self._size)
        rows = []
        for index in range(count):
            start = _number(prof.get_op_start(*place, index))
            duration = _number(prof.get_op_duration(*place, index))
            rows.append(
                Row(
                    start + self._to_utc_ns if 0 < start < _MONOTONIC_NS else start,
                    duration if duration else max(0, _number(prof.get_op_end(*place, index)) - start),
                    _text(prof.get_op_name(*place, index, _NAME_BYTES)),
                    _text(prof.get_op_type(*place, index, _TYPE_BYTES)),
                    _number(prof.get_model_id(*place, index)),
                )
            )
        return rows

    def _context(self) -> int:
        """Return the calling thread's context, which the reading thread takes too; 0 where there is none."""
        if self._rt is None or not hasattr(self._rt, "get_context"):
            return 0
        context, code = self._rt.get_context()
        return int(context) if code == codes.SUCCESS else 0


def _size(returned: Any) -> int:
    """Take the size of a description out of ``(size, code)`` or ``(code, size)``: the code of a success is 0."""
    values = returned if isinstance(returned, tuple) else (returned, 0)
    size = max(values)
    if min(values) != codes.SUCCESS or not 0 < size < 1 << 16:
        raise CollectorError(f"acl.prof.get_op_desc_size returned {returned!r}: no size can be told from it")
    return int(size)


def _counted(returned: Any, expected: int) -> int:
    """Take a count of which is known what it should be, in either order; what a failure counts is nothing."""
    if returned in ((expected, codes.SUCCESS), (codes.SUCCESS, expected), expected):
        return expected
    raise CollectorError(f"acl.prof.get_op_num returned {returned!r} for {expected} descriptions")


def _number(returned: Any) -> int:
    """Take a number that comes alone, or with a code in either order."""
    if not isinstance(returned, tuple):
        return int(returned)
    return next((int(value) for value in returned if value != codes.SUCCESS), 0)


def _text(returned: Any) -> str:
    """Take a text that comes alone, or with a code in either order."""
    for value in returned if isinstance(returned, tuple) else (returned,):
        if isinstance(value, bytes):
            return value.partition(b"\0")[0].decode(errors="replace")
        if isinstance(value, str):
            return value
    return ""
