"""Processes that read runs side by side.

Neither ``fork`` (a kernel has threads, and perhaps an NPU's runtime, which do not survive it) nor the ways of
``multiprocessing`` (they run the user's ``__main__`` again, which in a script without a guard would train again) is
used: each process is an interpreter of its own, which is told through a pipe what to read.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import IO, BinaryIO, cast

from npuprof.machine import environment
from npuprof.ranks.handover import packed, receive, send
from npuprof.ranks.worker import READY, Failure, Task
from npuprof.sources.base import Decoded

# The paths come as arguments, and before any import: a json.py in the working directory must not come between.
_START = "import sys; sys.path[:] = sys.argv[1:]; from npuprof.ranks.worker import main; main()"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_WAIT_S = 5.0
_TAIL_BYTES = 2000


class NoProcessesError(Exception):
    """No process can be started here."""


class Crew:
    """Up to so many processes, each reading one run at a time.

    Use it as a context: at its end, by whatever exception, the processes are gone.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        # No lock, which an interrupt could leave locked: what is done to each of these is done at once.
        self._idle: list[_Worker] = []
        self._all: list[_Worker] = []
        self._stopped = False

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        while self._all:  # an interrupt meanwhile leaves the rest to the next call
            self._all[-1].stop()
            self._all.pop()

    def read(self, tasks: Sequence[Task]) -> Generator[tuple[int, Decoded | Failure], None, None]:
        """Give each task's place and outcome, in the order in which they are done.

        A process that dies is the outcome of its run alone. Close the iterator, or leave the context, to end early.

        Raises
        ------
        NoProcessesError
            If a process cannot be started.
        """
        threads = ThreadPoolExecutor(self._processes, thread_name_prefix="npuprof-rank")
        try:
            futures = {threads.submit(self._one, task): place for place, task in enumerate(tasks)}
            for future in as_completed(futures):
                yield futures.pop(future), future.result()
        finally:
            self.__exit__()
            threads.shutdown(wait=True, cancel_futures=True)

    def _one(self, task: Task) -> Decoded | Failure:
        worker = self._take()
        try:
            outcome = worker.ask(task)
        except (OSError, EOFError) as error:
            return Failure(f"{task.path} could not be read: {worker.fate(error)}; load it by itself to try again")
        self._idle.append(worker)
        return outcome

    def _take(self) -> _Worker:
        with suppress(IndexError):
            return self._idle.pop()
        worker = _Worker()
        self._all.append(worker)
        if self._stopped:  # perhaps after the others were
            worker.stop()
            raise NoProcessesError("they were ended")
        worker.await_ready()
        return worker


class _Worker:
    """One process."""

    def __init__(self) -> None:
        if not sys.executable or getattr(sys, "frozen", False):
            raise NoProcessesError("there is no interpreter to start")
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this
                [sys.executable, "-c", _START, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env={**environment.of_own_process(), **dict.fromkeys(_ONE_THREAD, "1")},
            )
        except OSError as error:
            self._said.close()
            raise NoProcessesError(str(error)) from error
        self._asks = cast("BinaryIO", self._process.stdin)
        self._answers = cast("BinaryIO", self._process.stdout)

    def await_ready(self) -> None:
        try:
            ready: object = receive(self._answers)
        except (OSError, EOFError) as error:
            raise NoProcessesError(self.fate(error)) from error
        if ready != READY:
            raise NoProcessesError("what was started is not ours")

    def ask(self, task: Task) -> Decoded | Failure:
        send(self._asks, packed(task))
        outcome: Decoded | Failure = receive(self._answers)
        return outcome

    def fate(self, error: Exception) -> str:
        """Say how the process ended."""
        try:
            code = self._process.wait(_WAIT_S)
        except subprocess.TimeoutExpired:
            return f"the process that read it does not answer ({error})"
        if code == -signal.SIGKILL:
            return "the process that read it was killed, as happens when memory runs out"
        if code < 0:
            return f"the process that read it died of {signal.Signals(-code).name}"
        return f"the process that read it ended with {code}{self._last_words()}"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()
        for stream in (self._asks, self._answers):
            with suppress(OSError):  # what was not sent any more
                stream.close()

    def _last_words(self) -> str:
        try:
            size = os.fstat(self._said.fileno()).st_size
            words = os.pread(self._said.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        except (OSError, ValueError):
            return ""
        lines = words.decode("utf-8", "replace").strip().splitlines()
        return f" ({lines[-1]})" if lines else ""
