"""The clocks of a simulated machine: without emulation time, or virtual; and simultaneous readings of two clocks."""

from __future__ import annotations

import functools
import threading
from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import ParamSpec, TypeVar

from npuprof.recordings.clock import Clock, SystemClock, epoch_ns_of, same_moment

_LOOK_NS = 50_000  # a shorter wait does not show in the stack samples

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class EmulationClock:
    """The system's clock minus the time that this computer takes to emulate the NPU while a recording runs.

    All other host time counts: the user's Python between two calls, input, sleep. While any thread of the process
    emulates (:meth:`emulating`), the clock stands still for all threads. A wait for the device first consumes the
    emulation time that was left out before, and sleeps only for the remainder, so that the clock is never ahead of the
    system's. Without a recording it is the system's clock.
    """

    def __init__(self, system: Clock | None = None) -> None:
        self._system = SystemClock() if system is None else system
        self._watchers: list[Callable[[], None]] = []
        self._traces: list[array[int]] = []
        self.after_fork()

    def after_fork(self) -> None:
        """Follow the system's clock in the child of a fork; the recordings are the parent's."""
        self._lock = threading.RLock()  # a finalizer may read the clock at any point
        self._recordings = 0
        self._behind_ns = 0
        self._stands_at_ns = 0
        self._emulating: dict[int, int] = {}  # depth of nested calls by thread
        self._watchers.clear()
        self._traces.clear()

    # -- the clock -----------------------------------------------------------------------------------------

    def realtime_ns(self) -> int:
        """Return nanoseconds of the UTC epoch."""
        with self._lock:
            return self.monotonic_raw_ns() + epoch_ns_of(self._system)

    def monotonic_raw_ns(self) -> int:
        """Return nanoseconds of a clock that never steps back."""
        with self._lock:
            return self._stands_at_ns if self._emulating else self._system.monotonic_raw_ns() - self._behind_ns

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        """Return no earlier than the given time; sleep only for the part that emulation has not already taken."""
        watched = self._watchers and monotonic_raw_ns - self.monotonic_raw_ns() >= _LOOK_NS
        for look in list(self._watchers) if watched else ():
            look()  # time until now belongs to the stack before the wait
        while not self._advance_to(monotonic_raw_ns):
            depth = self._pause()  # a wait is not emulation: the time of other threads passes
            try:
                self._system.sleep_until_ns(monotonic_raw_ns)
            finally:
                self._resume(depth)
        for look in list(self._watchers) if watched else ():
            look()

    def pass_ns(self, duration_ns: int) -> None:
        """Advance by modelled host work."""
        self.sleep_until_ns(self.monotonic_raw_ns() + duration_ns)

    # -- recordings and emulation --------------------------------------------------------------------------

    def begin_recording(self) -> None:
        """Leave emulation time out from now on."""
        with self._lock:
            self._recordings += 1

    def end_recording(self) -> None:
        """Catch up with the system's clock after the last recording."""
        with self._lock:
            self._recordings -= 1
            if not self._recordings:
                self._behind_ns = 0
                self._emulating.clear()
                self._note_change(self._system.monotonic_raw_ns())

    @property
    def left_out_ns(self) -> int:
        """The lag behind the system's clock: emulation time that was left out and not yet consumed by waits."""
        with self._lock:
            return self._system.monotonic_raw_ns() - self.monotonic_raw_ns()

    def emulating(self) -> AbstractContextManager[None]:
        """Stop the clock in the ``with`` block; blocks can be nested."""
        return _Emulation(self)

    def watch(self, look: Callable[[], None]) -> Callable[[], None]:
        """Call `look` before and after each longer wait, on the waiting thread; return the function that removes it."""
        self._watchers.append(look)
        return lambda: self._watchers.remove(look) if look in self._watchers else None

    def trace(self, readings: array[int]) -> Callable[[], None]:
        """Add the system's time, this clock's, and whether it runs (1) or stands (0), now and at each change.

        Between two changes the clock runs as the system's or stands. Return the function that ends this.
        """
        with self._lock:
            self._traces.append(readings)
            self._note_change(self._system.monotonic_raw_ns(), stands=bool(self._emulating))
        return lambda: self._traces.remove(readings) if readings in self._traces else None

    def _note_change(self, system_ns: int, *, stands: bool = False) -> None:
        for readings in self._traces:
            readings.extend((system_ns, self._stands_at_ns if stands else system_ns - self._behind_ns, not stands))

    def _enter(self) -> None:
        with self._lock:
            if self._recordings:
                self._halt_clock()
                me = threading.get_ident()
                self._emulating[me] = self._emulating.get(me, 0) + 1

    def _exit(self) -> None:
        with self._lock:
            if depth := self._emulating.pop(threading.get_ident(), 0):
                if depth > 1:
                    self._emulating[threading.get_ident()] = depth - 1
                self._restart()

    def _pause(self) -> int:
        with self._lock:
            depth = self._emulating.pop(threading.get_ident(), 0)
            if depth:
                self._restart()
            return depth

    def _resume(self, depth: int) -> None:
        with self._lock:
            if depth and self._recordings:
                self._halt_clock()
                self._emulating[threading.get_ident()] = depth

    def _halt_clock(self) -> None:
        """Stop the clock; the caller holds the lock and adds its thread."""
        if not self._emulating:
            system_ns = self._system.monotonic_raw_ns()
            self._stands_at_ns = system_ns - self._behind_ns
            self._note_change(system_ns, stands=True)

    def _restart(self) -> None:
        """Start the clock again if no thread emulates any more; the caller holds the lock."""
        if not self._emulating:
            system_ns = self._system.monotonic_raw_ns()
            self._behind_ns = system_ns - self._stands_at_ns
            self._note_change(system_ns)

    def _advance_to(self, monotonic_raw_ns: int) -> bool:
        """Advance to a time, at most to the system's clock; return whether the time was reached."""
        with self._lock:
            system_ns = self._system.monotonic_raw_ns()
            reached_ns = min(system_ns, monotonic_raw_ns)
            if self._emulating:
                self._stands_at_ns = max(self._stands_at_ns, reached_ns)
            else:
                self._behind_ns = min(self._behind_ns, system_ns - reached_ns)
            self._note_change(system_ns, stands=bool(self._emulating))
            return reached_ns == monotonic_raw_ns


