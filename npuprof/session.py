"""A session: one run of a collector around some code, from start to a recording.

A process has one native profiler, so it has one session at a time. However the profiled code ends
(normally, by an exception or an interrupt, with the kernel, or by the session being forgotten), the
collector is stopped, its handles are given back, and the recording is written.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from npuprof.clock import Clock, SystemClock
from npuprof.collectors.base import Collector
from npuprof.collectors.registry import choose
from npuprof.errors import CollectorError, NpuprofError, OptionsError, SessionBusyError, SessionError
from npuprof.options import Options
from npuprof.recording import FILE_NAME, STACKS_FILE_NAME, Recording

if TYPE_CHECKING:
    from npuprof.collectors.python_stacks import PythonStacks
    from npuprof.profiles import Profile

_process_lock = threading.RLock()
_running: _Run | None = None
_newest: _Run | None = None
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
        self._run: _Run | None = None

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
        global _running
        with self._lock, _process_lock:
            if self._run is not None:
                raise SessionError(f"{self._title} has started once already: make a new session for another run")
            if _running is not None and _running.collecting:
                raise SessionBusyError(_running.describe() + ": stop it first")
            if "npu" in self.options.activities:
                self._collector.check(self.options)
            run = _Run(self._collector, self.options, self._title, self._clock)
            run.start()
            self._run = _running = run
            # Runs when the session is forgotten and when the interpreter ends, whichever comes first.
            weakref.finalize(self, run.abandon)
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

    def _collecting_run(self, call: str) -> _Run:
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


class _Run:
    """What must be ended, apart from the session so that a forgotten session can still end it."""

    def __init__(self, collector: Collector, options: Options, title: str, clock: Clock) -> None:
        self.collector = collector
        self.options = options
        self.collecting = False
        self._title = title
        self._clock = clock
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self.native = "npu" in options.activities
        self._stacks: PythonStacks | None = None
        self._result: Profile | None = None
        self._step = 0
        self._step_start_ns = 0
        self.recording = Recording(
            directory=Path(),
            name=options.name,
            collector=collector.name,
            simulated=collector.simulated and self.native,
            options=options.to_dict(),
            environment=_environment(),
        )

    def describe(self) -> str:
        """Say who holds the native profiler since when."""
        since = time.strftime("%H:%M:%S", time.localtime(self.recording.started_ns / 1e9))
        return f"{self._title} has been collecting with {self.collector.name} since {since}"

    def start(self) -> None:
        self.recording.directory = directory = _new_directory(self.options)
        try:
            self.recording.versions = _versions()
            self.recording.started_ns = self._clock.realtime_ns()
            # Written at once, so that a run whose kernel is killed can be opened.
            self.recording.write()
            if self.native:
                self.collector.start(self.options, directory)
                self.recording.versions.update(self.collector.versions())
            self._start_stacks()
        except OSError as error:
            self._remove_traces(directory)
            raise CollectorError(
                f"nothing can be written to {directory} ({error.strerror or error}): "
                "free some space or choose another directory with --output"
            ) from error
        except BaseException:
            self._remove_traces(directory)
            raise
        self.collecting = True
        # The front end may take a while to start; the profiled code begins only now.
        self.recording.started_ns = self._step_start_ns = self._clock.realtime_ns()

    def _remove_traces(self, directory: Path) -> None:
        """Remove what a failed start left: empty directories and our own file, never data."""
        with suppress(OSError):
            (directory / FILE_NAME).unlink(missing_ok=True)
            (directory / f"{FILE_NAME}.part").unlink(missing_ok=True)
            directory.rmdir()

    def _start_stacks(self) -> None:
        if "cpu" not in self.options.activities:
            return
        from npuprof.collectors.python_stacks import PythonStacks

        stacks = PythonStacks(clock=self._clock)
        try:
            stacks.start()
        except BaseException:
            if self.native:
                self.collector.stop()
            raise
        self._stacks = stacks

    def step(self) -> None:
        with self._lock:
            now_ns = self._clock.realtime_ns()
            self.recording.steps.append((self._step, self._step_start_ns, now_ns))
            self._step, self._step_start_ns = self._step + 1, now_ns

    def result(self) -> Profile:
        """Decode the recording, once."""
        with self._lock:
            if self._result is None:
                from npuprof.profiles import load

                self._result = load(self.recording.directory)
            return self._result

    def abandon(self) -> None:
        """End what nobody stopped."""
        if self.collecting:
            self.recording.problems.append(
                "nobody stopped the session: it ended with its process or its last reference"
            )
            self.stop()

    def stop(self, failed: str = "") -> None:
        """End everything that was begun, once; whatever fails is told in the recording's problems."""
        global _running, _newest
        with self._lock:
            # A forked child inherits the object but not the native profiler: that is the parent's to end.
            if not self.collecting or os.getpid() != self._pid:
                return
            self.collecting = False
            recording = self.recording
            recording.failed = failed
            try:
                for part in (self._stop_sampling, self._stop_native, self._write_stacks, self.recording.write):
                    _attempt(part, recording.problems)
            finally:
                with _process_lock:
                    _newest = self
                    if _running is self:
                        _running = None

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
    if _newest is None:
        raise SessionError("no run has finished in this process yet: profile a cell with %%npuprof first")
    return _newest.result()


def running() -> str:
    """Say who is collecting in this process; empty when nobody is."""
    with _process_lock:
        return _running.describe() if _running is not None and _running.collecting else ""


def running_collector() -> Collector | None:
    """Give the collector that is collecting natively in this process, if one is."""
    run = _running  # read once: another thread may end it meanwhile
    return run.collector if run is not None and run.collecting and run.native else None


def describe_failure(error: BaseException | None) -> str:
    """Say what the profiled code raised; empty for None."""
    if error is None:
        return ""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the message is code of the user's; the recording must not hang on it
        message = "(its message cannot be printed)"
    return f"{type(error).__name__}: {message}"[:500].rstrip(": ")


def _attempt(part: Callable[[], None], problems: list[str]) -> None:
    """Run one part of stopping; the next part runs whatever becomes of this one."""
    try:
        part()
    except NpuprofError as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"the recording could not be written completely ({error.strerror or error}): free some space")
    except Exception as error:  # noqa: BLE001 - the parts after it must run, and it is told
        problems.append(f"{part.__name__.strip('_')} failed: {describe_failure(error)}")


def _new_directory(options: Options) -> Path:
    """Make the private directory of a new recording."""
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


def _versions() -> dict[str, str]:
    return {"npuprof": metadata.version("npuprof"), "python": platform.python_version()}


def _environment() -> dict[str, str]:
    return {
        "hostname": platform.node(),
        "os": platform.platform(),
        "cpus": str(os.cpu_count()),
        "pid": str(os.getpid()),
        "executable": sys.executable,
    }
