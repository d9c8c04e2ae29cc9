"""A job: the processes that a cell starts, each with a session of its own, and the set of their recordings.

The environment of the cell names the folder of the job and puts a start-up hook in front of ``PYTHONPATH``; children of
a fork, which run no such hook, are told by :func:`os.register_at_fork`. Both end with the cell; the processes go on.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
import weakref
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from npuprof.collectors import registry
from npuprof.errors import NpuprofError, OptionsError
from npuprof.machine.environment import OF_JOB, OF_WORKERS
from npuprof.options import SPECIFICATION, Options
from npuprof.progress import ticking
from npuprof.recordings import job_folder
from npuprof.recordings.job_folder import JobFile
from npuprof.recordings.recording import EARLIER_WORKERS, Recording, explain_write_errors, make_directory
from npuprof.session import child, launchers
from npuprof.session.history import RecordedRun
from npuprof.session.unreached import Unreached
from npuprof.session.workers import PATH as _PATH
from npuprof.session.workers import STARTUP, Workers
from npuprof.words.quantities import counted

if TYPE_CHECKING:
    from npuprof.collectors.base import Collector
    from npuprof.lines.cell_stamps import RunningCell

_OF_JOB = ("processes", "workers", "delay", "engines")
_ENDING_S, _LOOK_S = 2.0, 0.02


class Remote(Protocol):
    """The processes of a cluster, see :class:`npuprof.session.engines.Engines`."""

    problems: list[str]

    def start(self, folder: Path, options: Mapping[str, Any]) -> None:
        """Start a session on each of them."""

    def stop(self) -> None:
        """Stop these, and bring the recordings into the folder."""


class ChildEnvironment:
    """The variables of this process's environment that its children need, while a cell runs."""

    def __init__(self, folder: Path) -> None:
        before = os.environ.get(_PATH)
        path = f"{STARTUP}{os.pathsep}{before}" if before else str(STARTUP)
        self._after = {
            _PATH: path,
            OF_JOB: str(folder),
            launchers.INHERITED: launchers.pass_on(os.environ),
        }
        if _workers is not None and (listening := _workers.folder()) is not None:
            self._after[OF_WORKERS] = str(listening)
        self._before = {name: os.environ.get(name) for name in self._after}

    def set(self) -> None:
        """Set the variables."""
        os.environ.update(self._after)

    def restore(self) -> None:
        """Put back what was there before, unless the cell has changed it."""
        for name, value in self._after.items():
            now, before = os.environ.get(name), self._before[name]
            if now is None:
                continue
            if now != value:
                if name == _PATH:
                    os.environ[name] = os.pathsep.join(each for each in now.split(os.pathsep) if each != str(STARTUP))
            elif before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


class Watch:
    """A profiled cell whose processes are not profiled: which front ends they use is known at its end."""

    def __init__(self, folder: Path) -> None:
        global _watch
        self.folder = folder
        job_folder.make(folder, watched=True)
        self._environment = ChildEnvironment(folder)
        self._environment.set()
        self._spent_s = {} if _workers is None else _workers.spent()
        _watch = self

    def stop(self) -> dict[str, int]:
        """End it, and return how many processes imported each front end, by its module."""
        global _watch
        _watch = None
        self._environment.restore()
        modules = Counter(each.module for each in job_folder.processes(self.folder) if each.module)
        if _workers is not None and (worked := _workers.worked_since(self._spent_s)):
            modules[EARLIER_WORKERS] = worked
        job_folder.remove_log(self.folder)
        return dict(sorted(modules.items()))


