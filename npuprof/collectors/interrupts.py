"""Interrupts (SIGINT) while native collectors start and stop.

``aclprofInit``, which torch_npu, MindSpore and TensorFlow call too, replaces the SIGINT handler and never restores it;
its thread raises SIGINT again two seconds after the first, when another cell already runs. The stop of a collector may
take minutes, so it runs on a thread that an interrupt need not wait for, and its progress is shown.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from npuprof import threads
from npuprof.progress import patience

_MOST_BYTES = 1024  # struct sigaction has 152 bytes on Linux


@contextmanager
def keep_sigint_handler() -> Iterator[None]:
    """Restore the SIGINT handler of the process at the end of the block, on any thread.

    ``signal.signal`` works only on the main thread and knows only Python handlers, hence the call of the C library.
    """
    sigaction = ctypes.CDLL(None).sigaction
    before = ctypes.create_string_buffer(_MOST_BYTES)
    is_known = sigaction(signal.SIGINT, None, before) == 0
    try:
        yield
    finally:
        if is_known:
            sigaction(signal.SIGINT, before, None)


_WHAT = "the collector is flushing"
_POLL_S = 0.2


def flush(stop: Callable[[], None], hold: Callable[[], Callable[[], None]], *, apart: bool) -> None:
    """Stop a collector, on a separate thread if it supports this.

    An interrupt then ends the wait, while the thread goes on until everything is written.

    Parameters
    ----------
    hold
        Called if the wait ends before the stop: reserves the collector, and returns the function that releases it.
    """
    with patience(_WHAT):
        if apart:
            _Apart(stop, hold).wait()
        else:
            stop()


class _Apart:
    def __init__(self, stop: Callable[[], None], hold: Callable[[], Callable[[], None]]) -> None:
        self._stop = stop
        self._hold = hold
        self._lock = threading.Lock()
        self._begun = False
        self._ended = threading.Event()
        self._raised: list[BaseException] = []
        self._release: Callable[[], None] | None = None

    def wait(self) -> None:
        """Start the stop on a thread and wait for it; an interrupt ends the wait."""
        thread = threading.Thread(target=self._work, name="npuprof-flush", daemon=True)
        try:
            try:
                threads.start(thread)
            except RuntimeError:  # no thread can start, for example while the interpreter ends
                self._work()
            while not self._ended.wait(_POLL_S):  # a signal just before the wait does not end it
                pass
        except BaseException:
            with self._lock:
                is_started, self._begun = self._begun, True
                if is_started and not self._ended.is_set():
                    self._release = self._hold()
            if not is_started:
                self._stop()
            raise
        if self._raised:
            raise self._raised[0]

    def _work(self) -> None:
        with self._lock:
            if self._begun:  # an interrupt came before the thread
                return
            self._begun = True
        try:
            self._stop()
        except BaseException as error:  # noqa: BLE001 - raised by wait()
            self._raised.append(error)
        with self._lock:
            self._ended.set()
            if self._release is not None:
                self._release()
