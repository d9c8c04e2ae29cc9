"""The list of runs, and its actions: rename, save, delete, compare. Without IPython."""

from __future__ import annotations

import os
import shutil
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from npuprof.errors import NpuprofError, SourceError
from npuprof.files import atomic
from npuprof.notebook.grid.widget import Action, Heading, Page
from npuprof.options import values as option_values
from npuprof.recordings import unwritten
from npuprof.recordings.recording import (
    FILE_NAME,
    FLOPS_FILE_NAME,
    JOURNAL_FILE_NAME,
    LINES_FILE_NAME,
    LINES_JOURNAL_FILE_NAME,
    METADATA_FILE_NAME,
    STACKS_FILE_NAME,
    STACKS_JOURNAL_FILE_NAME,
    TRACE_FILE_NAME,
    Recording,
)
from npuprof.session import active as running
from npuprof.session import history as run_history
from npuprof.session.folders import how_ended, recordings_in
from npuprof.session.history import EndedRun
from npuprof.session.offline import TABLES_DIRECTORY
from npuprof.tables.info import Info
from npuprof.words.quantities import ABSENT, duration
from npuprof.words.texts import encodable

if TYPE_CHECKING:
    from npuprof.profiles.profile import Profile
    from npuprof.ranks.profile_set import ProfileSet

ACTIONS = (
    Action("open", "Open", "Show the report and the tables of this run (Enter)"),
    Action("compare", "Compare", "Choose two runs, with Ctrl or Space", 2, 2),
    Action("rename", "Rename", "Rename this run"),
    Action("save", "Save", "Save the tables of this run as Parquet, for npuprof.load, or its report as HTML"),
    Action("delete", "Delete", "Delete the recording of this run from the disk, after confirmation"),
)

# Files that collectors and npuprof write into a recording: nothing else is deleted.
_OURS = (
    FILE_NAME,
    STACKS_FILE_NAME,
    JOURNAL_FILE_NAME,
    STACKS_JOURNAL_FILE_NAME,
    LINES_FILE_NAME,
    LINES_JOURNAL_FILE_NAME,
    METADATA_FILE_NAME,
    TRACE_FILE_NAME,
    FLOPS_FILE_NAME,
    TABLES_DIRECTORY,
    f"*{atomic.PARTIAL}",
    "analyse.log",
    "PROF_*",
    "*_ascend_pt",
    "*_ascend_ms",
)


_Outcome: TypeAlias = tuple[str, str, str, int]
_MOST_EARLIER = 50
_THIS, _EARLIER, _LOADED = "this kernel", "an earlier kernel", "loaded"


class ListedRuns:
    """The runs of this kernel, recordings of earlier kernels in the same folder, and loaded results.

    Those of this kernel come first, each kind with the newest first.
    """

    def __init__(self, runs: Callable[[], list[EndedRun]] = run_history.ended_runs) -> None:
        self._runs = runs
        self._earlier: list[tuple[EndedRun, str]] = []
        self._loaded: dict[Path, EndedRun] = {}
        self._numbers: dict[Path, int] = {}
        self._decoded: dict[Path, tuple[str, str]] = {}  # the mean step, and the busy time
        self._kept: dict[Path, tuple[int, _Outcome]] = {}  # when the recording was written, and what it says

    def newest_first(self) -> list[tuple[EndedRun, str, str]]:
        """Return each run, how it ended, and where it is from."""
        ended = [(run, run.failed or "normally", _THIS) for run in reversed(self._runs())]
        known = {run.directory for run, _, _ in ended}
        earlier = [(run, how, _EARLIER) for run, how in self._earlier if run.directory not in known]
        known |= {run.directory for run, _, _ in earlier}
        loaded = [
            (run, run.failed or "normally", _LOADED) for run in self._loaded.values() if run.directory not in known
        ]
        return ended + earlier + loaded

    def number(self, run: EndedRun) -> int:
        """Return a number of a run, which it keeps."""
        return self._numbers.setdefault(run.directory, len(self._numbers) + 1)

    def find(self, number: int) -> EndedRun:
        """Return the run with a number; raise an NpuprofError if it is gone."""
        for run, _, _ in self.newest_first():
            if self.number(run) == number:
                return run
        raise NpuprofError("this run is no longer in the list")

    def is_loaded(self, run: EndedRun) -> bool:
        """Return whether a run is known only because it was loaded."""
        return any(run is other and origin == _LOADED for other, _, origin in self.newest_first())

    def find_earlier(self, folder: Path) -> None:
        """Read which recordings of earlier kernels a folder holds: at most the newest fifty."""
        known = {run.directory for run in self._runs()}
        if (current := running.current()) is not None:
            known.add(current.recording.directory)
        earlier = []
        for recording in recordings_in(folder.expanduser().absolute(), most=_MOST_EARLIER + len(known)):
            if recording.directory not in known:
                run = EndedRun(
                    *(recording.directory, recording.name, recording.collector, recording.simulated),
                    *(recording.started_ns, recording.stopped_ns, recording.failed, lambda: None),
                )
                earlier.append((run, how_ended(recording)))
        self._earlier = sorted(earlier[:_MOST_EARLIER], key=lambda pair: -pair[0].started_ns)

    def add_loaded(self, path: Path, run: Profile | ProfileSet) -> None:
        """Add a run loaded from a path, unless it is listed already."""
        from npuprof.profiles.profile import Profile

        info = run._merged_info()
        place = (info.recording or path).expanduser().absolute()
        several = 0 if isinstance(run, Profile) else len(run)
        name = f"{info.name or place.name}{f' ({several} runs)' if several else ''}"
        times = (info.started_ns or 0, info.stopped_ns or 0)
        decoded = weakref.ref(run) if isinstance(run, Profile) else lambda: None
        self._loaded[place] = EndedRun(
            place, name, info.collector or info.source, info.simulated, *times, info.failed, decoded
        )

    def forget(self, run: EndedRun) -> None:
        """Remove a run of an earlier kernel or a loaded one from the list."""
        self._earlier = [pair for pair in self._earlier if pair[0].directory != run.directory]
        self._loaded.pop(run.directory, None)

    def page(self) -> Page:
        """Return the list as a page of a grid."""
        runs = self.newest_first()
        return Page(
            label="Runs",
            columns=[
                Heading("name", "name"),
                Heading("when", "when"),
                Heading("collector", "collector"),
                Heading("wall", "wall", numeric=True),
                Heading("step", "step", numeric=True),
                Heading("busy", "device busy", numeric=True),
                Heading("change", "since the run before"),
                Heading("ended", "ended"),
                Heading("from", "from"),
            ],
            rows=[self._texts(*run) for run in runs],
            ids=[self.number(run) for run, _, _ in runs],
            total=len(runs),
            size=max(len(runs), 1),
            noun="runs",
            empty="no run yet: press Start, or profile a cell",
            actions=ACTIONS,
        )

    def _texts(self, run: EndedRun, ended: str, origin: str) -> tuple[str, ...]:
        profile = run.profile
        if run.directory not in self._decoded and profile is not None:
            with suppress(Exception):  # the report shows the error
                self.note(run.directory, profile)
        has_end = run.stopped_ns > run.started_ns
        step, busy, change, between_ns = self._outcome(run.directory)
        return (
            title(run),
            _when(run.started_ns) if run.started_ns else ABSENT,
            f"{run.collector} (simulated)" if run.simulated else run.collector,
            duration(run.stopped_ns - run.started_ns - between_ns) if has_end else ABSENT,
            *self._decoded.get(run.directory, (step, busy)),
            change,
            ended,
            origin,
        )

    def _outcome(self, directory: Path) -> _Outcome:
        """Return the facts of a recording: busy time, change since the same cell before, and time without code."""
        try:
            written_ns = (directory / FILE_NAME).stat().st_mtime_ns
            if self._kept.get(directory, (0, ""))[0] != written_ns:
                recording = Recording.read(directory)
                times = Info(
                    started_ns=recording.started_ns,
                    stopped_ns=recording.stopped_ns or None,
                    executed=recording.executed,
                )
                self._kept[directory] = written_ns, (*_outcome_of(recording), times.thinking_ns + recording.after_ns)
            return self._kept[directory][1]
        except (OSError, NpuprofError):  # a set, a result of another tool, or gone
            return ABSENT, ABSENT, ABSENT, 0

    def note(self, directory: Path, run: Profile) -> None:
        """Store the mean step and the busy time of a decoded run."""
        from npuprof.session import reruns  # with pandas, which a list of other runs does not need

        step_ns, busy = run.accounting.basis.mean_ns, reruns.busy_text(*reruns.busy_times(run.summary))
        self._decoded[directory] = duration(step_ns or None), busy


