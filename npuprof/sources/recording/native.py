"""The output of the native front end in a recording: its raw directory, or a framework's directory around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npuprof.errors import SourceError
from npuprof.recordings.recording import (
    FLOPS_FILE_NAME,
    STACKS_FILE_NAME,
    STACKS_JOURNAL_FILE_NAME,
    TRACE_FILE_NAME,
    Recording,
)
from npuprof.sources import kineto, raw
from npuprof.sources.base import Decoded
from npuprof.sources.kineto.operators import add_flops
from npuprof.sources.raw.metadata.clocks import epoch_offset
from npuprof.sources.raw.metadata.control_files import read_sides
from npuprof.sources.result_folder.layout import FRAMEWORK, ResultFiles, find
from npuprof.sources.selection import SelectedPart
from npuprof.sources.torch_npu.raw_files import read_layout
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted

_OF_FRAMEWORKS = ("*_ascend_pt", "*_ascend_ms")
_RAW = "PROF_*"
_OF_OLDER_MINDSPORE = "profiler"  # where MindSpore releases before the *_ascend_ms directories wrote
_NO_DEVICE = (
    "CANN left no PROF_* directory, so nothing of the device was recorded: the framework does not say why, CANN's log "
    "does (~/ascend/log, or ASCEND_PROCESS_LOG_PATH)"
)


def read_native(path: Path, recording: Recording, part: SelectedPart) -> Decoded:
    """Read the front end's output in a recording."""
    trace = path / TRACE_FILE_NAME
    if trace.is_file():
        decoded = kineto.read(trace)
        flops, operators = path / FLOPS_FILE_NAME, decoded.tables.get("operators")
        if flops.is_file() and operators is not None:
            decoded.tables["operators"] = add_flops(operators, flops, decoded.notes)
        return decoded
    results = list(_results(path))
    if results:
        decoded = read_layout(results[-1], part, recording.raw_clock_epoch_ns)
        if _wants_device(recording) and not results[-1].raw:
            _note_missing_device(decoded, recording)
        if results[-1].root == path:  # these files were not written by torch_npu
            decoded.info.source = "raw files of simulated torch"
        return _noting([result.root for result in results[:-1]], decoded)
    runs = _directories(path, _RAW) or _directories(path / _OF_OLDER_MINDSPORE, _RAW)
    if runs:
        return _noting(runs[:-1], raw.read(runs[-1], part))
    decoded = Decoded()
    if _wants_device(recording):
        decoded.notes.error(recording.collector, "the collector left no data: see its problems, if any are noted")
        if not any((path / name).is_file() for name in (STACKS_FILE_NAME, STACKS_JOURNAL_FILE_NAME)):
            raise SourceError(_no_data(path, recording))
    return decoded


def clock_epoch(path: Path, recording: Recording) -> int:
    """Return UTC epoch nanoseconds at zero of CLOCK_MONOTONIC_RAW: as the front end's files have it, or else npuprof.

    Two readings of the clocks differ by a microsecond or so, which is as long as a short statement.
    """
    results = list(_results(path))
    runs = list(results[-1].raw) if results else []
    runs = runs or _directories(path, _RAW) or _directories(path / _OF_OLDER_MINDSPORE, _RAW)
    silent = Notes()  # a warning means that the offset is unknown
    try:
        offset_ns = epoch_offset(read_sides(runs[-1], silent), silent) if runs else 0
    except OSError:  # noted by the reader of the raw directory
        return recording.raw_clock_epoch_ns
    return offset_ns if runs and not len(silent) else recording.raw_clock_epoch_ns


def _wants_device(recording: Recording) -> bool:
    activities = recording.options.get("activities")
    return not isinstance(activities, list) or "npu" in activities


def _note_missing_device(decoded: Decoded, recording: Recording) -> None:
    device = recording.versions.get("mindspore_device", "Ascend")
    if device == "Ascend":
        decoded.notes.error(recording.collector, _NO_DEVICE)
    else:
        decoded.notes.warning(recording.collector, f"MindSpore ran on {device or 'an unknown device'}, not on an NPU")


def _results(path: Path) -> Iterator[ResultFiles]:
    for pattern in _OF_FRAMEWORKS:
        for directory in _directories(path, pattern):
            layout = find(directory)
            if layout is not None and layout.is_raw:
                yield layout
    # Output of a simulated framework is recorded next to that of the simulated device.
    if (path / FRAMEWORK).is_dir() and (layout := find(path)) is not None and layout.is_raw:
        yield layout


def _directories(path: Path, pattern: str) -> list[Path]:
    return sorted(child for child in path.glob(pattern) if child.is_dir())


def _noting(earlier: list[Path], decoded: Decoded) -> Decoded:
    for root in earlier:
        decoded.notes.warning(
            root.name, "an earlier start of the collector in this recording is not shown: load it by itself"
        )
    return decoded


def _is_whole(file: Path, size: int) -> bool:
    try:
        return file.stat().st_size == size
    except OSError:
        return False


def _no_data(path: Path, recording: Recording) -> str:
    why = "the process may have ended before the collector wrote anything"
    if recording.files and all(_is_whole(path / name, size) for name, size in recording.files.items()):
        why = _NO_DEVICE
    elif recording.files:
        files = counted(len(recording.files), "file")
        why = f"none of the {files} that were recorded can be read; copy the recording again"
    reason = "; ".join(recording.problems) or why
    return f"{path} holds no data: {reason}"
