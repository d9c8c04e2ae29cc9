"""What is done outside the thread that asks for it: long work, and looking again from time to time."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeAlias

Aside: TypeAlias = Callable[[Callable[[], None]], None]


def run_aside(work: Callable[[], None]) -> None:
    """Do something in a thread of its own, in the present context: what it sends belongs to the same request."""
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="npuprof-panel-work", daemon=True).start()


class Ticker:
    """Calls a function when woken, and again from time to time while it is lively; sleeps otherwise.

    Parameters
    ----------
    act
        What to call.
    lively
        Whether to call it again without being woken.
    interval_s
        Time between two calls, in seconds.
    """

    def __init__(self, act: Callable[[], None], lively: Callable[[], bool], interval_s: float = 0.5) -> None:
        self._act = act
        self._lively = lively
        self._interval_s = interval_s
        self._woken = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="npuprof-panel", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Have the function called soon. Quick: the profiled code may wait for it."""
        self._woken.set()

    def end(self) -> None:
        """Call it no more."""
        self._ended = True
        self._woken.set()

    def _run(self) -> None:
        while not self._ended:
            self._woken.wait(self._interval_s if self._lively() else None)
            self._woken.clear()
            if not self._ended:
                self._act()
