"""Python stacks of all threads, sampled from a separate thread.

Samplers built on ``sys.setprofile`` or ``PyEval_SetProfile`` (such as pyinstrument's) read the clock at every call and
return of Python code. However rarely they sample, code with many small calls runs several times slower; a profile hook
also follows one thread only and displaces the user's profiler. Here nothing is installed: a thread wakes, reads
``sys._current_frames()`` and sleeps, so the cost depends on the sampling rate only.

Properties of the samples:

- The sampling thread runs when the interpreter releases its lock. A sample therefore stands for the time *since the
  previous sample*: a long call that kept the lock is charged to its frames.
- Pure Python code yields the lock every ``sys.getswitchinterval()`` only, so its samples are that far apart.
- Only changes are stored, so a waiting thread costs nothing and a long run stays small.
- The cost is kept to a fixed share of the time: if reading the stacks (many threads, deep recursion) or waiting for the
  lock is slow, the next sample is delayed. An event loop releases the lock at every round and wakes the waiting thread
  in vain each time; this shows in the CPU time of the sampling thread.

Frames are kept as indices of file, line and function; no frame, code object or user object is referenced.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - pandas, which pyarrow imports, fails to while the interpreter ends
import os
import sys
import threading
import time
import types
import weakref
from array import array
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from npuprof import threads
from npuprof.collectors import await_chains
from npuprof.collectors.stack_tree import NOTHING, Columns, LoopFrame, StackTree
from npuprof.errors import CollectorError, SessionError
from npuprof.files import list_files
from npuprof.recordings.clock import Clock, EmulatingClock, SystemClock, epoch_ns_of
from npuprof.recordings.journal import Journal
from npuprof.recordings.recording import SAMPLING_INTERVAL_NS
from npuprof.words.quantities import counted

DEFAULT_INTERVAL_S = SAMPLING_INTERVAL_NS / 1e9

_MAX_CHANGES = 1_000_000
_MAX_DEPTH = 500
_LOOK_SHARE = 50  # sampling may take 1/50 of the time
_WAIT_SHARE = 150  # and waiting for the lock 1/150, since its holder loses at least as much
_JOIN_S = 2.0
_MUTED_S = 0.1  # between two looks of a thread that is to end soon
_KEEP_NS = 100_000_000  # time that is lost if the process is killed
_KEEP_SAME_NS = 1_000_000_000  # the same while the stacks do not change
_ARROW_TYPES = {
    **dict.fromkeys(("time_ns", "thread_id", "stopped_ns", "sample_ns"), "int64"),
    **dict.fromkeys(("node", "line", "node_parent", "node_frame", "frame_line"), "int32"),
}
_STRETCHED = 10  # report samples that are this many times further apart than requested


class PythonStacks:
    """Samples the Python stacks of all threads between :meth:`start` and :meth:`stop`.

    Any thread may start or stop it. Starting it again discards the earlier samples.

    Parameters
    ----------
    clock
        Stamps the samples: ``realtime_ns`` once, ``monotonic_raw_ns`` from then on. Where an NPU is emulated, the clock
        also triggers a sample around each wait that it skips.
    journal
        A file that receives the samples every tenth of a second, in case the process is killed; :meth:`write` removes
        it.
    """

    def __init__(
        self, *, interval_s: float = DEFAULT_INTERVAL_S, clock: Clock | None = None, journal: Path | None = None
    ) -> None:
        if not interval_s > 0:
            raise ValueError(f"interval_s must be positive, not {interval_s}")
        self._interval_s = interval_s
        self._clock = SystemClock() if clock is None else clock
        self._journal = Journal()
        self._journal_path = journal
        self._owner = threading.Lock()  # start and stop; never held by the sampling thread
        self._sampler: _Sampler | None = None
        self._running = False
        self._problems: list[str] = []

    @property
    def sample_count(self) -> int:
        """The number of samples since the last start."""
        return 0 if self._sampler is None else self._sampler.count

    @property
    def outage(self) -> str:
        """Why the disk took no samples for a part of the run; empty if it took all at once."""
        return self._journal.outage

    def start(self) -> None:
        """Start sampling."""
        with self._owner:
            if self._running:
                raise SessionError("the Python stacks are already being sampled: stop() them first")
            if self._journal_path is not None:
                self._journal.open(self._journal_path)
            self._sampler = _Sampler(self._interval_s, self._clock, self._journal)
            try:
                self._sampler.start()
            except RuntimeError as error:
                self._journal.remove()
                raise CollectorError(
                    f"no thread to sample Python stacks with ({error}): end some, or leave cpu out of activities"
                ) from error
            self._running = True

    def mute(self) -> None:
        """Take no more samples, without any work; :meth:`stop` follows."""
        if (sampler := self._sampler) is not None:
            sampler.is_muted = True

    def stop(self) -> list[str]:
        """Stop sampling, in bounded time, and return the problems; a second call returns the same list."""
        sampler = self._sampler
        if sampler is not None and sampler.pid != os.getpid():
            # In a forked child the thread does not exist, and the lock may be held forever.
            return ["this process was forked from the profiled one: its Python stacks are not sampled"]
        with self._owner:
            if self._running and sampler is not None:
                self._running = False
                self._problems = sampler.stop()
                self._journal.close()
            return list(self._problems)

    def write(self, path: Path) -> None:
        """Write the samples as a private Parquet file.

        The file has one row of lists: the changes (``time_ns``, ``thread_id``, ``node``, and ``line``, that of the
        innermost function of the user), the tree of stacks (``node_parent``, ``node_frame``), the frames
        (``frame_file``, ``frame_line``, ``frame_function``, ``frame_module``), the times of all samples
        (``sample_ns``), and ``stopped_ns``.
        """
        list_files.write(path, self.columns(), _ARROW_TYPES)
        self._journal.remove()

    def frames(self) -> list[tuple[str, str]]:
        """Return file and function of the distinct frames of the samples."""
        return [] if self._sampler is None else self._sampler.frames()

    def columns(self) -> Columns:
        """Return the columns of the file that :meth:`write` writes."""
        if self._running or self._sampler is None:
            raise SessionError("there are no Python stacks to write: start() and stop() the sampling first")
        return self._sampler.columns()


class _Sampler:
    """The sampling thread of one run, and its samples."""

    def __init__(self, interval_s: float, clock: Clock, journal: Journal) -> None:
        self.pid = os.getpid()
        self._journal = journal
        self.count = 0
        self.is_muted = False
        self._interval_s = interval_s
        self._clock = clock
        self._looking = threading.Lock()  # the thread of a skipped wait takes samples, too
        self._unwatch: Callable[[], None] = lambda: None
        self._halt = threading.Lock()  # held until the thread should end
        self._thread = threading.Thread(target=self._run, name="npuprof-python-stacks", daemon=True)
        # Marks of pydevd: a debugger must neither trace nor stop this thread.
        self._thread.__dict__.update(pydev_do_not_trace=True, is_pydev_daemon_thread=True)
        self._epoch_ns = epoch_ns_of(clock)
        self._started_ns = self._last_ns = clock.monotonic_raw_ns()
        self._tree = StackTree()
        self._threads = _NativeIds()
        self._main_tasks = await_chains.MainTasks()
        self._seen: dict[int, tuple[int, int]] = {}  # node and line by thread
        self._times_ns, self._thread_ids, self._lines, self._nodes = array("q"), array("q"), array("i"), array("i")
        self._samples_ns = array("q")
        self._kept, self._kept_ns = (0, 0, 0), self._started_ns - _KEEP_NS  # the first sample is kept at once
        self._kept_samples = 0
        self._too_deep = False
        self._ended_early = ""

    def start(self) -> None:
        self._main_tasks.remember_current()
        self._halt.acquire()
        threads.start(self._thread)
        if isinstance(self._clock, EmulatingClock):
            self._unwatch = self._clock.watch(self._sample_on_user_thread)

    def stop(self) -> list[str]:
        """Stop the thread, in bounded time, and return the problems."""
        self._unwatch()
        self._halt.release()
        self._thread.join(_JOIN_S)
        problems = []
        if self._thread.is_alive():
            problems.append(f"the Python stack sampler did not end within {_JOIN_S:g} s; its last samples are missing")
        if self._ended_early:
            problems.append(self._ended_early)
        if self._too_deep:
            problems.append(f"Python stacks deeper than {_MAX_DEPTH} frames were cut there")
        if self._threads.unknown:
            problems.append(
                f"{counted(self._threads.unknown, 'thread')} not started by Python's threading: thread_id is Python's "
                "there, not the system's"
            )
        mean_s = (self._last_ns - self._started_ns) / 1e9 / max(self.count, 1)
        if self.count > 1 and mean_s > _STRETCHED * max(self._interval_s, sys.getswitchinterval()):
            problems.append(
                f"Python stacks were sampled every {mean_s * 1e3:.3g} ms on average instead of every "
                f"{self._interval_s * 1e3:g} ms: calls held the interpreter's lock, or the stacks were costly to read"
            )
        return problems

    def frames(self) -> list[tuple[str, str]]:
        """Return file, as code has it, and function of the distinct frames."""
        columns = self._tree.columns(self._tree.sizes[0])
        files, functions = (map(str, columns[f"frame_{name}"]) for name in ("file", "function"))
        return [(self._tree.files.get(file, file), name) for file, name in zip(files, functions, strict=True)]

    def columns(self, changes: int = 0, nodes: int = 0, frames: int = 0, samples: int = 0) -> Columns:
        """Return the columns of the file, without the first rows of each kind; times are UTC epoch nanoseconds."""
        count = len(self._nodes)  # the last one to grow, in case the thread still runs
        return {
            "time_ns": array("q", (time_ns + self._epoch_ns for time_ns in self._times_ns[changes:count])),
            "thread_id": self._thread_ids[changes:count],
            "node": self._nodes[changes:count],
            "line": self._lines[changes:count],
            "sample_ns": array("q", (time_ns + self._epoch_ns for time_ns in self._samples_ns[samples:])),
            "stopped_ns": [self._last_ns + self._epoch_ns],
            **self._tree.columns(nodes, frames),
        }

    def _run(self) -> None:
        # The user's threading.setprofile and settrace must not apply to this thread.
        sys.setprofile(None)
        sys.settrace(None)
        pause_s = self._interval_s
        rested_ns = time.thread_time_ns()
        try:
            while not self._halt.acquire(timeout=pause_s):
                if self.is_muted:
                    pause_s = _MUTED_S
                    continue
                began_ns = time.thread_time_ns()
                self._sample_threads()
                self._keep()
                if self._is_full():
                    return
                ended_ns = time.thread_time_ns()
                cost_ns = max((ended_ns - began_ns) * _LOOK_SHARE, (began_ns - rested_ns) * _WAIT_SHARE)
                pause_s, rested_ns = max(self._interval_s, cost_ns / 1e9), ended_ns
            if not self.is_muted:
                self._sample_threads()
            self._keep(last=True)
        except Exception as error:  # noqa: BLE001 - must not surface in the user's program; stop() returns it
            self._ended_early = (
                f"the sampling of Python stacks ended after {self._elapsed_s():.3g} s: {type(error).__name__}: {error}"
            )

    def _keep(self, *, last: bool = False) -> None:
        """Write new samples to the journal at intervals."""
        grown = (len(self._nodes), *self._tree.sizes)
        pause_ns = _KEEP_NS if grown != self._kept else _KEEP_SAME_NS
        if last or self._last_ns - self._kept_ns >= pause_ns:
            plain = {name: list(values) for name, values in self.columns(*self._kept, self._kept_samples).items()}
            self._journal.write(plain)
            self._kept_samples += len(plain["sample_ns"])
            self._kept, self._kept_ns = grown, self._last_ns

    def _elapsed_s(self) -> float:
        return (self._last_ns - self._started_ns) / 1e9

    def _is_full(self) -> bool:
        full = len(self._nodes) >= _MAX_CHANGES or self._tree.is_full
        if full:
            self._ended_early = (
                f"the sampling of Python stacks ended after {self._elapsed_s():.3g} s, when its memory was full: "
                "profile a shorter part, or with a longer interval"
            )
        return full

    def _sample_on_user_thread(self) -> None:
        """Take a sample on a user thread."""
        with suppress(Exception):  # an exception must not surface there
            self._sample_threads()

    def _sample_threads(self) -> None:
        with self._looking:
            self._sample_thread(self._clock.monotonic_raw_ns())

    def _sample_thread(self, now_ns: int) -> None:
        if now_ns == self._last_ns and self.count and isinstance(self._clock, EmulatingClock):
            return  # no time has passed that the stacks could account for
        seen: dict[int, tuple[int, int]] = {}
        sampler = self._thread.ident
        for ident, frame in sys._current_frames().items():
            if ident != sampler and (thread_id := self._threads.native_id(ident)) is not None:
                seen[thread_id] = self._node(frame)
        for thread_id in self._seen.keys() - seen.keys():
            self._change(thread_id, NOTHING, 0)
        for thread_id, (node, line) in seen.items():
            if self._seen.get(thread_id, (NOTHING, 0)) != (node, line):
                self._change(thread_id, node, line)
        self._seen = seen
        self._last_ns = now_ns
        if len(self._samples_ns) < _MAX_CHANGES:
            self._samples_ns.append(now_ns)
        self.count += 1

    def _change(self, thread_id: int, node: int, line: int) -> None:
        self._times_ns.append(self._last_ns)  # the sample stands for the time since the previous one
        self._thread_ids.append(thread_id)
        self._lines.append(line)
        self._nodes.append(node)

    def _node(self, leaf: types.FrameType) -> tuple[int, int]:
        """Return the tree node of a thread's stack, including the coroutines that await the running code.

        The second number is the line that the innermost function of the user runs; 0 without one.
        """
        path: list[types.FrameType] = []  # leaf first
        loop_at = 0
        loop_frame: types.FrameType | None = None
        frame: types.FrameType | None = leaf
        while frame is not None:
            if loop_frame is None and self._tree.steps[self._tree.frame(frame)] is LoopFrame.LOOP:
                loop_at, loop_frame = len(path), frame
            path.append(frame)
            frame = frame.f_back
        path.reverse()
        if loop_frame is not None:
            loop_at = len(path) - loop_at  # one past the loop's frame, counted from the root
            path = self._join_awaiting(path[:loop_at], path[loop_at:], loop_frame)
        if len(path) > _MAX_DEPTH:
            self._too_deep = True
        numbers = [self._tree.frame(each) for each in path]
        # A coroutine that waits has its line at the `await`; the frames of the event loop have no line of the user.
        are_users = self._tree.are_users
        at = next((at for at in range(len(path) - 1, -1, -1) if are_users[numbers[at]]), -1)
        return self._tree.node(numbers[:_MAX_DEPTH]), 0 if at < 0 else path[at].f_lineno or 0

    def _join_awaiting(
        self, outer: list[types.FrameType], inner: list[types.FrameType], loop_frame: types.FrameType
    ) -> list[types.FrameType]:
        """Join the frames outside a loop, the waiting coroutines, and the frames that the loop runs."""
        loop = await_chains.running_loop(loop_frame)
        if loop is None:
            return outer + inner
        steps = [self._tree.steps[self._tree.frame(each)] for each in inner]
        if (running := asyncio.current_task(loop)) is not None:
            waiting = await_chains.awaiting_frames(running)
        elif LoopFrame.CALLBACK not in steps and (task := self._main_tasks.of(loop)) is not None:
            waiting, inner, steps = await_chains.waiting_frames(task), [], []
        else:
            return outer + inner
        of_code = [each for each, step in zip(inner, steps, strict=True) if step is LoopFrame.NONE]
        return [*outer, *waiting, *of_code]


class _NativeIds:
    """Maps Python thread idents to system thread ids; idents are reused, so their owners are checked."""

    def __init__(self) -> None:
        self.unknown = 0
        self._known: dict[int, tuple[weakref.ref[threading.Thread], int]] = {}
        self._unsure: set[int] = set()
        self._foreign: set[int] = set()

    def native_id(self, ident: int) -> int | None:
        """Return the system id of a thread, or its ident if the threading module does not know it.

        Returns None the first time, since the thread may just not be registered yet.
        """
        known = self._known.get(ident)
        if known is not None and (thread := known[0]()) is not None and thread.is_alive():
            return known[1]
        for thread in threading.enumerate():
            if thread.ident == ident and thread.native_id is not None:
                self._known[ident] = (weakref.ref(thread), thread.native_id)
                return thread.native_id
        if ident in self._foreign:
            return ident
        if ident in self._unsure:
            self._foreign.add(ident)
            self.unknown += 1
            return ident
        self._unsure.add(ident)
        return None
