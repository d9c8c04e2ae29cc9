"""A clock on which the host's time is what its calls cost, and nothing else passes."""

from __future__ import annotations

from npuprof.clock import Clock, SystemClock


class VirtualClock:
    """Stands still until somebody waits on it.

    On it a launch takes what the model of the chip says, whatever this computer does meanwhile: a simulated run does
    not depend on how many of them share its processors, and comes out the same each time.

    Parameters
    ----------
    since
        The clock whose moment it begins at, by default the system's.
    """

    def __init__(self, since: Clock | None = None) -> None:
        since = SystemClock() if since is None else since
        now_ns = since.monotonic_raw_ns()
        self._epoch_ns = since.realtime_ns() - now_ns
        # At a whole microsecond every device's counter ticks, so that runs do not differ by how they are rounded.
        self._now_ns = -(-now_ns // 1000) * 1000

    def realtime_ns(self) -> int:
        """Nanoseconds of the UTC epoch."""
        return self._now_ns + self._epoch_ns

    def monotonic_raw_ns(self) -> int:
        """Nanoseconds of a clock that never steps."""
        return self._now_ns

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        """Be at the moment, or later already."""
        self._now_ns = max(self._now_ns, monotonic_raw_ns)

    def pass_ns(self, duration_ns: int) -> None:
        """Advance the clock, as work of the host does."""
        self._now_ns += max(0, duration_ns)
