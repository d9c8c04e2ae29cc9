"""Interrupts at every line of some modules in turn, as Ctrl-C may come at any of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any


def interrupted(call: Callable[[], object], modules: Collection[str], line: int) -> bool:
    """Call with a KeyboardInterrupt before the `line`-th line, from 0, that is run of the modules by this thread.

    Returns
    -------
    bool
        Whether it came to so many lines.
    """
    left = line

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if frame.f_globals.get("__name__") not in modules:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt  # which ends the tracing too
        return count

    tracer = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracer)
    return False
