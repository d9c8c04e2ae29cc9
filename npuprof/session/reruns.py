"""What changed since the same cell ran before, and the list of the runs of a notebook.

A cell is the same if the front end gives it the same id in the same notebook, or if both have the same ``--name``.
The run before is the newest one of it in the folder of the recordings, also of an earlier kernel.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from npuprof.errors import NpuprofError, SourceError
from npuprof.lines.frames import cell_text
from npuprof.options import default_output
from npuprof.parameters import checked
from npuprof.recordings.recording import NOTEBOOK, Recording
from npuprof.session.folders import recordings_in
from npuprof.session.history import ended_runs
from npuprof.tables.shown_frame import ShownFrame
from npuprof.words.quantities import ABSENT, counted, duration, printable, share, signed, signed_share

if TYPE_CHECKING:
    from npuprof.analysis.summary import Summary
    from npuprof.profiles.comparison import Comparison
    from npuprof.profiles.profile import Profile

_LARGEST_BYTES = 256 << 20
_LEAST_SHARE = 0.05  # of the change: smaller parts are not named
_MOST_PARTS = 3
_LONGEST_VERDICT = 40
_MOST_LINES = 8
_MOST_SHOWN = 40  # changed lines in a report
_MOST_MATCHING = 1_000_000  # steps of difflib: lines that occur often take it the cube of their number
_MOST_TRIED = 3  # runs before, until one has steps
_LINE_END = re.compile(r"\r\n|\n|\r")  # str.splitlines knows more, at which Python counts no line
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
class ChangedLine:
    """A line of a cell that was changed, added or removed.

    Attributes
    ----------
    line, line_before
        Its number now and before; None where there is no such line.
    text, text_before
        The line.
    device_ns, device_ns_before
        The time of the kernels that it launched, per step.
    """

    line: int | None
    line_before: int | None
    text: str
    text_before: str
    device_ns: int
    device_ns_before: int


@dataclass(frozen=True)
class Rerun:
    """A run of a cell beside the run of the same cell before.

    Attributes
    ----------
    comparison
        The difference: this run minus the run before.
    before
        The recording of the run before.
    lines
        What was changed in the cell; None where a run has no code.
    unlike
        The options in which the runs differ, as text.
    """

    comparison: Comparison
    before: Path
    lines: list[ChangedLine] | None
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

    def sentence(self) -> str:
        """Return what changed, in one sentence."""
        difference = self.comparison
        noise, base = difference.noise, difference.b_ns
        if noise.is_known and base:
            low, high = (
                max(float(bound[0]) / base, -1.0) for bound in noise.total.bounds()
            )  # no step takes less than 0
            sure = f"95 % interval {signed_share(low)} to {signed_share(high)}"
            sure += ", which may be noise" if self.verdict == "may be noise" else ""
        else:
            sure = "one step: noise unknown"
        text = f"{duration(difference.a_ns)} a step, was {duration(base)} ({signed_share(self.change)}, {sure})"
        if parts := list(self._parts()):
            text += f": {', '.join(parts)}"
        if self.unlike:
            text += f"; recorded with other options ({'; '.join(self.unlike)})"
        return f"{text}; {self._changed()}"

    def _parts(self) -> Iterator[str]:
        rows = self.comparison.rows
        top = rows[(rows["depth"] == 0).to_numpy(bool)]
        ordered = top.iloc[np.argsort(-top["delta_ns"].abs().to_numpy(), kind="stable")]
        least = _LEAST_SHARE * abs(self.comparison.delta_ns)
        for _, row in islice(ordered.iterrows(), _MOST_PARTS):
            if abs(row["delta_ns"]) > least and (self.verdict == "noise unknown" or row["significant"] is True):
                yield f"{row['name']} {signed(int(row['delta_ns']))}"

    def _changed(self) -> str:
        if self.lines is None:
            return "what you changed is not known: not both runs have their code"
        numbers = changed_numbers(self.lines)
        removed = sum(line.line is None for line in self.lines)
        if not self.lines:
            return "the code is the same"
        parts = [f"changed {'line' if len(numbers) == 1 else 'lines'} {_listed(numbers)}"] if numbers else []
        parts += [f"removed {counted(removed, 'line')}"] if removed else []
        return f"you {' and '.join(parts)}"

    def text(self) -> str:
        """Return the sentence and the changed lines as text."""
        return "\n".join([printable(self.sentence(), 600), *self.differing()])

    def differing(self) -> list[str]:
        """Return the first changed lines as text, with the device time of each per step."""
        lines = self.lines or []
        shown = [printable(line, 200) for line in self._differing(lines[:_MOST_SHOWN])]
        return shown + ([f"  and {len(lines) - _MOST_SHOWN:,} more lines"] if len(lines) > _MOST_SHOWN else [])

    def _differing(self, lines: Sequence[ChangedLine]) -> Iterator[str]:
        for line in lines:
            if line.line_before is not None:
                yield f"  -{line.line_before:>4} {line.text_before}{_time(line.device_ns_before)}"
            if line.line is not None:
                yield f"  +{line.line:>4} {line.text}{_time(line.device_ns)}"


def changed_numbers(lines: Sequence[ChangedLine]) -> list[int]:
    """Return the numbers that changed and added lines have now."""
    return [line.line for line in lines if line.line is not None]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:_MOST_LINES])) + (" ..." if len(numbers) > _MOST_LINES else "")


def _time(nanoseconds: int) -> str:
    return f"   {duration(nanoseconds)} a step" if nanoseconds else ""


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
    return bool((run.accounting.steps["basis"] != "run").any())


def _compared(run: Profile, recording: Recording, before: Profile, earlier: Recording) -> Rerun | None:
    from npuprof.profiles.comparison import Comparison

    try:
        comparison = Comparison.of([[run]], [[before]], ("this run", "the run before"))
    except NpuprofError:  # a side has nothing of a device
        return None
    lines = None
    if recording.code and earlier.code:
        lines = _changed_lines(_of_cell(recording), _of_cell(earlier), _times(run, recording), _times(before, earlier))
    return Rerun(comparison, earlier.directory, lines, _unlike(recording, earlier))


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
            "changed_lines": _listed(changed_numbers(rerun.lines or [])),
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


def outcome_texts(recording: Recording) -> tuple[str, str]:
    """Return the busy time of the devices, and the change since the run before with its verdict, in a few words."""
    outcome = _Outcome.of(recording)
    busy = busy_text(outcome.busy_ns, outcome.span_ns)
    if not outcome.verdict or outcome.change is None:
        return busy, ABSENT
    return busy, printable(f"{signed_share(outcome.change)}, {outcome.verdict}", _LONGEST_VERDICT)


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
    ordered: pd.DataFrame = frame.sort_values("started", kind="stable", ignore_index=True)
    return ordered


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


def _of_cell(recording: Recording) -> list[str]:
    """Return the lines of the profiled cell without ``%%npuprof``, whose options are compared apart."""
    lines = _LINE_END.split(next(iter(recording.code.values()), ""))
    return ["" if line.lstrip().startswith("%%npuprof") else line.rstrip() for line in lines]


def _times(run: Profile, recording: Recording) -> dict[int, int]:
    """Return the device time of each line of the profiled cell, per step."""
    cell = cell_text(next(iter(recording.code), ""))
    by_line = run.by("line")
    steps = max(1, int((run.accounting.steps["basis"] != "run").sum()))
    device_ns: dict[int, int] = {}
    for name, total_ns in zip(by_line["line"].astype(object), by_line["total_ns"], strict=True):
        file, _, number = str(name).rpartition(", line ")
        if cell and file == cell and number.isdigit():
            device_ns[int(number)] = device_ns.get(int(number), 0) + int(total_ns) // steps
    return device_ns


def _changed_lines(
    now: list[str], before: list[str], times: Mapping[int, int], times_before: Mapping[int, int]
) -> list[ChangedLine]:
    changed = []
    for first, last, start, end in _differing_stretches(before, now):
        for place in range(max(last - first, end - start)):
            old, new = first + place, start + place
            has_old, has_new = old < last, new < end
            if has_old and has_new and before[old] == now[new]:
                continue
            if (before[old] if has_old else "").strip() or (now[new] if has_new else "").strip():
                changed.append(
                    ChangedLine(
                        new + 1 if has_new else None,
                        old + 1 if has_old else None,
                        now[new] if has_new else "",
                        before[old] if has_old else "",
                        times.get(new + 1, 0) if has_new else 0,
                        times_before.get(old + 1, 0) if has_old else 0,
                    )
                )
    return changed


def _differing_stretches(before: list[str], now: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the stretches of lines that differ: first and end before, first and end now.

    Lines that are unique on both sides, and in the same order, divide the cell; what is between two of them is matched
    by difflib, or line by line where lines that repeat would take it long.
    """
    old = new = 0
    for place, place_now in [*_common_lines(before, now), (len(before), len(now))]:
        left, right = before[old:place], now[new:place_now]
        count = Counter(right)
        if sum(count[line] for line in left) * min(len(left), len(right)) > _MOST_MATCHING:
            yield old, place, new, place_now
        elif left or right:
            for kind, first, last, start, end in difflib.SequenceMatcher(None, left, right, False).get_opcodes():
                if kind != "equal":
                    yield old + first, old + last, new + start, new + end
        old, new = place + 1, place_now + 1


def _common_lines(before: list[str], now: list[str]) -> list[tuple[int, int]]:
    """Return the places of the lines that are unique on both sides: the longest series of them in the same order."""
    counts, counts_now = Counter(before), Counter(now)
    place_now = {line: place for place, line in enumerate(now) if counts_now[line] == 1}
    pairs = [(place, place_now[line]) for place, line in enumerate(before) if counts[line] == 1 and line in place_now]
    ends: list[int] = []  # the smallest end of a series of each length
    at: list[int] = []  # its pair
    previous: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        ends[length : length + 1], at[length : length + 1] = [place], [number]
        previous.append(at[length - 1] if length else -1)
    series = []
    number = at[-1] if at else -1
    while number >= 0:
        series.append(pairs[number])
        number = previous[number]
    return series[::-1]
