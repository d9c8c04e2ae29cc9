"""The run that collects in this process: at most one, and it always ends.

An :class:`ActiveRun` holds everything that must be stopped. It is separate from the session, so that it can still
stop the collector when the last reference to the session is gone.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuprof.collectors.base import Collector, TakesFacts, front_end_of
from npuprof.collectors.interrupts import flush, keep_sigint_handler
from npuprof.errors import NpuprofError, SessionBusyError
from npuprof.files import atomic
from npuprof.machine import environment
from npuprof.options import Options
from npuprof.recordings import unwritten
from npuprof.recordings.clock import Clock, EmulatingClock, epoch_ns_of, step_ns
from npuprof.recordings.journal import Journal
from npuprof.recordings.recording import (
    JOURNAL_FILE_NAME,
    TOOK_NO_DATA,
    Recording,
    explain_write_errors,
    make_directory,
)
from npuprof.session import history
from npuprof.session.executed_cells import ExecutedCells
from npuprof.session.history import RecordedRun, attempt
from npuprof.session.host_recorders import HostRecorders
from npuprof.session.marking import Marking
from npuprof.words.texts import repaired

if TYPE_CHECKING:
    from npuprof.lines.cell_stamps import RunningCell

_process_lock = threading.RLock()
_current: ActiveRun | None = None
_newest: RecordedRun | None = None
_reserved = ""  # message for a start that is refused while the profiler is reserved without a run


class ActiveRun(RecordedRun):
    """A run from the start of its collector, or its warm-up, until its recording is written.

    Parameters
    ----------
    schedule
        The numbers of the session's schedule; empty without a schedule or for a custom function.

    Attributes
    ----------
    cells
        The cells that are executed meanwhile, where the run was started by hand.
    end_step
        The method of the session that ends a step; None for a run without a session.
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
        cell: RunningCell | None = None,
    ) -> None:
        self.collector = collector
        self.native = collector.drives(options)
        self.warm = False
        self.collecting = False
        self._ending = False
        self._undo = ExitStack()  # undoes the warm-up
        self._abandoned = False
        self._options = options
        self._title = title
        self._schedule = dict(schedule or {})
        self._clock = clock
        self._pid = os.getpid()
        self.end_step: weakref.WeakMethod[Callable[[], None]] | None = None
        self._host = HostRecorders(collector, options, clock, cell)
        self._step = self._step_start_ns = self._turned_ns = 0
        self._flushing = self.native
        self._pending_stop: dict[str, Callable[[], None]] = {"collector": collector.stop} if self.native else {}
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
        self.cells = ExecutedCells(self.recording, self._now_ns)
        self._journal = Journal()
        self._needs_journal = False  # the front end may have lost markers
        self.marking = Marking(collector, options, self.recording, self._journal, self._now_ns)

    def describe(self) -> str:
        """Return who has been holding the native profiler, and since when."""
        since = time.strftime("%H:%M:%S", time.localtime(self.recording.started_ns / 1e9))
        does = "has been warming up" if self.warm else "has been collecting with"
        return f"{self._title} {does} {self.recording.collector} since {since}"

    @property
    def unended(self) -> bool:
        """Whether a collector, or a stop that was interrupted, must still be stopped."""
        return self.collecting or self._ending

    def warm_up(self) -> None:
        """Reserve the process's profiler and warm up the front end; undone on failure.

        Raises what :meth:`npuprof.session.session.Session.start` raises.
        """
        global _current
        with self._lock, _process_lock:
            with ExitStack() as undo:
                self._prepare(undo)
                if self.native:
                    with explain_write_errors(self.recording.directory), keep_sigint_handler():
                        self.collector.warmup(self._options, self.recording.directory)
                    undo.callback(attempt, self.collector.stop, self.recording)
                    self.recording.versions.update(self.collector.versions())
                self._undo = undo.pop_all()
            _current, self.warm = self, True

    def start(self, first_step: int = 0) -> None:
        """Start collecting from step number `first_step` on; on failure, undo it and the warm-up.

        Raises what :meth:`npuprof.session.session.Session.start` raises.
        """
        global _current
        self._step = first_step
        self._turned_ns = time.perf_counter_ns()
        with self._lock, _process_lock:
            with self._undo as undo:
                undo.callback(self._release_slot)
                if not self.warm:
                    self._prepare(undo)
                self._begin(undo)
                undo.callback(unwritten.remove, self.recording.directory)
                unwritten.add(self)
                _current, self.warm, self.collecting = self, False, True
                undo.pop_all()
            # The profiled code begins only after the front end has started, which may take a while.
            self.recording.started_ns = self._step_start_ns = self._now_ns()
            self.recording.emulated_ns = self._left_out_ns()
            self._journal.write(["start", self._step_start_ns])
            self._count_overhead("start_ns")
        history.notify()

    def _prepare(self, undo: ExitStack) -> None:
        if _current is not None and (_current.warm or _current.collecting):
            raise SessionBusyError(f"{_current.describe()}: stop it first")
        if _reserved and self.native:
            raise SessionBusyError(_reserved)
        unwritten.save_all()
        self.collector.check(self._options)
        directory = self.recording.directory = make_directory(self._options.output, self._options.name, undo)
        undo.callback(shutil.rmtree, directory, ignore_errors=True)
        self.recording.versions = environment.versions()
        self.recording.raw_clock_epoch_ns = epoch_ns_of(self._clock)
        self.recording.started_ns = self._now_ns()
        with explain_write_errors(directory):
            self.recording.write(is_begun=True)  # at once: the run can then be loaded even if its kernel is killed
        self._host.prepare(self.recording)

    def _begin(self, undo: ExitStack) -> None:
        directory = self.recording.directory
        with explain_write_errors(directory):
            self._journal.open(directory / JOURNAL_FILE_NAME)
            undo.callback(self._journal.close)
            if self.native:
                if self._step:
                    self.collector.step(self._step)
                with keep_sigint_handler():
                    self.collector.start(self._options, directory)
                undo.callback(attempt, self.collector.stop, self.recording)
                if not self.warm:
                    self.recording.versions.update(self.collector.versions())
            self._host.start(undo)

    def _release_slot(self) -> None:
        global _current
        self.warm = self.collecting = False
        if _current is self:
            _current = None

    def step(self, *, last: bool = False) -> None:
        """End a step, and begin the next unless it is the `last` one."""
        with self._lock:
            now_ns = self._now_ns()
            self._journal.write(["step", self._step, self._step_start_ns, now_ns])
            self.recording.steps.append((self._step, self._step_start_ns, now_ns))
            self._step, self._step_start_ns = self._step + 1, now_ns
            if self.native:
                self.collector.step(None if last else self._step)

    def attach_metadata(self, facts: Mapping[str, Any]) -> None:
        """Store metadata that the user attached."""
        for key, value in facts.items():
            self.recording.metadata[key] = value
            self._journal.write(["fact", key, value])

    @property
    def elapsed_ns(self) -> int:
        """Nanoseconds since the start, independent of changes to the wall clock."""
        return max(self._now_ns() - self.recording.started_ns, 0)

    @property
    def sample_count(self) -> int:
        """The number of samples of the Python stacks."""
        return self._host.sample_count

    def abandon(self) -> None:
        """Stop a run whose session was never stopped."""
        self.cool_down()
        if self.collecting:
            self.recording.problems.append(
                "the session was not stopped: it ended with its process or its last reference"
            )
            self._abandoned = True
            self.stop()

    def cool_down(self) -> list[str]:
        """End a warm-up without recording, remove its traces, and return the problems."""
        with self._lock, _process_lock:
            if self.warm and os.getpid() == self._pid:
                self._undo.callback(self._release_slot)
                self._undo.close()
        return self.recording.problems

    def stop(self, failed: str = "") -> None:
        """Stop and write everything once; failures are added to the problems of the recording.

        An interrupt is raised after all parts have been stopped. A collector that can stop on any thread goes on
        writing.
        """
        with self._lock:
            # A forked child inherits the object, but the native profiler belongs to the parent.
            if not self.unended or os.getpid() != self._pid:
                return
            self._ending, self.collecting = True, False
            self.recording.failed = failed
            raised: list[BaseException] = []
            for part in (
                self._end_code,
                self._pass_facts,
                self._stop_native,
                self._stop_collector,  # again: an interrupt may have come before the first call had an effect
                self._stop_recorders,  # after the front end, which would record this work too
                self._note_outage,
                self._save_first,
                self.save,  # again, for the same reason
            ):
                try:
                    attempt(part, self.recording)
                except BaseException as error:  # noqa: BLE001 - raised when the other parts have run
                    raised.append(error)
            note_end(self)
            self._ending = False  # an interrupt before this leaves a run that can be stopped again
            if raised:
                raise raised[0]

    def _end_code(self) -> None:
        """Note that the user's code has ended, and record nothing more of this process."""
        self.recording.stopped_ns = self._now_ns()
        self._host.mute()
        run = self.recording
        run.emulated_ns = max(0, self._left_out_ns() - run.emulated_ns)
        run.clock_step_ns = step_ns(self._clock, run.raw_clock_epoch_ns, run.stopped_ns - run.started_ns)
        self._count_overhead("code_ns")

    def _stop_recorders(self) -> None:
        run = self.recording
        self.cells.end()
        self._host.stop(run)
        if (columns := self._host.line_columns) is not None:
            import numpy as np

            times_ns, numbers = (np.asarray(columns[f"stamp_{name}"], np.int64) for name in ("time_ns", "number"))
            spans = run.copy().end_with_code(times_ns + run.raw_clock_epoch_ns, numbers)
            run.after_ns = sum(end - begin for begin, end in spans)

    def add_cell(self, cell: RunningCell) -> bool:
        """Record the stamps of a cell that begins, in a run that spans cells; return whether they are recorded."""
        return self.collecting and self._host.add(cell, self.recording)

    def _pass_facts(self) -> None:
        if self.native and isinstance(self.collector, TakesFacts):
            self.collector.take_facts(self.recording.metadata, self._schedule)

    def _stop_native(self) -> None:
        if self.native:
            # A finalizer may hold a lock that another thread waits for: it stops the run on a separate thread.
            (self._stop_collector if self._abandoned else self._flush)()
            self._flushing = False

    def _stop_collector(self) -> None:
        """Stop the collector once, from whichever thread comes first; no interrupt can split a single statement."""
        self._pending_stop.pop("collector", lambda: None)()

    def _flush(self) -> None:
        began_ns = self._clock.monotonic_raw_ns()
        try:
            flush(self._stop_collector, self._hold, apart=self.collector.stops_on_any_thread)
        except KeyboardInterrupt:
            waited_s = (self._clock.monotonic_raw_ns() - began_ns) / 1e9
            self.recording.problems.append(
                f"the stop of the collector was interrupted after {waited_s:.1f} s: data not written by then is "
                "missing, unless the collector goes on in the background"
            )
            raise

    def _hold(self) -> Callable[[], None]:
        return reserve(
            f"the collector is still flushing {self.recording.directory} after an interrupted stop: wait until it "
            "has finished, or restart the process"
        )

    def _note_outage(self) -> None:
        """Note that the front end may have lost data because the disk was full, even if it says nothing."""
        directory, failed = self.recording.directory, bool(self.recording.problems)
        outage = self._journal.outage or self._host.outage
        if not outage and failed:
            outage = atomic.lacking(directory)
        self._needs_journal = self.native and bool(outage or failed)
        if self.native and outage:
            self.recording.problems.append(
                f"{directory} {TOOK_NO_DATA}: what {self.recording.collector} had to write then "
                f"may be missing; steps, markers and Python stacks were kept in memory meanwhile. {outage}"
            )

    def _save_first(self) -> None:
        self._to_write = {
            **self._host.writers,
            "metadata": self.recording.write_metadata,
            "journal": self._write_journal,
            "recording": self._write_recording,
        }
        self.save()

    def _write_journal(self) -> None:
        if self._needs_journal:
            try:
                self._journal.flush()
            except OSError as error:
                directory = self.recording.directory
                reason = atomic.reason(error, directory)
                raise NpuprofError(
                    f"{directory / JOURNAL_FILE_NAME} lacks the last steps and markers: {reason}"
                ) from error
            self._journal.close()

    def _write_recording(self) -> None:
        if not self._flushing:
            self.recording.list_files()
            self.recording.overhead["written_bytes"] = sum(self.recording.files.values())
        if "stop_ns" not in self.recording.overhead:
            self._count_overhead("stop_ns")
        self.recording.write()
        if not self._needs_journal:
            self._journal.remove()

    @property
    def journal_lines(self) -> bytes:
        """The end of the journal, which its file lacks."""
        return self._journal.waiting

    @property
    def stack_columns(self) -> Mapping[str, Sequence[Any]] | None:
        """The sampled Python stacks of a run that has ended, unless their file has them."""
        return None if self.unended else self._host.stack_columns

    @property
    def line_columns(self) -> Mapping[str, Sequence[Any]] | None:
        """The columns of the lines of a run that has ended, unless their file has them."""
        return None if self.unended else self._host.line_columns

    def _count_overhead(self, part: str) -> None:
        """Note how long a part of the run took on this computer's clock, even if the NPU's clock differs."""
        now_ns = time.perf_counter_ns()
        self.recording.overhead[part] = now_ns - self._turned_ns
        self._turned_ns = now_ns

    def _left_out_ns(self) -> int:
        return self._clock.left_out_ns if isinstance(self._clock, EmulatingClock) else 0

    def _now_ns(self) -> int:
        """Return the UTC epoch time computed from the monotonic clock, so that durations are right."""
        return self._clock.monotonic_raw_ns() + self.recording.raw_clock_epoch_ns


