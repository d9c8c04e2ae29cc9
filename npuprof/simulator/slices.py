"""Files of a recording: data in slices of bounded size, and the marks beside files that are complete."""

from __future__ import annotations

import os
from pathlib import Path

SLICE_BYTES = 2 << 20
_PENDING_BYTES = 1 << 20


def mark_done(path: Path) -> None:
    """Write the mark that the collector closed a file. Source: raw/FORMAT.md section 2."""
    write_file(path.with_name(path.name + ".done"), f"filesize:{path.stat().st_size}\n".encode())


def write_file(path: Path, data: bytes) -> None:
    """Write a whole small file, readable by its owner only."""
    _write(path, data, os.O_TRUNC)


def append_file(path: Path, data: bytes) -> None:
    """Add to a small file, readable by its owner only."""
    _write(path, data, os.O_APPEND)


def _write(path: Path, data: bytes, how: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes, however many the system takes at a time."""
    view = memoryview(data)
    while len(view):
        view = view[os.write(descriptor, view) :]


class SliceFile:
    """One logical stream: ``<name>.slice_0``, ``<name>.slice_1`` ... of at most 2 MiB.

    Parameters
    ----------
    folder, name
        Where, and the name before ``.slice_K``.
    record_size
        Bytes of a record.
    straddling
        Whether a record may lie in two slices, as in the device's streams; the host's must hold whole ones.
        Source: raw/FORMAT.md section 2.1.
    """

    def __init__(self, folder: Path, name: str, record_size: int, *, straddling: bool = False) -> None:
        self._folder = folder
        self._name = name
        self._record_size = record_size
        self._limit = SLICE_BYTES if straddling else SLICE_BYTES // record_size * record_size
        self._number = -1
        self._room = 0
        self._descriptor: int | None = None
        self._buffer = bytearray()

    def append(self, data: bytes) -> None:
        """Take records; they reach the disk with :meth:`flush`, or at once when many are waiting."""
        self._buffer += data
        if len(self._buffer) >= _PENDING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is pending.

        Raises
        ------
        OSError
            If the system refuses; what is pending is dropped, what was written before stays.
        """
        pending, self._buffer = bytes(self._buffer), bytearray()
        view = memoryview(pending)
        while len(view):
            if not self._room:
                self._next_slice()
            part, view = view[: self._room], view[self._room :]
            if self._descriptor is None:
                raise OSError(f"{self._name} is closed")
            write_all(self._descriptor, part)
            self._room -= len(part)

    def close(self) -> None:
        """Write what is pending and mark the last slice complete."""
        self.flush()
        self._close_slice()

    def abandon(self) -> None:
        """Stop without writing anything more; the whole records on disk stay, unmarked."""
        self._buffer.clear()
        if self._descriptor is None:
            return
        try:
            # Part of a record at the end would shift all of them for a reader that aligns them to the end.
            size = os.fstat(self._descriptor).st_size
            cut = (self._number * self._limit + size) % self._record_size
            os.ftruncate(self._descriptor, max(0, size - cut))
        finally:
            os.close(self._descriptor)
            self._descriptor = None
            self._room = 0

    def _next_slice(self) -> None:
        self._close_slice()
        self._number += 1
        self._descriptor = os.open(self._path(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._room = self._limit

    def _close_slice(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            mark_done(self._path())

    def _path(self) -> Path:
        return self._folder / f"{self._name}.slice_{self._number}"
