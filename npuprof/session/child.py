"""The session of a process that a profiled cell started, from the import of its front end to its end.

Nothing here reaches the program: failures are lines in the log of the job, nothing is printed, and the exit status, the
signals and the output of the process stay its own.
"""

from __future__ import annotations

import atexit
import os
import platform
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, runtime_checkable

from npuprof.collectors import registry
from npuprof.errors import NpuprofWarning, describe_failure
from npuprof.lines.frames import Frame
from npuprof.recordings import job_folder
from npuprof.recordings.job_folder import JobFile
from npuprof.session import channel, launchers
from npuprof.session.awaited_import import AwaitedImport
from npuprof.session.main_thread import end_by_sigterm, is_waiting, on_main_thread, wake_main_thread
from npuprof.session.precedence import end_for_others

if TYPE_CHECKING:
    from npuprof.collectors.base import Collector
    from npuprof.lines.cell_stamps import RunningCell
    from npuprof.options import Options
    from npuprof.recordings.recording import Recording


@runtime_checkable
class RecordsThreads(Protocol):
    """A collector that can record the operators of all threads."""

    all_threads: bool


class RankSession(Protocol):
    """What is used here of :class:`npuprof.session.session.Session`."""

    cell: RunningCell | None
    process: Mapping[str, Any]

    @property
    def recording(self) -> Recording:
        """The recording of the newest run."""

    @property
    def collector(self) -> Collector:
        """The front end."""

    def start(self) -> object:
        """Start collecting."""

    def stop(self, failed: str = "") -> object:
        """Stop collecting."""


MakeSession: TypeAlias = "Callable[[Options], RankSession]"

_FIRST_PRIORITY = 1_000_000  # before the finalizers of multiprocessing end what the program uses
_PATIENCE_S, _LONGEST_S = 2.0, 30.0
_AT_ONCE_S, _LOOK_S = 0.3, 0.01
_NUDGE_S = 0.2  # between two attempts to wake the main thread
_SAMPLED = (
    "stacks are sampled: the process was forked while its framework recorded stacks, and would crash if it recorded "
    "them once more"
)