def note_end(run: RecordedRun) -> None:
    """Record a run that has ended as the newest of this process, and release the profiler if the run held it."""
    global _current, _newest
    with _process_lock:
        _newest = run
        if _current is run:
            _current = None
    history.add_ended(run)


def reserve(holder: str) -> Callable[[], None]:
    """Reserve the process's profiler for a purpose other than a run; return the function that releases it.

    Parameters
    ----------
    holder
        The message for a start that is refused meanwhile: who holds the profiler, and what to do.
    """
    global _reserved
    with _process_lock:
        if (run := _current) is not None and run.native and (run.warm or run.collecting):
            raise SessionBusyError(f"{run.describe()}, and pyACL streams nothing meanwhile (EK0007): stop it first")
        if _reserved:
            raise SessionBusyError(_reserved)
        _reserved = holder
    return _release


def _release() -> None:
    global _reserved
    with _process_lock:
        _reserved = ""


def after_fork() -> None:
    """Forget the run of the parent in a forked child: the native profiler collects for the parent."""
    global _process_lock, _current, _newest, _reserved
    _process_lock = threading.RLock()  # another thread of the parent may have held it
    _current, _newest, _reserved = None, None, ""


def current() -> ActiveRun | None:
    """Return the run that is collecting in this process, or None."""
    run = _current  # read once: another thread may end the run meanwhile
    return run if run is not None and run.collecting else None


def newest() -> RecordedRun | None:
    """Return the newest finished run of this process, or None."""
    return _newest
