"""The msprof collector: the vendor's tool attaches to this process and collects between `start` and `stop`.

It can attach only to a process started with ``PROFILING_MODE=dynamic``; other programs run under it from their
beginning, see :mod:`npuprof.session.applications`. Every wait is bounded, and no process is left running.
Source: collectors/FRONTENDS.md section 5.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from npuprof.collectors import capabilities, msprof_flags
from npuprof.collectors.acl import AclCollector
from npuprof.errors import CollectorError, FrontEndAbsentError, NpuprofError
from npuprof.files import atomic
from npuprof.machine import cann
from npuprof.options import Options

_MOST_OUTPUT = 1 << 20  # characters kept: the last ones explain a failure
_LAST_LINES = 8
_END_S = 10.0


class MsprofProcess:
    """A running msprof."""

    def __init__(
        self,
        command: Sequence[str],
        echo: Callable[[str], object] | None = None,
        *,
        takes_words: bool = False,
        keeps: Sequence[int] = (),
    ) -> None:
        # The variable is meant for this process, not for msprof.
        environment = {name: value for name, value in os.environ.items() if name != "PROFILING_MODE"}
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the vendor's tool, with arguments of our own
                list(command),
                stdin=subprocess.PIPE if takes_words else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=keeps,
                start_new_session=True,  # an interrupt reaches msprof through kill(), not directly
            )
        except OSError as error:
            raise CollectorError(
                f"{command[0]} cannot be run ({error.strerror or error}): check its permissions"
            ) from None
        self._echo = echo
        self._news = threading.Condition()
        self._output = ""
        self._dropped = 0  # number of characters already dropped
        self._closed = False
        self._reader = threading.Thread(target=self._read, name="npuprof-msprof", daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """The last megabyte of its output."""
        with self._news:
            return self._output

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None, "it was opened with a pipe"  # noqa: S101 - narrows the type
        try:
            while piece := os.read(stream.fileno(), 1 << 16):
                text = piece.decode(errors="replace")
                with self._news:
                    kept = (self._output + text)[-_MOST_OUTPUT:]
                    self._dropped += len(self._output) + len(text) - len(kept)
                    self._output = kept
                    self._news.notify_all()
                if self._echo is not None:
                    self._echo(text)
        finally:
            with self._news:
                self._closed = True
                self._news.notify_all()

    def ask(self, word: str, answer: re.Pattern[str], timeout_s: float) -> re.Match[str]:
        """Send a command and wait for the answer."""
        with self._news:
            place = self._dropped + len(self._output)
        self._print(word)
        end = time.monotonic() + timeout_s
        with self._news:
            while True:
                if match := answer.search(self._output, max(0, place - self._dropped)):
                    return match
                left = end - time.monotonic()
                if self._closed or left <= 0:
                    break
                self._news.wait(left)
        if self._closed:
            raise CollectorError(f"msprof ended at `{word}` with status {self.wait(_END_S)}. {self.last_words()}")
        raise CollectorError(f"msprof did not answer `{word}` within {timeout_s:g} s. {self.last_words()}")

    def _print(self, word: str) -> None:
        stream = self._process.stdin
        if stream is not None:
            with suppress(OSError):  # visible as the end of its output
                stream.write(f"{word}\n".encode())
                stream.flush()

    def quit(self, timeout_s: float) -> int | None:
        """Send ``quit`` and wait; return the exit status, or None if it had to be killed."""
        self._print("quit")
        return self.wait(timeout_s)

    def wait(self, timeout_s: float | None) -> int | None:
        """Wait for the exit status; None if it took too long and was killed.

        On an interrupt, msprof and its program are ended first.
        """
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        except BaseException:
            self.kill()
            raise
        self._finish()
        return status

    def kill(self) -> None:
        """End msprof and its program: by SIGINT first, then by SIGKILL."""
        for number in (signal.SIGINT, signal.SIGKILL):
            with suppress(ProcessLookupError):  # the second also ends its program
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        self._finish()

    def _finish(self) -> None:
        self._reader.join(_END_S)  # a program left behind may hold the pipe open for longer
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not self._reader.is_alive():
                with suppress(OSError):
                    stream.close()

    def last_words(self) -> str:
        """Return the last lines of its output, for a message."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        if not lines:
            return "It said nothing"
        return "It said (its messages may name the wrong option): " + " | ".join(lines[-_LAST_LINES:])


def has_data(directory: Path) -> bool:
    """Return whether msprof has left raw data in a directory."""
    return any(directory.glob("PROF_*"))


LOG_NAME = "msprof.log"
_ATTACH_S = 90.0  # msprof waits up to a minute for the process
_STOP_S = 120.0
_QUIT_S = 300.0  # it may export the collected data
_MODE = "PROFILING_MODE"
# Its answers to the two commands. A line with [ERROR] is not an answer: it may be about something optional.
_STARTED = re.compile(r"start success|start fail|already started|device has not been set up", re.IGNORECASE)
_STOPPED = re.compile(r"stop success|stop fail|profiling has not started", re.IGNORECASE)


