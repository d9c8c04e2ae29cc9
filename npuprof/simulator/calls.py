"""Calls of array functions, recorded as a framework's profiler does: name, time, and the user's line."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FrameType

from npuprof.lines.call_stacks import shown_file
from npuprof.lines.frames import Frame
from npuprof.simulator.framework import OperatorCall
from npuprof.simulator.host import Host

_MOST_FRAMES = 32
_open = threading.local()


@contextmanager
def recorded(host: Host, name: str) -> Iterator[None]:
    """Record the ``with`` block as a call of a framework operator, unless it is inside another call."""
    if not (host.with_stack and host.takes_calls) or getattr(_open, "call", False):
        yield
        return
    _open.call = True
    begin_ns = host.clock.monotonic_raw_ns()
    try:
        yield
    finally:
        _open.call = False
        end_ns = host.clock.monotonic_raw_ns()
        host.record_call(OperatorCall(name, threading.get_native_id(), begin_ns, end_ns, stack=user_stack()))


def user_stack() -> str:
    """Return the frames of the user's code, the innermost first."""
    frames: list[str] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None and len(frames) < _MOST_FRAMES:
        if _is_users(frame.f_code.co_filename):
            frames.append(_frame_text(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return ";".join(frames)


@lru_cache(maxsize=4096)
def _is_users(file: str) -> bool:
    return Frame(file, 0, "").is_users


@lru_cache(maxsize=4096)
def _frame_text(code: CodeType, line: int) -> str:
    return f"{shown_file(code.co_filename)}({line}): {code.co_name}".replace(";", ",")
