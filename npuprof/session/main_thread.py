"""What concerns the main thread of a process: calls between its instructions, and its end by a signal."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress

_PENDING_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_pending: list[object] = []


def on_main_thread(function: Callable[[], object]) -> None:
    """Call a function on the main thread between two of its instructions; torch's profiler records the thread it is on.

    Source: the documentation of ``Py_AddPendingCall`` (Python/C API).
    """

    def call(_: object) -> int:
        with suppress(Exception):
            function()
        return 0

    pending = _PENDING_CALL(call)
    _pending.append(pending)  # until the process ends: it may be called at any time
    ctypes.pythonapi.Py_AddPendingCall(pending, None)


def end_by_sigterm() -> None:
    """End this process as SIGTERM would without a handler, from any thread, also while the main one is in a call."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    libc.signal(signal.SIGTERM, None)  # SIG_DFL
    os.kill(os.getpid(), signal.SIGTERM)
