"""Interrupts at every line of some modules in turn, as Ctrl-C may come at any of them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Container
from types import FrameType
from typing import Any


def interrupted(call: Callable[[], object], modules: Container[str], line: int) -> bool:
    """Call with a KeyboardInterrupt before the `line`-th line, from 0, that is run of the modules by this thread.

    Where interrupts are blocked it comes before the first line after that, as the system's would.

    Returns
    -------
    bool
        Whether it came to so many lines and the interrupt was raised by the call.
    """
    left = line

    def count() -> None:
        nonlocal left
        left -= 1
        if left < 0 and signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
            raise KeyboardInterrupt  # which ends the tracing too

    try:
        _trace(call, modules, count)
    except KeyboardInterrupt:
        return True
    return False


def lines(call: Callable[[], object], modules: Container[str]) -> int:
    """Call, and return how many lines of the modules this thread ran."""
    found = 0

    def count() -> None:
        nonlocal found
        found += 1

    _trace(call, modules, count)
    return found


def _trace(call: Callable[[], object], modules: Container[str], before_line: Callable[[], None]) -> None:
    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_globals.get("__name__") not in modules:
            return None
        if event == "line":
            before_line()
        return trace

    tracer = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(tracer)
