"""Time that a test gives to others: kernels, browsers, processes. It grows with what this machine takes.

What comes late on a loaded machine has not failed. Each wait names the time that an idle machine needs at most, and
lasts that long times the slowness, which is measured once in each process that runs tests.
"""

from __future__ import annotations

import functools
import os
import time

_LOOPS, _IDLE_S = 500_000, 0.06  # what a core of today takes for them when it has nothing else to do
_ROUNDS = 5


@functools.cache
def slowness() -> float:
    """Return how many times longer than on an idle machine work takes: a piece of it now, or by the minute before."""
    began = time.perf_counter()
    for _ in range(_ROUNDS):
        sum(number * number % 7 for number in range(_LOOPS))
    now = (time.perf_counter() - began) / (_ROUNDS * _IDLE_S)
    return max(1.0, now, os.getloadavg()[0] / (os.cpu_count() or 1))


def seconds(idle: float) -> float:
    """Return how long to wait for what takes at most so many seconds on an idle machine."""
    return idle * slowness()


def milliseconds(idle: float) -> float:
    """Return how long to wait for what takes at most so many milliseconds on an idle machine."""
    return idle * slowness()
