"""The vendors' SQLite results: a database by itself, or a result directory that holds no text result.

``ascend_pytorch_profiler*.db``, ``ascend_mindspore_profiler*.db`` and ``msprof_*.db`` hold the run,
``analysis.db`` and ``communication_analyzer.db`` sums over its steps. They are known by their tables, opened
read-only and never changed; a viewer's additions to them change nothing of what is read. ``report_*.db`` is the form
that these had before.

Source: sources/RESULTS.md section 5.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources.base import Decoded, Source
from npuprof.sources.database.connection import open_database
from npuprof.sources.database.layout import add_facts, describe_directory, find
from npuprof.sources.database.result import Reading
from npuprof.sources.database.versions import ReportDatabase, is_report

__all__ = ["SOURCE", "describe", "read", "read_databases", "recognises"]


def recognises(path: Path) -> bool:
    """Return whether `path` is an SQLite file, or a result directory whose only result is a database."""
    return find(path) is not None


def read(path: Path) -> Decoded:
    """Read one database or the databases of one directory.

    Raises
    ------
    SourceError
        If it is no such thing, or nothing of it can be read.
    """
    return read_databases(path)


def read_databases(folder: Path) -> Decoded:
    """Read the databases of a result directory (or one database): the newest profile, and the analyses beside it.

    Raises
    ------
    SourceError
        If there are none, or nothing of them can be read; the message says what is wrong with the first.
    """
    layout = find(folder)
    if layout is None:
        raise SourceError(
            f"{folder} holds no database of a profile: give it an ascend_*_profiler*.db, msprof_*.db or analysis.db, "
            "or the directory of one"
        )
    reading = Reading(layout)
    reading.run()
    return reading.decoded


def describe(path: Path) -> Info:
    """Return what is known of the run without reading its tables.

    Raises
    ------
    SourceError
        As :func:`read_databases`.
    """
    layout = find(path)
    if layout is None:
        raise SourceError(f"{path} holds no database of a profile")
    notes = Notes()  # told when the run itself is read
    info = describe_directory(layout, notes)
    for one in layout.profile[:1]:
        with open_database(one, notes) as database:
            add_facts(info, ReportDatabase(database) if is_report(database.tables) else database)
    return info


SOURCE = Source("database", (None, "parsed", "db"), recognises, read, describe=describe, is_result_of_raw=True)
