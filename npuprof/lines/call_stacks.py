"""Python stacks of calls of the device, taken where a call passes through Python: at the call itself, not sampled.

A stack goes up to the profiled cell, or to the outermost frame. A frame is a code object and a position in it, whose
line is looked up once; code objects are held weakly and nothing of the user is referenced. Stacks that were seen before
are found by going down a tree of positions, a look-up for each frame. Three frames take less than a microsecond.
"""

from __future__ import annotations

import sys
import weakref
from array import array
from collections.abc import Callable
from threading import Lock, get_native_id, local
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeAlias

from npuprof.lines.frames import cell_name
from npuprof.words.texts import encodable

_DEPTH = 64
_MOST_STACKS = 100_000
_MOST_CALLS = 4_000_000
TAKEN = 3
"""Numbers that are taken of each call."""


_Position: TypeAlias = tuple[int, int]
# By the next frame: the number of the stack that ends with it, or a tree.
_Tree: TypeAlias = dict[_Position | None, Any]


class _Thread(local):
    """The thread that looks."""

    def __init__(self) -> None:
        self.native_id = get_native_id()  # which the system has to be asked for


class StackLine(NamedTuple):
    """A line of a function that is in a stack, and the number of its cell, 0 for none: one file may run in many."""

    file: str
    line: int
    function: str
    module: str
    cell: int


class CallStacks:
    """The calls of one run with their stacks.

    Parameters
    ----------
    number_of
        Returns the number of the cell whose code has a file name, as of now; 0 for other files.

    Attributes
    ----------
    calls
        Of each call three numbers: thread, time on the clock of the run, and number of the stack.
    stacks
        The frames of each stack by number, the innermost first.
    lines
        The frames by number.
    """

    def __init__(self, cell_file: str = "", number_of: Callable[[str], int] = lambda _file: 0) -> None:
        self.calls = array("q")
        self.stacks: list[tuple[int, ...]] = []
        self.lines: list[StackLine] = []
        self._cell_file, self._number_of = cell_file, number_of
        self._numbers: dict[tuple[int, ...], int] = {}
        self._line_numbers: dict[StackLine, int] = {}
        self._positions: dict[_Position, int] = {}
        self._tree: _Tree = {}
        self._thread = _Thread()
        self._codes: dict[int, weakref.ref[CodeType]] = {}
        self._adding = Lock()

    def take(self, time_ns: int, depth: int = 1) -> None:
        """Take the stack of this thread for a call that begins now."""
        first: FrameType | None = sys._getframe(depth)
        frame = first
        at: Any = self._tree
        while frame is not None:
            at = at.get((id(frame.f_code), frame.f_lasti))
            if at.__class__ is not dict:
                break
            frame = frame.f_back
        else:
            at = at.get(None)
        self.calls.extend((self._thread.native_id, time_ns, self._add_stack(first) if at is None else at))

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
            self._number_of(code.co_filename),
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
        self._tree = {}
        self._positions.clear()
        self._codes.clear()

    def _add_stack(self, frame: FrameType | None) -> int:
        """Return the number of the stack of a frame, and put it into the tree."""
        path, keys = list[int](), list[_Position | None]()
        while frame is not None and len(path) < _DEPTH and not (path and path[-1] < 0):  # the cell itself
            key = id(frame.f_code), frame.f_lasti
            number = self._positions.get(key)
            path.append(self._add(frame) if number is None else number)
            keys.append(key)
            frame = frame.f_back
        if frame is None and (not path or path[-1] >= 0):
            keys.append(None)  # where the stack ends by itself
        lines = tuple(-1 - each if each < 0 else each for each in path)
        with self._adding:
            stack = self._numbers.setdefault(lines, len(self.stacks))
            if stack == len(self.stacks):
                self.stacks.append(lines)
            at = self._tree
            for each in keys[:-1]:
                at = at.setdefault(each, {})
            at[keys[-1]] = stack
        return stack


current: CallStacks | None = None
"""Those of the run that collects in this process, or None."""

number_of: Callable[[str], int] | None = None
"""What returns the number of the cell whose code has a file name, 0 for other files; None where no run knows it."""


def take(time_ns: int) -> None:
    """Take the stack of a call that begins now, if a run collects; see :meth:`CallStacks.take`."""
    if (stacks := current) is not None and not stacks.is_full:
        stacks.take(time_ns, 2)


def shown_file(file: str) -> str:
    """Return the file name of code as tables have it: the name of a cell, with its number if a run knows it."""
    return cell_name(file, number_of(file) if number_of is not None else 0) or file


def numbered_file(file: str) -> str:
    """Return the file name of code: ``<cell [3]>`` for the code of a cell whose number a run knows."""
    number = number_of(file) if number_of is not None else 0
    return cell_name(file, number) if number else file
