"""What concerns the main thread of a process: calls between its instructions, and its end by a signal."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PENDING_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_pending: list[object] = []
_STANDARD = f"{Path(threading.__file__).parent}{os.sep}"
# The modules whose calls go on after a signal (PEP 475): of the standard library, and of loky, in joblib too.
_WAITING = ("multiprocessing", "concurrent", "asyncio", "threading.py", "queue.py", "selectors.py")
_OTHER_WAITING = (f"{os.sep}loky{os.sep}", f"{os.sep}torch{os.sep}utils{os.sep}data{os.sep}_utils{os.sep}worker.py")


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


def is_waiting() -> bool:
    """Return whether the main thread is in a wait of a module that goes on after a signal."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return False
    file = frame.f_code.co_filename
    return file.removeprefix(_STANDARD).startswith(_WAITING) or any(part in file for part in _OTHER_WAITING)


def wake_main_thread() -> None:
    """Have the handler of SIGURG run on the main thread, out of a wait, which then goes on; ignored without one."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)
