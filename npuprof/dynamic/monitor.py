"""Watches ``profiler_config.json`` in a training loop and profiles the requested steps."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from npuprof.collectors.base import front_end_of
from npuprof.collectors.registry import choose
from npuprof.dynamic import files, keys, requests
from npuprof.dynamic.requests import NOW, Request
from npuprof.errors import NpuprofError
from npuprof.options import lenient
from npuprof.session.offline import trace_handler
from npuprof.session.schedule import schedule
from npuprof.session.session import Session
from npuprof.words.texts import plain_line

_MAX_BYTES = 4 << 20  # a loop that runs for months should not fill the disk
_logger = logging.getLogger("npuprof.dynamic")


class Log:
    """Writes ``log/npuprof_rank<r>_<pid>.log`` below `folder`, and passes the lines on to Python's logging."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.path = folder / "log" / f"npuprof_rank{rank}_{os.getpid()}.log"

    def info(self, message: str) -> None:
        """Log an event."""
        self._write(logging.INFO, message)

    def warning(self, message: str) -> None:
        """Log a deviation from the request."""
        self._write(logging.WARNING, message)

    def error(self, message: str) -> None:
        """Log a failure."""
        self._write(logging.ERROR, message)

    def _write(self, level: int, message: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        message = plain_line(message)
        line = f"{stamp} {logging.getLevelName(level)} {message}\n"
        with suppress(OSError):  # the training continues without a log
            self.path.parent.mkdir(mode=0o755, exist_ok=True)
            with self.path.open("a", encoding="utf-8", errors="replace") as file:
                if file.tell() < _MAX_BYTES:
                    file.write(line)
        _logger.log(level, "%s", message)


# torchrun, Ascend's launchers and MindSpore, Open MPI, MPICH and its derivatives, Slurm.
VARIABLES = ("RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
"""The variables of launchers; the first that is set counts."""


def rank() -> int:
    """Return this process's rank; 0 without a launcher."""
    for name in VARIABLES:
        value = os.environ.get(name, "")
        if value.isascii() and value.isdecimal():
            return int(value)
    return 0


_CHEAP_NS = 20_000
_SHARE = 100  # checks of a slow file system may take 1/100 of the time

_Signature = tuple[int, int, int, str]


class Monitor:
    """Checks the file at each step.

    Attributes
    ----------
    cur_step
        The number of finished steps.
    """

    def __init__(
        self,
        path: Path,
        dialect: requests.Dialect = "torch_npu",
        collector: str = "auto",
        output: Path = requests.HERE,
        *,
        stat: Callable[[Path], os.stat_result] = os.stat,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.cur_step = 0
        self._path = path
        self._collector = collector
        self._output = output
        self._stat = stat
        self._clock_ns = clock_ns
        self._rank = rank()
        self._lock = threading.RLock()
        self._waiting: Request | None = None
        self._session: Session | None = None
        self._ends_at = 0
        self._last_cost_ns = 0
        self._next_look_ns = 0
        self._signature: _Signature | None = None
        self.log = Log(path.parent, self._rank)
        if path.exists():
            try:
                self._read(changed=False)
            except Exception as error:  # noqa: BLE001 - the training must go on
                self._fail(error)
        else:
            files.write(path, keys.template(dialect))
            self._has_changed()
        self.log.info(f"rank {self._rank} watches {path}")

    @property
    def path(self) -> Path:
        """The watched file."""
        return self._path

    def step(self) -> None:
        """End a step; failures of the profiler are logged and do not reach the loop."""
        with self._lock:
            self.cur_step += 1
            try:
                if self._session is not None:
                    self._advance(self._session)
                # A change during a run is read after the run.
                if self._session is None and self._clock_ns() >= self._next_look_ns and self._has_changed():
                    self._read(changed=True)
                if self._waiting is not None and self._waiting.first == self.cur_step:
                    self._begin(self._waiting)
            except Exception as error:  # noqa: BLE001 - the training must go on
                self._fail(error)

    def start(self, path: Path | None) -> None:
        """Begin the run that a file describes at the current step, whatever its step number."""
        with self._lock:
            source = path if path is not None else self._path
            try:
                if self._session is not None:
                    self.log.warning(f"{source} is not started: {self._session.recording.directory} is being recorded")
                    return
                request = self._accept(requests.read_file(source)[0], changed=True)
                if request is not None:
                    self._begin(request)
            except Exception as error:  # noqa: BLE001 - the training must go on
                self._fail(error)

    def set_step(self, number: int) -> None:
        """Set the step number; a run that is being recorded keeps its length."""
        with self._lock:
            self._ends_at += number - self.cur_step
            self.cur_step = number
            if (waiting := self._waiting) is not None and (waiting.first or 0) < number:
                self._waiting = None
                self.log.warning(f"the step that {self._path} asks for has passed with {number}: it is ignored")

    def close(self) -> None:
        """Stop watching; a run that is being recorded ends."""
        with self._lock:
            self._waiting = None
            if self._session is not None:
                try:
                    self._end(self._session)
                except Exception as error:  # noqa: BLE001 - the training must go on
                    self._fail(error)

    def _has_changed(self) -> bool:
        """Return whether the file has changed since the last check."""
        began_ns = self._clock_ns()
        try:
            seen = _signature(self._stat(self._path))
        except OSError:
            seen = None
        ended_ns = self._clock_ns()
        cost_ns = ended_ns - began_ns
        # A single slow check may be chance; after two slow checks, checks become rare enough to go unnoticed.
        slow_ns = min(cost_ns, self._last_cost_ns)
        self._last_cost_ns = cost_ns
        self._next_look_ns = ended_ns + slow_ns * _SHARE if slow_ns > _CHEAP_NS else 0
        if seen == self._signature:
            return False
        self._signature = seen
        if seen is None:
            self.log.warning(f"{self._path} has gone: nothing is profiled until it is back")
        return seen is not None

    def _read(self, *, changed: bool) -> None:
        self._waiting = None
        try:
            plain, state = requests.read_file(self._path)
            self._signature = _signature(state)
            request = self._accept(plain, changed=changed)
        except NpuprofError as error:
            self.log.error(f"{self._path} is ignored: {error}")
            return
        if request is None:
            return
        if request.first is None or (request.first == NOW and not changed):
            self.log.info(f"{self._path} asks for nothing to be profiled{'' if changed else ' until it is changed'}")
        elif request.first == NOW:
            self._begin(request)
        elif request.first < self.cur_step:
            self.log.warning(
                f"{self._path} asks for step {request.first + request.counted_from}, and it has passed: "
                f"{self.cur_step + request.counted_from} is the present one. It is ignored"
            )
        else:
            self._waiting = request
            self.log.info(f"step {request.first + request.counted_from} is waited for")
            if request.first == self.cur_step == 0:
                self._begin(request)

    def _accept(self, plain: dict[str, Any], *, changed: bool) -> Request | None:
        """Return the request if it is for this rank and the front end supports it."""
        request = requests.understand(
            plain, changed=changed, collector=self._collector, output=self._output, warn=self._left_out
        )
        if not request.means(self._rank):
            self.log.info(f"{self._path} does not mean rank {self._rank}")
            return None
        if request.first is None:
            return request
        check = choose(request.options.collector).collector.check
        options = lenient.build(request.options.to_dict(), self._left_out, check, request.typed)
        return replace(request, options=options)

    def _left_out(self, message: str) -> None:
        self.log.warning(f"{self._path}: {message}")

    def _begin(self, request: Request) -> None:
        self._waiting = None
        first = self.cur_step + request.warmup
        last = first + request.active - 1
        plain = request.options.to_dict()
        plain["output"] = request.options.output / (
            f"rank{self._rank}_start{first + request.counted_from}_stop{last + request.counted_from}"
        )
        session = Session(
            type(request.options).from_dict(plain),
            schedule=schedule(wait=0, warmup=request.warmup, active=request.active, repeat=1),
            on_trace_ready=trace_handler(analyse_flag=bool(request.analyse), async_mode=request.analyse == "async"),
            title="dynamic profiling",
        )
        for key, value in (request.metadata or {}).items():
            session.add_metadata(key, value)
        session.start(self.cur_step + request.counted_from)
        self._session, self._ends_at = session, last + 1
        self.log.info(
            f"steps {first + request.counted_from} to {last + request.counted_from} are recorded with "
            f"{front_end_of(session.collector, session.options)} ({session.reason})"
        )

    def _advance(self, session: Session) -> None:
        try:
            session.step()
        finally:
            if self.cur_step >= self._ends_at:
                self._end(session)

    def _end(self, session: Session) -> None:
        self._session = None  # even if the stop fails, so that the next request can begin
        recording = session.stop()
        for problem in recording.problems:
            self.log.warning(problem)
        self.log.info(f"the recording is {recording.directory}")

    def _fail(self, error: Exception) -> None:
        problem = str(error) if isinstance(error, NpuprofError) else f"{type(error).__name__}: {error}"
        self.log.error(f"dynamic profiling at step {self.cur_step}: {problem}; the training goes on")


def _signature(state: os.stat_result) -> _Signature:
    return state.st_mtime_ns, state.st_size, state.st_ino, requests.distrust(state)
