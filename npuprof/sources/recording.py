"""A recording of npuprof: the native front end's data, the sampled Python stacks and ``recording.json``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.recording import FILE_NAME, STACKS_FILE_NAME, Recording
from npuprof.sources import python_stacks, raw
from npuprof.sources.base import Decoded
from npuprof.sources.launch_steps import assign_steps


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
    recording = Recording.read(path)
    decoded = _read_native(path, recording)
    stacks = path / STACKS_FILE_NAME
    if stacks.is_file():
        decoded.tables["python"] = python_stacks.read(stacks, decoded.notes)
    if recording.steps:
        decoded.tables["steps"] = _steps(recording)
        assign_steps(decoded.tables)
    _describe(decoded, recording, path)
    return decoded


def _read_native(path: Path, recording: Recording) -> Decoded:
    runs = sorted(child for child in path.glob("PROF_*") if child.is_dir())
    if not runs:
        decoded = Decoded()
        if "npu" in recording.options.get("activities", ["npu"]):
            decoded.notes.error(recording.collector, "the collector left no data: see its problems, if any are noted")
            if not (path / STACKS_FILE_NAME).is_file():
                raise SourceError(_no_data(path, recording))
        return decoded
    decoded = raw.read(runs[-1])
    for earlier in runs[:-1]:
        decoded.notes.warning(
            earlier.name, "an earlier start of the collector in this recording is not shown: load it by itself"
        )
    return decoded


def _no_data(path: Path, recording: Recording) -> str:
    told = "; ".join(recording.problems) or "the process may have ended before the collector wrote anything"
    return f"{path} holds no data: {told}"


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
    info.failed = recording.failed
    info.recording = path
    for problem in recording.problems:
        decoded.notes.error(recording.collector, problem)
    if not recording.stopped_ns:
        decoded.notes.warning("recording", "the run was interrupted: what had been written until then is shown")
