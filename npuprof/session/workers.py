"""The workers that code of this process starts and that may outlive the cell: told when a later cell begins and ends.

Until a cell begins they cost one waiting thread each. Processes of :mod:`multiprocessing` and of packages built on it
(executors, joblib, Dask, data loaders) get the start-up hook and the folder of the sockets while they start; the
environment of this process has both only for that moment, and while a cell is profiled.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any

from npuprof.machine.environment import OF_JOB, OF_WORKERS
from npuprof.recordings.job_folder import is_private, processes, python_processes_below
from npuprof.session import channel
from npuprof.session.awaited_import import AwaitedImport
from npuprof.words.quantities import counted

STARTUP = Path(__file__).parent / "startup"
"""The folder with the start-up hook."""
PATH = "PYTHONPATH"
# What starts processes: the modules, and the functions in them.
_STARTS = {"multiprocessing.process": "BaseProcess.start", "ray._private.services": "start_ray_process"}
_START_S, _STOP_S = 5.0, 30.0
_WORKED_S, _WORKED_SHARE = 0.05, 0.02  # CPU time beyond which a process worked, of which some polls
_SERVERS = (b"forkserver", b"resource_tracker", b"semaphore_tracker", b"raylet", b"dashboard", b"/gcs")
_MOST_NAMED = 8


class Workers:
    """The workers of this process, and of what it starts."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._starting = 0
        self._has_lost = False  # workers may listen where nobody calls
        self._before: dict[str, str | None] = {}
        self._cpu_s: dict[int, float] = {}  # of those that cannot be told, when the cell began
        self._begun_s = 0.0

    def follow(self) -> None:
        """Tell each process that :mod:`multiprocessing` or Ray starts from now on where to listen."""
        for home in _STARTS:
            follow = partial(self._follow_starts, home)
            if home in sys.modules:
                follow()
            else:
                AwaitedImport((home,), follow)

    def _follow_starts(self, home: str) -> None:
        *owners, name = _STARTS[home].split(".")
        owner: Any = sys.modules[home]
        for each in owners:
            owner = getattr(owner, each, None)
        start: Callable[..., Any] | None = getattr(owner, name, None)
        if start is None:  # another release
            return

        @wraps(start)
        def start_and_tell(*arguments: Any, **named: Any) -> Any:
            with self._told(arguments[0] if owners and arguments else None):
                return start(*arguments, **named)

        setattr(owner, name, start_and_tell)

    @contextmanager
    def _told(self, process: Any) -> Iterator[None]:
        """Set the variables while a process starts; a forked one needs none, but the folder."""
        folder = self.folder()
        is_forked = process is not None and _method_of(process) == "fork"
        if folder is None or is_forked or (os.environ.get(OF_WORKERS) == str(folder) and not self._starting):
            yield
            return
        with self._lock:
            self._starting += 1
            if self._starting == 1:
                self._before = {name: os.environ.get(name) for name in (PATH, OF_WORKERS)}
                before = self._before[PATH]
                os.environ[PATH] = f"{STARTUP}{os.pathsep}{before}" if before else str(STARTUP)
                os.environ[OF_WORKERS] = str(folder)
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1
                if not self._starting:
                    for name, value in self._before.items():
                        if value is None:
                            os.environ.pop(name, None)
                        else:
                            os.environ[name] = value

    def folder(self) -> Path | None:
        """Return the folder of the sockets, made when first asked for; None where there can be none."""
        is_lost = self._folder is not None and not is_private(self._folder)  # temporary files were cleaned up
        if (self._folder is None or is_lost) and os.getpid() == self._pid:
            self._has_lost |= is_lost
            self._folder = folder = channel.make_folder(self._folder)
            if folder is not None and not is_lost:
                atexit.register(self._remove)
        return self._folder

    @property
    def made_folder(self) -> Path | None:
        """The folder, if a process has been told of it."""
        return self._folder

    def after_fork(self) -> None:
        """Let a forked child start processes, too; another thread of the parent may have held the lock."""
        self._lock, self._starting = threading.Lock(), 0

    def _remove(self) -> None:
        if self._folder is not None and os.getpid() == self._pid:
            channel.remove_folder(self._folder)

    def start(self, job: Path) -> None:
        """Tell workers that run to record for a job from their next task on, and note those that cannot be told."""
        folder = self.folder()
        if folder is None:
            return
        channel.set_current(folder, job.absolute())
        self._begun_s = time.monotonic()
        listening = channel.listed(folder)
        channel.ask(listening, channel.START, job, _START_S)
        known = {*listening, *channel.marked(folder)}
        below = python_processes_below(os.getpid()) - known
        self._cpu_s = {pid: _cpu_s(pid) for pid in below if (self._has_lost or not _is_told(pid)) and not _serves(pid)}

    def stop(self, job: Path) -> list[str]:
        """Have the workers write what they recorded for a job; return what could not be had, in sentences.

        An interrupt ends the wait.
        """
        folder = self._folder
        if folder is None:
            return []
        channel.set_current(folder, None)
        listening = channel.listed(folder)
        problems: list[str] = []
        try:
            answers = channel.ask(listening, channel.STOP, job, _STOP_S)
        except KeyboardInterrupt:
            answers = {}
            problems.append("the wait for workers was interrupted: they end their recordings, refresh() reads them")
        silent = sorted(pid for pid, text in answers.items() if not text and pid in channel.listed(folder))
        if silent:
            problems.append(
                f"{_named(silent, 'worker')} did not answer: stopped, or in a call that holds Python's lock; what was "
                "done in it is recorded once it goes on, or else start it again"
            )
        # Where nothing was recorded, the least work counts.
        spent_s = time.monotonic() - self._begun_s
        is_recorded = any(each.path for each in processes(job))
        return [*problems, *self._unreached((_WORKED_S + _WORKED_SHARE * spent_s) if is_recorded else 0)]

    def _unreached(self, least_s: float) -> list[str]:
        before, self._cpu_s = self._cpu_s, {}
        worked = sorted(pid for pid, spent_s in before.items() if _cpu_s(pid) - spent_s > least_s)
        if not worked:
            return []
        who = f"{_named(worked, 'Python process')} of an earlier cell worked unprofiled"
        why = "started before npuprof was loaded, or without its start-up hook, as with -I, -E or -S"
        if self._has_lost:
            why += ", or their sockets in the folder of temporary files were removed"
        return [f"{who}: {why}. Start them again, in this cell or after %load_ext npuprof"]

    def worked_since(self, spent_s: dict[int, float]) -> int:
        """Return how many workers that listened at :meth:`spent` have worked since then."""
        return sum(_cpu_s(pid) - before_s > _WORKED_S for pid, before_s in spent_s.items())

    def spent(self) -> dict[int, float]:
        """Return the CPU time of each worker that listens, in seconds."""
        return {} if self._folder is None else {pid: _cpu_s(pid) for pid in channel.listed(self._folder)}


def _named(pids: Collection[int], noun: str) -> str:
    shown = ", ".join(map(str, list(pids)[:_MOST_NAMED])) + (", ..." if len(pids) > _MOST_NAMED else "")
    return f"{counted(len(pids), noun, f'{noun}es' if noun.endswith('s') else f'{noun}s')} ({shown})"


def _method_of(process: Any) -> str:
    """Return how :mod:`multiprocessing` starts a process; empty if that is unknown."""
    method = getattr(process, "_start_method", None)
    if method is None:
        with suppress(Exception):
            method = sys.modules["multiprocessing.context"]._default_context.get_start_method()
    return str(method or "")


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process in seconds; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _is_told(pid: int) -> bool:
    """Return whether a process began with the start-up hook: it listens, or has imported no front end."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return True  # another user's, or it has ended
    names = (f"{OF_WORKERS}=".encode(), f"{OF_JOB}=".encode())
    return any(word.startswith(names) for word in words)


def _serves(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True
    return any(name in words for name in _SERVERS)
