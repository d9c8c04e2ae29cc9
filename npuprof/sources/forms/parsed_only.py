"""The vendor's results of a run in several forms, without raw data beside them; see :mod:`npuprof.sources.forms`."""

from __future__ import annotations

from pathlib import Path

from npuprof.info import Info
from npuprof.sources.base import Decoded, Source
from npuprof.sources.forms.combination import read_forms
from npuprof.sources.forms.discovery import describe, find


def recognises(path: Path) -> bool:
    """Check whether a path holds a text result and a database of one run."""
    return find(path) is not None


def read(path: Path) -> Decoded:
    """Read the forms of one run.

    Raises
    ------
    SourceError
        If none of them can be read; the message is that of the first.
    """
    return read_forms(path, find(path))


def describe_path(path: Path) -> Info:
    """Return what is known of the run without reading its tables.

    Raises
    ------
    SourceError
        If its files are too damaged to tell anything.
    """
    return describe(path, find(path))


SOURCE = Source("forms.parsed_only", ("parsed",), recognises, read, describe=describe_path)
