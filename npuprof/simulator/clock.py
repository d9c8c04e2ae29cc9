"""The clocks of a simulated machine: a virtual one, and readings of both clocks at one moment."""

from __future__ import annotations

from npuprof.clock import Clock, SystemClock

_READINGS = 5


class VirtualClock:
    """A clock that advances only by waits and by modelled host work.

    A launch takes the time of the chip's model, however loaded this computer is, so a simulated run is reproducible.

    Parameters
    ----------
    since
        The clock that gives the first reading, by default the system's.
    """

    def __init__(self, since: Clock | None = None) -> None:
        since = SystemClock() if since is None else since
        now_ns = since.monotonic_raw_ns()
        self._epoch_ns = since.realtime_ns() - now_ns
        # Every device's counter ticks at whole microseconds, so runs do not differ by rounding.
        self._now_ns = -(-now_ns // 1000) * 1000

    def realtime_ns(self) -> int:
        """Nanoseconds of the UTC epoch."""
        return self._now_ns + self._epoch_ns

    def monotonic_raw_ns(self) -> int:
        """Nanoseconds of a clock that never steps."""
        return self._now_ns

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        """Advance to the moment, unless it is past."""
        self._now_ns = max(self._now_ns, monotonic_raw_ns)

    def pass_ns(self, duration_ns: int) -> None:
        """Advance by the time of host work."""
        self._now_ns += max(0, duration_ns)


class FrozenClock:
    """One reading of a clock."""

    def __init__(self, clock: Clock) -> None:
        self._realtime_ns, self._monotonic_ns = clock.realtime_ns(), clock.monotonic_raw_ns()

    def realtime_ns(self) -> int:
        """Nanoseconds of the UTC epoch."""
        return self._realtime_ns

    def monotonic_raw_ns(self) -> int:
        """Nanoseconds of a clock that never steps."""
        return self._monotonic_ns

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        """Return at once."""
        del monotonic_raw_ns


def pass_modelled_ns(clock: Clock, duration_ns: int) -> None:
    """Advance a virtual clock by modelled host work; on any other clock the work itself takes time."""
    if isinstance(clock, VirtualClock):
        clock.pass_ns(duration_ns)


def wait_past_ns(clock: Clock, end_ns: int) -> None:
    """Return after a moment that is at most a launch away."""
    # The system's sleep is far longer than a launch, so this spins, unless the clock stands still.
    before_ns = clock.monotonic_raw_ns()
    while before_ns <= end_ns:
        now_ns = clock.monotonic_raw_ns()
        if now_ns <= before_ns:
            clock.sleep_until_ns(end_ns + 1)
            return
        before_ns = now_ns


def same_moment(clock: Clock, *, later: bool = False) -> tuple[int, int]:
    """Return the realtime and the monotonic reading of one moment, at the previous or (`later`) next microsecond."""
    # The tightest of several readings: the realtime reading lies between the two monotonic ones around it.
    _, monotonic_ns, realtime_ns = min(_reading(clock) for _ in range(_READINGS))
    shift_ns = -realtime_ns % 1000 if later else -(realtime_ns % 1000)
    return realtime_ns + shift_ns, monotonic_ns + shift_ns


def _reading(clock: Clock) -> tuple[int, int, int]:
    """Return the time between two monotonic readings, their middle, and the realtime reading between them."""
    before_ns = clock.monotonic_raw_ns()
    realtime_ns = clock.realtime_ns()
    after_ns = clock.monotonic_raw_ns()
    return after_ns - before_ns, (before_ns + after_ns) // 2, realtime_ns
