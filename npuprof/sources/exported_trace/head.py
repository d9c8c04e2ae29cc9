"""The events of a Chrome trace of npuprof that describe its runs; they are before all others."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pandas as pd

from npuprof.errors import SourceError
from npuprof.files.small_files import convert, decode, read_fields
from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.sources.exported_trace.layout import FORMAT, RUN, VERSION
from npuprof.sources.files.gzip_file import read_head
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import arguments_of, is_trace, read_events
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

_HEAD_BYTES = 1 << 18
_MAX_RUNS = 100_000
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Shape(msgspec.Struct):
    """The number of rows of a table, and its columns with their dtypes."""

    rows: _Count
    columns: dict[str, str]


class _Notes(msgspec.Struct):
    severity: list[Literal["info", "warning", "error"]]
    source: list[str]
    message: list[str]
    count: list[_Count]
    lacks: list[str] | None = None
    missing_rows: list[_Count] | None = None


class Head(msgspec.Struct):
    """The description of a run; `info` is JSON of :meth:`npuprof.tables.info.Info.to_dict`."""

    version: int
    run: _Count
    base_ns: str
    info: str
    notes: _Notes
    tables: dict[str, Shape]
    statistics: dict[str, Shape]


def heads_of(path: Path) -> list[Head]:
    """Return the descriptions of the runs in a trace; empty if it is no Chrome trace of npuprof."""
    try:
        if not path.is_file() or RUN.encode() not in read_head(path, _HEAD_BYTES) or not is_trace(path):
            return []
        heads: list[Head] = []
        for batch in read_events(path, Notes()):
            for event in batch:
                if event.ph != "M" or event.name != RUN or len(heads) >= _MAX_RUNS:
                    return heads
                heads.append(_head(path, event))
    except (OSError, EOFError, zlib.error, ValueError):
        return []
    return heads


def _head(path: Path, event: Event) -> Head:
    plain = arguments_of(event)
    version = plain.get("version")
    if isinstance(version, int) and version > VERSION:
        raise SourceError(f"{path} was written by a newer npuprof: update this one to open it")
    head: Head = convert(plain, Head)
    if abs(int(head.base_ns)) >= 1 << 62:
        raise ValueError("the origin of times is out of range")
    return head


def info_of(head: Head, path: Path, notes: Notes) -> Info:
    """Return the facts of a run; damaged ones are noted and left out."""
    plain: Any = decode(head.info.encode())
    values, problems = read_fields(Info, plain if isinstance(plain, dict) else {})
    for problem in problems:
        notes.warning(path.name, f"{problem}, and is left out")
    info = Info(**values)
    info.recording = path
    if info.source != CLUSTER_ANALYSIS:  # by which a set knows the analysis of all ranks
        info.source = FORMAT
    return info


def notes_of(head: Head) -> Notes:
    """Return the notes of a run."""
    return Notes.from_frame(pd.DataFrame(msgspec.to_builtins(head.notes)))
