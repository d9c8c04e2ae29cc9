"""Progress of reading: readers report it with :func:`report_progress`, and a watcher receives it.

:func:`shown` displays it to the user, as a bar in a terminal or below the cell, once reading takes over a second.
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

from npuprof import interactive, threads
from npuprof.words.quantities import counted
from npuprof.words.texts import plain_line

_DELAY_S = 1.0
_PATIENCE_S = 3.0
_TICK_S = 1.0
_INTERVAL_S = 0.2
_BAR_WIDTH = 24
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class Progress:
    """The progress of reading a file, or the elapsed time of a task."""

    name: str  # the file or task
    # done, total: bytes or rows read so far and in total; `total` is 0 if unknown.
    done: int
    total: int
    unit: str = "bytes"  # `bytes` or `rows`; `s` for the seconds of a task

    @property
    def fraction(self) -> float:
        """The fraction read, 0 to 1; 0 if the total is unknown."""
        return min(self.done / self.total, 1.0) if self.total > 0 else 0.0

    def __str__(self) -> str:
        of = f" of {_amount(self.total, self.unit)}" if self.total > 0 else ""
        return f"{self.name}: {_amount(self.done, self.unit)}{of}{' read' * (self.unit != 's')}"


Watcher: TypeAlias = Callable[[Progress], None]

_watcher: ContextVar[Watcher | None] = ContextVar("npuprof_progress", default=None)


class Display(Protocol):
    """A place that shows progress."""

    def show(self, progress: Progress) -> None:
        """Replace the shown progress."""
        ...

    def close(self) -> None:
        """Clear the display."""
        ...


def report_progress(name: str, done: int, total: int, unit: str = "bytes") -> None:
    """Report the progress of reading a file to the watcher; see :class:`Progress`."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(Progress(plain_line(name), done, total, unit))


@contextmanager
def watched(watcher: Watcher | None) -> Iterator[None]:
    """Report all reading in the block to `watcher`; an exception from it ends the reading."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def shown() -> Iterator[None]:
    """Show the progress of reading in the block, if it takes over a second and there is a display.

    Does nothing in a block that already has a watcher. The display is cleared at the end of the block.
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
def patience(subject: str) -> Iterator[None]:
    """Show `subject` and the elapsed time every second, once the block has taken over three seconds.

    Shown where progress is shown, or else once on standard error.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_show_waiting, args=(subject, ended), name="npuprof-patience", daemon=True)
    try:
        threads.start(thread)
    except RuntimeError:  # no thread can start, for example while the interpreter shuts down
        yield
        return
    try:
        yield
    finally:
        ended.set()
        thread.join(_TICK_S)


@contextmanager
def ticking(text: Callable[[], str]) -> Iterator[None]:
    """Show a text and the elapsed time every second, where progress is shown; nothing while the text is empty.

    `text` is called each second, also where nothing is shown.
    """
    ended, display = threading.Event(), _display()

    def show() -> None:
        patient, began_s = None if display is None else _Patient(display, 0.0), time.monotonic()
        while not ended.wait(_TICK_S):
            if (now := text()) and patient is not None:
                patient(Progress(now, round(time.monotonic() - began_s), 0, "s"))
        if patient is not None:
            patient.close()

    thread = threading.Thread(target=show, name="npuprof-ticking", daemon=True)
    threads.start(thread)
    try:
        yield
    finally:
        ended.set()
        thread.join(_TICK_S)


def _show_waiting(subject: str, ended: threading.Event) -> None:
    began_s = time.monotonic()
    if ended.wait(_PATIENCE_S):
        return
    patient = _Patient(_display() or _Line(), 0.0)
    while True:
        patient(Progress(subject, round(time.monotonic() - began_s), 0, "s"))
        if ended.wait(_TICK_S):
            patient.close()
            return


class _Line:
    """A single line on standard error, for programs without a terminal."""

    def __init__(self) -> None:
        self._written = False

    def show(self, progress: Progress) -> None:
        """Write the line, the first time only."""
        if not self._written and sys.stderr is not None:
            self._written = True
            sys.stderr.write(f"npuprof: {progress} so far\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Do nothing: the line stays."""


class _Patient:
    """A watcher that waits for a delay, then updates its display a few times a second."""

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
        except Exception:  # noqa: BLE001 - a progress bar must not end the reading
            self._display = None

    def close(self) -> None:
        if self._display is not None and self._shown:
            try:
                self._display.close()
            except Exception:  # noqa: BLE001 - as above
                self._display = None


class TerminalBar:
    """A line of a terminal that is overwritten, and cleared at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, progress: Progress) -> None:
        """Write the line."""
        line = f"{bar(progress)}{progress}" if progress.total > 0 else str(progress)
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{line[:width]}")
        self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        self._stream.write("\r\x1b[K")
        self._stream.flush()


def bar(progress: Progress) -> str:
    """Return the fraction as a text bar."""
    full = round(progress.fraction * _BAR_WIDTH)
    return f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}] "


def _display() -> Display | None:
    """Return the display: below the cell in a kernel, or else the terminal, or else None.

    Worker processes have no display, since the line belongs to their parent.
    """
    if parent_process() is not None:
        return None
    if "ipykernel" in sys.modules:  # the notebook package is needed only in a kernel
        display: Display | None = interactive.cell_display()
        if display is not None:
            return display
    try:
        return TerminalBar(sys.stderr) if sys.stderr.isatty() else None
    except (AttributeError, ValueError):  # there is none, or it is closed
        return None


def _amount(value: int, unit: str) -> str:
    if unit == "bytes":
        for size, name in _UNITS:
            if value >= size:
                return f"{value / size:.1f} {name}"
    return f"{value:,} s" if unit == "s" else counted(value, unit.removesuffix("s"))
