"""Chrome traces that npuprof wrote: every table, the facts, the notes and the vendor's sums of one run, or of several.

Such a trace is known by its first event. If that is damaged, or the trace was written by a later version, it is read
like any other timeline of a device, which has less.

Source: sources/exported_trace/layout.py.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources import saved
from npuprof.sources.base import Decoded, Source
from npuprof.sources.exported_trace.head import heads_of, info_of
from npuprof.sources.exported_trace.reading import ExportedTraceReading
from npuprof.sources.trace.events import read_events
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

__all__ = ["SOURCE", "heads_of", "read", "read_runs", "recognises", "save_runs"]


def recognises(path: Path) -> bool:
    """Return whether a file is a Chrome trace that npuprof wrote."""
    return bool(heads_of(path))


def read(path: Path) -> Decoded:
    """Read the first run of a trace."""
    return read_runs(path)[0]


def read_runs(path: Path) -> list[Decoded]:
    """Read all runs of a trace."""
    heads = heads_of(path)
    if not heads:
        raise SourceError(f"{path} is no Chrome trace of npuprof that can be read: export the run again")
    reading = ExportedTraceReading(path, heads)
    for batch in read_events(path, reading.notes, exact=True):
        reading.add(batch)
    return reading.finish()


def save_runs(path: Path, folder: Path) -> None:
    """Save each run of a trace of several below a folder."""
    for number, decoded in enumerate(read_runs(path)):
        rank = decoded.info.rank
        saved.write(folder / f"{number:05}{'' if rank is None else f'_rank{rank}'}", decoded)


def describe(path: Path) -> Info:
    """Return the facts of the first run of a trace."""
    heads = heads_of(path)
    return info_of(heads[0], path, Notes()) if heads else Info(name=path.name, recording=path)


SOURCE = Source("exported_trace", (None, "parsed"), recognises, read, describe=describe, is_complete=True)