class Job:
    """The processes that are started between :meth:`start` and :meth:`stop`.

    Attributes
    ----------
    folder
        The folder of the job; empty before the start.
    file
        What is known of it.
    """

    def __init__(
        self, options: Options, make: child.MakeSession, cell: RunningCell | None, engines: Remote | None = None
    ) -> None:
        self._options, self.make, self.cell, self._engines = options, make, cell, engines
        self.folder = Path()
        self.file = JobFile(name=options.name, host=platform.node(), pid=os.getpid(), options=_chosen(options))
        self._environment: ChildEnvironment | None = None
        self._shown = ExitStack()
        self._unreached = Unreached()
        self._has_workers = False

    def start(self) -> None:
        """Make the folder, and have the processes profiled that start from now on."""
        global _current
        if not hasattr(os, "geteuid"):
            raise OptionsError("processes are profiled on Linux and macOS only: leave processes out", "processes")
        with ExitStack() as undo:
            self.folder = make_directory(self._options.output, self._options.name or "job", undo)
            with explain_write_errors(self.folder):
                job_folder.make(self.folder)
                self.file.started_ns = time.time_ns()
                self.file.write(self.folder)
            undo.pop_all()
        if self._engines is not None:
            chosen = {name: value for name, value in self.file.options.items() if name not in _OF_JOB}
            try:
                self._engines.start(self.folder, chosen)
            except BaseException:
                shutil.rmtree(self.folder, ignore_errors=True)
                raise
            return
        follow_workers(self.make)
        self._environment = ChildEnvironment(self.folder)
        self._environment.set()
        self._unreached.start()
        _current = self
        if _workers is not None:
            self._has_workers = True
            _workers.start(self.folder)
        self._shown.enter_context(ticking(self.state))

    def state(self) -> str:
        """Return how many ranks there are, and how many of them write and have ended, in words; empty without one."""
        listed = job_folder.processes(self.folder)
        self._unreached.look({each.pid for each in listed})
        ranks = [each for each in listed if each.path]
        here = ("", self.file.host)
        ended = sum(each.ended or (each.host in here and not each.is_alive(self.file.host)) for each in ranks)
        if not ranks:
            return ""
        return f"{counted(len(ranks), 'rank')}, {len(ranks) - ended:,} writing, {ended:,} ended"

    def own_run(self, collector: Collector, code: str) -> tuple[Collector, Options]:
        """Return the front end and the options for the process whose cell it is.

        A front end that only the other processes use would take the device, and time, for nothing: Python stacks are
        sampled then.
        """
        chosen = {name: value for name, value in _chosen(self._options).items() if name not in _OF_JOB}
        plain = {**chosen, "output": str(self.folder), "name": "notebook"}
        if collector.simulated or registry.is_used(collector.name, code):
            return collector, Options.from_dict(plain)
        self.file.notebook_worked = False
        kept = {name: plain[name] for name in plain if SPECIFICATION[name].of_cell or name in ("output", "name")}
        return registry.make("simulator"), Options.from_dict({**kept, "activities": ["cpu"]})

    def undo(self) -> None:
        """End a job whose own run did not start; its folder is removed."""
        self.leave()
        shutil.rmtree(self.folder, ignore_errors=True)

    def leave(self) -> None:
        """Profile no process that starts from now on."""
        global _current
        if self._has_workers and _workers is not None:
            self._has_workers = False
            self.file.problems += _workers.stop(self.folder)
        self._shown.close()
        self._unreached.leave()
        if self._environment is not None:
            self._environment.restore()
            self._environment = None
        if _current is self:
            _current = None

    def stop(self, recording: Recording) -> JobRun:
        """Profile no process that starts from now on, and return the job; processes that run go on."""
        self.leave()
        if self._engines is not None:
            self._engines.stop()
            self.file.problems += self._engines.problems
        self._await_those_that_stop()
        self.file.cell, self.file.notebook = recording.cell, recording.directory.name
        known = {each.pid for each in job_folder.processes(self.folder)}
        self.file.unknown, self.file.ended_ns = self._unreached.count(known), time.time_ns()
        with suppress(NpuprofError):  # the folder is read without it
            self.file.write(self.folder)
        return JobRun(self.folder, self.file, recording)

    def _await_those_that_stop(self) -> None:
        """Wait a moment for processes that are writing their recordings: the cell may not have waited for them."""
        deadline = time.monotonic() + _ENDING_S
        while time.monotonic() < deadline:
            writing = [each for each in job_folder.processes(self.folder) if each.stops and not each.ended]
            if not any(each.is_alive(self.file.host) for each in writing):
                break
            time.sleep(_LOOK_S)


