"""The files of a FRAMEWORK folder, each read whole."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt

from npuprof.notes import Notes
from npuprof.progress import tell
from npuprof.sources.files.memory_limit import too_large
from npuprof.sources.framework.tlv import PADDING_BYTES, Content

MINDSPORE_RANGES = "mindspore.op_range"
"""The file of MindSpore that only runs on an NPU have."""

_MAX_BYTES = 16 << 30
_BYTES_AT_ONCE = 16 << 20  # between two looks at the progress
_MAX_NAMED = 50  # a folder of thousands of strange files is told in one note


def read_content(folder: Path, name: str, notes: Notes) -> Content | None:
    """Read a file of the folder; None, and a note unless it is simply not there, when that fails."""
    path = folder / name
    try:
        if not path.is_file():
            return None
        size = path.stat().st_size
        if size > _MAX_BYTES:
            notes.error(name, f"has {size} bytes, more than the {_MAX_BYTES} that are read; record fewer steps")
            return None
        if problem := too_large(size):
            notes.error(name, f"is not read: {problem}; record fewer steps, or load it on a larger machine")
            return None
        padded = np.zeros(size + PADDING_BYTES, np.uint8)
        got = 0
        with path.open("rb") as file:
            for at in range(0, size, _BYTES_AT_ONCE):
                tell(name, at, size)
                got += file.readinto(padded.data[at : min(at + _BYTES_AT_ONCE, size)])
        tell(name, size, size)
        if not size:
            notes.warning(name, "the file is empty: what was recorded in it is missing")
        return Content(padded[: got + PADDING_BYTES])
    except OSError as error:
        notes.error(name, f"cannot be read ({error.strerror or error})")
        return None


def read_rows(folder: Path, name: str, layout: list[tuple[str, str]], notes: Notes) -> npt.NDArray[np.void]:
    """Read a file of equal records without headers; an incomplete last one is noted and left out.

    Parameters
    ----------
    layout
        Name and NumPy type of each part of a record, without gaps.
    """
    dtype = np.dtype(layout)
    content = read_content(folder, name, notes)
    if content is None:
        return np.zeros(0, dtype)
    count, rest = divmod(content.size, dtype.itemsize)
    if rest:
        notes.warning(name, f"the last record is cut off: {rest} of {dtype.itemsize} bytes")
    notes.ledger.read(name, count)
    return content.padded[: count * dtype.itemsize].view(dtype)


def note_unread(folder: Path, taken: Collection[str], notes: Notes) -> None:
    """Name the files of a folder that no reader takes."""
    try:
        strange = [path.name for path in sorted(folder.iterdir()) if path.name not in taken]
    except OSError as error:
        notes.warning(folder.name, f"cannot be listed, so that other files in it are not known ({error.strerror})")
        return
    for name in strange[:_MAX_NAMED]:
        notes.info(name, "this file of the framework is not read")
    if len(strange) > _MAX_NAMED:
        notes.info(folder.name, "more files of the framework are not read", len(strange) - _MAX_NAMED)
