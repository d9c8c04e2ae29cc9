"""The vendors' SQLite results: a database by itself, or a result directory that holds no text result.

``ascend_pytorch_profiler*.db``, ``ascend_mindspore_profiler*.db`` and ``msprof_*.db`` hold the run; ``analysis.db`` and
``communication_analyzer.db`` hold sums over its steps. They are identified by their tables and opened read-only; tables
that a viewer added are ignored. ``report_*.db`` is an older form.

Source: sources/RESULTS.md section 5.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, PartReader, Source
from npuprof.sources.database.connection import open_database
from npuprof.sources.database.layout import add_facts, describe_directory, find
from npuprof.sources.database.reader import Reader
from npuprof.sources.database.result import DatabaseReading
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

__all__ = ["SOURCE", "describe", "read", "recognises"]


def recognises(path: Path) -> bool:
    """Return whether `path` is an SQLite file, or a result directory whose only result is a database."""
    return find(path) is not None


def read(path: Path) -> Decoded:
    """Read the newest profile of a result directory and the analyses with it, or a single database."""
    layout = find(path)
    if layout is None:
        raise SourceError(
            f"{path} holds no database of a profile: load an ascend_*_profiler*.db, msprof_*.db or analysis.db, "
            "or the directory that holds it"
        )
    return DatabaseReading(layout).run()


def describe(path: Path) -> Info:
    """Return the facts of the run without reading its tables."""
    layout = find(path)
    if layout is None:
        raise SourceError(f"{path} holds no database of a profile")
    notes = Notes()  # reading the run reports them
    info = describe_directory(layout, notes)
    for profile in layout.profile[:1]:
        with open_database(profile, notes) as database:
            add_facts(info, Reader(database))
    return info


def parts(path: Path) -> dict[str, PartReader]:
    """Return how to read the tables of a database that need no other table."""
    layout = find(path)
    return {} if layout is None else DatabaseReading(layout).parts()


SOURCE = Source(
    "database",
    (None, "parsed", "db"),
    recognises,
    read,
    describe=describe,
    is_result_of_raw=True,
    parts=parts,
    is_read_when_touched=True,
)
