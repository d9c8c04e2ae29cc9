"""The handler of interrupts (SIGINT), which native collectors replace and do not give back.

``aclprofInit`` installs one of its own, and a thread that raises SIGINT once more two seconds after a first one: by
then another cell runs. torch_npu, MindSpore and TensorFlow call the same library.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from npuprof.progress import patience

_MOST_BYTES = 1024  # struct sigaction has 152 of them on Linux


@contextmanager
def keep_sigint_handler() -> Iterator[None]:
    """Restore, when the block ends, the SIGINT handler that the process had before it, on any thread.

    ``signal.signal`` works on the main thread alone, and knows no handler but Python's: the C library's call is used.
    """
    sigaction = ctypes.CDLL(None).sigaction
    before = ctypes.create_string_buffer(_MOST_BYTES)
    known = sigaction(signal.SIGINT, None, before) == 0
    try:
        yield
    finally:
        if known:
            sigaction(signal.SIGINT, before, None)


_WHAT = "the collector is flushing"
_LOOK_S = 0.2


def flush(stop: Callable[[], None], hold: Callable[[], Callable[[], None]], *, apart: bool) -> None:
    """Stop a collector.

    Where any thread may stop it, a thread of its own does. An interrupt then ends the waiting: the thread goes on until
    the collector has written everything.

    Parameters
    ----------
    stop
        Stops the collector.
    hold
        Called when the waiting has ended and the collector has not: keeps other runs away from it. What it returns is
        called when the collector has ended too.
    apart
        Whether any thread may stop it.
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
        thread = threading.Thread(target=self._work, name="npuprof-flush", daemon=True)
        try:
            try:
                thread.start()
            except RuntimeError:  # no thread can begin, as when the interpreter ends
                self._work()
            while not self._ended.wait(_LOOK_S):  # a signal that comes just before a wait does not end that
                pass
        except BaseException:
            with self._lock:
                begun, self._begun = self._begun, True
                if begun and not self._ended.is_set():
                    self._release = self._hold()
            if not begun:
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
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._raised.append(error)
        with self._lock:
            self._ended.set()
            if self._release is not None:
                self._release()
