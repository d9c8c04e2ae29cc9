"""Threads of the profiler."""

from __future__ import annotations

import resource
import threading

_MOST_STACK_BYTES = 64 << 20
_ROOM_BYTES = 4 << 20


def start(thread: threading.Thread) -> None:
    """Start a thread; a RuntimeError says that it cannot start.

    ``Thread.start`` waits until the thread runs, without end if the thread finds no memory to begin.
    """
    stack_bytes = resource.getrlimit(resource.RLIMIT_STACK)[0]
    stack_bytes = _MOST_STACK_BYTES if stack_bytes < 0 else min(stack_bytes, _MOST_STACK_BYTES)
    try:
        bytearray(stack_bytes + _ROOM_BYTES)
    except MemoryError:
        raise RuntimeError("no memory is left for a thread") from None
    thread.start()
