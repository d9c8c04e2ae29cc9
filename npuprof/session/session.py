"""A session: the runs of a collector around some code, from start to recordings.

A process has one native profiler, so only one session collects at a time. The collector is stopped, its handles are
released and the recording is written however the profiled code ends: normally, by an exception or an interrupt, with
the kernel, or when the session is garbage collected.

Without a schedule, everything between start and stop is one run. With a schedule, each cycle of recorded steps is a
run with its recording and result; steps change as in the frameworks' profilers.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from npuprof import interactive
from npuprof.collectors.base import Collector, clock_of
from npuprof.collectors.registry import Choice, choose
from npuprof.errors import NpuprofError, NpuprofWarning, OptionsError, SessionError, describe_failure
from npuprof.options import Options, OptionValues, shows_options
from npuprof.recordings.clock import Clock
from npuprof.recordings.recording import Recording
from npuprof.session.active import ActiveRun, current, note_end
from npuprof.session.job import Children
from npuprof.session.mixins import EndedRuns, HasMetadata
from npuprof.session.precedence import make_way
from npuprof.session.schedule import ProfilerAction, Schedule, ScheduleFunction, TraceReady, missing_steps, steps_needed
from npuprof.words.quantities import counted
from npuprof.words.texts import plain_line

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Unpack

    from npuprof.lines.cell_stamps import RunningCell
    from npuprof.session.streams import OperatorStream

_NO_REASONS = ("asked for", "given")  # a choice by the user needs no explanation
_RECORDS = frozenset({ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE})


class Session(EndedRuns, HasMetadata):
    """Collects between :meth:`start` and :meth:`stop`, or in a ``with`` block.

    Parameters
    ----------
    options
        The options.
    schedule
        The action of each step, see :func:`npuprof.schedule`; by default all steps are recorded.
    on_trace_ready
        Called with the session after each run, see :func:`npuprof.trace_handler`. An exception in it becomes a warning
        and does not reach the profiled code.
    collector
        The front end; by default ``options.collector`` chooses it.
    title
        The holder of the profiler, for the message that refuses another start.
    clock
        The source of timestamps, by default the system's or the simulated NPU's.

    Attributes
    ----------
    step_num, current_action
        The number of steps that have ended since the start, and the action of the current step.
    code
        The code to profile, if known: the frameworks it imports count for ``collector="auto"``.
    cell
        The cell to profile, if it is one.
    children, process
        What is done about the processes that the code starts, and what is known of this one, if it is one of a job.

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
        schedule: ScheduleFunction | None = None,
        on_trace_ready: TraceReady | None = None,
        collector: Collector | None = None,
        title: str = "",
        clock: Clock | None = None,
    ) -> None:
        for name, value in (("schedule", schedule), ("on_trace_ready", on_trace_ready)):
            if value is not None and not callable(value):
                raise OptionsError(f"{name} must be callable, such as what npuprof.{name} makes, not {value!r}")
        self.options = options if options is not None else Options()
        self.code = ""
        self.cell: RunningCell | None = None
        self.process: Mapping[str, Any] = {}
        self.children = Children(self)
        self._given = collector
        self._choose()
        self.step_num = self._first_step = 0
        self.current_action = ProfilerAction.NONE
        self._schedule = schedule
        self._on_trace_ready = on_trace_ready
        self._title = title or self.options.name or "a session"
        self._given_clock = clock
        self._lock = threading.RLock()
        self._active = False
        self._warm: ActiveRun | None = None
        self._runs: list[ActiveRun] = []
        self._metadata, self._metadata_of_next = {}, {}

    def _choose(self) -> None:
        given, name = self._given, self.options.collector
        chosen = Choice(given, "given") if given is not None else choose(name, self.code)
        self._collector, self.reason = chosen.collector, chosen.reason
        if not self._collector.drives(self.options):
            self.reason = "the activities ask for nothing else"

    def __repr__(self) -> str:
        states = {"collecting": self.collecting, "active": self.active, "ended": bool(self._runs), "not started": True}
        state = next(name for name, is_so in states.items() if is_so)
        name = self.options.name or "without a name"
        return plain_line(f"<Session {name} of {self._collector.name}: {state}, {counted(len(self._runs), 'run')}>")

    @property
    def collecting(self) -> bool:
        """Whether the collector is running."""
        return self._run is not None and self._run.collecting

    @property
    def active(self) -> bool:
        """Whether the session has started and not stopped, even if it is not collecting at the moment."""
        return self._active

    @property
    def collector(self) -> Collector:
        """The front end."""
        return self._collector

    @property
    def recording(self) -> Recording:
        """The recording of the newest run; complete once the run has ended.

        Raises
        ------
        SessionError
            If no run has begun.
        """
        if self._run is None:
            raise SessionError(self._why_no_run())
        return self._run.recording

    @property
    def _run(self) -> ActiveRun | None:
        return self._runs[-1] if self._runs else None

    def _ended(self) -> list[ActiveRun]:
        return [run for run in self._runs if not run.collecting]

    def _why_no_result(self) -> str:
        return self._why_no_run() if self._run is None else f"{self._title} has not stopped: call stop() for a result"

    def _why_no_run(self) -> str:
        if not self._active and not self.step_num:
            return "this session has not started, so there is no recording: call start() first"
        return (
            f"no step of {self._title} has been recorded: its schedule had not reached one after {self.step_num} "
            f"steps{steps_needed(self._schedule)}"
        )

    def start(self, first_step: int = 0) -> Session:
        """Start collecting, or with a schedule, begin the first step.

        A stopped session can be started again, which makes another run.

        Parameters
        ----------
        first_step
            The training's number of the current step, from which recorded steps are numbered.

        Raises
        ------
        SessionError
            If the session has started already.
        SessionBusyError
            If another session of this process is collecting.
        OptionsError
            If the front end does not support the options.
        CollectorError
            If the front end is absent or refuses; nothing is left running or on disk.
        """
        interactive.finish_imports()
        begins = False
        try:
            with self._lock:
                if self._active:
                    raise SessionError(f"{self._title} has started already: stop() it first")
                begins = True
                if self.options.collector == "auto":
                    self._choose()  # again: a framework may have been imported meanwhile
                self.children.begin(self.options, Session, self.cell)
                action = self._action_of(0)
                self.step_num, self._first_step = 0, first_step
                if action == ProfilerAction.NONE:
                    self._collector.check(self.options)  # a refusal should not wait for the first recorded step
                else:
                    self._turn_to(action)
                self.current_action, self._active = action, True
                return self
        except BaseException as error:
            if begins:
                self._undo_start(describe_failure(error))
            raise

    def _undo_start(self, failed: str) -> None:
        with self._lock:
            self._active = False
            if (run := self._run) is not None and run.collecting:
                run.stop(failed)
            self._cool_down()
            self.children.undo()

    def stop(self, failed: str = "") -> Recording:
        """Stop collecting; a second call has no effect.

        Parameters
        ----------
        failed
            The exception of the profiled code, as ``Type: message``.

        Returns
        -------
        Recording
            The recording of the newest run; ``problems`` lists what failed while stopping.

        Raises
        ------
        SessionError
            If the session never started, or its schedule never reached a recorded step.
        """
        with self._lock:
            was_active, self._active = self._active, False
            self._cool_down()  # even if not active: an interrupt may have cut an earlier stop short
            self._end(failed)
            if (run := self._run) is not None and (job := self.children.end(run.recording)) is not None:
                note_end(job)
            if was_active:
                self._warn_of_what_is_missing()
                self.current_action = ProfilerAction.NONE
            return self.recording

    def step(self) -> None:
        """End a step and begin the next; the first step begins at the start.

        A failure of the profiler becomes a warning and does not reach the profiled loop.

        Raises
        ------
        SessionError
            If the session is not active.
        """
        with self._lock:
            if not self._active:
                raise SessionError("step() needs a session that has started: call it between start() and stop()")
            before, run = self.current_action, self._run
            self.step_num += 1
            number = self._first_step + self.step_num
            after = self.current_action = self._action_of(self.step_num)
            ends = before in _RECORDS and (before == ProfilerAction.RECORD_AND_SAVE or after not in _RECORDS)
            if run is not None and run.collecting:
                try:
                    run.step(last=ends)
                except Exception as error:  # noqa: BLE001 - as of every failure of the profiler
                    _warn(f"the front end does not know of step {number}: {describe_failure(error)}")
            if ends:
                if before == ProfilerAction.RECORD:
                    _warn(f"the schedule went from RECORD to {after.name} at step {number} without saving")
                self._end()
            elif before == ProfilerAction.WARMUP and after == ProfilerAction.NONE:
                _warn(f"the schedule went from WARMUP to NONE at step {number}: nothing is recorded")
                self._cool_down()
            if after in _RECORDS or before != after:
                try:
                    self._turn_to(after)
                except NpuprofError as error:
                    purpose = "recorded" if after in _RECORDS else "a warm-up"
                    _warn(f"step {number} is not {purpose}: {error}")

    def _action_of(self, step: int) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else ProfilerAction(self._schedule(step))

    def _turn_to(self, action: ProfilerAction) -> None:
        """Warm up or start recording if the action requires it."""
        if action == ProfilerAction.NONE or self.collecting:
            return
        run = self._warm
        if run is None:
            collector, options = self.children.own_run(self._collector, self.options, self.code)
            make_way(self._title, lambda: collector.check(options))
            reason = "" if self.reason in _NO_REASONS else self.reason
            plan = self._schedule.numbers if isinstance(self._schedule, Schedule) else None
            run = ActiveRun(
                collector,
                options,
                self._title,
                self._given_clock or clock_of(collector, options),
                reason=reason,
                schedule=plan,
                cell=self.cell,
            )
            run.recording.process = dict(self.process)
            run.end_step = weakref.WeakMethod(self.step)
            # Stops the run when the session is garbage collected or the interpreter ends; registered before the
            # start, so that an interrupt cannot come in between.
            weakref.finalize(self, run.abandon)
        # The run is referenced before it begins, so that it can be stopped after an interrupt.
        if action == ProfilerAction.WARMUP:
            self._warm = run
            try:
                run.warm_up()
            finally:
                self._warm = run if run.warm else None
            return
        self._runs.append(run)
        self._warm = None
        try:
            run.start(self._first_step + self.step_num)
        except BaseException:
            if not run.collecting:
                self._runs.remove(run)
            raise
        self.children.run_begins(run.recording.directory, self.cell, Session)
        run.attach_metadata({**self._metadata, **self._metadata_of_next})
        self._metadata_of_next.clear()

    def _cool_down(self) -> None:
        run, self._warm = self._warm, None
        for problem in run.cool_down() if run is not None else ():
            _warn(f"the warm-up did not end cleanly: {problem}")

    def _end(self, failed: str = "") -> None:
        run = self._run
        if run is None or not run.unended:
            return
        self.children.run_ends(run.recording)
        run.stop(failed)
        if self._on_trace_ready is not None:
            try:
                self._on_trace_ready(self)
            except Exception as error:  # noqa: BLE001 - a user's callback must not end the profiled code
                _warn(f"on_trace_ready failed: {describe_failure(error)}; the recording is {run.recording.directory}")

    def _warn_of_what_is_missing(self) -> None:
        if message := missing_steps(self._schedule, self.step_num, self.current_action):
            _warn(f"{self._title} {message}")
        if names := ", ".join(self._metadata_of_next):
            _warn(f"metadata that no run followed is in no recording ({names}): add it while a step is recorded")
            self._metadata_of_next.clear()

    def stream(
        self, models: int | Iterable[int], callback: Callable[[pd.DataFrame], object] | None = None
    ) -> OperatorStream:
        """Return the operators of pyACL models as they run, instead of recording them.

        Parameters
        ----------
        models
            Ids of loaded models, as returned by ``acl.mdl.load_from_file``.
        callback
            Called with each batch on arrival, on the reading thread.

        Returns
        -------
        OperatorStream
            An iterator of batches (DataFrames); close it, or use it in a ``with`` block.

        Raises
        ------
        SessionError
            If the front end is not pyACL.
        SessionBusyError
            If a run is collecting: a process cannot do both.
        CollectorError
            If pyACL refuses, for example because a model is unknown.
        """
        from npuprof.session.streams import open_stream

        make_way(self._title)
        clock = self._given_clock or clock_of(self._collector, self.options)
        return open_stream(self._collector, models, clock, self._title, callback)

    def __enter__(self) -> Session:
        return self if self._active else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._active:
            with suppress(SessionError):  # no step was recorded: stop() has warned of it
                self.stop(describe_failure(error))


