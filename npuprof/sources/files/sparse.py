"""Files with holes: set up for more than was written, they have any size and take no room on the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO

from npuprof.sources.files.memory_limit import ALWAYS_BYTES


def written_parts(file: BinaryIO) -> list[tuple[int, int]]:
    """Return from where to where a file was written; of a small one, or where the system does not tell, all of it.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    size = os.fstat(file.fileno()).st_size
    if size <= ALWAYS_BYTES or not hasattr(os, "SEEK_DATA"):
        return [(0, size)]
    parts: list[tuple[int, int]] = []
    end = 0
    while end < size:
        try:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                break
            return [(0, size)]
        parts.append((start, end))
    return parts


def read_without_holes(path: Path) -> bytes | None:
    """Return what was written of a file of text, without zeros beside its holes; None where it has no hole.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    with path.open("rb") as file:
        parts = written_parts(file)
        if sum(end - start for start, end in parts) == os.fstat(file.fileno()).st_size:
            return None
        texts = []
        for start, end in parts:
            file.seek(start)
            texts.append(file.read(end - start).strip(b"\0"))
    return b"".join(texts)