class ChildProcess:
    """The profiling of this process, a child of a cell's.

    Parameters
    ----------
    control
        The folder in which it listens for later cells if it is a worker; None if nobody calls.
    """

    def __init__(
        self,
        folder: Path,
        job: JobFile,
        make: MakeSession,
        cell: RunningCell | None = None,
        *,
        samples: bool = False,
        control: Path | None = None,
        idle: bool = False,
    ) -> None:
        self.folder, self.job, self.make, self.cell, self.samples = folder, job, make, cell, samples
        self.control = control
        self.listener: channel.Listener | None = None
        self.inherits = False  # whether what the parent collects with is to be forgotten first
        self._session: RankSession | None = None
        self._starting = self._waited = self._follows = self._wakes = False
        self._ended = idle
        self._pid = os.getpid()
        self._groups = launchers.TorchGroups()
        self._rank = launchers.environment_rank(os.environ)
        self._lock = threading.RLock()
        self._handles, self._written = threading.Event(), threading.Event()
        self._writer, self._is_terminated = 0, False
        self._is_later = False

    def begin(self, module: str) -> None:
        """Start the session, for a module of a front end that was imported."""
        if self._starting or launchers.is_launcher():
            return
        if launchers.will_be_of_multiprocessing():  # what it runs is known later
            self._begin_later()
            return
        self._listen()
        if self._ended and not self._take_current():
            return
        name = registry.front_end_of_module(module, str(self.job.options.get("collector", "auto")))
        if not name:
            return
        if launchers.is_loading_data() and not self.job.options.get("workers"):
            job_folder.append(self.folder, "unprofiled", module=module, why="it loads data for a rank")
            return
        if (delay_s := self.job.options.get("delay")) and not self._waited:
            self._waited = True
            timer = threading.Timer(delay_s, on_main_thread, [lambda: self.begin(module)])
            timer.daemon = True
            timer.start()
            return
        with self._lock:
            if self._session is not None:
                if self._session.collector.name != "kineto" or name == "kineto":
                    return
                self._discard()  # torch was imported for a front end that knows the device
            self._starting = True
            try:
                self._start(name, module)
            except Exception as error:  # noqa: BLE001 - the program runs unprofiled
                job_folder.append(self.folder, "unprofiled", module=module, why=describe_failure(error)[:500])
            finally:
                self._starting = False

    @property
    def is_idle(self) -> bool:
        """Whether it records for no job, and will not for the newest that it knows."""
        return self._ended

    def _listen(self) -> None:
        """Listen for later cells, if this process is a worker that may outlive this one."""
        if self.control is None or self.listener is not None or not launchers.is_worker():
            return
        control, self.control = self.control, None  # once: a full disk, or no more threads
        with suppress(OSError, RuntimeError):
            self.listener = listener = channel.Listener(control, self._answer)
            self.control = control
            atexit.register(listener.close)
            if launchers.is_of_multiprocessing():
                from multiprocessing.util import Finalize

                Finalize(None, listener.close, exitpriority=_FIRST_PRIORITY - 1)

    def _take_current(self) -> bool:
        """Take the job of the cell that runs now; return whether there is one that this process has not ended."""
        job = channel.current_job(self.control) if self.control is not None else None
        return job is not None and job != self.folder.absolute() and self._take(job)

    def _take(self, folder: Path) -> bool:
        """Take another job, if the folder is that of a running one."""
        job = JobFile.read(folder) if job_folder.is_private(folder) else None
        if job is None or job.ended_ns:
            return False
        self.folder, self.job, self.cell = folder, job, None
        self._rank = launchers.environment_rank(os.environ)
        self._handles.clear()
        self._written.clear()
        self._ended = self._waited = self._is_terminated = False
        job_folder.append(folder, "began", parent=os.getppid(), arguments=[word[:200] for word in sys.argv[:12]])
        return True

    def _answer(self, command: str, folder: Path) -> str:
        """Obey a command of the kernel, on the thread that listens; return what became of it."""
        if command == channel.START:
            return self._answer_start(folder)
        return self._answer_stop(folder)

    def _answer_start(self, folder: Path) -> str:
        with self._lock:
            if self._session is not None or folder == self.folder.absolute():
                return channel.RECORDING if folder == self.folder.absolute() else channel.BUSY
            self._ended = True  # whatever it waited to begin
            if not self._take(folder):
                return channel.NOTHING
        begun = threading.Event()

        def begin() -> None:
            self._begin_all()
            begun.set()

        is_at_once = not is_waiting() and not launchers.loops_natively()
        if (executor := launchers.executor_of_tasks()) is not None:
            is_at_once = True
            executor.submit(begin)
        else:
            on_main_thread(begin)  # where it waits, before its next task
        if is_at_once:
            begun.wait(_AT_ONCE_S)
        return channel.RECORDING

    def _answer_stop(self, folder: Path) -> str:
        if folder != self.folder.absolute():
            return channel.NOTHING
        with self._lock:
            session = self._session
            if session is None and not self._ended:
                self._ended = True
                self._written.set()
                return channel.NOTHING
        if session is not None:
            self._end_on_its_thread(session)
        if self._ended:
            self._written.wait(_LONGEST_S)
        return channel.WRITTEN if self._written.is_set() else channel.BUSY

    def _end_on_its_thread(self, session: RankSession) -> None:
        """End the session on a thread that can, and return when that has begun, or the thread is too busy."""
        if session.collector.stops_on_any_thread:
            self._end("")
            return
        if (executor := launchers.executor_of_tasks()) is not None:
            executor.submit(self._end, "")
        else:
            self._wakes = True
            on_main_thread(self._wake)
        deadline = time.monotonic() + _PATIENCE_S
        nudge = time.monotonic() + _NUDGE_S
        while not self._ended and time.monotonic() < deadline:
            if time.monotonic() > nudge:
                nudge += _NUDGE_S
                if is_waiting() and signal.getsignal(signal.SIGURG) == self._woken:
                    wake_main_thread()
            time.sleep(_LOOK_S)

    def _woken(self, _number: int, _frame: object) -> None:
        self._wake()

    def _wake(self) -> None:
        if self._wakes and os.getpid() == self._pid:
            self._wakes = False
            self._end("")

    def _begin_all(self) -> None:
        """Begin with the front ends that are imported."""
        if os.getpid() != self._pid:
            return
        with suppress(Exception):
            if self.inherits:
                self.inherits = False
                self.samples = _drop_that_of_the_parent() or self.samples
            for module in registry.imported_front_ends():
                if self._session is None:
                    self.begin(module)

    def _begin_later(self) -> None:
        """Begin when :mod:`multiprocessing` runs the function of this process."""
        from multiprocessing import process, util

        if self._is_later:
            return
        self._is_later = True
        util.register_after_fork(self, ChildProcess._begin_all)
        bootstrap = process.BaseProcess._bootstrap  # type: ignore[attr-defined]  # spawned ones call nothing else

        def _bootstrap(started: Any, *arguments: Any, **named: Any) -> Any:
            run = started.run

            def begin_and_run() -> None:
                self._begin_all()
                run()

            started.run = begin_and_run
            return bootstrap(started, *arguments, **named)

        if launchers.is_spawned():
            process.BaseProcess._bootstrap = _bootstrap  # type: ignore[attr-defined]

    def _start(self, name: str, module: str) -> None:
        options, left_out = self._options(name)
        session = self.make(options)
        session.cell = self.cell
        session.process = self._facts()
        if isinstance(session.collector, RecordsThreads):
            is_main = threading.current_thread() is threading.main_thread()
            session.collector.all_threads = not is_main or launchers.loops_natively()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NpuprofWarning)  # the output is the program's
            session.start()
        session.recording.problems += left_out
        if self.samples:
            session.recording.stack_problems.append(_SAMPLED)
        self._session = session
        end_for_others(lambda _title: self.end() if self._session is session else None)  # not that of a later cell
        self._follow_the_end()
        if inherited := launchers.pass_on(os.environ):
            os.environ[launchers.INHERITED] = inherited
        job_folder.append(
            self.folder,
            "recording",
            module=module,
            path=session.recording.directory.name,
            host=platform.node(),
            rank=self._rank[0],
        )

    def _options(self, name: str) -> tuple[Options, list[str]]:
        """Return the options of the job for a front end, and messages about those that it lacks."""
        from npuprof.options import lenient

        left_out: list[str] = []
        chosen = {
            key: value
            for key, value in self.job.options.items()
            if key not in ("processes", "workers", "delay", "engines", *["stacks"] * self.samples)
        }
        check = registry.make(name).check
        plain = {**chosen, "collector": name, "output": str(self.folder), "name": "process"}
        return lenient.build(plain, left_out.append, check), left_out

    def _facts(self) -> dict[str, Any]:
        """Return what is known of this process: its rank and number of ranks, groups, and how it was started."""
        of_torch = self._groups.note()
        rank, size = self._rank if self._rank[0] is not None else launchers.environment_rank(os.environ)
        index = launchers.spawned_index() if rank is None else None
        facts = {
            "rank": index if rank is None else rank,
            "world_size": size,
            **of_torch,
            "parent": os.getppid(),
            "arguments": [word[:200] for word in sys.argv[:12]],
            "born": job_folder.born(),
        }
        return {name: value for name, value in facts.items() if value is not None}

    def _follow_the_end(self) -> None:
        """Have :meth:`end` called at the end of this process, whichever way it takes."""
        if not self._follows:
            self._follows = True
            atexit.register(self.end)
            if launchers.is_of_multiprocessing():  # whose processes do not reach atexit
                from multiprocessing.util import Finalize

                Finalize(None, self.end, exitpriority=_FIRST_PRIORITY)
        self._groups.follow()
        self._follow_termination()
        self._follow_calls()

    def _follow_calls(self) -> None:
        """Let the listening thread wake the main thread out of a wait, where the front end stops on that one alone."""
        if self.listener is None or self._session is None or self._session.collector.stops_on_any_thread:
            return
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGURG) is signal.SIG_DFL:
            signal.signal(signal.SIGURG, self._woken)

    def _follow_termination(self) -> None:
        """Have :meth:`end` called at SIGTERM, which then ends this process as it would without a profiler.

        Pools of processes and launchers end their processes with it. While the main thread is in a call that does not
        return, no handler in Python runs: a thread waits for the signal too.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        read, write = os.pipe()
        os.set_blocking(write, False)
        if (before := signal.set_wakeup_fd(write, warn_on_full_buffer=False)) != -1:
            signal.set_wakeup_fd(before)
            os.close(read)
            os.close(write)
        else:
            threading.Thread(target=self._wait_for_termination, args=(read,), name="npuprof-end", daemon=True).start()
        signal.signal(signal.SIGTERM, self._terminated)

    def _terminated(self, _number: int, _frame: object) -> None:
        self._handles.set()
        self._is_terminated = True
        self.end()
        if self._writer == threading.get_ident() and not self._written.is_set():
            return  # the signal came while this thread writes, which ends the process afterwards
        self._written.wait(_LONGEST_S)  # where another thread has begun to write
        end_by_sigterm()

    def _wait_for_termination(self, read: int) -> None:
        while signal.SIGTERM not in os.read(read, 1):
            pass
        if self._session is not None and self._handles.wait(_PATIENCE_S):
            return  # the handler ends this process
        session = self._session
        if session is not None and session.collector.stops_on_any_thread:
            self.end()
        if self._ended:  # this thread, or the main one, has begun to write
            self._written.wait(_LONGEST_S)
        end_by_sigterm()

    def begin_forked(self) -> None:
        """Begin in a process that was forked: at once if a front end is imported, else with its import."""
        modules = registry.imported_front_ends()
        if not modules:
            AwaitedImport(registry.MODULES_OF_FRONT_ENDS, self.begin_forked)
        if not launchers.is_of_multiprocessing() and not launchers.will_be_of_multiprocessing():
            self._end_before_exit()
        for module in modules:
            if self._session is None:
                self.begin(module)

    def _end_before_exit(self) -> None:
        """Have :meth:`end` called before ``os._exit``, by which forked children end, and forget all before an exec."""
        exit_at_once = os._exit

        @wraps(exit_at_once)
        def _exit(status: int) -> NoReturn:
            if threading.current_thread() is threading.main_thread():
                self.end()
            exit_at_once(status)

        os._exit = _exit
        for name in ("execv", "execve"):
            setattr(os, name, self._discarding(getattr(os, name)))

    def _discarding(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def execute(*arguments: Any, **named: Any) -> Any:
            if os.getpid() == self._pid:
                self._discard()
            return function(*arguments, **named)

        return execute

    def end(self) -> None:
        """Stop the session and write its recording, once, since this process ends."""
        self._end(None)

    def _end(self, failed: str | None) -> None:
        """Stop the session and write its recording, once; where this process goes on, `failed` is empty."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            session, self._session, ended, self._ended = self._session, None, self._ended, True
        if session is None:
            if not ended:
                self._written.set()  # nothing is to be written
            return
        uncaught = getattr(sys, "last_value", None)
        self._writer = threading.get_ident()
        try:
            job_folder.append(self.folder, "stopping")
            facts = self._facts()
            session.recording.process = facts
            session.stop(_failure() if failed is None else failed)
            job_folder.append(self.folder, "ended", rank=facts.get("rank"))
        except Exception as error:  # noqa: BLE001 - the program ends as without a profiler
            job_folder.append(self.folder, "ended", why=describe_failure(error)[:500])
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGURG) == self._woken:
            signal.signal(signal.SIGURG, signal.SIG_DFL)
        self._written.set()
        if self._is_terminated:
            end_by_sigterm()
        if failed is None and isinstance(uncaught, KeyboardInterrupt):
            # The interpreter then ends by SIGINT, unless text is evaluated meanwhile, as imports of the stop may do.
            with suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")  # noqa: S102 - makes it remember that the interrupt was not handled

    def _discard(self) -> None:
        """Stop the session and delete its recording, for another front end."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                session.stop()
            shutil.rmtree(session.recording.directory, ignore_errors=True)


def _failure() -> str:
    """Return the exception that ends this process, in words; empty if it ends by itself."""
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return ""
    users = [
        f"{Path(frame.f_code.co_filename).name}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if Frame(frame.f_code.co_filename, line, frame.f_code.co_name).is_users
    ]
    return describe_failure(error) + (f" ({users[-1]})" if users else "")


_of_process: ChildProcess | None = None


def begin(folder: Path | None, module: str, make: MakeSession, control: Path | None = None) -> None:
    """Begin the session of this process after the import of a front end, if the folder is that of a running job."""
    global _of_process
    if _of_process is None:
        job = JobFile.read(folder) if folder is not None and job_folder.is_private(folder) else None
        is_over = folder is None or job is None or bool(job.ended_ns)  # the variable may outlive the cell
        if control is not None and not job_folder.is_private(control):
            control = None
        if is_over and control is None:
            return
        _of_process = ChildProcess(folder or Path(), job or JobFile(), make, control=control, idle=is_over)
        os.register_at_fork(after_in_child=_forked_again)
    _of_process.begin(module)


def _forked_again() -> None:
    before = _of_process
    if before is None:
        return
    if before.listener is not None:
        before.listener.close()
    if before.is_idle:
        forked_idle(before.control, before.make)
    else:
        forked(before.folder, before.job, before.make, before.cell, samples=before.samples, control=before.control)


def forked(
    folder: Path,
    job: JobFile,
    make: MakeSession,
    cell: RunningCell | None,
    *,
    samples: bool = False,
    control: Path | None = None,
) -> None:
    """Drop the session of the parent in a forked child, and begin one of its own; never raises.

    `samples` is whether the parent samples stacks, and `control` where workers listen, as :class:`ChildProcess` has it.
    """
    global _of_process
    with suppress(Exception):
        samples = _drop_that_of_the_parent() or samples
        if launchers.execs_at_once():
            _of_process = None
            return
        # The stamps of the cell are the parent's; its code is the child's too.
        own_cell = None if cell is None else replace(cell, stamps=None, spans=False)
        _of_process = child = ChildProcess(folder, job, make, own_cell, samples=samples, control=control)
        job_folder.append(folder, "began", parent=os.getppid(), arguments=[word[:200] for word in sys.argv[:12]])
        _mark(control)
        child.begin_forked()


def forked_idle(control: Path | None, make: MakeSession) -> None:
    """Let a worker that is forked while no cell is profiled wait for one; never raises."""
    global _of_process
    with suppress(Exception):
        _of_process = None
        if control is None or launchers.execs_at_once() or not launchers.will_be_of_multiprocessing():
            return
        _of_process = child = ChildProcess(Path(), JobFile(), make, control=control, idle=True)
        child.inherits = True
        _mark(control)
        child.begin_forked()


def _mark(control: Path | None) -> None:
    if control is not None and launchers.will_be_of_multiprocessing():
        channel.mark(control)


def watch_forked(folder: Path) -> None:
    """Note at the end of a forked child that it was a rank that used a front end; never raises."""
    with suppress(Exception):
        if not launchers.will_be_of_multiprocessing() or launchers.execs_at_once():
            return
        from multiprocessing.util import Finalize, register_after_fork

        def begun(_folder: Path) -> None:
            Finalize(None, _note_use, args=(folder,), exitpriority=_FIRST_PRIORITY)

        _kept.append(folder)  # multiprocessing has a weak reference
        register_after_fork(folder, begun)


_kept: list[Path] = []


def _note_use(folder: Path) -> None:
    modules = registry.imported_front_ends()
    is_rank = launchers.environment_rank(os.environ)[0] is not None or launchers.TorchGroups().note()
    if modules and is_rank and not launchers.is_loading_data():
        job_folder.append(folder, "used", module=modules[0])


def _drop_that_of_the_parent() -> bool:
    """Forget what collects in the parent: its threads and files are not this process's.

    Returns whether torch recorded stacks for it: a second recorder of these crashes when it ends (torch 2.13).
    """
    from npuprof.lines import call_stacks
    from npuprof.session import active, history

    run = active.current()
    has_stacks = run is not None and run.recording.options.get("stacks") is True
    active.after_fork()
    history.after_fork()
    call_stacks.current = call_stacks.number_of = None
    if isinstance(getattr(signal.getsignal(signal.SIGURG), "__self__", None), ChildProcess):
        signal.signal(signal.SIGURG, signal.SIG_DFL)
    if isinstance(getattr(signal.getsignal(signal.SIGTERM), "__self__", None), ChildProcess):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
    simulated = sys.modules.get("npuprof.simulator.acl")
    if simulated is not None:
        simulated.prof.finalize()
    torch = sys.modules.get("torch")
    is_traced = torch is not None and torch.autograd._profiler_enabled()
    if torch is not None and is_traced:
        torch.autograd._disable_profiler()
    return has_stacks and bool(is_traced)
