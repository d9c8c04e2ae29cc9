"""What the stamps of a rewritten cell call, and what they leave: pairs of a statement's number and a time."""

from __future__ import annotations

import builtins
import itertools
import time
from array import array
from collections.abc import Callable
from functools import partial

from npuprof.lines.rewriting import NO_STATEMENT, StampNames, Statement

LEAST_TIME = 1 << 20
"""What is less is the number of a statement: no program runs in the first millisecond after the boot."""

_numbers = itertools.count()
_of_builtins: dict[str, object] = builtins.__dict__

now: Callable[[], int] = time.monotonic_ns
"""Return nanoseconds of the clock of stamps, CLOCK_MONOTONIC_RAW where the system has it."""
if hasattr(time, "CLOCK_MONOTONIC_RAW"):
    now = partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC_RAW)


class Stamps:
    """The stamps of one cell, from its rewriting until its end.

    Attributes
    ----------
    names
        What the rewritten cell calls: in ``builtins`` until :meth:`remove`.
    statements
        The statements by number.
    pairs
        The number and the time of each stamp. An interrupt between the two leaves a number alone.
    ended_ns
        When the cell ended, on the clock of stamps; 0 until then.
    """

    def __init__(self) -> None:
        self.names = StampNames(f"npuprof {next(_numbers)}")
        self.statements: list[Statement] = []
        self.pairs = array("q")
        self.ended_ns = 0
        self._nodes: list[int] = []
        self._counts: dict[int, itertools.count[int]] = {}

    def install(self, statements: list[Statement], nodes: list[int]) -> None:
        """Define the names; every loop is stamped.

        Parameters
        ----------
        statements, nodes
            As :class:`npuprof.lines.rewriting.Rewriting` has them.
        """
        self.statements = statements
        self._nodes = [-1, *nodes]
        added: dict[str, object] = {self.names.append(node): self.pairs.append for node in self._nodes}
        added |= {self.names.now(node): now for node in self._nodes}
        for number, statement in enumerate(statements):
            if statement.is_loop:
                count = self._counts[number] = itertools.count()
                added |= {self.names.flag(number): True, self.names.count(number): count.__next__}
        _of_builtins.update(added)

    def set_flag(self, loop: int, value: bool) -> None:
        """Stamp the iterations of a loop from its next one on, or only count them."""
        if self.names.flag(loop) in _of_builtins:
            _of_builtins[self.names.flag(loop)] = value

    def counted(self, loop: int) -> int:
        """Return how many iterations of a loop were only counted."""
        return int(repr(self._counts[loop])[len("count(") : -1])  # read without counting

    def mute(self) -> None:
        """Stamp nothing from now on; the cell may go on."""
        for node in self._nodes:
            if self.names.append(node) in _of_builtins:
                _of_builtins[self.names.append(node)] = id  # returns at once, whatever it is given
        for loop in self._counts:
            self.set_flag(loop, False)

    def remove(self) -> None:
        """Remove the names, once the cell has ended, which ends its last statement."""
        self.ended_ns = now()
        self.pairs.extend((NO_STATEMENT, self.ended_ns))
        for node in self._nodes:
            for name in (self.names.append(node), self.names.now(node)):
                _of_builtins.pop(name, None)
        for loop in self._counts:
            _of_builtins.pop(self.names.flag(loop), None)
            _of_builtins.pop(self.names.count(loop), None)
