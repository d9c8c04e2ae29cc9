"""The clocks that collectors and sessions read, in one place so that tests can replace them."""

from __future__ import annotations

import time
from typing import Protocol

# The system's clock is kept in time by making it a little slower or faster, by 0.05 % at most.
_MOST_DRIFT_NS, _DRIFT_SHARE = 100_000_000, 1_000


class Clock(Protocol):
    """A source of time in integer nanoseconds."""

    def realtime_ns(self) -> int:
        """Nanoseconds of the UTC epoch."""
        ...

    def monotonic_raw_ns(self) -> int:
        """Nanoseconds of a clock that never steps: what the native collector stamps events with."""
        ...

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        """Return no earlier than the given moment of :meth:`monotonic_raw_ns`."""
        ...


class SystemClock:
    """The clocks of the operating system."""

    def realtime_ns(self) -> int:
        """Nanoseconds of the UTC epoch."""
        return time.time_ns()

    def monotonic_raw_ns(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC_RAW, or of the monotonic clock where there is none."""
        if hasattr(time, "CLOCK_MONOTONIC_RAW"):
            return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        return time.monotonic_ns()

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        """Sleep until the moment; an interrupt ends it early with KeyboardInterrupt."""
        while (left_ns := monotonic_raw_ns - self.monotonic_raw_ns()) > 0:
            time.sleep(left_ns / 1e9)


def step_ns(clock: Clock, epoch_ns: int, duration_ns: int) -> int:
    """Return how far the system's clock was set during a run that has ended; 0 where it was only kept in time.

    Parameters
    ----------
    clock
        The clocks.
    epoch_ns
        When the monotonic one stood at 0, by the system's clock at the start.
    duration_ns
        How long the run was.
    """
    ahead_ns = clock.realtime_ns() - clock.monotonic_raw_ns() - epoch_ns
    return ahead_ns if abs(ahead_ns) > _MOST_DRIFT_NS + duration_ns // _DRIFT_SHARE else 0
