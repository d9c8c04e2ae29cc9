"""The runs of this process that have ended, the oldest first, and who wants to know of each start and end.

What is kept of a run is small; its tables stay with whoever holds it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npuprof.profiles import Profile
    from npuprof.session.recorded import Recorded

_MOST_RUNS = 1000


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended.

    Attributes
    ----------
    directory
        Its recording.
    name, collector, simulated, started_ns, stopped_ns, failed
        As in :class:`npuprof.recording.Recording`.
    """

    directory: Path
    name: str
    collector: str
    simulated: bool
    started_ns: int
    stopped_ns: int
    failed: str
    _run: weakref.ref[Recorded]

    @property
    def profile(self) -> Profile | None:
        """The run's tables, if it has been decoded and somebody still holds it."""
        run = self._run()
        return run.decoded if run is not None else None


_lock = threading.Lock()
_ended: deque[EndedRun] = deque(maxlen=_MOST_RUNS)
_listeners: list[Callable[[], None]] = []


def ended_runs() -> list[EndedRun]:
    """Return the runs that have ended, the oldest first: the newest thousand."""
    with _lock:
        return list(_ended)


def rename(directory: Path, name: str) -> None:
    """Call the run of a recording by another name."""
    with _lock:
        for place, run in enumerate(_ended):
            if run.directory == directory:
                _ended[place] = replace(run, name=name)
    tell()


def forget(directory: Path) -> None:
    """Leave the run of a recording out of the list: the recording is gone."""
    with _lock:
        kept = [run for run in _ended if run.directory != directory]
        _ended.clear()
        _ended.extend(kept)
    tell()


def listen(listener: Callable[[], None]) -> Callable[[], None]:
    """Have `listener` called at each start and end of a run, by the thread that starts or ends it.

    It must be quick, must not raise and must not start or end a run: the profiled code waits for it.

    Returns
    -------
    Callable
        Ends the listening; calling it again changes nothing.
    """
    with _lock:
        _listeners.append(listener)

    def end() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return end


def tell() -> None:
    """Notify listeners that a run has started or ended."""
    with _lock:
        listeners = list(_listeners)
    for listener in listeners:
        listener()


def tell_end(run: Recorded) -> None:
    """Keep what there is to know of a run that has ended, and tell it."""
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
    tell()
