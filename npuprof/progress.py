"""How far reading has come: readers tell it, whoever asked for the reading watches.

A reader calls :func:`tell` now and then, whether or not anybody watches. :func:`shown` watches for the user: a bar in
a terminal or under the cell, once reading has taken a second.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing import parent_process
from typing import Protocol, TextIO, TypeAlias

from npuprof import interactive
from npuprof.texts import plain_line

_DELAY_S = 1.0
_PATIENCE_S = 3.0
_TICK_S = 1.0
_INTERVAL_S = 0.2
_BAR_WIDTH = 24
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class Progress:
    """How far the reading of one file has come, or how long something has taken.

    Attributes
    ----------
    name
        The file, or what of it.
    done, total
        Bytes read of how many, or rows; `total` is 0 where nobody knows.
    unit
        ``bytes`` or ``rows``; ``s`` for the seconds that something has taken.
    """

    name: str
    done: int
    total: int
    unit: str = "bytes"

    @property
    def fraction(self) -> float:
        """The part that is read, 0 to 1; 0 where the total is not known."""
        return min(self.done / self.total, 1.0) if self.total > 0 else 0.0

    def __str__(self) -> str:
        of = f" of {_amount(self.total, self.unit)}" if self.total > 0 else ""
        return f"{self.name}: {_amount(self.done, self.unit)}{of}{' read' * (self.unit != 's')}"


Watcher: TypeAlias = Callable[[Progress], None]

_watcher: ContextVar[Watcher | None] = ContextVar("npuprof_progress", default=None)


class Display(Protocol):
    """Shows progress in one place, again and again."""

    def show(self, progress: Progress) -> None:
        """Show it in the place of what was shown before."""
        ...

    def close(self) -> None:
        """Take it away: reading has ended."""
        ...


def tell(name: str, done: int, total: int, unit: str = "bytes") -> None:
    """Report to the watcher how far the reading of a file has come; see :class:`Progress`."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(Progress(plain_line(name), done, total, unit))


@contextmanager
def watched(watcher: Watcher | None) -> Iterator[None]:
    """Report all reading in the block to `watcher`, or to nobody; what it raises ends the reading."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def shown() -> Iterator[None]:
    """Show the progress of the reading in the block, if it takes over a second and there is a place to show it.

    In a block that is watched already nothing changes. However the block ends, nothing stays shown.
    """
    display = _display() if _watcher.get() is None else None
    if display is None:
        yield
        return
    patient = _Patient(display, _DELAY_S)
    try:
        with watched(patient):
            yield
    finally:
        patient.close()


@contextmanager
def patience(what: str) -> Iterator[None]:
    """Show `what` and how long the block has taken so far, every second once that is over three.

    It is shown where the progress of reading is, and in a log of a program's errors once.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_show_waiting, args=(what, ended), name="npuprof-patience", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread can begin, as when the interpreter ends
        yield
        return
    try:
        yield
    finally:
        ended.set()
        thread.join(_TICK_S)


def _show_waiting(what: str, ended: threading.Event) -> None:
    began_s = time.monotonic()
    if ended.wait(_PATIENCE_S):
        return
    patient = _Patient(_display() or _Line(), 0.0)
    while True:
        patient(Progress(what, round(time.monotonic() - began_s), 0, "s"))
        if ended.wait(_TICK_S):
            patient.close()
            return


class _Line:
    """One line in the errors of a program that has no terminal."""

    def __init__(self) -> None:
        self._written = False

    def show(self, progress: Progress) -> None:
        """Write the line, the first time."""
        if not self._written and sys.stderr is not None:
            self._written = True
            sys.stderr.write(f"npuprof: {progress} so far\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Leave the line where it is."""


class _Patient:
    """A watcher that shows nothing for a while, then what is new a few times a second."""

    def __init__(self, display: Display, delay_s: float) -> None:
        self._display: Display | None = display
        self._next_s = time.monotonic() + delay_s
        self._shown = False

    def __call__(self, progress: Progress) -> None:
        now_s = time.monotonic()
        if self._display is None or now_s < self._next_s:
            return
        self._next_s = now_s + _INTERVAL_S
        self._shown = True
        try:
            self._display.show(progress)
        except Exception:  # noqa: BLE001 - a run is worth more than its progress bar
            self._display = None

    def close(self) -> None:
        if self._display is not None and self._shown:
            try:
                self._display.close()
            except Exception:  # noqa: BLE001 - as above
                self._display = None


class TerminalBar:
    """One line of a terminal, written over again and again, and wiped at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, progress: Progress) -> None:
        """Write the line."""
        line = f"{bar(progress)}{progress}" if progress.total > 0 else str(progress)
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{line[:width]}")
        self._stream.flush()

    def close(self) -> None:
        """Wipe the line."""
        self._stream.write("\r\x1b[K")
        self._stream.flush()


def bar(progress: Progress) -> str:
    """Draw how much is read, in characters."""
    full = round(progress.fraction * _BAR_WIDTH)
    return f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}] "


def _display() -> Display | None:
    """Choose where to show progress: under the cell in a kernel, else in the terminal, else nowhere.

    A process that another one started to read for it shows nothing: the line is the other's.
    """
    if parent_process() is not None:
        return None
    if "ipykernel" in sys.modules:  # the notebook's side is only looked for where there is one
        display: Display | None = interactive.cell_display()
        if display is not None:
            return display
    return TerminalBar(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None


def _amount(value: int, unit: str) -> str:
    if unit == "bytes":
        for size, name in _UNITS:
            if value >= size:
                return f"{value / size:.1f} {name}"
    return f"{value:,} {unit}"
