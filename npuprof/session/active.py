"""The run that is collecting in this process: at most one, and ended whatever happens.

A :class:`Running` is all of a session that must be ended. It is kept apart from the session, which only
the user holds on to: when the last reference to the session is gone, this can still stop the collector.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuprof import atomic
from npuprof.clock import Clock, step_ns
from npuprof.collectors.base import Collector, KeepsFacts
from npuprof.collectors.interrupts import interrupts_kept
from npuprof.errors import NpuprofError, SessionBusyError, describe_failure
from npuprof.journal import Journal
from npuprof.machine import environment
from npuprof.options import Options
from npuprof.recording import JOURNAL_FILE_NAME, STACKS_FILE_NAME, STACKS_JOURNAL_FILE_NAME, Recording
from npuprof.session import history as run_history
from npuprof.session.directories import new_directory, remove_traces, told_of_writing
from npuprof.session.flushing import flush
from npuprof.session.marking import Marking
from npuprof.session.recorded import Recorded
from npuprof.texts import repaired

if TYPE_CHECKING:
    from npuprof.collectors.python_stacks import PythonStacks

_process_lock = threading.RLock()
_current: Running | None = None
_newest: Recorded | None = None
_reserved = ""  # who holds the native profiler without a run, and what to do about it

_SAMPLED_ONLY = "python stacks"  # the collector of a run that asks nothing of a native front end


class Running(Recorded):
    """One run, from the start of its collector, or its warm-up, to its recording.

    Parameters
    ----------
    collector, options, clock
        As in :class:`npuprof.session.session.Session`.
    title
        Who holds the run, in words for the user whose own start is refused because of it.
    reason
        Why this collector was chosen.
    schedule
        The numbers of the session's schedule; empty where it has none, or one of the user's own.

    Attributes
    ----------
    warm
        Whether it has warmed up and not started yet.
    """

    def __init__(
        self,
        collector: Collector,
        options: Options,
        title: str,
        clock: Clock,
        *,
        reason: str = "",
        schedule: Mapping[str, int] | None = None,
    ) -> None:
        self.collector = collector
        self.native = collector.drives(options)
        self.warm = False
        self.collecting = False
        self._ending = False
        self._undo = ExitStack()  # ends what the warm-up began
        self._abandoned = False
        self._options = options
        self._title = title
        self._schedule = dict(schedule or {})
        self._clock = clock
        self._pid = os.getpid()
        self._unstarted_stacks: PythonStacks | None = None
        self._stacks: PythonStacks | None = None
        self._step = self._step_start_ns = 0
        self._flushing = self.native
        self._to_stop: dict[str, Callable[[], None]] = {"collector": collector.stop} if self.native else {}
        super().__init__(
            Recording(
                directory=Path(),
                name=options.name,
                collector=front_end_of(collector, options),
                simulated=collector.simulated and self.native,
                options=repaired(options.to_dict()),
                environment=repaired(environment.describe()),
                reason=reason,
            )
        )
        self._journal = Journal("steps and markers")
        self.marking = Marking(collector, options, self.recording, self._journal, self._now_ns)

    def describe(self) -> str:
        """Return who holds the native profiler since when."""
        since = time.strftime("%H:%M:%S", time.localtime(self.recording.started_ns / 1e9))
        does = "has been warming up" if self.warm else "has been collecting with"
        return f"{self._title} {does} {self.recording.collector} since {since}"

    @property
    def unended(self) -> bool:
        """Whether there is something to stop: a collector, or a stop that an interrupt cut short."""
        return self.collecting or self._ending

    def warm_up(self) -> None:
        """Take this process's only place and prepare the start as far as the front end can; a failure undoes it.

        Raises
        ------
        SessionBusyError, OptionsError, CollectorError
            As :meth:`npuprof.session.session.Session.start` says.
        """
        global _current
        with self._lock, _process_lock:
            with ExitStack() as undo:
                self._prepare(undo)
                if self.native:
                    with told_of_writing(self.recording.directory), interrupts_kept():
                        self.collector.warmup(self._options, self.recording.directory)
                    undo.callback(_attempt, self.collector.stop, self.recording)
                    self.recording.versions.update(self.collector.versions())
                self._undo = undo.pop_all()
            _current, self.warm = self, True

    def start(self, first_step: int = 0) -> None:
        """Start collecting, in this process's only place; a failure undoes that and the warm-up.

        Parameters
        ----------
        first_step
            The number of the step during which it starts.

        Raises
        ------
        SessionBusyError, OptionsError, CollectorError
            As :meth:`npuprof.session.session.Session.start` says.
        """
        global _current
        self._step = first_step
        with self._lock, _process_lock:
            with self._undo as undo:
                undo.callback(self._give_place_back)
                if not self.warm:
                    self._prepare(undo)
                self._begin(undo)
                _current, self.warm, self.collecting = self, False, True
                undo.pop_all()
            # The front end may take a while to start; the profiled code begins only now.
            self.recording.started_ns = self._step_start_ns = self._now_ns()
            self._journal.write(["start", self._step_start_ns])
        run_history.tell()

    def _prepare(self, undo: ExitStack) -> None:
        if _current is not None and (_current.warm or _current.collecting):
            raise SessionBusyError(f"{_current.describe()}: stop it first")
        if _reserved and self.native:
            raise SessionBusyError(_reserved)
        self.collector.check(self._options)
        undo.callback(atomic.remove_empty, atomic.absent(self._options.output))
        directory = self.recording.directory = new_directory(self._options)
        undo.callback(remove_traces, directory)
        self.recording.versions = environment.versions()
        self.recording.raw_clock_epoch_ns = self._clock.realtime_ns() - self._clock.monotonic_raw_ns()
        self.recording.started_ns = self._now_ns()
        with told_of_writing(directory):
            self.recording.write()  # at once, so that a run whose kernel is killed can be opened
        if "cpu" in self._options.activities and not self.collector.takes_stacks(self._options):
            from npuprof.collectors.python_stacks import PythonStacks

            self._unstarted_stacks = PythonStacks(clock=self._clock, journal=directory / STACKS_JOURNAL_FILE_NAME)

    def _begin(self, undo: ExitStack) -> None:
        directory = self.recording.directory
        with told_of_writing(directory):
            if self.native:
                if self._step:
                    self.collector.step(self._step)
                with interrupts_kept():
                    self.collector.start(self._options, directory)
                undo.callback(_attempt, self.collector.stop, self.recording)
                if not self.warm:
                    self.recording.versions.update(self.collector.versions())
            self._journal.open(directory / JOURNAL_FILE_NAME)
            undo.callback(self._journal.close)
            if (stacks := self._unstarted_stacks) is not None:
                stacks.start()
                self._stacks = stacks

    def _give_place_back(self) -> None:
        global _current
        self.warm = self.collecting = False
        if _current is self:
            _current = None

    def step(self) -> None:
        """End an iteration and begin the next."""
        with self._lock:
            now_ns = self._now_ns()
            self._journal.write(["step", self._step, self._step_start_ns, now_ns])
            self.recording.steps.append((self._step, self._step_start_ns, now_ns))
            self._step, self._step_start_ns = self._step + 1, now_ns
            if self.native:
                self.collector.step(self._step)

    def note_facts(self, facts: Mapping[str, Any]) -> None:
        """Keep what the user has attached."""
        for key, value in facts.items():
            self.recording.metadata[key] = value
            self._journal.write(["fact", key, value])

    @property
    def elapsed_ns(self) -> int:
        """Nanoseconds since the start, whatever the wall clock was set to meanwhile."""
        return max(self._now_ns() - self.recording.started_ns, 0)

    @property
    def sample_count(self) -> int:
        """How often Python's stacks have been looked at."""
        stacks = self._stacks
        return stacks.sample_count if stacks is not None else 0

    def abandon(self) -> None:
        """End what nobody stopped."""
        self.cool_down()
        if self.collecting:
            told = "nobody stopped the session: it ended with its process or its last reference"
            self.recording.problems.append(told)
            self._abandoned = True
            self.stop()

    def cool_down(self) -> list[str]:
        """End a warm-up after which nothing was recorded, and give what went wrong; nothing of it is left."""
        with self._lock, _process_lock:
            if self.warm and os.getpid() == self._pid:
                self._undo.callback(self._give_place_back)
                self._undo.close()
        return self.recording.problems

    def stop(self, failed: str = "") -> None:
        """End everything that was begun, once; whatever fails is told in the recording's problems.

        An interrupt meanwhile is raised when everything has been ended; a collector that is still writing what it has
        goes on by itself, if it can.
        """
        with self._lock:
            # A forked child inherits the object but not the native profiler: that is the parent's to end.
            if not self.unended or os.getpid() != self._pid:
                return
            self._ending, self.collecting = True, False
            self.recording.failed = failed
            raised: list[BaseException] = []
            for part in (
                self._stop_sampling,
                self._hand_on_facts,
                self._stop_native,
                self._stop_collector,  # again: an interrupt may have come before the first did anything
                self._write_stacks,
                self.recording.write_metadata,
                self._write_recording,
            ):
                try:
                    _attempt(part, self.recording)
                except BaseException as error:  # noqa: BLE001 - raised when the other parts have run
                    raised.append(error)
            note_end(self)
            self._ending = False  # an interrupt before this leaves a run that can be stopped again
            if raised:
                raise raised[0]

    def _stop_sampling(self) -> None:
        self.recording.stopped_ns = self._now_ns()
        told = self.recording
        told.clock_step_ns = step_ns(self._clock, told.raw_clock_epoch_ns, told.stopped_ns - told.started_ns)
        if self._journal.problem:
            self.recording.problems.append(self._journal.problem)
        if self._stacks is not None:
            self.recording.stack_problems += self._stacks.stop()

    def _hand_on_facts(self) -> None:
        if self.native and isinstance(self.collector, KeepsFacts):
            self.collector.keep_facts(self.recording.metadata, self._schedule)

    def _stop_native(self) -> None:
        if self.native:
            # Who abandons it may hold a lock that another thread would wait for.
            (self._stop_collector if self._abandoned else self._flush)()
            self._flushing = False

    def _stop_collector(self) -> None:
        """Stop the collector, once, whichever thread comes first; on one line, so that no interrupt comes between."""
        self._to_stop.pop("collector", lambda: None)()

    def _flush(self) -> None:
        began_ns = self._clock.monotonic_raw_ns()
        try:
            flush(self._stop_collector, self._hold, apart=self.collector.stops_apart)
        except KeyboardInterrupt:
            waited_s = (self._clock.monotonic_raw_ns() - began_ns) / 1e9
            self.recording.problems.append(
                f"the stop of the collector was interrupted after {waited_s:.1f} s: what it had not written by then is "
                "missing, unless it goes on in the background"
            )
            raise

    def _hold(self) -> Callable[[], None]:
        return reserve(
            f"the collector is still flushing {self.recording.directory}, whose stop was interrupted: wait until that "
            "has ended, or restart the process"
        )

    def _write_stacks(self) -> None:
        if self._stacks is not None:
            self._stacks.write(self.recording.directory / STACKS_FILE_NAME)
            self._stacks = None

    def _write_recording(self) -> None:
        if not self._flushing:
            self.recording.list_files()
        self.recording.write()
        self._journal.remove()

    def _now_ns(self) -> int:
        """Return the UTC epoch time, by a clock that nobody sets, so that durations are right."""
        return self._clock.monotonic_raw_ns() + self.recording.raw_clock_epoch_ns


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

    Parameters
    ----------
    holder
        Who takes it and what to do about it, in words for the user whose own start is refused because of it.

    Raises
    ------
    SessionBusyError
        If a run is collecting, or another holder has the place.
    """
    global _reserved
    with _process_lock:
        if (run := _current) is not None and run.native and (run.warm or run.collecting):
            raise SessionBusyError(f"{run.describe()}, and pyACL streams nothing meanwhile (EK0007): stop it first")
        if _reserved:
            raise SessionBusyError(_reserved)
        _reserved = holder
    return _give_back


def _give_back() -> None:
    global _reserved
    with _process_lock:
        _reserved = ""


def current() -> Running | None:
    """Return the run that is collecting in this process, if one is."""
    run = _current  # read once: another thread may end it meanwhile
    return run if run is not None and run.collecting else None


def newest() -> Recorded | None:
    """Return the newest run of this process that has finished, if one has."""
    return _newest


def front_end_of(collector: Collector, options: Options) -> str:
    """Name what collects: a front end that is asked nothing is not it."""
    return collector.name if collector.drives(options) else _SAMPLED_ONLY


def _attempt(part: Callable[[], None], recording: Recording) -> None:
    """Run one part of ending; the others run whatever becomes of this one."""
    try:
        part()
    except NpuprofError as error:
        recording.problems.append(str(error))
    except OSError as error:
        told = atomic.reason(error, recording.directory)
        recording.problems.append(f"the recording could not be written completely: {told}")
    except Exception as error:  # noqa: BLE001 - the other parts must run, and it is told
        recording.problems.append(f"{part.__name__.strip('_')} failed: {describe_failure(error)}")