def _warn(message: str) -> None:
    warnings.warn(message, NpuprofWarning, stacklevel=3)


def step() -> None:
    """End a step of the run that collects in this process, and begin the next; without such a run, do nothing.

    It marks the steps of a loop that ``%%npuprof`` does not see, since a function of the cell runs it, or that are not
    those that it would choose. The first step begins with the run; what follows the last call belongs to no step.
    """
    run = current()
    end = run.end_step() if run is not None and run.end_step is not None else None
    if end is not None:
        end()


@shows_options
def profile(
    *,
    schedule: ScheduleFunction | None = None,
    on_trace_ready: TraceReady | None = None,
    start_profile: bool = True,  # noqa: ARG001 - code for MindSpore gives it
    **options: Unpack[OptionValues],
) -> Session:
    """Build a session from keyword options: ``with npuprof.profile(level=1) as prof: ...``.

    Parameters
    ----------
    schedule, on_trace_ready
        As in :class:`Session`.
    start_profile
        Has no effect: no session starts by itself, and a ``with`` block starts each one, as it does in MindSpore.
    **options
        The fields of :class:`npuprof.Options`.

    Returns
    -------
    Session
        Not started; a ``with`` block starts and stops it, after which ``prof.result`` is the Profile.
    """
    if options.get("step_line") is not None:
        raise OptionsError("step_line chooses a loop of a cell that begins with %%npuprof: call npuprof.step() instead")
    return Session(Options.from_dict(dict(options)), schedule=schedule, on_trace_ready=on_trace_ready)
