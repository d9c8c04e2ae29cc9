"""Parsed results of msprof, pyACL and TensorFlow: ``PROF_*`` with ``mindstudio_profiler_output``, or of CANN 5 and 6.

Any file may be missing. The front end is known only for a program that the msprof command started; otherwise
``run.info.collector`` is empty, since pyACL and TensorFlow write the same files.

Source: sources/RESULTS.md.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.commands import shell_command
from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources.base import Decoded, MakeSome, Source
from npuprof.sources.msprof.export import Reading
from npuprof.sources.msprof.layout import Layout, find
from npuprof.sources.raw.metadata import clocks
from npuprof.sources.raw.metadata.control_files import read_info, read_sides

__all__ = ["SOURCE", "describe_path", "read", "read_layout", "recognises"]


_SOURCE = "msprof text result"


def recognises(path: Path) -> bool:
    """Check whether `path` holds the files of ``msprof --export``; see :func:`.layout.find`."""
    return find(path) is not None


def read(path: Path) -> Decoded:
    """Read one result: a ``PROF_*`` directory, or its ``mindstudio_profiler_output``.

    Raises
    ------
    SourceError
        If the path is not such a result, or no file of it can be read.
    """
    return read_layout(_layout(path))


def read_layout(layout: Layout) -> Decoded:
    """Read the files of a layout; see :func:`read`."""
    info, utc_ns = describe(layout)
    reading = Reading(layout, Decoded(info=info), utc_ns)
    reading.run()
    return reading.decoded


def tables_alone(path: Path) -> dict[str, MakeSome]:
    """Return how to read the tables of a result that need no other file."""
    layout = find(path)
    if layout is None:
        return {}
    info, utc_ns = describe(layout)
    return Reading(layout, Decoded(info=info), utc_ns).tables_alone()


def describe_path(path: Path) -> Info:
    """Return the facts in the control files of the run, without reading its tables.

    Raises
    ------
    SourceError
        If the path is not such a result.
    """
    return describe(_layout(path))[0]


def _layout(path: Path) -> Layout:
    layout = find(path)
    if layout is None:
        raise SourceError(
            f"{path} holds no result of msprof: it needs mindstudio_profiler_output, which "
            f"`{shell_command('msprof', '--export=on', f'--output={path}')}` makes of raw data"
        )
    return layout


def describe(layout: Layout) -> tuple[Info, int | None]:
    """Return the facts in the control files, and the offset from times since boot to UTC.

    Results are often copied without these files: then few facts are known, without a note.
    """
    silent = Notes()  # a result is complete without control files
    try:
        sides = read_sides(layout.root, silent)
    except OSError:
        sides = []
    anchored = any(side.start for side in sides)
    utc_ns = clocks.epoch_offset(sides, silent) if anchored else None
    info = read_info(layout.root, sides, utc_ns or 0) if sides else Info(name=layout.root.name, recording=layout.root)
    info.source = f"{_SOURCE}, layout of CANN 5 and 6" if layout.is_old else _SOURCE
    return info, utc_ns


SOURCE = Source(
    "msprof",
    (None, "parsed", "text"),
    recognises,
    read,
    describe=describe_path,
    is_result_of_raw=True,
    tables_alone=tables_alone,
)
