"""Background work of the panel: long tasks, and periodic updates."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeAlias

RunInBackground: TypeAlias = Callable[[Callable[[], None]], None]


def run_in_background(work: Callable[[], None]) -> None:
    """Run a task on a thread in the current context, so that its output goes to the same cell."""
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="npuprof-panel-work", daemon=True).start()


class Ticker:
    """Calls a function when woken, and periodically while it is lively."""

    def __init__(self, act: Callable[[], None], lively: Callable[[], bool], interval_s: float = 0.5) -> None:
        self._act = act
        self._lively = lively
        self._interval_s = interval_s
        self._woken = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="npuprof-panel", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Call the function soon, without waiting, since profiled code may call this."""
        self._woken.set()

    def end(self) -> None:
        """Stop calling it."""
        self._ended = True
        self._woken.set()

    def _run(self) -> None:
        while not self._ended:
            self._woken.wait(self._interval_s if self._lively() else None)
            self._woken.clear()
            if not self._ended:
                self._act()
