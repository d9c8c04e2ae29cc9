"""Finished runs: their recordings and profiles, the list of this process, and its listeners.

The list keeps only small facts of a run; the tables belong to the holder of its profile.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuprof.errors import NpuprofError, describe_failure
from npuprof.files import atomic
from npuprof.recordings import unwritten
from npuprof.recordings.recording import Recording

if TYPE_CHECKING:
    from npuprof.profiles.profile import Profile


class RecordedRun:
    """A recording made by this process, and its profile once decoded."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._lock = threading.RLock()
        self._result: Profile | None = None
        self._pid = os.getpid()
        self._to_write: dict[str, Callable[[], None]] = {}
        self._unwritten: dict[str, str] = {}  # problems, by what could not be written

    def end(self) -> None:
        """Write the recording of a run that has ended, as :meth:`save` does."""
        self._to_write["recording"] = self._write_recording
        self.save()

    def save(self) -> None:
        """Write what is not on disk yet.

        What cannot be written stays in memory, for readers and for the next call, with the reason among the problems of
        the recording. Each call may be the first after an interrupt.
        """
        with self._lock:
            if not self._to_write or os.getpid() != self._pid:
                return
            self._to_write.setdefault("recording", self._write_recording)  # it tells what else could not be written
            for part in list(self._to_write):
                self._save_part(part)
            if not self._to_write:
                unwritten.remove(self.recording.directory)

    def _write_recording(self) -> None:
        self.recording.list_files()
        self.recording.write()

    def _save_part(self, part: str) -> None:
        problems = self.recording.problems
        if (before := self._unwritten.pop(part, "")) in problems:
            problems.remove(before)
        if problem := attempt(self._to_write[part], self.recording):
            self._unwritten[part] = problems[-1] = f"{problem}; the disk lacks it until this process can write it"
            unwritten.add(self)
        else:
            del self._to_write[part]

    @property
    def journal_lines(self) -> bytes:
        """The end of the journal, which its file lacks."""
        return b""

    @property
    def stack_columns(self) -> Mapping[str, Sequence[Any]] | None:
        """The sampled Python stacks of a run that has ended, unless their file has them."""
        return None

    @property
    def line_columns(self) -> Mapping[str, Sequence[Any]] | None:
        """The columns of the lines of a run that has ended, unless their file has them."""
        return None

    def result(self) -> Profile:
        """Decode the recording, once."""
        with self._lock:
            if self._result is None:
                from npuprof.loading import load

                self.save()
                self._result = load(self.recording.directory)
            return self._result

    @property
    def decoded(self) -> Profile | None:
        """The decoded profile, or None before :meth:`result` was called."""
        return self._result


def attempt(part: Callable[[], None], recording: Recording) -> str:
    """Run one part of the stop, so that the others run too; return its failure, which is noted, or an empty text."""
    try:
        part()
    except NpuprofError as error:
        problem = str(error)
    except OSError as error:
        problem = f"the recording could not be written completely: {atomic.reason(error, recording.directory)}"
    except Exception as error:  # noqa: BLE001 - the other parts must run
        problem = f"{part.__name__.strip('_')} failed: {describe_failure(error)}"
    else:
        return ""
    recording.problems.append(problem)
    return problem


_MOST_RUNS = 1000


@dataclass(frozen=True)
class EndedRun:
    """A finished run: the path of its recording, and fields of :class:`npuprof.recordings.recording.Recording`."""

    directory: Path
    name: str
    collector: str
    simulated: bool
    started_ns: int
    stopped_ns: int
    failed: str
    _decoded: Callable[[], Profile | None]

    @property
    def profile(self) -> Profile | None:
        """The profile of the run, if it was decoded and is still referenced."""
        return self._decoded()


_lock = threading.Lock()
_ended: deque[EndedRun] = deque(maxlen=_MOST_RUNS)
_listeners: list[Callable[[], None]] = []


def ended_runs() -> list[EndedRun]:
    """Return the finished runs of this process, oldest first; at most the newest thousand."""
    with _lock:
        return list(_ended)


def rename(directory: Path, name: str) -> None:
    """Rename the run of a recording in the list."""
    with _lock:
        for place, run in enumerate(_ended):
            if run.directory == directory:
                _ended[place] = replace(run, name=name)
    notify()


def forget(directory: Path) -> None:
    """Remove the run of a deleted recording from the list."""
    with _lock:
        kept = [run for run in _ended if run.directory != directory]
        _ended.clear()
        _ended.extend(kept)
    notify()


def listen(listener: Callable[[], None]) -> Callable[[], None]:
    """Call `listener` at each start and end of a run, on the thread that starts or ends it.

    The listener must be quick, and must not raise, start or end a run: the profiled code waits for it. Returns the
    function that removes the listener; calling it twice is harmless.
    """
    with _lock:
        _listeners.append(listener)

    def end() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return end


def after_fork() -> None:
    """Forget the runs of the parent in a forked child."""
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it
    _ended.clear()
    _listeners.clear()


def notify() -> None:
    """Call the listeners after the start or end of a run."""
    with _lock:
        listeners = list(_listeners)
    for listener in listeners:
        listener()


def add_ended(run: RecordedRun) -> None:
    """Add a finished run to the list and notify the listeners."""
    recording, reference = run.recording, weakref.ref(run)
    ended = EndedRun(
        recording.directory,
        recording.name,
        recording.collector,
        recording.simulated,
        recording.started_ns,
        recording.stopped_ns,
        recording.failed,
        lambda: None if (kept := reference()) is None else kept.decoded,
    )
    with _lock:
        _ended.append(ended)
    notify()
