"""Text files and databases in one folder outside their result; see :mod:`npuprof.sources.forms`."""

from __future__ import annotations

from pathlib import Path

from npuprof.info import Info
from npuprof.sources.base import Decoded, Source
from npuprof.sources.forms.combination import read_forms
from npuprof.sources.forms.discovery import describe, find_loose


def recognises(path: Path) -> bool:
    """Check whether a folder holds exported text files and a database."""
    return find_loose(path) is not None


def read(path: Path) -> Decoded:
    """Read the files as forms of one run.

    Raises
    ------
    SourceError
        If none of them can be read; the message is that of the first.
    """
    return read_forms(path, find_loose(path))


def describe_path(path: Path) -> Info:
    """Return what is known of the run without reading its tables.

    Raises
    ------
    SourceError
        If its files are too damaged to tell anything.
    """
    return describe(path, find_loose(path))


SOURCE = Source("forms.copied_files", (None, "parsed"), recognises, read, describe=describe_path, only_given=True)
