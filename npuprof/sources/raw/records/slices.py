"""Streams of a ``data`` folder: their slices found, ordered and joined into whole records.

Source: formats/raw.md section 2.1.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from npuprof.notes import Notes
from npuprof.progress import tell
from npuprof.sources.files.room import too_large
from npuprof.sources.raw.records.old_names import modern_name

Records: TypeAlias = npt.NDArray[Any]

_SLICE = re.compile(r"(?P<stream>.+)\.slice_(?P<number>\d{1,9})")
_NOT_DATA = (".done", ".complete", ".zip")
_MAX_NAMED = 60  # streams, and other files, that notes of unread ones name


class Streams:
    """The slices below one ``data`` folder, by stream name, and which of them were read.

    Parameters
    ----------
    folder
        A ``data`` folder; a missing one (None) has no streams.
    notes
        Where damage is noted.
    label
        What the notes call this side (``host``, ``device_0``).
    """

    def __init__(self, folder: Path | None, notes: Notes, label: str) -> None:
        self._notes, self._label = notes, label
        self._slices: dict[str, list[Path]] = _find_slices(folder, notes, label) if folder else {}
        self._unread = set(self._slices)
        self._read_bytes = 0
        self._all_bytes = sum(_size(path) for paths in self._slices.values() for path in paths)

    def names(self) -> Iterable[str]:
        """Give the names of all streams."""
        return self._slices.keys()

    def read(self, name: str, record: np.dtype[Any]) -> Records:
        """Join the slices of a stream and cut them into records.

        Parameters
        ----------
        name
            The stream, as its files are called without ``.slice_K``.
        record
            The layout of one record.

        Returns
        -------
        The whole records; none if the stream is absent. Where the length is no multiple of the record,
        the surplus bytes are skipped at the front: a ring of old slices loses its oldest bytes.
        """
        joined = self.read_bytes(name)
        surplus = len(joined) % record.itemsize
        if surplus:
            self._notes.warning(self._label, f"{name}: cut record, surplus bytes skipped", surplus)
        return joined[surplus:].view(record)

    def read_bytes(self, name: str) -> npt.NDArray[np.uint8]:
        """Join the slices of a stream; empty if it is absent."""
        is_new = name in self._unread  # what is asked for again has been told of
        self._unread.discard(name)
        slices = [(path, _size(path)) for path in self._slices.get(name, [])]
        while slices and (problem := too_large(sum(size for _, size in slices))):
            largest = max(slices, key=lambda one: one[1])  # a file may have been set up for more than was written
            slices.remove(largest)
            self._notes.error(
                self._label, f"{largest[0].name} is not read: {problem}; load it on a larger machine, if it is sound"
            )
        joined = np.empty(sum(size for _, size in slices), np.uint8)
        end = 0
        for path, size in slices:  # each into its place: a copy of everything would cost as much again
            end += self._read_slice(path, joined[end : end + size])
            self._read_bytes += size if is_new else 0
            tell(self._label, self._read_bytes, self._all_bytes)
        return joined[:end]

    def note_unread(self) -> None:
        """Note which streams nothing has asked for, with their number of bytes."""
        for name in sorted(self._unread)[:_MAX_NAMED]:
            size = sum(_size(path) for path in self._slices[name])
            slices = len(self._slices[name])
            self._notes.info(self._label, f"{name}: not decoded ({slices} slices, {size} bytes)")
        if len(self._unread) > _MAX_NAMED:
            self._notes.info(self._label, "more streams are not decoded", len(self._unread) - _MAX_NAMED)

    def _read_slice(self, path: Path, place: npt.NDArray[np.uint8]) -> int:
        """Read a slice into its place; give how many bytes it had."""
        try:
            with path.open("rb") as file:
                return file.readinto(place.data)
        except OSError as error:
            self._notes.error(self._label, f"{path.name} cannot be read ({error.strerror or error})")
            return 0


def _find_slices(folder: Path, notes: Notes, label: str) -> dict[str, list[Path]]:
    found: dict[str, list[tuple[int, Path]]] = defaultdict(list)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        notes.warning(label, f"its data folder cannot be read ({error.strerror or error})")
        return {}
    strange = 0
    for entry in entries:
        match = _SLICE.fullmatch(entry.name)
        if entry.name.endswith(_NOT_DATA) or not _is_file(entry):
            continue
        if match is None:
            strange += 1
            if strange <= _MAX_NAMED:
                notes.info(label, f"{entry.name}: not a slice of a stream, not decoded")
            continue
        found[modern_name(match["stream"])].append((int(match["number"]), Path(entry.path)))
    if strange > _MAX_NAMED:
        notes.info(label, "more files are no slices of a stream, not decoded", strange - _MAX_NAMED)
    return {stream: [path for _, path in sorted(slices)] for stream, slices in found.items()}


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads in a circle
        return False


def _size(path: Path) -> int:
    try:
        status = path.stat()
    except OSError:  # it went away between listing and reading: nothing of it was read either
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
