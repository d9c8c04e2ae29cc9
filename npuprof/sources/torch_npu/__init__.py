"""Parsed results of torch_npu: ``*_ascend_pt`` directories, their output directory, or a timeline alone.

A result may lack any of its files: what is there is read, what is not is noted.

A directory can hold the same run twice: as the vendor's parsed result (``ASCEND_PROFILER_OUTPUT``) and as the raw
files that it was made from (``FRAMEWORK`` and ``PROF_*``). ``npuprof.load`` takes the raw files where they are complete
(:mod:`npuprof.sources.raw_or_parsed`), else this result; ``source="raw"`` or ``source="parsed"`` chooses, and
``run.info.source`` says which it was. Where nothing of the result can be read, the raw files are. These are
:mod:`.raw_files`, a source by itself, which takes what the vendor summed from here.

Source: sources/RESULTS.md.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources.base import Decoded, Source, describe_by_name, size_of_files
from npuprof.sources.result_folder.description import describe
from npuprof.sources.result_folder.layout import OUTPUT, Layout, find
from npuprof.sources.torch_npu.raw_files import read_layout
from npuprof.sources.torch_npu.result import Reading

__all__ = ["SOURCE", "read", "read_parsed", "recognises"]


def recognises(path: Path) -> bool:
    """Return whether `path` is a parsed result of torch_npu, by what it holds; see :func:`.layout.find`."""
    layout = find(path)
    return layout is not None and layout.is_parsed


def read(path: Path) -> Decoded:
    """Read one result.

    Parameters
    ----------
    path
        A ``*_ascend_pt`` directory under any name, its ``ASCEND_PROFILER_OUTPUT``, or one ``trace_view.json``
        (plain or gzipped).

    Raises
    ------
    SourceError
        If it is no such result, or nothing of it can be read.
    """
    layout = find(path)
    if layout is None or not layout.is_parsed:
        raise SourceError(
            f"{path} is no parsed result of torch_npu: it needs ASCEND_PROFILER_OUTPUT beside profiler_info*.json; "
            "give the *_ascend_pt directory, whose raw files are read where it was not analysed"
        )
    try:
        decoded = read_parsed(layout)
    except SourceError as error:
        if not layout.is_raw:
            raise
        decoded = read_layout(layout)
        decoded.notes.warning(OUTPUT, f"the parsed result cannot be read, its raw files are shown: {error}")
        return decoded
    if layout.is_raw:
        decoded.notes.info(layout.root.name, "the parsed result is shown; the raw files beside it were not read")
    return decoded


def read_parsed(layout: Layout, *, alone: bool = True) -> Decoded:
    """Read the text files of a layout that was found, without any raw ones; as :func:`read`.

    Parameters
    ----------
    layout
        Where they lie.
    alone
        Whether no other form of the run is read, so that files which are missing are noted.
    """
    reading = Reading(layout, alone=alone)
    reading.decoded.info = describe(layout, reading.notes)
    reading.run()
    return reading.decoded


def describe_path(path: Path) -> Info:
    """Return what the small files of a result tell."""
    layout = find(path)
    return describe_by_name(path) if layout is None else describe(layout, Notes())


def _size_bytes(path: Path) -> int:
    output = path / OUTPUT  # raw files beside it are not read
    return size_of_files(output if output.is_dir() else path)


SOURCE = Source(
    "torch_npu",
    (None, "parsed", "text"),
    recognises,
    read,
    describe=describe_path,
    size_bytes=_size_bytes,
    is_result_of_raw=True,
)
