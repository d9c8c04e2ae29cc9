"""The run that is collecting in this process: at most one, and ended whatever happens.

A :class:`Running` is all of a session that must be ended. It is kept apart from the session, which only
the user holds on to: when the last reference to the session is gone, this can still stop the collector.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from npuprof.clock import Clock
from npuprof.collectors.base import Collector
from npuprof.collectors.capabilities import DOMAINS_KEPT_BESIDE
from npuprof.collectors.interrupts import interrupts_kept
from npuprof.errors import CollectorError, NpuprofError, SessionBusyError
from npuprof.machine import environment
from npuprof.options import Options
from npuprof.recording import FILE_NAME, STACKS_FILE_NAME, Recording, kept_message
from npuprof.runs import history as run_history
from npuprof.runs.recorded import Recorded

if TYPE_CHECKING:
    from npuprof.collectors.python_stacks import PythonStacks

_process_lock = threading.RLock()
_current: Running | None = None
_newest: Recorded | None = None
_reserved = ""  # who holds the native profiler without a run

_SAMPLED_ONLY = "python stacks"  # the collector of a run that asks nothing of a native front end
_MOST_OF_A_MESSAGE = 500
_MOST_DOMAINS = 20_000  # markers with a domain that a recording keeps: about a megabyte
_MOST_MESSAGES = 100_000  # different ones that are told apart


class Running(Recorded):
    """One run, from the start of its collector to its recording.

    Parameters
    ----------
    collector, options, clock
        As in :class:`npuprof.session.Session`.
    title
        Who holds the run, in words for the user whose own start is refused because of it.
    first_step
        The number of the step during which it starts.
    reason
        Why this collector was chosen.
    """

    def __init__(
        self,
        collector: Collector,
        options: Options,
        title: str,
        clock: Clock,
        *,
        first_step: int = 0,
        reason: str = "",
    ) -> None:
        self.collector = collector
        self.native = collector.drives(options)
        self.ranges: dict[int, int] = {}  # open ranges of the markers: the collector's handle by theirs
        self.collecting = False
        self._marked: dict[str, int] = {}  # markers so far, by message
        self._keeps_domains = collector.name in DOMAINS_KEPT_BESIDE
        self._options = options
        self._title = title
        self._clock = clock
        self._pid = os.getpid()
        self._stacks: PythonStacks | None = None
        self._step = first_step
        self._step_start_ns = 0
        super().__init__(
            Recording(
                directory=Path(),
                name=options.name,
                collector=front_end_of(collector, options),
                simulated=collector.simulated and self.native,
                options=options.to_dict(),
                environment=environment.describe(),
                reason=reason,
            )
        )

    def describe(self) -> str:
        """Say who holds the native profiler since when."""
        since = time.strftime("%H:%M:%S", time.localtime(self.recording.started_ns / 1e9))
        return f"{self._title} has been collecting with {self.recording.collector} since {since}"

    def start(self) -> None:
        """Take this process's only place and start collecting; a failure undoes all of it.

        Raises
        ------
        SessionBusyError, OptionsError, CollectorError
            As :meth:`npuprof.session.Session.start` says.
        """
        global _current
        with self._lock, _process_lock:
            if _current is not None and _current.collecting:
                raise SessionBusyError(f"{_current.describe()}: stop it first")
            if _reserved and self.native:
                raise SessionBusyError(f"{_reserved}, and pyACL does not collect meanwhile (EK0007): close it first")
            self.collector.check(self._options)
            with ExitStack() as undo:
                self._begin(undo)
                _current = self
                self.collecting = True
                undo.pop_all()
            # The front end may take a while to start; the profiled code begins only now.
            self.recording.started_ns = self._step_start_ns = self._clock.realtime_ns()
        run_history.tell()

    def _begin(self, undo: ExitStack) -> None:
        undo.callback(_remove_empty, _absent(self._options.output))
        directory = self.recording.directory = new_directory(self._options)
        undo.callback(_remove_traces, directory)
        try:
            self.recording.versions = environment.versions()
            self.recording.started_ns = self._clock.realtime_ns()
            self.recording.raw_clock_epoch_ns = self._clock.realtime_ns() - self._clock.monotonic_raw_ns()
            # Written at once, so that a run whose kernel is killed can be opened.
            self.recording.write()
            if self.native:
                if self._step:
                    self.collector.step(self._step)
                with interrupts_kept():
                    self.collector.start(self._options, directory)
                undo.callback(_attempt, self.collector.stop, self.recording.problems)
                self.recording.versions.update(self.collector.versions())
            self._start_stacks()
        except OSError as error:
            raise CollectorError(
                f"nothing can be written to {directory} ({error.strerror or error}): "
                "free some space or choose another directory with --output"
            ) from error

    def _start_stacks(self) -> None:
        if "cpu" in self._options.activities and not self.collector.takes_stacks(self._options):
            from npuprof.collectors.python_stacks import PythonStacks

            stacks = PythonStacks(clock=self._clock)
            stacks.start()
            self._stacks = stacks

    def step(self) -> None:
        """End an iteration and begin the next."""
        with self._lock:
            now_ns = self._clock.realtime_ns()
            self.recording.steps.append((self._step, self._step_start_ns, now_ns))
            self._step, self._step_start_ns = self._step + 1, now_ns
            if self.native:
                self.collector.step(self._step)

    def note_domain(self, message: str, domain: str) -> None:
        """Keep the domain of a marker that is about to be recorded by a front end without domains."""
        if not self._keeps_domains or len(self._marked) >= _MOST_MESSAGES or not self._options.takes_domain(domain):
            return
        message = kept_message(message)
        place = self._marked.get(message, 0)
        self._marked[message] = place + 1
        if domain and len(self.recording.domains) < _MOST_DOMAINS:
            self.recording.domains.append((message, domain, place))

    @property
    def sample_count(self) -> int:
        """How often Python's stacks have been looked at."""
        stacks = self._stacks
        return stacks.sample_count if stacks is not None else 0

    def abandon(self) -> None:
        """End what nobody stopped."""
        if self.collecting:
            self.recording.problems.append(
                "nobody stopped the session: it ended with its process or its last reference"
            )
            self.stop()

    def stop(self, failed: str = "") -> None:
        """End everything that was begun, once; whatever fails is told in the recording's problems.

        An interrupt meanwhile is raised when everything has been ended.
        """
        with self._lock:
            # A forked child inherits the object but not the native profiler: that is the parent's to end.
            if not self.collecting or os.getpid() != self._pid:
                return
            self.collecting = False
            self.recording.failed = failed
            with ExitStack() as last_first:
                last_first.callback(note_end, self)
                for part in (
                    self.recording.write,
                    self.recording.write_metadata,
                    self._write_stacks,
                    self._stop_native,
                    self._stop_sampling,
                ):
                    last_first.callback(_attempt, part, self.recording.problems)

    def _stop_sampling(self) -> None:
        self.recording.stopped_ns = self._clock.realtime_ns()
        if self._stacks is not None:
            self.recording.problems += self._stacks.stop()

    def _stop_native(self) -> None:
        if self.native:
            self.collector.stop()

    def _write_stacks(self) -> None:
        if self._stacks is not None:
            self._stacks.write(self.recording.directory / STACKS_FILE_NAME)
            self._stacks = None


