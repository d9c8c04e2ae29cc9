"""The clocks of collectors and sessions, replaceable in tests."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from typing import Protocol, runtime_checkable

# NTP adjusts the system clock by 0.05 % at most.
_MOST_DRIFT_NS, _DRIFT_SHARE = 100_000_000, 1_000
_READINGS = 5


class Clock(Protocol):
    """A source of times in integer nanoseconds."""

    def realtime_ns(self) -> int:
        """Return the UTC epoch time in nanoseconds."""
        ...

    def monotonic_raw_ns(self) -> int:
        """Return nanoseconds of a clock that is never adjusted, which native collectors use for time stamps."""
        ...

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        """Wait until a time of :meth:`monotonic_raw_ns`."""
        ...


@runtime_checkable
class EmulatingClock(Clock, Protocol):
    """The clock of a computer that emulates an NPU: it excludes the time of emulation, and skips waits."""

    @property
    def left_out_ns(self) -> int:
        """How far the clock is behind the system's clock, in nanoseconds."""
        ...

    def watch(self, look: Callable[[], None]) -> Callable[[], None]:
        """Call `look` before and after each longer wait, on the waiting thread; return a function that stops this."""
        ...


@runtime_checkable
class TracedClock(Protocol):
    """A clock that tells how it goes beside the system's."""

    def trace(self, readings: array[int]) -> Callable[[], None]:
        """Add three numbers to `readings` now and at each change; return the function that ends this.

        They are the time of the system's clock, of this clock, and whether it goes on as the system's (1) or stands (0)
        until the next change.
        """
        ...


class SystemClock:
    """The clocks of the operating system."""

    def realtime_ns(self) -> int:
        """Return the UTC epoch time in nanoseconds."""
        return time.time_ns()

    def monotonic_raw_ns(self) -> int:
        """Return nanoseconds of CLOCK_MONOTONIC_RAW, or of the monotonic clock where the system lacks it."""
        if hasattr(time, "CLOCK_MONOTONIC_RAW"):
            return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        return time.monotonic_ns()

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        """Sleep until the given time; an interrupt raises KeyboardInterrupt early."""
        while (left_ns := monotonic_raw_ns - self.monotonic_raw_ns()) > 0:
            time.sleep(left_ns / 1e9)


def same_moment(clock: Clock) -> tuple[int, int]:
    """Return the system time and the monotonic time of one moment.

    A busy computer may stop a thread between two readings, so each system time is read between two monotonic times,
    several times, and the tightest of these readings is taken.
    """
    readings = []
    for _ in range(_READINGS):
        before_ns, realtime_ns, after_ns = clock.monotonic_raw_ns(), clock.realtime_ns(), clock.monotonic_raw_ns()
        readings.append((after_ns - before_ns, realtime_ns, (before_ns + after_ns) // 2))
    _, realtime_ns, monotonic_ns = min(readings)
    return realtime_ns, monotonic_ns


def epoch_ns_of(clock: Clock) -> int:
    """Return the system time at zero of the monotonic clock."""
    realtime_ns, monotonic_ns = same_moment(clock)
    return realtime_ns - monotonic_ns


def step_ns(clock: Clock, epoch_ns: int, duration_ns: int) -> int:
    """Return by how much the system clock was set during a run; 0 if NTP only adjusted it.

    `epoch_ns` is the system time at zero of the monotonic clock, read at the start of the run.
    """
    ahead_ns = epoch_ns_of(clock) - epoch_ns
    return ahead_ns if abs(ahead_ns) > _MOST_DRIFT_NS + duration_ns // _DRIFT_SHARE else 0
