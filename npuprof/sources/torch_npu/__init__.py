"""Parsed results of torch_npu: ``*_ascend_pt`` directories, their output directory, or a timeline file.

Any file may be missing; notes say which. A directory may also hold the raw files of the result (``FRAMEWORK`` and
``PROF_*``), which are read by :mod:`.raw_files`: ``npuprof.load`` prefers them if they are complete, otherwise this
result; ``source="raw"`` or ``source="parsed"`` overrides that.

Source: sources/RESULTS.md.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, Source, describe_by_name, size_of_files
from npuprof.sources.result_folder.description import describe
from npuprof.sources.result_folder.layout import OUTPUT, find
from npuprof.sources.torch_npu.raw_files import read_layout
from npuprof.sources.torch_npu.result import TextResultReading, parts
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

__all__ = ["SOURCE", "read", "recognises"]


def recognises(path: Path) -> bool:
    """Check whether `path` is a parsed result of torch_npu by its files; see :func:`.layout.find`."""
    layout = find(path)
    return layout is not None and layout.is_parsed


def read(path: Path) -> Decoded:
    """Read one result: a ``*_ascend_pt`` directory, its ``ASCEND_PROFILER_OUTPUT``, or a ``trace_view.json``."""
    layout = find(path)
    if layout is None or not layout.is_parsed:
        raise SourceError(
            f"{path} is no parsed result of torch_npu: it needs ASCEND_PROFILER_OUTPUT next to profiler_info*.json; "
            "give the *_ascend_pt directory, from which raw files are read if it was not analysed"
        )
    try:
        decoded = TextResultReading(layout).run()
    except SourceError as error:
        if not layout.is_raw:
            raise
        decoded = read_layout(layout)
        decoded.notes.warning(OUTPUT, f"the parsed result cannot be read, its raw files are shown: {error}")
        return decoded
    if layout.is_raw:
        decoded.notes.info(layout.root.name, "the parsed result is shown; its raw files were not read")
    return decoded


def describe_path(path: Path) -> Info:
    """Return the facts in the small files of a result."""
    layout = find(path)
    return describe_by_name(path) if layout is None else describe(layout, Notes())


def _size_bytes(path: Path) -> int:
    output = path / OUTPUT  # raw files are not read
    return size_of_files(output if output.is_dir() else path)


SOURCE = Source(
    "torch_npu",
    (None, "parsed", "text"),
    recognises,
    read,
    parts=parts,
    has_small_files=True,
    describe=describe_path,
    size_bytes=_size_bytes,
    is_result_of_raw=True,
    is_read_when_touched=True,
)
