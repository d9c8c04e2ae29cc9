"""Stamps of a rewritten cell: when each of its statements began, as times by statement.

A stamp is ``del stamp.now``: a deleted attribute whose property calls :func:`next` on the stamp itself, a chain of
iterators that reads the clock and appends the time to an array. All of it runs in C: no interrupt comes in between, no
tracer sees a call, and no line of the stamp can be that of an exception.

Events of ``sys.monitoring`` for lines were tried on Python 3.12 and 3.13. They cost the same: 0.46 to 0.52 µs a line,
against 0.49 to 0.50 µs a stamp, most of it the clock. But their callback is Python code, in which an interrupt may
come, two statements of a line are one event, and a line whose events are disabled counts no iterations.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npuprof.arrays import Int64

NO_STATEMENT = -1
"""The number of a stamp that ends a statement: IPython compiles the next one, shows a value, or the code has ended."""

now: Callable[[], int] = time.monotonic_ns
"""Return nanoseconds of the clock of stamps, CLOCK_MONOTONIC_RAW where the system has it."""
if hasattr(time, "CLOCK_MONOTONIC_RAW"):
    now = partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC_RAW)


@dataclass(frozen=True)
class Statement:
    """A statement of a rewritten cell."""

    # line, last_line: the lines of the cell that it spans, with its body.
    line: int
    last_line: int
    loop: int  # the number of the innermost loop in whose body it is, -1 outside of loops
    is_loop: bool
    # Whether the body of the loop makes the update of a training step: 2 if it calls a method `step`, 1 for `backward`
    # and `zero_grad` alone, otherwise 0. Bodies of loops and functions within do not count.
    update: int = 0


class Stamp(map):  # type: ignore[type-arg]
    """What ``del stamp.now`` in a rewritten cell notes the time with."""

    __slots__ = ()
    now = property(fdel=next)

    @classmethod
    def into(cls, times: array[int]) -> Stamp:
        """Return a stamp that appends its times to an array."""
        ticks: Iterator[int] = iter(now, None)
        if hasattr(time, "CLOCK_MONOTONIC_RAW"):  # the same, without a call in between
            ticks = map(time.clock_gettime_ns, repeat(time.CLOCK_MONOTONIC_RAW))
        return cls(times.append, ticks)


class Switch:
    """Whether the statements of a loop are stamped, and how many iterations were not."""

    __slots__ = ("on", "thinned")

    def __init__(self) -> None:
        self.on, self.thinned = True, 0


class Shown:
    """Passes on the value of the last expression, and notes that the code ended before it is shown."""

    __slots__ = ("value",)

    def __init__(self, stamp: Stamp) -> None:
        # next(iterator, value) returns the value, since the iterator ends once the stamp has returned None.
        self.value: Callable[[Any], Any] = partial(next, iter(partial(next, stamp), None))


@dataclass
class Stamps:
    """The stamps of one cell."""

    statements: list[Statement] = field(default_factory=list)  # the statements by number
    # The times of each statement's stamps, and last those of `NO_STATEMENT`, on the clock of stamps.
    times: list[array[int]] = field(default_factory=list)
    switches: dict[int, Switch] = field(default_factory=dict)  # of the loops, by number
    is_muted: bool = False  # whether the cell is not profiled after all: what is compiled from now on has no stamps
    end: Stamp = field(init=False)  # the stamp of `NO_STATEMENT`

    def turn(self, loop: int, *, on: bool) -> list[int]:
        """Stamp the iterations of a loop and of those within it from now on, or only count them; return these loops."""
        turned = [loop]
        for number in self.switches:
            if number > loop and self.statements[number].loop in turned:
                turned.append(number)
        for number in turned:
            self.switches[number].on = on
        return turned

    def note_end(self) -> None:
        """Note that the code has ended, as by an exception."""
        next(self.end)

    def turn_off(self) -> None:
        """Stamp nothing in loops from now on, and nothing that is compiled from now on."""
        self.is_muted = True
        for switch in self.switches.values():
            switch.on = False

    @property
    def count(self) -> int:
        """How many stamps there are."""
        return sum(map(len, self.times))

    def since(self, known: list[int], until_ns: int) -> tuple[Int64, Int64]:
        """Return number and time of the stamps until a moment, in order, without the first ones of each statement."""
        import numpy as np

        numbers, parts = [], []
        for at, times in enumerate(self.times):
            if len(times) == known[at]:
                continue
            new = np.frombuffer(times[known[at] :], np.int64)
            new = new[: np.searchsorted(new, until_ns, side="right")]
            known[at] += len(new)
            numbers.append(np.full(len(new), at if at < len(self.statements) else NO_STATEMENT))
            parts.append(new)
        if not parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        number, time_ns = np.concatenate(numbers), np.concatenate(parts)
        order = np.argsort(time_ns, kind="stable")
        return number[order], time_ns[order]
