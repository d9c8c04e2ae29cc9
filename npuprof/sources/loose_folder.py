"""A folder of files that ``msprof --export`` wrote, outside the result that they came from.

Source: formats/results.md section 1.3.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded
from npuprof.sources.msprof import read_layout
from npuprof.sources.msprof.layout import find_files


def recognises(path: Path) -> bool:
    """Tell whether `path` is a directory with exported files right in it."""
    return find_files(path) is not None


def read(path: Path) -> Decoded:
    """Read the newest set of the files.

    Raises
    ------
    SourceError
        If there are none, or none can be read.
    """
    layout = find_files(path)
    if layout is None:
        raise SourceError(f"{path} holds no file that msprof exported; give the directory of a result")
    return read_layout(layout)
