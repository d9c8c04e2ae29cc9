"""What every source gives: the tables that it could fill, what it knows of the run, and its notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pandas as pd

from npuprof.info import Info
from npuprof.notes import Notes


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


class Source(Protocol):
    """One on-disk format: a module with these two functions.

    One that can leave out work where only a part is wanted has a third, ``read_part(path, selection)``, which may give
    more than the selection but all of it: see :func:`npuprof.sources.cutting.cut`, by which every source's tables go.
    """

    def recognises(self, path: Path) -> bool:
        """Tell, from its content and cheaply, whether `path` is of this format."""
        ...

    def read(self, path: Path) -> Decoded:
        """Read the run at `path`.

        Raises
        ------
        SourceError
            If nothing of it can be read; the message says what the path is and what would help.
        """
        ...
