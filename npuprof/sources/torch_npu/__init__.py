"""Text results of torch_npu: ``*_ascend_pt`` directories, their output directory, or a timeline alone.

A result may lack any of its files: what is there is read, what is not is noted.

Source: formats/results.md.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded
from npuprof.sources.torch_npu.description import describe
from npuprof.sources.torch_npu.layout import find
from npuprof.sources.torch_npu.reading import Reading

__all__ = ["read", "recognises"]


def recognises(path: Path) -> bool:
    """Tell whether `path` is a torch_npu text result, by what it holds; see :func:`.layout.find`."""
    return find(path) is not None


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
    if layout is None:
        raise SourceError(
            f"{path} is no torch_npu text result: it needs ASCEND_PROFILER_OUTPUT beside profiler_info*.json; "
            "a result that was not analysed yet becomes one with "
            "`from torch_npu.profiler.profiler import analyse; analyse(path)`"
        )
    reading = Reading(layout)
    reading.decoded.info = describe(layout, reading.notes)
    reading.run()
    return reading.decoded