class Children:
    """What a session does about the processes that its code starts: a job of them, or a look at what they use.

    Attributes
    ----------
    remote
        The processes of a cluster that are profiled instead.
    ended
        The newest job that has ended; None without one.
    """

    def __init__(self, session: object) -> None:
        self.remote: Remote | None = None
        self.ended: JobRun | None = None
        self._job: Job | None = None
        self._watch: Watch | None = None
        weakref.finalize(session, self.leave)  # a session that is never stopped

    def begin(self, options: Options, make: child.MakeSession, cell: RunningCell | None) -> None:
        """Start a job, if the options ask for one."""
        self.ended = None
        if not options.processes and not options.engines:
            return
        if options.engines and self.remote is None:
            raise OptionsError(
                "engines needs those of a client: use npuprof.engines(client), or %%npuprof --engines around a cell "
                "with %%px, after client.activate()",
                "engines",
            )
        self._job = Job(options, make, cell, self.remote)
        self._job.start()

    def own_run(self, collector: Collector, options: Options, code: str) -> tuple[Collector, Options]:
        """Return the front end and the options for the session's own process."""
        return (collector, options) if self._job is None else self._job.own_run(collector, code)

    def run_begins(self, directory: Path, cell: RunningCell | None, make: child.MakeSession) -> None:
        """Watch which front ends the processes of a cell use, where there is no job."""
        if self._job is None and cell is not None and OF_JOB not in os.environ and hasattr(os, "geteuid"):
            follow_workers(make)
            with suppress(OSError):  # a full disk: the run is worth more
                self._watch = Watch(directory)

    def run_ends(self, recording: Recording) -> None:
        """Note which front ends the processes of a cell used."""
        watch, self._watch = self._watch, None
        if watch is not None:
            recording.unprofiled_children = watch.stop()

    def end(self, recording: Recording) -> JobRun | None:
        """End the job, and return it; None if there is none that has not ended."""
        job, self._job = self._job, None
        if job is None:
            return None
        self.ended = job.stop(recording)
        return self.ended

    def undo(self) -> None:
        """Leave nothing of a job whose own run did not start."""
        if (job := self._job) is not None:
            job.undo()
        self.leave()

    def leave(self) -> None:
        """Profile no further processes, and look at none."""
        (job, self._job), (watch, self._watch) = (self._job, None), (self._watch, None)
        if job is not None:
            job.leave()
        if watch is not None:
            watch.stop()


class JobRun(RecordedRun):
    """A job that has ended, and the set of its recordings once read."""

    def __init__(self, folder: Path, file: JobFile, notebook: Recording) -> None:
        recording = Recording(
            directory=folder,
            name=file.name,
            collector=notebook.collector,
            simulated=notebook.simulated,
            started_ns=file.started_ns,
            stopped_ns=file.ended_ns,
            failed=notebook.failed,
            cell=notebook.cell,
        )
        super().__init__(recording)
        self._set: Any = None

    def result(self) -> Any:
        """Read the set of recordings, once; a single profile if no other process was recorded."""
        with self._lock:
            if self._set is None:
                from npuprof.loading import load, load_set

                folder = self.recording.directory
                recorded = any(each.path for each in job_folder.processes(folder))
                self._set = load_set(folder) if recorded else load(folder)
            return self._set

    @property
    def decoded(self) -> Any:
        """The set, or None before :meth:`result` was called; a single run counts among the runs of this process."""
        from npuprof.profiles.profile import Profile

        return self._set if isinstance(self._set, Profile) else None


def _chosen(options: Options) -> dict[str, Any]:
    """Return the options that differ from the defaults, as each front end has its own."""
    usual, plain = Options(collector=options.collector).to_dict(), options.to_dict()
    return {name: value for name, value in plain.items() if value != usual[name]} | {"collector": options.collector}


_current: Job | None = None
_watch: Watch | None = None
_workers: Workers | None = None
_make: child.MakeSession | None = None


def follow_workers(make: child.MakeSession) -> None:
    """Have workers that are started from now on listen for profiled cells, once in a process."""
    global _workers, _make
    if _workers is None and hasattr(os, "geteuid"):
        _make = make
        os.register_at_fork(after_in_child=_forked)
        _workers = Workers()
        _workers.follow()


def _forked() -> None:
    global _current, _watch
    (job, _current), (watch, _watch) = (_current, None), (_watch, None)
    control = None
    if _workers is not None:
        _workers.after_fork()
        control = _workers.made_folder
    if job is not None:
        child.forked(job.folder, job.file, job.make, job.cell, control=control)
        return
    if watch is not None:
        child.watch_forked(watch.folder)
    if _make is not None:
        child.forked_idle(control, _make)
