"""Parts of a session, named as in the frameworks' profilers: finished runs, exports and metadata."""

from __future__ import annotations

import json
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from npuprof.errors import NpuprofWarning, OptionsError, SessionError
from npuprof.options import default_output
from npuprof.recordings.recording import json_metadata
from npuprof.session.active import newest
from npuprof.session.folders import how_ended, recordings_in
from npuprof.words.texts import encodable

if TYPE_CHECKING:
    from npuprof.exports.stacks import SelfTime
    from npuprof.profiles.profile import Profile
    from npuprof.recordings.recording import Recording
    from npuprof.session.active import ActiveRun
    from npuprof.session.job import Children
    from npuprof.session.offline import Mode


Metric: TypeAlias = Literal["self_cpu_time_total", "self_npu_time_total"]
_WEIGHTS: Mapping[Metric, SelfTime] = {"self_cpu_time_total": "host", "self_npu_time_total": "device"}


class EndedRuns(ABC):
    """Results, analysis and exports of the finished runs of a session."""

    children: Children

    @abstractmethod
    def _ended(self) -> list[ActiveRun]:
        """Return the finished runs in order."""

    @property
    @abstractmethod
    def collecting(self) -> bool:
        """Whether the collector is running."""

    @abstractmethod
    def stop(self) -> Recording:
        """End the session."""

    @abstractmethod
    def _why_no_result(self) -> str:
        """Return the message for a session without a finished run."""

    @property
    def result(self) -> Profile | Any:
        """The profile of the newest finished run, decoded once; with ``processes``, the set of all of them.

        Raises
        ------
        SessionError
            If no run has finished.
        SourceError
            If the recording cannot be decoded; it stays on disk.
        """
        return self._newest_ended().result() if self.children.ended is None else self.children.ended.result()

    @property
    def results(self) -> list[Profile]:
        """The profiles of all finished runs in order: one per cycle of a schedule.

        Raises
        ------
        SourceError
            If a run cannot be decoded; its recording stays on disk.
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
        """Stop the session if it is collecting, decode its newest run, and save the tables in the recording.

        Parameters
        ----------
        mode
            ``"sync"``, or ``"async"`` for a background process.
        step_list
            The step numbers to keep; by default all steps.
        pretty
            Also write the timeline as an indented Chrome trace.
        offline_path
            Another recording or result to decode, as in :func:`npuprof.offline_analyse`; the session is not stopped.

        Returns
        -------
        Profile or None
            The profile of the run, or of `offline_path` (a set for several runs); None in mode ``async``.

        Raises
        ------
        OptionsError, SessionError, SourceError
            If the mode is unknown, no run has begun, or nothing can be decoded.
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
        """Write the timeline of the newest run; see :meth:`npuprof.Profile.to_chrome_trace`."""
        return self.result.to_chrome_trace(path)

    def export_stacks(self, path: str | PathLike[str], metric: Metric = "self_cpu_time_total") -> Path:
        """Write the stacks of the newest run; see :meth:`npuprof.Profile.to_folded_stacks`.

        Raises
        ------
        OptionsError
            If the metric is neither ``self_cpu_time_total`` nor ``self_npu_time_total``.
        """
        if metric not in _WEIGHTS:
            raise OptionsError(f"metric must be one of {', '.join(_WEIGHTS)}, not {metric!r}")
        written = self.result.to_folded_stacks(path, _WEIGHTS[metric])
        if not written.stat().st_size:
            other = next(name for name in _WEIGHTS if name != metric)
            warnings.warn(
                f"{written} is empty: no call of this run has any {metric}; metric={other!r} may have some",
                NpuprofWarning,
                stacklevel=2,
            )
        return written

    def export_memory_timeline(self, path: str | PathLike[str], device: str | None = None) -> Path:
        """Write the memory timeline of the newest run; see :meth:`npuprof.Profile.to_memory_timeline`."""
        return self.result.to_memory_timeline(path, device)

    def _newest_ended(self) -> ActiveRun:
        ended_runs = self._ended()
        if not ended_runs:
            raise SessionError(self._why_no_result())
        return ended_runs[-1]


def last() -> Profile | Any:
    """Return the newest finished run of this process; of one with ``processes``, the set of its processes.

    Raises
    ------
    SessionError
        If no run has finished; the message names the newest recording of earlier processes.
    SourceError
        If its recording cannot be decoded.
    """
    run = newest()
    if run is None:
        raise SessionError(f"no run has finished in this process yet: profile a cell with %%npuprof first{_on_disk()}")
    return run.result()


def _on_disk() -> str:
    """Return a clause on the newest recording of earlier processes, by which it can be loaded; empty without one."""
    for recording in recordings_in(default_output(), most=1):
        path = encodable(str(recording.directory))
        return f". npuprof.load({path!r}) opens the newest recording on disk ({how_ended(recording)})"
    return ""


class HasMetadata(ABC):
    """Metadata that the user attaches to the runs of a session."""

    _lock: threading.RLock
    _metadata: dict[str, Any]  # of every run
    _metadata_of_next: dict[str, Any]

    @property
    @abstractmethod
    def active(self) -> bool:
        """Whether the session has started and not stopped."""

    @property
    @abstractmethod
    def _run(self) -> ActiveRun | None:
        """The newest run that has begun, or None."""

    def add_metadata(self, key: str, value: Any) -> None:
        """Attach a JSON-serializable value to the run that is collecting, as in the frameworks' profilers.

        While a schedule waits or warms up, the value is that of the next run. Before the start, it is one of every run.

        Raises
        ------
        OptionsError
            If JSON cannot hold the value, or it is over a megabyte.
        SessionError
            If the session has stopped.
        """
        fact = json_metadata(key, value)
        with self._lock:
            run = self._run
            if self.active and run is not None and run.collecting:
                run.attach_metadata(fact)
            elif self.active:
                self._metadata_of_next.update(fact)
            elif run is None:
                self._metadata.update(fact)
            else:
                raise SessionError("add_metadata() needs a session that has not stopped: call it before stop()")

    def add_metadata_json(self, key: str, value: Any) -> None:
        """Attach metadata given as JSON text, or as a value as in the frameworks' examples.

        Raises
        ------
        OptionsError
            If the text is not JSON, JSON cannot hold the value, or it is over a megabyte.
        SessionError
            If the session has stopped.
        """
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise OptionsError(
                    f"metadata {key!r} is not JSON text ({error}): use add_metadata() for text"
                ) from None
        self.add_metadata(key, value)
