"""What must hold of a recorded workload: each check is a name, whether it holds, and what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from npuprof.profiles import Profile
from npuprof.recording import Recording
from npuprof.verification.workloads import Workload

_SLACK_NS = 1_000_000_000  # clocks of host and device may be this far apart without anything being wrong
_MOST_NOTES = 20


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `passed` is None where it could not be."""

    name: str
    passed: bool | None
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """Return a form that JSON can hold."""
        return asdict(self)


def examine(run: Profile, recording: Recording, workload: Workload) -> list[Check]:
    """Judge a run of a known workload.

    Parameters
    ----------
    run
        What was decoded.
    recording
        What the collector told.
    workload
        What was run.
    """
    return [
        Check("collected", not recording.problems, "; ".join(recording.problems) or "no problem was told"),
        _decoded(run),
        *_counts("kernels", run.kernels, "op_type", workload.kernels),
        *_counts("operators", run.operators, "name", workload.operators),
        *_counts("tasks", run.tasks, "task_type", workload.tasks),
        *_times(run, recording),
        *_links(run),
    ]


def _decoded(run: Profile) -> Check:
    notes = run.notes
    wrong = notes[notes["severity"] == "error"]
    told = [f"{row.source}: {row.message}" for row in notes.head(_MOST_NOTES).itertuples()]
    return Check("decoded", wrong.empty, " | ".join(told) or "no note")


def _counts(table: str, frame: pd.DataFrame, column: str, expected: Mapping[str, int]) -> list[Check]:
    checks = []
    for word, least in expected.items():
        found = int(frame[column].astype(str).str.contains(word, regex=False).sum())
        checks.append(Check(f"{table} of {word}", found >= least, f"{found} found, {least} were launched"))
    return checks


def _times(run: Profile, recording: Recording) -> list[Check]:
    """Look at the device's times: within the recording, not negative, one after the other on each stream."""
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
    return [Check("launches", launched > 0, f"{launched} of {len(run.kernels)} kernels are linked to a CANN call")]
