"""What is being profiled in a notebook: one run at most, begun by a cell or by hand.

Plain objects, without IPython: the magics and the panel are thin views of a :class:`Controller`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npuprof.options import Options

if TYPE_CHECKING:
    from npuprof.session import Session


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


def _make_session(options: Options, title: str) -> Session:
    from npuprof.session import Session

    return Session(options, title=title)


class Controller:
    """Begins a run, and ends it with its report.

    Parameters
    ----------
    show
        Shows the report of a session that has stopped; it never raises.
    make_session
        Makes a session from options and the words that name its holder.
    """

    def __init__(
        self, show: Callable[[Session], None], make_session: Callable[[Options, str], Session] = _make_session
    ) -> None:
        self._show = show
        self._make_session = make_session
        self._held: _Held | None = None

    @property
    def cell(self) -> Cell | None:
        """The cell whose end is the end of the run; None while there is no such run."""
        return self._held.cell if self._held is not None else None

    @property
    def collecting(self) -> bool:
        """Whether a run that was begun here is collecting."""
        return self._held is not None

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
            As :meth:`npuprof.session.Session.start`; a run begun before goes on.
        """
        session = self._make_session(options, title)
        session.start()
        self._held = _Held(session, cell, report)

    def end(self, failed: str = "") -> bool:
        """End the run, if there is one, and show its report.

        Parameters
        ----------
        failed
            What the profiled code raised, as ``Type: message``.

        Returns
        -------
        bool
            Whether there was a run to end.
        """
        held, self._held = self._held, None
        if held is None:
            return False
        held.session.stop(failed)
        if held.report:
            self._show(held.session)
        return True
