"""Decode runs in parallel, in processes of loky.

A loky process is a new interpreter: it shares no threads and no NPU runtime with a kernel, as a ``fork`` would, and
does not run the user's ``__main__`` again, which in a script without a guard would train again.
"""

from __future__ import annotations

import gc
import multiprocessing.resource_tracker
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import closing, contextmanager
from threading import Thread
from typing import Any, TypeVar

from loky import ProcessPoolExecutor
from loky.backend import resource_tracker
from loky.process_executor import BrokenProcessPool, TerminatedWorkerError

from npuprof.machine.environment import ASKING, OF_WORKERS
from npuprof.ranks.tasks import Died, Failure, NoProcessesError, Task, outcome_of
from npuprof.sources.base import Decoded

_TRACKERS = [getattr(of, "_resource_tracker", None) for of in (resource_tracker, multiprocessing.resource_tracker)]
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_FEEDER_S = 5.0
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Processes:
    """A limited number of processes; each decodes one run at a time. They end with the context."""

    def __init__(self, limit: int) -> None:
        self._most = limit
        self._pools: list[ProcessPoolExecutor] = []
        self._trackers: list[Any] = []

    def __enter__(self) -> Processes:
        self._trackers = [tracker for tracker in _TRACKERS if getattr(tracker, "_pid", 0) is None]
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end()  # once more: an interrupt may have come between the statements that did
        if kind is None:
            _end_trackers(self._trackers)

    def decode(self, tasks: Sequence[Task]) -> Generator[tuple[int, Decoded | Failure], None, None]:
        """Yield the position and outcome of each run as it is read, as :meth:`each`."""
        with closing(self.each(outcome_of, tasks)) as outcomes:
            for position, outcome in outcomes:
                if isinstance(outcome, Died):
                    problem = (
                        f"{tasks[position].path} could not be read: {outcome.fate}; load it by itself to try again"
                    )
                    yield position, Failure(problem)
                else:
                    yield position, outcome

    def each(
        self, function: Callable[[_Item], _Result], tasks: Sequence[_Item]
    ) -> Generator[tuple[int, _Result | Died], None, None]:
        """Yield the position and result of each task as it completes.

        When a process dies, the remaining tasks run one at a time, so that only a task that exceeds the memory fails.
        Close the generator, or leave the context, to end early.
        """
        left = dict(enumerate(tasks))
        try:
            for position, outcome in self._outcomes(function, left, self._most):
                del left[position]
                yield position, outcome
        except TerminatedWorkerError:
            for position, task in left.items():
                try:
                    yield from self._outcomes(function, {position: task}, 1)
                except TerminatedWorkerError as error:
                    yield position, Died(_end_text(error))

    def _outcomes(
        self, function: Callable[[_Item], _Result], tasks: Mapping[int, _Item], limit: int
    ) -> Generator[tuple[int, _Result], None, None]:
        environment = {
            **dict.fromkeys(_ONE_THREAD, "1"),
            **{name: "" for name in ASKING if name in os.environ},
            OF_WORKERS: "",
        }
        if not sys.executable or shutil.which(sys.executable) is None:
            raise NoProcessesError("there is no interpreter to start")
        try:
            try:
                for tracker in filter(None, _TRACKERS):
                    tracker.ensure_running()  # they block interrupts while they start, and unblock them after that
                with _interrupts_blocked():
                    self._pools.append(ProcessPoolExecutor(min(limit, len(tasks)), initializer=_begin, env=environment))
                    pool = self._pools[-1]
                    started = pool.submit(os.getpid)
                started.result()
            except (OSError, BrokenProcessPool) as error:
                raise NoProcessesError(str(error)) from error
            futures = {pool.submit(function, task): position for position, task in tasks.items()}
            for future in as_completed(futures):
                yield futures.pop(future), future.result()
        except Exception:
            self._trackers = []  # whoever holds the error holds semaphores that are given back later
            raise
        finally:
            self._end()

    def _end(self) -> None:
        while self._pools:
            pool = self._pools[-1]
            # The thread that fills the queue holds semaphores: given back later, they would start another tracker.
            feeder: Thread | None = getattr(getattr(pool, "_call_queue", None), "_thread", None)
            pool.shutdown(wait=True, kill_workers=True)
            if feeder is not None:
                feeder.join(_FEEDER_S)
            self._pools.pop()


def _end_trackers(trackers: Iterable[Any]) -> None:
    """End the resource trackers that were started for the pools; a tracker that ran before belongs to the user.

    They ignore the signal by which a kernel asks its children to end, and would delay its shutdown until it is killed.
    """
    gc.collect()  # the pools' semaphores, which are given back first
    for tracker in trackers:
        if (stop := getattr(tracker, "_stop", None)) is not None:
            stop()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT in this thread and in the processes that it starts; an interpreter in startup prints a traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that reads for the user ends this one
    os.dup2(2, 1)  # what a library prints is not the user's output


def _end_text(error: TerminatedWorkerError) -> str:
    if "SIGKILL" in str(error):
        return "its process was killed, as happens when memory runs out"
    return f"its process died ({str(error).strip().splitlines()[-1].strip()})"
