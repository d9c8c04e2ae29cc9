"""The list of this kernel's runs, and its actions: rename, save, delete, compare. Without IPython."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from npuprof import atomic, quantities, unwritten
from npuprof.errors import NpuprofError, SourceError
from npuprof.notebook.grid.widget import Action, Heading, Page
from npuprof.options import values as option_values
from npuprof.recording import (
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
from npuprof.session import history as run_history
from npuprof.session.history import EndedRun
from npuprof.session.offline import TABLES_DIRECTORY
from npuprof.texts import encodable

if TYPE_CHECKING:
    from npuprof.analysis.summary import Summary
    from npuprof.profiles import Profile

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


class ListedRuns:
    """The runs of this kernel, newest first; `runs` returns them oldest first."""

    def __init__(self, runs: Callable[[], list[EndedRun]] = run_history.ended_runs) -> None:
        self._runs = runs
        self._busy: dict[Path, str] = {}

    def __len__(self) -> int:
        return len(self._runs())

    def newest_first(self) -> list[tuple[int, EndedRun]]:
        """Return each run with a stable number: the start of its recording."""
        return [(run.started_ns // 1000, run) for run in reversed(self._runs())]

    def find(self, number: int) -> EndedRun:
        """Return the run with a number; raise an NpuprofError if it is gone."""
        for known, run in self.newest_first():
            if known == number:
                return run
        raise NpuprofError("this run is no longer in the list")

    def page(self) -> Page:
        """Return the list as a page of a grid."""
        runs = self.newest_first()
        return Page(
            label="Runs of this kernel",
            columns=[
                Heading("name", "name"),
                Heading("when", "when"),
                Heading("collector", "collector"),
                Heading("wall", "wall", numeric=True),
                Heading("busy", "device busy", numeric=True),
                Heading("ended", "ended"),
            ],
            rows=[self._texts(run) for _, run in runs],
            ids=[number for number, _ in runs],
            total=len(runs),
            size=max(len(runs), 1),
            noun="runs",
            empty="no run yet: press Start, or profile a cell",
            actions=ACTIONS,
        )

    def _texts(self, run: EndedRun) -> tuple[str, ...]:
        profile = run.profile
        if run.directory not in self._busy and profile is not None:
            with suppress(Exception):  # the report shows the error
                self._busy[run.directory] = busy(profile.summary)
        return (
            title(run),
            time.strftime("%H:%M:%S", time.localtime(run.started_ns / 1e9)),
            f"{run.collector} (simulated)" if run.simulated else run.collector,
            quantities.duration(max(run.stopped_ns - run.started_ns, 0)),
            self._busy.get(run.directory, "not decoded"),
            run.failed or "normally",
        )

    def note(self, directory: Path, summary: Summary) -> None:
        """Store the busy time of a decoded run."""
        self._busy[directory] = busy(summary)


def title(run: EndedRun) -> str:
    """Return the name of a run, or of its directory."""
    return encodable(run.name or run.directory.name)


def busy(summary: Summary) -> str:
    """Return the text of the total busy time of the devices."""
    if not summary.devices:
        return quantities.ABSENT
    whole = sum(device.span_ns for device in summary.devices)
    part = sum(device.busy_ns for device in summary.devices)
    return f"{quantities.duration(part)} ({quantities.share(part, whole)})"


def rename(run: EndedRun, name: str) -> None:
    """Rename a run in its recording and in the list; its directory stays.

    Raises
    ------
    NpuprofError
        If the name is invalid, or the recording cannot be written.
    """
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
    """Delete only those files of a recording that a collector or npuprof wrote; return what was done and what remains.

    A run whose directory is gone already is removed from the list.

    Raises
    ------
    NpuprofError
        If the directory is a link, is not a recording of npuprof, or a file cannot be deleted.
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
        for path in sorted(_is_from_panel(directory), key=lambda path: path.name == FILE_NAME):
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


def _is_from_panel(directory: Path) -> set[Path]:
    return {path for pattern in _OURS for path in directory.glob(pattern)}


def profile_of(run: EndedRun) -> Profile:
    """Return the profile of a run, decoded now if nothing references it.

    Raises
    ------
    SourceError
        If nothing can be decoded.
    """
    from npuprof.loading import load

    return run.profile or load(run.directory)
