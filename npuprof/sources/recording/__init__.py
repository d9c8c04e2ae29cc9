"""A recording of npuprof: the native front end's data, the sampled Python stacks and ``recording.json``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.recording import FILE_NAME, STACKS_FILE_NAME, Recording
from npuprof.sources.base import Decoded
from npuprof.sources.recording import mark_domains, python_stacks
from npuprof.sources.recording.native import read_native
from npuprof.sources.recording.steps import take_steps
from npuprof.sources.selection import Part, Selection


def recognises(path: Path) -> bool:
    """Tell whether `path` is a directory that npuprof recorded into."""
    return (path / FILE_NAME).is_file()


def read(path: Path) -> Decoded:
    """Read a recording.

    Raises
    ------
    SourceError
        If ``recording.json`` is damaged, or the recording holds no data at all.
    """
    return _read(path, None)


def read_part(path: Path, selection: Selection) -> Decoded:
    """Read what is selected of a recording, and somewhat more; as :func:`read`.

    Raises
    ------
    SourceError
        As :func:`read`, or if the recording has no step of a selected number.
    """
    return _read(path, selection)


def _read(path: Path, selection: Selection | None) -> Decoded:
    recording = Recording.read(path)
    decoded = read_native(path, recording, _part(recording, selection))
    stacks = path / STACKS_FILE_NAME
    if stacks.is_file():
        decoded.tables["python"] = python_stacks.read(stacks, decoded.notes)
    take_steps(decoded.tables, _steps(recording), recording.collector)
    if recording.domains and "marks" in decoded.tables:
        decoded.tables["marks"] = mark_domains.assign(decoded.tables["marks"], recording.domains, decoded.notes)
    _describe(decoded, recording, path)
    return decoded


def _part(recording: Recording, selection: Selection | None) -> Selection | Part | None:
    """Find the wanted stretches by what the session knows of itself; where it does not, the raw data tells."""
    if selection is None or not (recording.started_ns if selection.steps is None else recording.steps):
        return selection
    windows = selection.windows(_steps(recording), recording.started_ns)
    return Part(windows) if selection.steps is None else Part(windows, windows)


def _steps(recording: Recording) -> pd.DataFrame:
    rows = np.array(recording.steps, dtype=np.int64).reshape(-1, 3)
    columns = {"step": rows[:, 0], "start_ns": rows[:, 1], "duration_ns": np.maximum(rows[:, 2] - rows[:, 1], 0)}
    return tables.build("steps", columns)


def _describe(decoded: Decoded, recording: Recording, path: Path) -> None:
    """Let the recording's facts stand over those of the raw files: it knows the session."""
    info = decoded.info
    info.name = recording.name or path.name
    info.collector = recording.collector
    info.source = f"recording, {info.source}" if info.source else "recording"
    # Either may know: nothing simulated may ever pass for real.
    info.simulated = info.simulated or recording.simulated
    info.started_ns = recording.started_ns or info.started_ns
    info.stopped_ns = recording.stopped_ns or info.stopped_ns
    info.versions = {**info.versions, **recording.versions}
    info.environment = {**info.environment, **recording.environment}
    info.options = recording.options
    info.metadata = recording.metadata
    info.failed, info.reason = recording.failed, recording.reason
    info.recording = path
    for problem in recording.problems:
        decoded.notes.error(recording.collector, problem)
    for problem in recording.stack_problems:
        decoded.notes.warning(python_stacks.SOURCE, problem)
    if not recording.stopped_ns:
        decoded.notes.warning("recording", "the run was interrupted: what had been written until then is shown")