def find() -> Path:
    """Return the path of msprof."""
    tool = cann.msprof()
    if tool is None:
        raise FrontEndAbsentError(
            "msprof is not installed (neither on PATH nor in ASCEND_HOME_PATH): install the CANN toolkit and "
            "`source set_env.sh`, or use another collector; without an NPU, --collector simulator, `npuprof demo` and "
            "%%npuprof in a notebook use the simulated one"
        )
    return tool


class MsprofCollector(AclCollector):
    """Collects with msprof attached to this process; markers are pyACL stamps, which msprof records."""

    name = "msprof"
    simulated = False
    stops_on_any_thread = False

    def __init__(self) -> None:
        super().__init__()
        self._msprof: MsprofProcess | None = None
        self._directory = Path()

    def check(self, options: Options) -> None:
        """Raise an error for options that msprof does not support, or a process it cannot attach to."""
        capabilities.check(self.name, options)
        msprof_flags.refuse(options, attached=True)
        if not self.drives(options):
            return
        find()
        if (mode := _mode_at_start()) != "dynamic":
            setting = f"{_MODE}={mode}" if mode else f"no {_MODE}"
            raise CollectorError(
                f"msprof can only attach to a process that was started with {_MODE}=dynamic in its environment, and "
                f"this one was started with {setting}: set it for the kernel (in `env` of its kernel.json, or "
                f"`{_MODE}=dynamic jupyter lab`) and restart, or run a script with `%npuprof run`"
            )

    def warmup(self, options: Options, directory: Path) -> None:
        """Start msprof, which attaches to this process and waits for the command to collect."""
        self._msprof = self._attach(options, directory)

    def _attach(self, options: Options, directory: Path) -> MsprofProcess:
        pid = os.getpid()
        command = [str(find()), "--dynamic=on", f"--pid={pid}", f"--output={directory}"]
        return MsprofProcess([*command, *msprof_flags.flags(options, pid=pid)], takes_words=True)

    def start(self, options: Options, directory: Path) -> None:
        """Attach to this process and start collecting into `directory`; a failure leaves nothing running."""
        msprof, self._msprof = self._msprof or self._attach(options, directory), None
        try:
            answer = msprof.ask("start", _STARTED, _ATTACH_S)
            if "success" not in answer[0].lower():
                raise CollectorError(f"msprof refused to start. {msprof.last_words()}")
        except CollectorError as error:
            msprof.kill()
            raise CollectorError(
                f"{error}. It reaches a process only after that has initialised CANN (acl.init, or its framework's "
                "first use of the NPU), and one msprof at a time"
            ) from None
        except BaseException:
            msprof.kill()
            raise
        self._msprof, self._directory, self._running = msprof, directory, True
        if options.marks:
            with suppress(FrontEndAbsentError):  # a process without pyACL has no stamps
                self._acl, self._marks = self.load(), True

    def stop(self) -> None:
        """Stop collecting, detach, and check that msprof has left data."""
        for handle in list(self._ranges):
            self.range_stop(handle)
        self._marks, self._acl = False, None
        msprof, self._msprof = self._msprof, None
        if msprof is None:
            return
        if not self._running:  # only warmed up
            msprof.kill()
            return
        self._running = False
        try:
            answer = msprof.ask("stop", _STOPPED, _STOP_S)
            if "success" not in answer[0].lower():
                raise CollectorError(f"msprof failed to stop. {msprof.last_words()}")
            status = msprof.quit(_QUIT_S)
        except BaseException:
            msprof.kill()
            raise
        finally:
            with suppress(NpuprofError):
                atomic.write(self._directory / LOG_NAME, msprof.output.encode(errors="backslashreplace"))
        if not has_data(self._directory):
            raise CollectorError(
                f"msprof ended with status {status} and left no PROF_* directory. {msprof.last_words()}"
            )
        if status is None:
            raise CollectorError(f"msprof did not quit within {_QUIT_S:g} s and was ended; what it collected is kept")
        if status:
            raise CollectorError(f"msprof ended with status {status}. {msprof.last_words()}")

    def versions(self) -> Mapping[str, str]:
        """Return the version of the CANN toolkit and the path of msprof."""
        versions = {"msprof": str(tool)} if (tool := cann.msprof()) is not None else {}
        return versions | ({"cann": version} if (version := cann.toolkit_version()) else {})


def _mode_at_start() -> str:
    """Return the ``PROFILING_MODE`` this process was started with; later changes have no effect."""
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return os.environ.get(_MODE, "")
    values = [entry.partition(b"=")[2] for entry in entries if entry.startswith(_MODE.encode() + b"=")]
    return values[0].decode(errors="replace") if values else ""
