"""``acl.util``: addresses of Python objects, and threads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuprof.simulator import codes

_END_S = 1.0  # a thread cannot be ended from outside

_threads: dict[int, threading.Thread] = {}


def numpy_to_ptr(array: np.ndarray[Any, Any]) -> int:
    """Return the address of an array's contents; the array must be kept alive."""
    return int(array.ctypes.data)


def bytes_to_ptr(data: bytes) -> int:
    """Return the address of the contents of `data`, which must be kept alive."""
    return int(np.frombuffer(data, dtype=np.uint8).ctypes.data)


def ptr_to_bytes(address: int, size: int) -> bytes:
    """Return a copy of host memory."""
    return ctypes.string_at(address, size)


def start_thread(function: Callable[[Sequence[Any]], object], arguments: Sequence[Any]) -> tuple[int, int]:
    """Run a function, with all arguments as one, in a thread; return its id and a code."""
    thread = threading.Thread(target=function, args=(arguments,), name="acl.util", daemon=True)
    thread.start()
    thread_id = thread.ident or 0
    _threads[thread_id] = thread
    return thread_id, codes.SUCCESS


def stop_thread(thread_id: int) -> int:
    """Wait up to a second for a thread."""
    thread = _threads.pop(thread_id, None)
    if thread is None:
        return codes.INVALID_PARAM
    thread.join(_END_S)
    return codes.SUCCESS
