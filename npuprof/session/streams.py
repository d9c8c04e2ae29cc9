"""Operators of pyACL models as they run, in batches; see :meth:`npuprof.session.session.Session.stream`."""

from __future__ import annotations

import ctypes
import os
import select
import stat
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from npuprof.collectors import acl_codes as codes
from npuprof.collectors.base import Collector
from npuprof.collectors.interrupts import keep_sigint_handler
from npuprof.errors import CollectorError, NpuprofWarning, SessionError
from npuprof.recordings.clock import Clock, epoch_ns_of
from npuprof.session import active as running
from npuprof.words.quantities import counted

if TYPE_CHECKING:
    import pandas as pd


class OperatorStream:
    """Batches of operators as they arrive; iterate in a ``with`` block or until :meth:`close`.

    Each batch is a table with a row per operator: `start_ns` (UTC; monotonic times are converted), `duration_ns`,
    `op_name`, `op_type`, `model_id`. At most a million unread rows are kept.
    """

    def __init__(self, native: ModelStream, release: Callable[[], None]) -> None:
        self._native = native
        # Ends the subscription on garbage collection and at the end of the interpreter.
        self._end = weakref.finalize(self, _end, native, release)

    @property
    def problems(self) -> list[str]:
        """Problems that did not end the stream."""
        dropped = self._native.dropped
        lost_names = [f"{counted(dropped, 'row')} dropped, because not read in time"] if dropped else []
        return [*self._native.problems, *lost_names]

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield batches until the stream is closed and empty; wait for each."""
        while True:
            rows = self._native.take(None)
            if not rows:
                return
            yield _table(rows)

    def take(self, timeout_s: float = 0.0) -> pd.DataFrame:
        """Return the rows since the last call, possibly none; wait up to `timeout_s` for the first row."""
        return _table(self._native.take(timeout_s))

    def close(self) -> None:
        """End the subscription; rows that have arrived can still be taken."""
        self._end()

    def __enter__(self) -> OperatorStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_stream(
    collector: Collector,
    models: int | Iterable[int],
    clock: Clock,
    title: str,
    callback: Callable[[pd.DataFrame], object] | None = None,
) -> OperatorStream:
    """Subscribe to models; see :meth:`npuprof.session.session.Session.stream`."""
    from npuprof.collectors.acl import AclCollector

    if not isinstance(collector, AclCollector) or collector.name not in ("acl", "simulator"):
        raise SessionError(
            f"{collector.name} cannot subscribe to models, only pyACL can: use --collector acl or simulator"
        )
    ids = [models] if isinstance(models, int) else list(models)
    if not ids:
        raise SessionError("stream() needs the ids of loaded models, as acl.mdl.load_from_file gives them")
    acl = collector.load()
    with ExitStack() as undo:
        release = running.reserve(
            f"{title} streams operators of the models {ids}, and pyACL does not collect meanwhile (EK0007): "
            "close it first"
        )
        undo.callback(release)
        with keep_sigint_handler():
            receive = None if callback is None else lambda rows: callback(_table(rows))
            native = ModelStream(acl, ids, clock, receive)
        undo.pop_all()
    return OperatorStream(native, release)


def _end(native: ModelStream, release: Callable[[], None]) -> None:
    try:
        native.close()
    finally:
        release()


def _table(rows: list[StreamedOperator]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list(StreamedOperator._fields))
    kinds = {"start_ns": "int64", "duration_ns": "int64", "model_id": "int64"}
    return frame.astype({**kinds, "op_name": "category", "op_type": "category"})


_NO_METRIC = 0xFF
_TYPE_BYTES, _NAME_BYTES = 65, 257  # longest type and name
_DESCRIPTIONS = 256  # descriptions read at once
_MOST_ROWS = 1_000_000  # kept until they are read
_MONOTONIC_NS = 1 << 58  # nine years: larger times are relative to the epoch
_UNSUBSCRIBE = ("model_unsubscribe", "model_un_subscribe")
_END_S = 10.0


class StreamedOperator(NamedTuple):
    """One executed operator."""

    start_ns: int
    duration_ns: int
    op_name: str
    op_type: str
    model_id: int


class ModelStream:
    """A subscription to models: their executed operators, in order of arrival."""

    def __init__(
        self,
        acl: ModuleType,
        models: Iterable[int],
        clock: Clock,
        callback: Callable[[list[StreamedOperator]], object] | None = None,
    ) -> None:
        self._prof: Any = acl.prof
        self._rt: Any = getattr(acl, "rt", None)
        self._callback = callback
        self._to_utc_ns = epoch_ns_of(clock)
        self._news = threading.Condition()
        self._rows: deque[StreamedOperator] = deque(maxlen=_MOST_ROWS)
        self._closing = threading.Lock()
        self._subscribed: list[int] = []
        self._config = 0
        self._ended = False
        self._closes_itself = False  # closed by its callback
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

    def take(self, timeout_s: float | None) -> list[StreamedOperator]:
        """Return the rows that have arrived, waiting for the first; empty at the end or after the timeout."""
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
        """Read what has arrived and end the subscription; a second call has no effect."""
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
            with suppress(OSError):  # the thread has just ended
                os.write(self._wake_fd, b".")
            if threading.current_thread() is self._reader:
                self._closes_itself = True
            else:
                self._reader.join(_END_S)

    def _close_files(self, *, at_end: bool = False) -> None:
        if self._closes_itself and not at_end:
            return
        # The library may have closed its end, and the number may belong to another file by now.
        with suppress(OSError):
            state = os.fstat(self._write_fd)
            if stat.S_ISFIFO(state.st_mode) and state.st_ino == self._pipe:
                os.close(self._write_fd)
        for number in (self._read_fd, self._wake_read_fd, self._wake_fd):
            with suppress(OSError):
                os.close(number)
        self._wake_fd = -1

    def _read(self, context: int) -> None:
        """Read descriptions until the subscription is closed and the pipe is empty."""
        try:
            if context:
                self._rt.set_context(context)  # needed by getters of some versions
            poll = select.poll()
            poll.register(self._read_fd, select.POLLIN)
            poll.register(self._wake_read_fd, select.POLLIN)
            remainder, closing = b"", False
            while True:
                ready = {number for number, _ in poll.poll(0 if closing else None)}
                if self._read_fd in ready:
                    data = os.read(self._read_fd, self._size * _DESCRIPTIONS)
                    if not data:
                        break
                    # Continue reading even if decoding failed; otherwise the library would wait for space in the pipe.
                    remainder = b"" if self._ended else self._complete_rows(remainder + data)
                elif closing:
                    break
                closing = closing or self._wake_read_fd in ready
        except Exception as error:  # noqa: BLE001 - lost on a thread otherwise, and readers would hang
            self._fail(error)
        finally:
            self._notify_end()
            if self._closes_itself:
                self._close_files(at_end=True)

    def _complete_rows(self, data: bytes) -> bytes:
        """Take the complete descriptions from `data`, and return the remaining bytes."""
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
            self._call_back(rows)
        return data[whole:]

    def _fail(self, error: Exception) -> None:
        self.problems.append(f"reading the subscription failed: {type(error).__name__}: {error}")
        self._notify_end()

    def _notify_end(self) -> None:
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _call_back(self, rows: list[StreamedOperator]) -> None:
        if self._callback is None:
            return
        try:
            self._callback(rows)
        except Exception as error:  # noqa: BLE001 - a user's callback must not end the stream
            self._callback = None
            message = f"the callback of a stream failed and is not called again: {type(error).__name__}: {error}"
            self.problems.append(message)
            with suppress(NpuprofWarning):  # if warnings are errors, it is in the problems
                warnings.warn(message, NpuprofWarning, stacklevel=2)

    def _decode(self, data: bytes) -> list[StreamedOperator]:
        memory = (ctypes.c_char * len(data)).from_buffer_copy(data)
        place = (ctypes.addressof(memory), len(data))
        prof = self._prof
        count = _expected_count(prof.get_op_num(*place), len(data) // self._size)
        rows = []
        for index in range(count):
            start = _number(prof.get_op_start(*place, index))
            duration = _number(prof.get_op_duration(*place, index))
            rows.append(
                StreamedOperator(
                    start + self._to_utc_ns if 0 < start < _MONOTONIC_NS else start,
                    duration if duration else max(0, _number(prof.get_op_end(*place, index)) - start),
                    _text(prof.get_op_name(*place, index, _NAME_BYTES)),
                    _text(prof.get_op_type(*place, index, _TYPE_BYTES)),
                    _number(prof.get_model_id(*place, index)),
                )
            )
        return rows

    def _context(self) -> int:
        """Return the calling thread's context for the reading thread; 0 if there is none."""
        if self._rt is None or not hasattr(self._rt, "get_context"):
            return 0
        context, code = self._rt.get_context()
        return int(context) if code == codes.SUCCESS else 0


