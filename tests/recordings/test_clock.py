"""Two clocks are read at one moment, also where a busy computer stops the thread between two readings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from npuprof.recordings.clock import epoch_ns_of, same_moment, step_ns

_EPOCH_NS = 1_763_600_000_000_000_000
_STOP_NS = 200_000_000


class StoppedClock:
    """A clock whose reader is stopped before some of its readings."""

    def __init__(self, stops: list[bool]) -> None:
        self._stops = iter(stops)
        self._now_ns = 36_471_000_000_000

    def monotonic_raw_ns(self) -> int:
        self._now_ns += _STOP_NS if next(self._stops, False) else 40
        return self._now_ns

    def realtime_ns(self) -> int:
        return self.monotonic_raw_ns() + _EPOCH_NS

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        self._now_ns = max(self._now_ns, monotonic_raw_ns)


@given(st.sets(st.integers(0, 14), max_size=4))
def test_a_stop_between_two_readings_moves_no_time(stopped: set[int]) -> None:
    """Of five readings at least one is undisturbed."""
    stops = [number in stopped for number in range(15)]
    assert epoch_ns_of(StoppedClock(stops)) == _EPOCH_NS
    realtime_ns, monotonic_ns = same_moment(StoppedClock(stops))
    assert realtime_ns - monotonic_ns == _EPOCH_NS
    assert step_ns(StoppedClock(stops), _EPOCH_NS, 0) == 0
