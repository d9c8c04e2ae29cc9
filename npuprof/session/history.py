"""Finished runs: their recordings and profiles, the list of this process, and its listeners.

The list keeps only small facts of a run; the tables belong to the holder of its profile.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from npuprof.recording import Recording

if TYPE_CHECKING:
    from npuprof.profiles import Profile


class RecordedRun:
    """A recording made by this process, and its profile once decoded."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._lock = threading.RLock()
        self._result: Profile | None = None

    def result(self) -> Profile:
        """Decode the recording, once.

        Raises
        ------
        SourceError
            If the recording cannot be decoded; it stays on disk.
        """
        with self._lock:
            if self._result is None:
                from npuprof.loading import load

                self._result = load(self.recording.directory)
            return self._result

    @property
    def decoded(self) -> Profile | None:
        """The decoded profile, or None before :meth:`result` was called."""
        return self._result


_MOST_RUNS = 1000


@dataclass(frozen=True)
class EndedRun:
    """A finished run: the path of its recording, and fields of :class:`npuprof.recording.Recording`."""

    directory: Path
    name: str
    collector: str
    simulated: bool
    started_ns: int
    stopped_ns: int
    failed: str
    _run: weakref.ref[RecordedRun]

    @property
    def profile(self) -> Profile | None:
        """The profile of the run, if it was decoded and is still referenced."""
        run = self._run()
        return run.decoded if run is not None else None


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


def notify() -> None:
    """Call the listeners after the start or end of a run."""
    with _lock:
        listeners = list(_listeners)
    for listener in listeners:
        listener()


def add_ended(run: RecordedRun) -> None:
    """Add a finished run to the list and notify the listeners."""
    recording = run.recording
    ended = EndedRun(
        recording.directory,
        recording.name,
        recording.collector,
        recording.simulated,
        recording.started_ns,
        recording.stopped_ns,
        recording.failed,
        weakref.ref(run),
    )
    with _lock:
        _ended.append(ended)
    notify()
