"""Parsed results of msprof, pyACL and TensorFlow: ``PROF_*`` with ``mindstudio_profiler_output``, or as CANN 5 and 6.

A result may lack any of its files: what is there is read, what is not stays empty. Which of the three front ends
asked for it is told only where the msprof command started the program; ``run.info.collector`` is empty otherwise, since
the files of pyACL and of TensorFlow are the same.

Source: sources/RESULTS.md.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.sources.base import Decoded, Source
from npuprof.sources.msprof.description import describe
from npuprof.sources.msprof.export import Reading
from npuprof.sources.msprof.layout import Layout, find

__all__ = ["SOURCE", "describe_path", "read", "read_layout", "recognises"]


def recognises(path: Path) -> bool:
    """Return whether `path` holds what ``msprof --export`` wrote; see :func:`.layout.find`."""
    return find(path) is not None


def read(path: Path) -> Decoded:
    """Read one result.

    Parameters
    ----------
    path
        A ``PROF_*`` directory under any name, or its ``mindstudio_profiler_output``.

    Raises
    ------
    SourceError
        If it is no such result, or nothing of it can be read.
    """
    return read_layout(_layout(path))


def read_layout(layout: Layout) -> Decoded:
    """Read the files of a layout that was found; as :func:`read`."""
    info, utc_ns = describe(layout)
    reading = Reading(layout, Decoded(info=info), utc_ns)
    reading.run()
    return reading.decoded


def describe_path(path: Path) -> Info:
    """Return what the control files know of the run at `path`, without reading its tables.

    Raises
    ------
    SourceError
        If it is no such result.
    """
    return describe(_layout(path))[0]


def _layout(path: Path) -> Layout:
    layout = find(path)
    if layout is None:
        raise SourceError(
            f"{path} holds no result of msprof: it needs mindstudio_profiler_output, which "
            f"`msprof --export=on --output={path}` makes of raw data"
        )
    return layout


SOURCE = Source("msprof", (None, "parsed", "text"), recognises, read, describe=describe_path, is_result_of_raw=True)
