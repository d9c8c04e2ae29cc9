"""The cells that were executed during a run that was started by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from npuprof.recordings.recording import Recording

if TYPE_CHECKING:
    from npuprof.profiles.profile import Profile


class ExecutedCells:
    """Notes in a recording when each cell ran, and which of them are to be reported by themselves."""

    def __init__(self, recording: Recording, now_ns: Callable[[], int]) -> None:
        self._recording = recording
        self._now_ns = now_ns
        self._running: tuple[Callable[[], str], int] | None = None
        self._code_ended_ns = 0
        self._is_part = False

    def begin(self, name: Callable[[], str]) -> None:
        """Note that a cell of the notebook runs from now on; `name` returns its name, when it has ended."""
        self._running, self._is_part, self._code_ended_ns = (name, self._now_ns()), False, 0

    def take_part(self) -> bool:
        """Note that the cell that runs is to be reported by itself; return whether one runs."""
        self._is_part = self._running is not None
        return self._is_part

    def code_ended(self) -> None:
        """Note that the code of the cell has ended by now; its stamps, if it has any, know it better."""
        self._code_ended_ns = self._code_ended_ns or self._now_ns()

    def end(self) -> None:
        """Note that no cell runs from now on."""
        if self._running is not None:
            (name, start_ns), self._running = self._running, None
            title = name()
            end_ns = self._recording.stopped_ns or self._now_ns()
            self._recording.executed.append((title, start_ns, end_ns))
            self._recording.code_ended.append(self._code_ended_ns or end_ns)
            if self._is_part:
                self._recording.parts.append(title)


def part_of(recording: Recording, part: str) -> Profile:
    """Return the part of a recorded run in which a profiled cell ran."""
    from npuprof.loading import load

    start_ns, end_ns = next((start, end) for name, start, end in reversed(recording.executed) if name == part)
    run: Profile = load(recording.directory, start=start_ns, end=end_ns)
    run.info.name = f"{part} of {run.info.name}"
    return run
