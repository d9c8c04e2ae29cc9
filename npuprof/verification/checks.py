"""Checks of a recorded workload, and of its decoding against the vendor's export of the same bytes."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from npuprof.errors import NpuprofError
from npuprof.loading import load
from npuprof.profiles.profile import Profile
from npuprof.recordings.recording import Recording
from npuprof.verification.workloads import Workload
from npuprof.words.quantities import counted

_SLACK_NS = 1_000_000_000  # allowed difference between the clocks of host and device
_MOST_NOTES = 20


@dataclass(frozen=True)
class Check:
    """The result of a check; `passed` is None if it was skipped."""

    name: str
    passed: bool | None
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain data for JSON."""
        return asdict(self)


def examine(run: Profile, recording: Recording, workload: Workload) -> list[Check]:
    """Check the profile and the recording of a known workload."""
    return [
        Check("collected", not recording.problems, "; ".join(recording.problems) or "no problem was reported"),
        _check_decoded(run),
        *_counts("kernels", run.kernels, "op_type", workload.kernels),
        *_counts("operators", run.operators, "name", workload.operators),
        *_counts("tasks", run.tasks, "task_type", workload.tasks),
        *_times(run, recording),
        *_links(run),
    ]


def _check_decoded(run: Profile) -> Check:
    notes = run.notes
    wrong = notes[notes["severity"] == "error"]
    messages = [f"{row.source}: {row.message}" for row in notes.head(_MOST_NOTES).itertuples()]
    return Check("decoded", wrong.empty, " | ".join(messages) or "no note")


def _counts(table: str, frame: pd.DataFrame, column: str, expected: Mapping[str, int]) -> list[Check]:
    checks = []
    for word, least in expected.items():
        recorded = int(frame[column].astype(str).str.contains(word, regex=False).sum())
        checks.append(Check(f"{table} of {word}", recorded >= least, f"{recorded} found, {least} were launched"))
    return checks


def _times(run: Profile, recording: Recording) -> list[Check]:
    """Check the device's times: within the recording, not negative, in order on each stream."""
    kernels = run.kernels if len(run.kernels) else run.tasks
    if kernels.empty:
        return []
    start, duration = kernels["start_ns"].astype("int64"), kernels["duration_ns"].astype("int64")
    early = recording.started_ns - int(start.min())
    late = int((start + duration).max()) - recording.stopped_ns
    outside = max(early, late, 0)
    ordered = kernels.sort_values("start_ns")
    ends = ordered["start_ns"].astype("int64") + ordered["duration_ns"].astype("int64")
    by_stream = [ordered["device_id"], ordered["stream_id"]]
    overlaps = int((ordered["start_ns"] < ends.groupby(by_stream, observed=True).shift()).sum())
    return [
        Check("durations", bool((duration >= 0).all()), f"{int((duration < 0).sum())} of {len(kernels)} are negative"),
        Check("clock", outside <= _SLACK_NS, f"device times lie up to {outside / 1e6:.3f} ms outside of the recording"),
        Check("order on streams", overlaps == 0, f"{overlaps} of {len(kernels)} begin before the one before has ended"),
    ]


def _links(run: Profile) -> list[Check]:
    if run.kernels.empty or run.api.empty:
        return []
    known = set(run.api["connection_id"].dropna())
    launched = int(run.kernels["connection_id"].isin(known).sum())
    return [
        Check("launches", launched > 0, f"{launched} of {counted(len(run.kernels), 'kernel')} linked to a CANN call")
    ]


# Columns that both sides have; connection IDs are numbered independently.
_COMPARED: dict[str, tuple[str, ...]] = {
    "kernels": (
        "start_ns",
        "duration_ns",
        "device_id",
        "stream_id",
        "task_id",
        "op_name",
        "op_type",
        "core",
        "block_num",
        "input_shapes",
        "input_dtypes",
        "input_formats",
        "output_shapes",
        "output_dtypes",
        "output_formats",
    ),
    "communication": ("start_ns", "duration_ns", "device_id", "name", "op_type"),
    "api": ("start_ns", "duration_ns", "name", "level", "thread_id"),
    "marks": ("start_ns", "duration_ns", "message", "domain", "thread_id"),
}
_COUNTED = ("aic_", "aiv_")
_ROUNDED = 0.000_500_1  # the export has three decimals
_EXPORT_S = 600.0
_SHOWN = 5


def export(tool: Path, directory: Path) -> Check:
    """Export raw data by the vendor's tool, which writes its result into the same directory."""
    try:
        done = subprocess.run(  # noqa: S603 - the vendor's tool, on what was just recorded
            [str(tool), "--export=on", f"--output={directory}"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_EXPORT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("vendor's export", False, f"{tool} failed: {error}")
    output = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
    return Check("vendor's export", done.returncode == 0, f"status {done.returncode}: {' | '.join(output[-_SHOWN:])}")


def compare(directory: Path) -> list[Check]:
    """Compare the raw data of a ``PROF_*`` directory with the export in it, by table and row."""
    try:
        ours, theirs = load(directory, source="raw"), load(directory, source="parsed")
    except NpuprofError as error:
        return [Check("comparison", False, str(error))]
    if theirs.info.source == "raw":
        return [Check("comparison", False, f"{directory} holds no result of the vendor's to compare with")]
    return [_table(ours, theirs, name) for name in _COMPARED if len(theirs.tables[name])]


def _table(ours: Profile, theirs: Profile, name: str) -> Check:
    mine, vendor = ours.tables[name], theirs.tables[name]
    if len(mine) != len(vendor):
        return Check(
            f"{name} as the vendor's", False, f"{counted(len(mine), 'row')} of ours, {len(vendor)} of the vendor's"
        )
    columns = [column for column in _COMPARED[name] if column in mine and column in vendor]
    columns += [column for column in mine.columns.intersection(vendor.columns) if column.startswith(_COUNTED)]
    # A version that lacks a column does not contradict it.
    absent = [column for column in columns if vendor[column].isna().all() and not mine[column].isna().all()]
    columns = [column for column in columns if column not in absent]
    different: list[str] = []
    rows: set[int] = set()
    for column in columns:
        for row, (left, right) in enumerate(zip(_plain(mine[column]), _plain(vendor[column]), strict=True)):
            if not _same(left, right, counted=column.startswith(_COUNTED)):
                rows.add(row)
                different.append(f"row {row} {column}: ours {left!r}, the vendor's {right!r}")
    equal = f"{len(mine) - len(rows)} of {counted(len(mine), 'row')} equal in {counted(len(columns), 'column')}"
    if absent:
        equal += f" (the export does not have {', '.join(absent)})"
    return Check(f"{name} as the vendor's", not different, "; ".join([equal, *different[:_SHOWN]]))


def _same(mine: Any, vendor: Any, *, counted: bool) -> bool:
    if mine == vendor or (counted and mine is None and vendor == 0):  # a core that wrote no values: absent, or zeros
        return True
    if isinstance(mine, float) and isinstance(vendor, (int, float)):
        return math.isclose(mine, vendor, rel_tol=1e-12, abs_tol=_ROUNDED)
    return False


def _plain(column: pd.Series[Any]) -> list[Any]:
    return column.astype(object).where(column.notna(), None).tolist()
