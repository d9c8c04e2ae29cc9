"""Work that is not done more often than is of use: of a hundred turns of the wheel the last one counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Later:
    """Does one thing, soon, however often it is asked for meanwhile; at once if it was not asked for of late.

    Parameters
    ----------
    work
        What to do.
    seconds
        How long to wait after it was last asked for. Without a running event loop it is done at once.
    """

    def __init__(self, work: Callable[[], None], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._waiting: asyncio.TimerHandle | None = None
        self._rested_s = float("-inf")  # the loop's time from which on it is done at once

    def ask(self) -> None:
        """Ask for the work."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._work()
        else:
            wait = self._seconds if loop.time() < self._rested_s else 0.0
            self._rested_s = loop.time() + 3 * self._seconds
            self._waiting = loop.call_later(wait, self._do)

    def _do(self) -> None:
        self._waiting = None
        self._work()
