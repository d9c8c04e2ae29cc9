"""What a source is, and what it returns of a run: tables, facts and notes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import pandas as pd

from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources.selection import Selection


@dataclass
class Decoded:
    """One run as a source read it.

    Attributes
    ----------
    tables
        Frames of :data:`npuprof.tables.SCHEMA` by name; a table that the format does not hold is left out.
    info
        What the files tell of the run.
    notes
        What was repaired, skipped or could not be known.
    statistics
        Tables that the vendor had already summed, as they came, by file name without suffix.
    derived
        Tables that were made of other tables, since the form does not hold them: source and message of the note that
        says so. Another form of the run may hold them.
    """

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    info: Info = field(default_factory=Info)
    notes: Notes = field(default_factory=Notes)
    statistics: dict[str, pd.DataFrame] = field(default_factory=dict)
    derived: dict[str, tuple[str, str]] = field(default_factory=dict)

    def settle(self) -> None:
        """Note which tables are derived, and rows that are in no table without a note; see :mod:`npuprof.ledger`."""
        for source, message in self.derived.values():
            self.notes.info(source, message)
        self.notes.settle(self.tables)


Preference: TypeAlias = Literal["text", "db", "raw", "parsed"] | None
"""The form of a run that is wanted: text files, databases, both of these, or raw data; None for the best one."""

_MAX_ENTRIES = 50_000


def describe_by_name(path: Path) -> Info:
    """Return what a path's name tells of a run."""
    return Info(name=path.name, recording=path)


def size_of_files(root: Path) -> int:
    """Return the bytes of the files at or below a path; of a directory with very many files, of some of them."""
    total = 0
    pending = deque([root])
    for _ in range(_MAX_ENTRIES):
        if not pending:
            break
        path = pending.popleft()
        with suppress(OSError):
            if not path.is_dir():
                total += path.stat().st_size
            elif not path.is_symlink() or path == root:
                pending.extend(list(path.iterdir())[:_MAX_ENTRIES])
    return total


@dataclass(frozen=True)
class Source:
    """One on-disk format, listed in :mod:`npuprof.sources.registry`.

    Attributes
    ----------
    name
        What the format is called in this package.
    serves
        The preferences under which a path is asked for.
    recognises
        Return, from its content and cheaply, whether a path is of the format.
    read
        Decode the run at a path, or raise a SourceError whose message tells what the path is and what would help.
    read_part
        Decode what is selected of it, and perhaps more: :func:`npuprof.sources.slicing.cut` removes the rest. None for
        a format of which everything has to be read.
    describe
        Return what the small files of a run tell, without its tables.
    size_bytes
        Return how many bytes are read.
    is_raw
        Whether the format is the collector's own data.
    is_result_of_raw
        Whether it is a result that may lie beside the raw data from which it was made.
    of_many_runs
        Whether it is an analysis of many runs.
    only_given
        Whether it is looked for only at the path that a user gives: below it, such files are copies.
    """

    name: str
    serves: tuple[Preference, ...]
    recognises: Callable[[Path], bool]
    read: Callable[[Path], Decoded]
    read_part: Callable[[Path, Selection], Decoded] | None = None
    describe: Callable[[Path], Info] = describe_by_name
    size_bytes: Callable[[Path], int] = size_of_files
    is_raw: bool = False
    is_result_of_raw: bool = False
    of_many_runs: bool = False
    only_given: bool = False
