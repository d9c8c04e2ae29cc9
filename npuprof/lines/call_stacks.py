"""Python stacks of calls of the device, taken where a call passes through Python: at the call itself, not sampled.

A stack goes up to the profiled cell, or to the outermost frame. A frame is a code object and a position in it, whose
line is looked up once; code objects are held weakly and nothing of the user is referenced. Three frames take less than
a microsecond.
"""

from __future__ import annotations

import sys
import weakref
from array import array
from collections.abc import Callable
from threading import Lock, get_native_id
from types import CodeType, FrameType
from typing import NamedTuple

from npuprof.frames import cell_name
from npuprof.texts import encodable

_DEPTHS = range(64)
_MOST_STACKS = 100_000
_MOST_CALLS = 4_000_000
TAKEN = 3
"""Numbers that are taken of each call."""


class StackLine(NamedTuple):
    """A line of a function that is in a stack."""

    file: str
    line: int
    function: str
    module: str


class CallStacks:
    """The calls of one run with their stacks.

    Attributes
    ----------
    calls
        Of each call three numbers: thread, time on the clock of the run, and number of the stack.
    stacks
        The frames of each stack by number, the innermost first.
    lines
        The frames by number.
    number_of
        Returns the number of the cell whose code has a file name; 0 for other files.
    """

    def __init__(self, cell_file: str = "", number_of: Callable[[str], int] = lambda _file: 0) -> None:
        self.number_of = number_of
        self.calls = array("q")
        self.stacks: list[tuple[int, ...]] = []
        self.lines: list[StackLine] = []
        self._cell_file = cell_file
        self._numbers: dict[tuple[int, ...], int] = {}
        self._line_numbers: dict[StackLine, int] = {}
        self._positions: dict[tuple[int, int], int] = {}
        self._codes: dict[int, weakref.ref[CodeType]] = {}
        self._adding = Lock()

    def take(self, time_ns: int, depth: int = 1) -> None:
        """Take the stack of this thread for a call that begins now.

        Parameters
        ----------
        time_ns
            The time of the call on the clock of the run.
        depth
            How many frames above this function the stack begins.
        """
        positions = self._positions
        frame: FrameType | None = sys._getframe(depth)
        path = []
        for _ in _DEPTHS:
            if frame is None:
                break
            number = positions.get((id(frame.f_code), frame.f_lasti))
            if number is None:
                number = self._add(frame)
            path.append(number)
            if number < 0:  # the cell itself
                break
            frame = frame.f_back
        key = tuple(path)
        stack = self._numbers.get(key)
        if stack is None:
            stack = self._add_stack(key)
        self.calls.extend((get_native_id(), time_ns, stack))

    @property
    def is_full(self) -> bool:
        """Whether no more calls are to be taken."""
        return len(self.calls) >= _MOST_CALLS * TAKEN or len(self.stacks) >= _MOST_STACKS

    def _add(self, frame: FrameType) -> int:
        """Return the number of a frame's line, as kept for its position: below zero where the stack ends."""
        code = frame.f_code
        name = frame.f_globals.get("__name__")
        # Exact strings only: a user may set a module's name to anything.
        line = StackLine(
            encodable(code.co_filename),
            frame.f_lineno or 0,
            encodable(code.co_name),
            encodable(name) if type(name) is str else "",
        )
        with self._adding:
            number = self._line_numbers.setdefault(line, len(self.lines))
            if number == len(self.lines):
                self.lines.append(line)
            is_cell = code.co_filename == self._cell_file and code.co_name.startswith(("<module>", "<cell line"))
            kept = -1 - number if is_cell else number
            if id(code) not in self._codes:
                self._codes[id(code)] = weakref.ref(code, self._forget)
            self._positions[id(code), frame.f_lasti] = kept
        return kept

    def _forget(self, _code: weakref.ref[CodeType]) -> None:
        """Forget positions when a code object is gone: another may get its identity."""
        self._positions.clear()
        self._codes.clear()

    def _add_stack(self, key: tuple[int, ...]) -> int:
        with self._adding:
            number = self._numbers.setdefault(key, len(self.stacks))
            if number == len(self.stacks):
                self.stacks.append(tuple(-1 - each if each < 0 else each for each in key))
        return number


current: CallStacks | None = None
"""Those of the run that collects in this process, or None."""


def take(time_ns: int) -> None:
    """Take the stack of a call that begins now, if a run collects; see :meth:`CallStacks.take`."""
    if (stacks := current) is not None and not stacks.is_full:
        stacks.take(time_ns, 2)


def shown_file(file: str) -> str:
    """Return the file name of code as tables have it: the name of a cell, with its number if a run knows it."""
    return cell_name(file, current.number_of(file) if current is not None else 0) or file


def numbered_file(file: str) -> str:
    """Return the file name of code: ``<cell [3]>`` for the code of a cell whose number a run knows."""
    number = current.number_of(file) if current is not None else 0
    return cell_name(file, number) if number else file
