"""The run of a notebook: at most one, started by a cell or by hand.

Plain objects without IPython; the magics and the panel are thin views of a :class:`Controller`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from npuprof.errors import OptionsError, SessionError, describe_failure
from npuprof.machine import shadowed
from npuprof.notebook.preloading import preload
from npuprof.options import Options

if TYPE_CHECKING:
    from npuprof.lines.cell_stamps import RunningCell
    from npuprof.recordings.recording import Recording
    from npuprof.session.active import ActiveRun
    from npuprof.session.engines import Engines
    from npuprof.session.session import Session


@dataclass(frozen=True)
class Cell:
    """A running cell, without references to user objects."""

    identity: int  # A number that is unique among the running cells
    text: str  # the source of the cell
    title: str  # its name in messages, such as `cell [3]`
    running: RunningCell | None = None  # its code and stamps; None where it is not known
    # Its `id` and the `notebook` that it is of, where the front end names them.
    origin: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Held:
    session: Session
    cell: Cell | None
    report: bool
    repeat: Callable[[], int | None] | None
    saved_bytes: int | None


@contextmanager
def kept_when_interrupted(place: Callable[[], object]) -> Iterator[None]:
    """Convert an interrupt or a failure in the block into a one-line SessionError that says where the run is kept.

    `place` returns the directory or file of the run, or None.
    """
    try:
        yield
    except SessionError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else describe_failure(error)
        kept = place()
        shows = f": the run is kept, and npuprof.load({str(kept)!r}) shows it" if kept is not None else ""
        cause = shadowed.explanation(error)
        raise SessionError(f"{reason}{shows}{'; first ' * bool(cause)}{cause}") from error


def _compare(recording: Recording, repeat_ns: int | None) -> None:
    """Record the duration of an unprofiled repeat."""
    from npuprof.session.history import attempt

    if repeat_ns is not None:
        recording.overhead["repeat_ns"] = repeat_ns
        attempt(recording.write, recording)


def _collecting() -> ActiveRun | None:
    from npuprof.session.active import current

    return current()


def _check(options: Options, cell: Cell | None) -> None:
    """Raise OptionsError if options choose a loop where none is seen."""
    if options.step_line is not None and (cell is None or cell.running is None):
        raise OptionsError(
            "step_line chooses a loop of a cell that begins with %%npuprof: leave it out, and mark steps with "
            "npuprof.step()"
        )


def _make_session(options: Options, title: str) -> Session:
    from npuprof.session.session import Session

    return Session(options, title=title)


def _engines(view: object) -> Engines | None:
    from npuprof.session.engines import Engines

    return None if view is None else Engines(view)


class Controller:
    """Starts a run, stops it and shows its report; thread-safe, since the panel's buttons use their own thread.

    Parameters
    ----------
    show
        Shows the report of a stopped session, of at most ``saved_bytes`` if given; may only raise KeyboardInterrupt.

    Attributes
    ----------
    view
        Returns the view of ipyparallel whose engines are profiled with the option ``engines``; None without one.
    number_of
        Returns the number of the cell whose code has a file name; 0 for other files.
    awaited
        Starts the run of the cell that is about to run, though its first line does not, and returns why it runs
        unprofiled instead, or an empty text; None if the cell is not to be profiled.
    """

    def __init__(
        self, show: Callable[..., None], make_session: Callable[[Options, str], Session] = _make_session
    ) -> None:
        self._show = show
        self._make_session = make_session
        self._lock = threading.RLock()
        self._held: _Held | None = None
        self._shown: Session | None = None
        self._cells: list[tuple[int, int, Callable[[], str]]] = []  # that run, with their threads, the outermost first
        self._begins = False
        self._stamped = 0  # the cell whose stamps are recorded
        self._cell_ids: dict[int, str] = {}
        self.number_of: Callable[[str], int] = lambda _file: 0
        self.view: Callable[[], object] = lambda: None
        self.awaited: Callable[[Cell], str] | None = None

    @property
    def cell(self) -> Cell | None:
        """The cell whose end stops the run, or None."""
        held = self._held  # read once: another thread may end the run
        return held.cell if held is not None else None

    @property
    def collecting(self) -> bool:
        """Whether a run started here is collecting."""
        return self._held is not None

    @property
    def by_hand(self) -> bool:
        """Whether a run collects that was started by hand, and spans cells."""
        held = self._held
        return held is not None and held.cell is None

    @property
    def runs_cells(self) -> bool:
        return bool(self._cells)

    def cell_begins(self, identity: int, name: Callable[[], str]) -> None:
        """Note that the shell runs a cell; `name` returns its name, when it has ended."""
        self._cells.append((identity, threading.get_ident(), name))
        self._begins = len(self._cells) == 1
        if self._begins:
            self._note_cell()

    def code_ends(self) -> None:
        """Note the end of the running cell's code: later outputs show its figures."""
        if len(self._cells) == 1 and self.by_hand and (run := _collecting()) is not None:
            run.cells.code_ended()

    def cell_ends(self, identity: int | None) -> None:
        """Note that a cell and those that it ran have ended; None for all."""
        thread, running = threading.get_ident(), list(self._cells)
        place = next((at for at, (cell, *_) in enumerate(running) if cell == identity), len(running))
        for ended in running[0 if identity is None else place :]:
            if ended[1] == thread:  # a kernel with subshells runs several cells at once
                self._cells.remove(ended)
                self._stamped = 0 if self._stamped == ended[0] else self._stamped
        self._begins = False
        if not self._cells and self.by_hand and (run := _collecting()) is not None:
            run.cells.end()

    def spans_next(self) -> bool:
        """Return, once for each cell, whether the cell that begins is one of a run that was started by hand."""
        begins, self._begins = self._begins, False
        return begins and self.by_hand

    def add_cell(self, running: RunningCell) -> bool:
        """Record the stamps of a cell in the run that was started by hand; return whether they are recorded.

        Those of a cell that a stamped one runs are not: it is a part of the statement that runs it.
        """
        run = _collecting() if self.by_hand else None
        running_cells = [cell for cell, *_ in self._cells]
        if run is None or self._stamped in running_cells or not run.add_cell(running):
            return False
        self._stamped = running_cells[-1] if running_cells else 0
        return True

    def note_id(self, number: int, id_: str) -> None:
        """Note the id of the cell that ran with a number, as the front end names it."""
        self._cell_ids[number] = id_

    def id_of(self, number: int) -> str:
        """Return the id of the cell that ran with a number; empty where it is not known."""
        return self._cell_ids.get(number, "")

    def take_part(self) -> bool:
        """Make the running cell a part of the run by hand, reported by itself; return whether there is such a run."""
        run = _collecting() if self.by_hand else None
        return run is not None and run.cells.take_part()

    def _note_cell(self) -> None:
        if self._cells and self.by_hand and (run := _collecting()) is not None:
            run.cells.begin(self._cells[0][2])

    @property
    def showing(self) -> bool:
        """Whether a report is being prepared."""
        return self._shown is not None

    def begin(
        self,
        options: Options,
        title: str,
        *,
        cell: Cell | None = None,
        report: bool = True,
        repeat: Callable[[], int | None] | None = None,
        saved_bytes: int | None = None,
    ) -> None:
        """Start a run.

        Parameters
        ----------
        repeat
            Called after the stop, unless the code failed: runs the same code unprofiled, and returns its duration in
            nanoseconds, or None if it cannot run again.
        """
        from npuprof.lines.cell_stamps import RunningCell

        _check(options, cell)
        preload(report=report, of_set=options.processes or options.engines)
        with self._lock:
            session = self._make_session(options, title)
            session.children.remote = _engines(self.view()) if options.engines else None
            session.code = cell.text if cell else ""
            running = cell.running if cell else None
            session.cell = running or RunningCell(number_of=self.number_of, id_of=self.id_of, spans=True)
            before, self._held = self._held, _Held(session, cell, report, repeat, saved_bytes)  # it may be cut
            try:
                session.start()
            except BaseException:
                self._held = before
                raise
            self._note_cell()  # the one whose code started it

    def end(self, failed: str = "", show: Callable[[Session], None] | None = None) -> bool:
        """Stop the run, if one is active, and show its report."""
        held = self._held
        if held is None:
            return False
        with kept_when_interrupted(lambda: held.session.recording.directory):
            try:
                with self._lock:
                    if self._held is not held:
                        return False  # another thread has ended it
                    held.session.stop(failed)
                    self._held = None
                if held.repeat is not None and not failed:
                    _compare(held.session.recording, held.repeat())
                if held.report:
                    self._shown = held.session
                    default = (
                        self._show if held.saved_bytes is None else partial(self._show, saved_bytes=held.saved_bytes)
                    )
                    (show or default)(held.session)
            finally:
                try:
                    held.session.stop(failed)  # again, after an interrupt
                finally:
                    self._held, self._shown = None if self._held is held else self._held, None
        return True
