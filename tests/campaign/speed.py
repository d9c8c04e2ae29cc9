"""How slow this machine is just now, so that limits of time mean the same on a busy one."""

from __future__ import annotations

import time

_USUAL_S = 0.05
_ROUNDS = 500_000


def slowness() -> float:
    """Return how many times as long as on an idle machine of usual speed a piece of work takes; 1 at least."""
    begin = time.perf_counter()
    total = 0
    for number in range(_ROUNDS):
        total += number & 7
    return max(1.0, (time.perf_counter() - begin) / _USUAL_S)
