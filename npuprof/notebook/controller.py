"""What is being profiled in a notebook: one run at most, begun by a cell or by hand.

Plain objects, without IPython: the magics and the panel are thin views of a :class:`Controller`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npuprof.errors import SessionError
from npuprof.options import Options

if TYPE_CHECKING:
    from npuprof.session.session import Session


@dataclass(frozen=True)
class Cell:
    """A running cell, known by what does not keep anything of the user's alive.

    Attributes
    ----------
    identity
        A number that no other cell running now has.
    text
        The cell as the user wrote it.
    title
        What to call it in a message, such as ``cell [3]``.
    """

    identity: int
    text: str
    title: str


@dataclass
class _Held:
    session: Session
    cell: Cell | None
    report: bool


@contextmanager
def kept_when_interrupted(place: Callable[[], object]) -> Iterator[None]:
    """Raise, when the block is interrupted, one line that says where the run is.

    Parameters
    ----------
    place
        Gives the directory or file of the run; None where it has none.

    Raises
    ------
    SessionError
        In place of the interrupt.
    """
    try:
        yield
    except KeyboardInterrupt:
        kept = place()
        shows = f": the run is kept, and npuprof.load({str(kept)!r}) shows it" if kept is not None else ""
        raise SessionError(f"interrupted{shows}") from None


def _make_session(options: Options, title: str) -> Session:
    from npuprof.session.session import Session

    return Session(options, title=title)


class Controller:
    """Begins a run, and ends it with its report. Any thread may: a panel's buttons have one of their own.

    Parameters
    ----------
    show
        Shows the report of a session that has stopped; it raises nothing but an interrupt.
    make_session
        Makes a session from options and the words that name its holder.
    """

    def __init__(
        self, show: Callable[[Session], None], make_session: Callable[[Options, str], Session] = _make_session
    ) -> None:
        self._show = show
        self._make_session = make_session
        self._lock = threading.RLock()
        self._held: _Held | None = None
        self._shown: Session | None = None

    @property
    def cell(self) -> Cell | None:
        """The cell whose end is the end of the run; None while there is no such run."""
        held = self._held  # read once: another thread may end it meanwhile
        return held.cell if held is not None else None

    @property
    def collecting(self) -> bool:
        """Whether a run that was begun here is collecting."""
        return self._held is not None

    @property
    def showing(self) -> bool:
        """Whether a report is being made."""
        return self._shown is not None

    def begin(self, options: Options, title: str, *, cell: Cell | None = None, report: bool = True) -> None:
        """Begin a run.

        Parameters
        ----------
        options
            What to collect.
        title
            Who begins it, for the message to whoever tries while it is collecting.
        cell
            The cell that it ends with; None when :meth:`end` is called by hand.
        report
            Whether its end shows the report.

        Raises
        ------
        SessionBusyError, OptionsError, CollectorError
            As :meth:`npuprof.session.session.Session.start`; a run begun before goes on.
        """
        with self._lock:
            session = self._make_session(options, title)
            session.code = cell.text if cell is not None else ""
            before, self._held = self._held, _Held(session, cell, report)  # an interrupt may come after the start
            try:
                session.start()
            except BaseException:
                self._held = before
                raise

    def end(self, failed: str = "", show: Callable[[Session], None] | None = None) -> bool:
        """End the run, if there is one, and show its report.

        Parameters
        ----------
        failed
            What the profiled code raised, as ``Type: message``.
        show
            Shows the report in another place than usual.

        Returns
        -------
        bool
            Whether there was a run to end.

        Raises
        ------
        SessionError
            If it is interrupted, at its stop or while the report is drawn.
        """
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
                if held.report:
                    self._shown = held.session
                    (show or self._show)(held.session)
            finally:  # also of what an interrupt has left of it
                held.session.stop(failed)
                self._held = self._shown = None
        return True
