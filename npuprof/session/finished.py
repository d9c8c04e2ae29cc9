"""What can be done with the runs of a session once they have ended: results, analysis and exports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, cast

from npuprof.errors import SessionError
from npuprof.session.active import newest

if TYPE_CHECKING:
    from npuprof.exports.stacks import Metric
    from npuprof.profiles import Profile
    from npuprof.recording import Recording
    from npuprof.session.active import Running
    from npuprof.session.offline import Mode


class EndedRuns(ABC):
    """The part of a session that looks back, named as in the frameworks' profilers."""

    @abstractmethod
    def _ended(self) -> list[Running]:
        """Return the runs that have ended, in their order."""

    @property
    @abstractmethod
    def collecting(self) -> bool:
        """Whether the collector is running."""

    @abstractmethod
    def stop(self) -> Recording:
        """End the session."""

    @abstractmethod
    def _why_no_result(self) -> str:
        """Return why no run has ended, and what to do."""

    @property
    def result(self) -> Profile:
        """The newest run that has ended, decoded; read once and kept.

        Raises
        ------
        SessionError
            If no run has ended.
        SourceError
            If nothing of the recording can be decoded; it stays on disk.
        """
        return self._newest_ended().result()

    @property
    def results(self) -> list[Profile]:
        """Every run that has ended, decoded, in their order: one for each cycle of a schedule.

        Raises
        ------
        SourceError
            If nothing of one of them can be decoded; the recordings stay on disk.
        """
        return [run.result() for run in self._ended()]

    def analyse(
        self,
        mode: Mode = "sync",
        step_list: Iterable[int] | None = None,
        *,
        pretty: bool = False,
        offline_path: str | PathLike[str] | None = None,
    ) -> Profile | None:
        """End the session if it is collecting, decode its newest run, and save the tables in the recording.

        Parameters
        ----------
        mode
            ``"sync"``, or ``"async"`` for a process of its own.
        step_list
            Numbers of the steps to keep; all when not given.
        pretty
            Also write the timeline as an indented Chrome trace.
        offline_path
            A recording or a result to decode instead, as :func:`npuprof.offline_analyse` takes it; the session goes on.

        Returns
        -------
        Profile or None
            The run, or what is at `offline_path`, which may be a set of runs; None in mode ``async``.

        Raises
        ------
        OptionsError, SessionError, SourceError
            If the mode is neither, no run has begun, or nothing of it can be decoded.
        """
        from npuprof.session import offline

        offline.check_mode(mode)
        if offline_path is None:
            if self.collecting:
                self.stop()
            path = self._newest_ended().recording.directory
        else:
            path = Path(offline_path).expanduser()
        if mode == "async":
            offline.analyse_in_background(path, step_list=step_list, pretty=pretty)
            return None
        return cast("Profile", offline.offline_analyse(path, step_list=step_list, pretty=pretty))

    def export_chrome_trace(self, path: str | PathLike[str]) -> Path:
        """Write the newest run's timeline; see :meth:`npuprof.Profile.to_chrome_trace`."""
        return self.result.to_chrome_trace(path)

    def export_stacks(self, path: str | PathLike[str], metric: Metric = "self_cpu_time_total") -> Path:
        """Write the newest run's stacks; see :meth:`npuprof.Profile.to_folded_stacks`."""
        return self.result.to_folded_stacks(path, metric)

    def export_memory_timeline(self, path: str | PathLike[str], device: str | None = None) -> Path:
        """Write the newest run's memory; see :meth:`npuprof.Profile.to_memory_timeline`."""
        return self.result.to_memory_timeline(path, device)

    def _newest_ended(self) -> Running:
        ended = self._ended()
        if not ended:
            raise SessionError(self._why_no_result())
        return ended[-1]


def last() -> Profile:
    """Return the newest finished run of this process.

    Raises
    ------
    SessionError
        If none has finished yet.
    SourceError
        If its recording cannot be decoded.
    """
    run = newest()
    if run is None:
        raise SessionError("no run has finished in this process yet: profile a cell with %%npuprof first")
    return run.result()