def _outcome_of(recording: Recording) -> tuple[str, str, str]:
    if not recording.outcome:
        return ABSENT, "not decoded", ABSENT
    from npuprof.session import reruns  # with pandas, as above

    return reruns.outcome_texts(recording)


def _when(epoch_ns: int) -> str:
    """Return a time of day, after its date unless that is today."""
    moment, now = time.localtime(epoch_ns / 1e9), time.localtime()
    return time.strftime("%H:%M:%S" if moment[:3] == now[:3] else "%Y-%m-%d %H:%M:%S", moment)


def title(run: EndedRun) -> str:
    """Return the name of a run, or of its directory."""
    return encodable(run.name or run.directory.name)


def rename(run: EndedRun, name: str) -> None:
    """Rename a run in its recording and in the list; its directory stays."""
    name = option_values.name("name", name)
    held = unwritten.find(run.directory)
    recording = Recording.read(run.directory) if held is None else held.recording
    recording.name = name
    recording.write()
    profile = run.profile
    if profile is not None:
        profile.info.name = name or run.directory.name
    run_history.rename(run.directory, name)


def delete(run: EndedRun) -> str:
    """Delete only files of a recording that a collector or npuprof wrote; return the outcome and what remains.

    A run whose directory is gone already is removed from the list.
    """
    directory = run.directory
    if not os.path.lexists(directory):
        run_history.forget(directory)
        return encodable(f"{directory} was gone already: the run is no longer listed")
    if directory.is_symlink() or not directory.is_dir():
        raise NpuprofError(f"{directory} is not the directory that was recorded into: nothing was deleted")
    recording = Recording.read(directory)  # raises if it is not a recording
    if recording.started_ns != run.started_ns:
        raise SourceError(f"{directory} holds another recording than this run's: nothing was deleted")
    try:
        # The description last, so that an interrupted deletion leaves a recognisable recording.
        ours = {path for pattern in _OURS for path in directory.glob(pattern)}
        for path in sorted(ours, key=lambda path: path.name == FILE_NAME):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        left_names = sorted(path.name for path in directory.iterdir())
        if not left_names:
            directory.rmdir()
    except OSError as error:
        raise NpuprofError(f"{directory} could not be deleted completely ({error.strerror or error})") from error
    unwritten.remove(directory)
    run_history.forget(directory)
    kept = f"{directory} is kept, with files that npuprof did not record: {', '.join(left_names[:5])}"
    return encodable(kept if left_names else f"{directory} was deleted")


def opened_of(run: EndedRun) -> Profile | ProfileSet:
    """Return the profile of a run, or the set that was loaded, decoded now if nothing references it."""
    from npuprof.loading import open_path

    return run.profile or open_path(run.directory)