def note_end(run: Recorded) -> None:
    """Take a run that has ended for this process's newest, and the only place back if it had that."""
    global _current, _newest
    with _process_lock:
        _newest = run
        if _current is run:
            _current = None
    run_history.tell_end(run)


def reserve(holder: str) -> Callable[[], None]:
    """Take this process's only place for something that is no run, and give the function that gives it back.

    Raises
    ------
    SessionBusyError
        If a run is collecting, or another holder has the place.
    """
    global _reserved
    with _process_lock:
        if (run := current()) is not None and run.native:
            raise SessionBusyError(f"{run.describe()}, and pyACL streams nothing meanwhile (EK0007): stop it first")
        if _reserved:
            raise SessionBusyError(f"{_reserved}: close it first")
        _reserved = holder
    return _give_back


def _give_back() -> None:
    global _reserved
    with _process_lock:
        _reserved = ""


def current() -> Running | None:
    """Give the run that is collecting in this process, if one is."""
    run = _current  # read once: another thread may end it meanwhile
    return run if run is not None and run.collecting else None


def newest() -> Recorded | None:
    """Give the newest run of this process that has finished, if one has."""
    return _newest


def front_end_of(collector: Collector, options: Options) -> str:
    """Name what collects: a front end that is asked nothing is not it."""
    return collector.name if collector.drives(options) else _SAMPLED_ONLY


def describe_failure(error: BaseException | None) -> str:
    """Say what the profiled code raised; empty for None."""
    if error is None:
        return ""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the message is code of the user's; the recording must not hang on it
        message = "(its message cannot be printed)"
    return f"{type(error).__name__}: {message}"[:_MOST_OF_A_MESSAGE].rstrip(": ")


def _attempt(part: Callable[[], None], problems: list[str]) -> None:
    """Run one part of ending; the others run whatever becomes of this one."""
    try:
        part()
    except NpuprofError as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"the recording could not be written completely ({error.strerror or error}): free some space")
    except Exception as error:  # noqa: BLE001 - the other parts must run, and it is told
        problems.append(f"{part.__name__.strip('_')} failed: {describe_failure(error)}")


def new_directory(options: Options) -> Path:
    """Make the private directory of a new recording.

    Raises
    ------
    CollectorError
        If the output directory cannot be written to.
    """
    stamp = time.strftime("%Y%m%d_%H%M%S", time.localtime())
    label = re.sub(r"[^\w.-]+", "_", options.name) or "run"
    try:
        options.output.mkdir(mode=0o700, parents=True, exist_ok=True)
        for attempt in range(1000):
            directory = options.output.absolute() / f"{label}_{stamp}_{os.getpid()}_{attempt:03d}"
            with suppress(FileExistsError):
                directory.mkdir(mode=0o700)
                return directory
    except OSError as error:
        raise CollectorError(
            f"no recording can be made in {options.output} ({error.strerror or error}): "
            "choose a directory that you can write to with --output"
        ) from error
    raise CollectorError(f"{options.output} holds a thousand recordings of this second: choose another --output")


def _remove_traces(directory: Path) -> None:
    """Remove what a failed start left: an empty directory and our own file, never data."""
    with suppress(OSError):
        (directory / FILE_NAME).unlink(missing_ok=True)
        (directory / f"{FILE_NAME}.part").unlink(missing_ok=True)
        directory.rmdir()


def _absent(output: Path) -> list[Path]:
    """Give the directories that a first recording would make around its own, the innermost first."""
    return [place for place in (output, *output.parents) if not os.path.lexists(place)]


def _remove_empty(directories: list[Path]) -> None:
    with suppress(OSError):  # somebody else has put something into it
        for directory in directories:
            directory.rmdir()
