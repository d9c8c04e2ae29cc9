"""A run that is there in several forms: the vendor's text result, its database, and the raw data of both.

No form holds all of a run: the text result of level 0 has no CANN calls and no steps of collectives, which its
database has; a database has none of the sums that stand in CSV files; and files of either may be missing. Each table
is taken from the form that has it, and a note says which. The text result comes first, then the database; raw data
that is not complete (else it is read instead, see :mod:`npuprof.sources.raw_or_parsed`) fills what neither has.

:mod:`.discovery` finds the forms, :mod:`.database_preview` counts the rows of the database before it is read,
:mod:`.merge` combines the tables. :mod:`.parsed_only` is the same without raw data, for ``source="parsed"``, and
:mod:`.copied_files` reads files that were copied out of their result.

Source: sources/RESULTS.md sections 1 and 5.4.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.info import Info
from npuprof.sources.base import Decoded, Source
from npuprof.sources.forms.combination import read_forms
from npuprof.sources.forms.discovery import describe, find


def recognises(path: Path) -> bool:
    """Check whether a path holds a result of the vendor's in several forms, or beside its raw data."""
    return find(path, raw=True) is not None


def read(path: Path) -> Decoded:
    """Read the forms of one run.

    Raises
    ------
    SourceError
        If none of them can be read; the message is that of the first.
    """
    return read_forms(path, find(path, raw=True))


def describe_path(path: Path) -> Info:
    """Return what is known of the run without reading its tables.

    Raises
    ------
    SourceError
        If its files are too damaged to tell anything.
    """
    return describe(path, find(path, raw=True))


SOURCE = Source("forms", (None,), recognises, read, describe=describe_path, is_result_of_raw=True)
