"""A session: one run of a collector around some code, from start to a recording.

A process has one native profiler, so it has one session at a time. However the profiled code ends
(normally, by an exception or an interrupt, with the kernel, or by the session being forgotten), the
collector is stopped, its handles are given back, and the recording is written.
"""

from __future__ import annotations

import json
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any

from npuprof.clock import Clock, SystemClock
from npuprof.collectors.base import Collector
from npuprof.collectors.registry import choose
from npuprof.errors import OptionsError, SessionError
from npuprof.options import Options
from npuprof.recording import Recording
from npuprof.running import Running, describe_failure, newest

if TYPE_CHECKING:
    from npuprof.profiles import Profile

_MAX_METADATA_BYTES = 1 << 20


class Session:
    """Collects around the code between :meth:`start` and :meth:`stop`, or in a ``with`` block.

    Parameters
    ----------
    options
        What to collect.
    collector
        The front end; chosen by ``options.collector`` when not given.
    title
        Who holds the session, in words for the user whose own start is refused because of it.
    clock
        Where time comes from.

    Examples
    --------
    >>> with Session(Options(level=1)) as session:
    ...     train()
    >>> run = session.result
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        collector: Collector | None = None,
        title: str = "",
        clock: Clock | None = None,
    ) -> None:
        self.options = options if options is not None else Options()
        chosen = choose(self.options.collector)
        self._collector = collector if collector is not None else chosen.collector
        self.reason = chosen.reason if collector is None else "given"
        self._title = title or self.options.name or "a session"
        self._clock = clock if clock is not None else SystemClock()
        self._lock = threading.RLock()
        self._run: Running | None = None

    @property
    def collecting(self) -> bool:
        """Whether the collector is running."""
        return self._run is not None and self._run.collecting

    @property
    def collector(self) -> Collector:
        """The front end in use."""
        return self._collector

    @property
    def recording(self) -> Recording:
        """The recording; complete once stopped.

        Raises
        ------
        SessionError
            If the session never started.
        """
        if self._run is None:
            raise SessionError("this session has not started, so there is no recording: call start() first")
        return self._run.recording

    @property
    def result(self) -> Profile:
        """The recording, decoded; read once and kept.

        Raises
        ------
        SessionError
            If the session is still collecting, or never started.
        SourceError
            If nothing of the recording can be decoded; it stays on disk.
        """
        if self._run is None or self.collecting:
            raise SessionError(f"{self._title} has not both started and stopped: there is nothing to show yet")
        return self._run.result()

    def start(self) -> Session:
        """Start collecting.

        Raises
        ------
        SessionBusyError
            If another session of this process is collecting.
        OptionsError
            If the front end cannot do what the options ask.
        CollectorError
            If the front end is absent or refuses; nothing is left running, no directory left behind.
        """
        with self._lock:
            if self._run is not None:
                raise SessionError(f"{self._title} has started once already: make a new session for another run")
            run = Running(self._collector, self.options, self._title, self._clock)
            # Ends the run when the session is forgotten and when the interpreter ends, whichever comes
            # first; made before the start, so that an interrupt cannot come in between.
            weakref.finalize(self, run.abandon)
            run.start()
            self._run = run
        return self

    def stop(self, failed: str = "") -> Recording:
        """Stop collecting; stopping again changes nothing.

        Parameters
        ----------
        failed
            What the profiled code raised, as ``Type: message``.

        Returns
        -------
        Recording
            Always: what went wrong while stopping is in its ``problems``.
        """
        recording = self.recording
        assert self._run is not None  # noqa: S101 - `recording` has told so
        self._run.stop(failed)
        return recording

    def step(self) -> None:
        """End an iteration and begin the next; the first began at the start."""
        self._collecting_run("step()").step()

    def add_metadata(self, key: str, value: Any) -> None:
        """Attach a fact to the run: anything that JSON can hold.

        Raises
        ------
        OptionsError
            If it is not, or is over a megabyte.
        """
        try:
            size = len(json.dumps({key: value}))
        except (TypeError, ValueError) as error:
            raise OptionsError(
                f"metadata {key!r} cannot be held as JSON ({error}): give text, numbers or lists"
            ) from error
        if size > _MAX_METADATA_BYTES:
            raise OptionsError(f"metadata {key!r} is {size} bytes; the most is {_MAX_METADATA_BYTES}")
        self._collecting_run("add_metadata()").recording.metadata[str(key)] = value

    def _collecting_run(self, call: str) -> Running:
        run = self._run
        if run is None or not run.collecting:
            raise SessionError(f"{call} needs a session that is collecting: call it between start() and stop()")
        return run

    def __enter__(self) -> Session:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(describe_failure(error))


def profile(**options: Any) -> Session:
    """Make a session from options given by name: ``with npuprof.profile(level=1) as prof: ...``.

    Parameters
    ----------
    **options
        The fields of :class:`npuprof.options.Options`.

    Returns
    -------
    Session
        Not yet started; a ``with`` block starts and stops it, and ``prof.result`` is the Profile then.
    """
    return Session(Options.from_dict(options))


def last() -> Profile:
    """Give the newest finished run of this process.

    Raises
    ------
    SessionError
        If none has finished yet.
    SourceError
        If its recording cannot be decoded.
    """
    run = newest()
    if run is None:
        raise SessionError("no run has finished in this process yet: profile a cell with %%npuprof first")
    return run.result()