def _size(returned: Any) -> int:
    """Return the size of a description from ``(size, code)`` or ``(code, size)``."""
    values = returned if isinstance(returned, tuple) else (returned, 0)
    size = max(values)
    if min(values) != codes.SUCCESS or not 0 < size < 1 << 16:
        raise CollectorError(f"acl.prof.get_op_desc_size returned {returned!r}: it is no size")
    return int(size)


def _expected_count(returned: Any, expected: int) -> int:
    """Return the expected count if the call succeeded; versions differ in the order of count and return code."""
    if returned in ((expected, codes.SUCCESS), (codes.SUCCESS, expected), expected):
        return expected
    raise CollectorError(f"acl.prof.get_op_num returned {returned!r} for {expected} descriptions")


def _number(returned: Any) -> int:
    """Return a number that is returned alone, or with a code in either order."""
    if not isinstance(returned, tuple):
        return int(returned)
    return next((int(value) for value in returned if value != codes.SUCCESS), 0)


def _text(returned: Any) -> str:
    """Return a text that is returned alone, or with a code in either order."""
    for value in returned if isinstance(returned, tuple) else (returned,):
        if isinstance(value, bytes):
            return value.partition(b"\0")[0].decode(errors="replace")
        if isinstance(value, str):
            return value
    return ""
