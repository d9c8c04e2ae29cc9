"""What changed since the same cell ran before, and the list of the runs of a notebook.

A cell is the same if the front end gives it the same id in the same notebook, or if both have the same ``--name``.
The run before is the newest one of it in the folder of the recordings, also of an earlier kernel.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from npuprof.errors import NpuprofError, SourceError
from npuprof.options import default_output
from npuprof.parameters import checked
from npuprof.recordings.recording import NOTEBOOK, Recording
from npuprof.session.folders import recordings_in
from npuprof.session.history import ended_runs
from npuprof.tables.shown_frame import ShownFrame
from npuprof.words.quantities import ABSENT, duration, printable, share, signed_share

if TYPE_CHECKING:
    from npuprof.analysis.summary import Summary
    from npuprof.profiles.comparison import Comparison
    from npuprof.profiles.profile import Profile
    from npuprof.report.model import Report

_LARGEST_BYTES = 256 << 20
_LONGEST_VERDICT = 40
_MOST_LINES = 8
_MOST_TRIED = 3  # runs before, until one has steps
_COMPARED_OPTIONS = ("level", "aic_metrics", "stacks", "memory", "shapes", "activities", "collector")
"""Options that change how long the host takes, or what a run tells."""

COLUMNS = {
    "started": "datetime64[ns, UTC]",
    "cell": "string",
    "name": "string",
    "step_ns": "Int64",
    "change": "Float64",
    "verdict": "string",
    "changed_lines": "string",
    "simulated": "boolean",
    "failed": "string",
    "path": "string",
}


@dataclass(frozen=True)
class Rerun:
    """A run of a cell beside the run of the same cell before.

    Attributes
    ----------
    comparison
        The difference: this run minus the run before.
    before
        The recording of the run before.
    unlike
        The options in which the runs differ, as text.
    """

    comparison: Comparison
    before: Path
    unlike: list[str]

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, ``may be noise`` or ``noise unknown``."""
        noise = self.comparison.noise
        if not noise.is_known:
            return "noise unknown"
        low, high = (float(bound[0]) for bound in noise.total.bounds())
        return "may be noise" if low <= 0 <= high else "slower" if low > 0 else "faster"

    @property
    def change(self) -> float:
        """The change of a step relative to the run before: -0.5 for half of the time."""
        return self.comparison.delta_ns / self.comparison.b_ns if self.comparison.b_ns else float("nan")

    def report(self) -> Report:
        """Return what is said of the change."""
        from npuprof.report.difference import report_of_difference

        return report_of_difference(self.comparison, unlike=self.unlike)

    def changed_numbers(self) -> list[int]:
        """Return the numbers that changed and added lines have now."""
        from npuprof.report.difference import changed_numbers

        return changed_numbers(self.comparison)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:_MOST_LINES])) + (" ..." if len(numbers) > _MOST_LINES else "")


def since_before(run: Profile, recording: Recording) -> Rerun | None:
    """Return what changed since the newest run of the same cell with steps, or without them as this one; or None."""
    if recording.failed or not len(run.accounting.steps):  # the step in which it failed is none
        return None
    for earlier in islice(_before(recording), _MOST_TRIED):
        before = _profile(earlier.directory)
        if before is None or not len(before.accounting.steps) or _has_steps(before) != _has_steps(run):
            continue
        if (rerun := _compared(run, recording, before, earlier)) is not None:
            return rerun
    return None


def _has_steps(run: Profile) -> bool:
    return run.accounting.has_steps


def _compared(run: Profile, recording: Recording, before: Profile, earlier: Recording) -> Rerun | None:
    from npuprof.profiles.comparison import Comparison

    try:
        comparison = Comparison.of([[run]], [[before]])
    except NpuprofError:  # a side has nothing of a device
        return None
    return Rerun(comparison, earlier.directory, _unlike(recording, earlier))


def note_outcome(recording: Recording, run: Profile, rerun: Rerun | None) -> None:
    """Keep in the recording what lists of runs show of it; it is written with the next change of it."""
    step_ns = run.accounting.basis.mean_ns
    recording.outcome = {"step_ns": step_ns} if step_ns else {}
    recording.outcome |= dict(zip(("busy_ns", "span_ns"), busy_times(run.summary), strict=True))
    if rerun is not None:
        recording.outcome |= {
            "change": rerun.change,
            "verdict": rerun.verdict,
            "before": str(rerun.before.name),
            "changed_lines": _listed(rerun.changed_numbers()),
        }


@dataclass(frozen=True)
class _Outcome:
    """What :func:`note_outcome` keeps, as read back: the fields that have the right type."""

    step_ns: int | None = None
    busy_ns: int | None = None
    span_ns: int | None = None
    change: float | None = None
    verdict: str = ""
    changed_lines: str = ""

    @classmethod
    def of(cls, recording: Recording) -> _Outcome:
        from npuprof.files.small_files import read_fields

        return cls(**read_fields(cls, recording.outcome)[0])