class _Emulation(AbstractContextManager[None]):
    """The emulation of one call."""

    __slots__ = ("_clock",)

    def __init__(self, clock: EmulationClock) -> None:
        self._clock = clock

    def __enter__(self) -> None:
        self._clock._enter()

    def __exit__(self, *_: object) -> None:
        self._clock._exit()


PROCESS_CLOCK = EmulationClock()
"""The clock of this process, shared by its machines, their recorders and the session."""


def begin_recording(clock: Clock) -> None:
    """Leave emulation time out of the clock from now on, if the clock supports it."""
    if isinstance(clock, EmulationClock):
        clock.begin_recording()


def end_recording(clock: Clock) -> None:
    """End what :func:`begin_recording` began."""
    if isinstance(clock, EmulationClock):
        clock.end_recording()


def emulating(clock: Clock) -> AbstractContextManager[None]:
    """Return a context in which the clock stands still, if the clock leaves emulation time out."""
    return clock.emulating() if isinstance(clock, EmulationClock) else nullcontext()


def emulated(
    clock_of: Callable[..., Clock],
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator for calls that the simulated machine emulates; `clock_of` gets their first argument."""

    def decorate(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @functools.wraps(call)
        def standing_still(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            with emulating(clock_of(*args[:1])):
                return call(*args, **kwargs)

        return standing_still

    return decorate


class VirtualClock:
    """A clock that advances only by waits and by modelled host work.

    A launch takes the time of the chip's model, however loaded this computer is, so a simulated run is reproducible.
    """

    def __init__(self, since: Clock | None = None) -> None:
        since = SystemClock() if since is None else since
        self._traces: list[array[int]] = []
        now_ns = since.monotonic_raw_ns()
        self._epoch_ns = epoch_ns_of(since)
        # Every device counter ticks at whole microseconds, so runs do not differ by rounding.
        self._now_ns = -(-now_ns // 1000) * 1000

    def realtime_ns(self) -> int:
        """Return nanoseconds of the UTC epoch."""
        return self._now_ns + self._epoch_ns

    def monotonic_raw_ns(self) -> int:
        """Return nanoseconds of a clock that never steps."""
        return self._now_ns

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        """Advance to the given time, unless it is past."""
        self._now_ns = max(self._now_ns, monotonic_raw_ns)
        self._note_change()

    def pass_ns(self, duration_ns: int) -> None:
        """Advance by the time of host work."""
        self._now_ns += max(0, duration_ns)
        self._note_change()

    def trace(self, readings: array[int]) -> Callable[[], None]:
        """Add the system's time, this clock's, and 0, now and at each change; return the function that ends this."""
        self._traces.append(readings)
        self._note_change()
        return lambda: self._traces.remove(readings) if readings in self._traces else None

    def _note_change(self) -> None:
        for readings in self._traces:
            readings.extend((SystemClock().monotonic_raw_ns(), self._now_ns, 0))


class FrozenClock:
    """A clock that always returns the same reading."""

    def __init__(self, clock: Clock) -> None:
        self._realtime_ns, self._monotonic_ns = clock.realtime_ns(), clock.monotonic_raw_ns()

    def realtime_ns(self) -> int:
        """Return nanoseconds of the UTC epoch."""
        return self._realtime_ns

    def monotonic_raw_ns(self) -> int:
        """Return nanoseconds of a clock that never steps."""
        return self._monotonic_ns

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        """Return at once."""
        del monotonic_raw_ns


def pass_modelled_ns(clock: Clock, duration_ns: int) -> None:
    """Advance a virtual clock by modelled host work; on any other clock the work itself takes time."""
    if isinstance(clock, (VirtualClock, EmulationClock)):
        clock.pass_ns(duration_ns)


def wait_past_ns(clock: Clock, end_ns: int) -> None:
    """Return after the given time, which is at most one launch away."""
    # The system's sleep is far longer than a launch, so this spins, unless the clock stands still.
    before_ns = clock.monotonic_raw_ns()
    while before_ns <= end_ns:
        now_ns = clock.monotonic_raw_ns()
        if now_ns <= before_ns:
            clock.sleep_until_ns(end_ns + 1)
            return
        before_ns = now_ns


def same_microsecond(clock: Clock, *, later: bool = False) -> tuple[int, int]:
    """Return simultaneous realtime and monotonic readings, at the previous or (`later`) next microsecond."""
    realtime_ns, monotonic_ns = same_moment(clock)
    shift_ns = -realtime_ns % 1000 if later else -(realtime_ns % 1000)
    return realtime_ns + shift_ns, monotonic_ns + shift_ns
