"""Tell of a run what its small files know, without reading its tables.

A source that can do so has a function ``describe_path(path) -> Info``; for the others there is one here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pandas as pd

from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.recording import Recording
from npuprof.sources.base import Source
from npuprof.sources.database.analyzer import communication_statistics
from npuprof.sources.database.connection import open_database
from npuprof.sources.groups import MATRIX
from npuprof.sources.msprof.layout import ANALYZED
from npuprof.sources.raw.control import clocks
from npuprof.sources.raw.control.facts import read_info
from npuprof.sources.raw.control.files import read_sides
from npuprof.sources.text.communication_json import read_communication_matrix
from npuprof.sources.torch_npu.description import describe as describe_torch
from npuprof.sources.torch_npu.layout import OUTPUT
from npuprof.sources.torch_npu.layout import find as find_torch

_MAX_BYTES = 64 << 20
_MATRICES = [
    f"{folder}{name}"
    for folder in ("", f"{OUTPUT}/", f"{ANALYZED}/")
    for name in (
        "communication_matrix.json",
        "communication_matrix.json.gz",
        "analysis.db",
        "communication_analyzer.db",
    )
]
_RANK = re.compile(r"rank[_-]?(\d{1,6})(?!\d)", re.IGNORECASE)


def describe_run(name: str, source: Source, path: Path) -> Info:
    """Describe the run at `path`.

    Parameters
    ----------
    name, source
        The source that recognised it, by its name.
    path
        The run.

    Returns
    -------
    What is known; the rank is taken from the path (``rank_3``) where no file tells it.

    Raises
    ------
    SourceError
        If its files are too damaged to tell anything.
    """
    describe = getattr(source, "describe_path", None) or _DESCRIBERS.get(name, _by_name)
    info: Info = describe(path)
    if info.rank is None:
        named = [match for part in reversed(path.parts[-3:]) if (match := _RANK.search(part))]
        info.rank = int(named[0][1]) if named else None
    return info


def told_matrix(path: Path) -> dict[str, pd.DataFrame]:
    """Return the vendor's ``communication_matrix`` of a run by that name, read by itself; empty without one."""
    for name in _MATRICES:
        file = path / name
        with suppress(SourceError, OSError):
            if not file.is_file() or file.stat().st_size > _MAX_BYTES:
                continue
            if file.suffix != ".db":
                return {MATRIX: read_communication_matrix(file, Notes())}
            with open_database(file, Notes()) as database:
                frames = communication_statistics(database)
            return {name: frame for name, frame in frames.items() if name == MATRIX}
    return {}


def _by_name(path: Path) -> Info:
    return Info(name=path.name, recording=path)


def _raw(path: Path) -> Info:
    notes = Notes()  # told when the run itself is read
    sides = read_sides(path, notes)
    return read_info(path, sides, clocks.epoch_offset(sides, notes))


def _recording(path: Path) -> Info:
    recording = Recording.read(path)
    return Info(
        name=recording.name or path.name,
        collector=recording.collector,
        source="recording",
        started_ns=recording.started_ns or None,
        stopped_ns=recording.stopped_ns or None,
        recording=path,
    )


def _torch_npu(path: Path) -> Info:
    layout = find_torch(path)
    return _by_name(path) if layout is None else describe_torch(layout, Notes())


def _unparsed(path: Path) -> Info:
    info = _torch_npu(path)
    info.source = f"{info.collector} raw files"
    return info


_DESCRIBERS: Mapping[str, Callable[[Path], Info]] = {
    "raw": _raw,
    "recording": _recording,
    "torch_npu": _torch_npu,
    "torch_npu.unparsed": _unparsed,
}