def busy_times(summary: Summary) -> tuple[int, int]:
    """Return how long all devices together were busy, and how long they were looked at."""
    return sum(device.busy_ns for device in summary.devices), sum(device.span_ns for device in summary.devices)


def busy_text(busy_ns: int | None, span_ns: int | None) -> str:
    """Return the busy time of the devices with its share; a dash where nothing is known of a device."""
    return f"{duration(busy_ns)} ({share(busy_ns, span_ns)})" if busy_ns is not None and span_ns else ABSENT


def outcome_texts(recording: Recording) -> tuple[str, str, str]:
    """Return the mean step, the busy time of the devices, and the change since the run before with its verdict."""
    outcome = _Outcome.of(recording)
    step, busy = duration(outcome.step_ns), busy_text(outcome.busy_ns, outcome.span_ns)
    if not outcome.verdict or outcome.change is None:
        return step, busy, ABSENT
    return step, busy, printable(f"{signed_share(outcome.change)}, {outcome.verdict}", _LONGEST_VERDICT)


@checked
def history(folder: str | PathLike[str] | None = None) -> pd.DataFrame:
    """Return the recorded runs of a notebook, also those of earlier kernels, the newest last.

    Parameters
    ----------
    folder
        A folder, for all runs that were recorded there; by default that of this process, without those that name
        another notebook than the one of this kernel.

    Returns
    -------
    pandas.DataFrame
        ``started``, ``cell`` (its number), ``name``, ``step_ns`` (absent without a report or a step), ``change``
        (relative to the run of the same cell before: -0.5 for half of the time), ``verdict`` (``first`` of those that
        can be compared, ``faster``, ``slower``, ``may be noise``, ``noise unknown``), ``changed_lines``,
        ``simulated``, ``failed`` and ``path``.
        At most the newest thousand.
    """
    rows = []
    notebook = os.environ.get(NOTEBOOK) if folder is None else None
    for recording in reversed(list(recordings_in(default_output() if folder is None else Path(folder)))):
        if notebook and recording.cell.get("notebook", notebook) != notebook:
            continue
        outcome = _Outcome.of(recording)
        rows.append(
            {
                "started": recording.started_ns,
                "cell": recording.cell.get("number", ""),
                "name": recording.name,
                "step_ns": outcome.step_ns,
                "change": outcome.change,
                "verdict": outcome.verdict or ("first" if outcome.step_ns else ""),
                "changed_lines": outcome.changed_lines,
                "simulated": recording.simulated,
                "failed": recording.failed,
                "path": str(recording.directory),
            }
        )
    frame: pd.DataFrame = ShownFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
    return frame.sort_values("started", kind="stable", ignore_index=True)


def _before(recording: Recording) -> Iterator[Recording]:
    """Yield the recordings of the same cell that ended before this one began, the newest first."""
    named = (recording.cell.get("id"), recording.options.get("name"))
    sought = [json.dumps(text).encode() for text in named if text]  # as Recording.write() writes them
    for other in recordings_in(recording.directory.parent, sought) if sought else ():
        is_earlier = other.directory != recording.directory and 0 < other.stopped_ns <= recording.started_ns
        if is_earlier and not other.failed and _is_same_cell(other, recording):
            yield other


def _is_same_cell(first: Recording, second: Recording) -> bool:
    ids = [recording.cell.get("id", "") for recording in (first, second)]
    if ids[0] and ids[0] == ids[1] and first.cell.get("notebook") == second.cell.get("notebook"):
        return True
    names = [str(recording.options.get("name") or "") for recording in (first, second)]
    return bool(names[0]) and names[0] == names[1]


def _profile(directory: Path) -> Profile | None:
    """Return the profile of an earlier run, from memory or disk; None if it is large or cannot be read."""
    from npuprof.loading import open_path
    from npuprof.profiles.profile import Profile
    from npuprof.sources.base import size_of_files

    for run in ended_runs():
        if run.directory == directory and run.profile is not None:
            return run.profile
    try:
        if size_of_files(directory) > _LARGEST_BYTES:
            return None
        opened = open_path(directory)
    except (SourceError, OSError):
        return None
    return opened if isinstance(opened, Profile) else None


def _unlike(now: Recording, before: Recording) -> list[str]:
    """Return in what the recordings of two runs differ, a phrase each."""
    unlike = [
        f"{name} {printable(str(now.options.get(name)), 60)}, was {printable(str(before.options.get(name)), 60)}"
        for name in _COMPARED_OPTIONS
        if now.options.get(name) != before.options.get(name)
    ]
    # Without the option, the collector is chosen by what is installed.
    if now.options.get("collector") == before.options.get("collector") and now.collector != before.collector:
        unlike.append(f"collector {printable(now.collector, 60)}, was {printable(before.collector, 60)}")
    if now.simulated != before.simulated:
        words = {True: "a simulated NPU", False: "a real one"}
        unlike.append(f"{words[now.simulated]}, was {words[before.simulated]}")
    return unlike
