"""Parsed results of msprof, pyACL and TensorFlow: ``PROF_*`` with ``mindstudio_profiler_output``, or of CANN 5 and 6.

Any file may be missing. The front end is known only for a program that the msprof command started; otherwise
``run.info.collector`` is empty, since pyACL and TensorFlow write the same files.

Source: sources/RESULTS.md.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, PartReader, Source
from npuprof.sources.msprof.export import MsprofReading, describe
from npuprof.sources.msprof.layout import ExportFiles, find
from npuprof.tables.info import Info
from npuprof.words.commands import shell_command

__all__ = ["SOURCE", "describe_path", "read", "recognises"]


def recognises(path: Path) -> bool:
    """Check whether `path` holds the files of ``msprof --export``; see :func:`.layout.find`."""
    return find(path) is not None


def read(path: Path) -> Decoded:
    """Read one result: a ``PROF_*`` directory, or its ``mindstudio_profiler_output``."""
    return MsprofReading(_layout(path)).run()


def parts(path: Path) -> dict[str, PartReader]:
    """Return how to read the tables of a result that need no other file."""
    layout = find(path)
    return {} if layout is None else MsprofReading(layout).parts()


def describe_path(path: Path) -> Info:
    """Return the facts in the control files of the run, without reading its tables."""
    return describe(_layout(path))[0]


def _layout(path: Path) -> ExportFiles:
    layout = find(path)
    if layout is None:
        raise SourceError(
            f"{path} holds no result of msprof: it needs mindstudio_profiler_output, which "
            f"`{shell_command('msprof', '--export=on', f'--output={path}')}` makes of raw data"
        )
    return layout


SOURCE = Source(
    "msprof",
    (None, "parsed", "text"),
    recognises,
    read,
    describe=describe_path,
    is_result_of_raw=True,
    parts=parts,
    is_read_when_touched=True,
)
