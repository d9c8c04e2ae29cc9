"""Streams of a ``data`` folder: slices joined into whole records, each slice read once.

Source: raw/FORMAT.md section 2.1.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from npuprof.arrays import Records, Uint8
from npuprof.progress import report_progress
from npuprof.sources.files.memory_limit import ALWAYS_BYTES, too_large, written_parts
from npuprof.sources.raw.records.folders import Folder, Slice, read_folder, tables_of
from npuprof.sources.raw.records.framing import Framed, frame
from npuprof.sources.raw.records.layouts import magic_word
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted

_MAX_SLICES = 5  # slices named in a note
_MAX_NAMED = 60  # unread streams and files named in notes
_AGES = ("aging.", "unaging.")  # two parts of a stream, which may hold the same slices
_DATA = re.compile(r"(\.data)?(\.\d+)?$")
_PART_BYTES = 1 << 20  # bytes of two slices that are compared
_HEAD_BYTES = 64  # bytes that tell slices of text apart


class Streams:
    """The slices of a ``data`` folder by stream name, and the set of streams read."""

    def __init__(self, folder: Path | None, notes: Notes, label: str) -> None:
        self._notes, self._label = notes, label
        self._slices = _list(folder, notes, label).streams if folder else {}
        self._unread = set(self._slices)
        self._noted: set[str] = set()
        self._cut: set[str] = set()
        self._heads: dict[tuple[str, bytes], list[Slice]] = defaultdict(list)
        self._read_bytes = 0
        self._all_bytes = sum(part.size for slices in self._slices.values() for part in slices)

    def names(self) -> Iterable[str]:
        """Return the names of all streams."""
        return self._slices.keys()

    def read(self, name: str, record: np.dtype[Any]) -> Records:
        """Read the slices of a stream and split them into records.

        Returns
        -------
        The valid records; none if the stream is absent. The first reading notes truncated and damaged records.
        """
        content, kept = self._join(name, record.itemsize)
        ends = list(accumulate(size for _, size in kept))
        framed = frame(content, record, ends, _shifts(kept, ends))
        if name not in self._noted:
            self._noted.add(name)
            self._count(name, framed)
            if magic_word(record) is None:
                self._note_shifted(name, [part for part, _ in kept], len(content), record.itemsize)
        return framed.records

    def is_cut(self, name: str) -> bool:
        """Return whether a stream that was read has truncated or damaged records."""
        return name in self._cut

    def _count(self, name: str, framed: Framed) -> None:
        if framed.lost:
            self._cut.add(name)
            self._notes.warning(
                self._label, f"{name}: cut or damaged records skipped", framed.lost, lacks=tables_of(name)
            )
        if framed.lost or len(framed.records):
            self._notes.ledger.read(self.account(name), len(framed.records) + framed.lost)
            self._notes.ledger.leave_out(self.account(name), framed.lost)

    def _note_shifted(self, name: str, slices: list[Slice], total_bytes: int, record_bytes: int) -> None:
        """Note records that may be shifted in truncated slices, if no magic word identifies them."""
        changed = [part for part in slices if part.written not in (None, part.size)]
        if not changed and total_bytes % record_bytes == 0:
            return
        changed = changed or [part for part in slices if part.size % record_bytes] or slices
        self._cut.add(name)
        count = -(-(sum(part.size for part in changed) or total_bytes) // record_bytes)
        if count:
            self._notes.warning(
                self._label,
                f"{name}: bytes are missing in, or were put into, {_name(changed)}, whose records bear no mark: each "
                "behind that place may hold wrong values",
                count,
                lacks=tables_of(name),
            )

    def account(self, name: str) -> str:
        """Return the stream's name in the ledger; its aging and unaging parts are a single input."""
        return f"{self._label}/{_DATA.sub('', _bare(name))}"

    def read_bytes(self, name: str) -> Uint8:
        """Read the slices of a stream; empty if it is absent."""
        return self._join(name, _HEAD_BYTES)[0]

    def _join(self, name: str, head_bytes: int) -> tuple[Uint8, list[tuple[Slice, int]]]:
        """Read the slices of a stream once each; return the bytes, and each slice with its number of bytes."""
        is_new = name in self._unread  # the first reading noted damage
        self._unread.discard(name)
        slices = self._fitting(name)
        joined = np.empty(sum(part.size for part in slices), np.uint8)
        kept: list[tuple[Slice, int]] = []
        end = repeated = 0
        for part in slices:  # in place: a copy would double the memory
            place = joined[end : end + part.size]
            size = self._read_slice(part.path, place)
            self._read_bytes += size if is_new else 0
            same = self._count_repeated(name, part, place[:size], head_bytes)
            if same:
                place[: size - same] = place[same:size].copy()
            end += size - same
            repeated += same
            kept.append((part, size - same))
            report_progress(self._label, self._read_bytes, self._all_bytes)
        if repeated and is_new:
            self._notes.warning(self._label, f"{name}: bytes of a slice that is present twice, counted once", repeated)
        return joined[:end], kept

    def _fitting(self, name: str) -> list[Slice]:
        """Return the slices of a stream that fit into memory."""
        slices = [self._without_holes(part) for part in self._slices.get(name, [])]
        while slices and (problem := too_large(sum(part.size for part in slices))):
            largest = max(slices, key=lambda part: part.size)  # possibly a preallocated file
            slices.remove(largest)
            self._notes.error(
                self._label, f"{largest.path.name} is not read: {problem}; load it on a larger machine, if it is sound"
            )
        return slices

    def _without_holes(self, part: Slice) -> Slice:
        """Return a slice with the size that was written; a large file may be preallocated."""
        if part.size <= ALWAYS_BYTES:
            return part
        try:
            with part.path.open("rb") as file:
                written = sum(end - start for start, end in written_parts(file))
        except OSError:
            return part  # reading the slice reports the error
        if written < part.size and part.path.name not in self._noted:
            self._noted.add(part.path.name)
            self._notes.warning(
                self._label,
                f"{part.path.name}: preallocated bytes that were never written, left out",
                part.size - written,
            )
        return replace(part, size=written)

    def _count_repeated(self, name: str, part: Slice, content: Uint8, head_bytes: int) -> int:
        """Return the number of leading bytes that repeat another slice, which may be truncated."""
        if len(content) < head_bytes:
            return 0
        alike = self._heads[_bare(name), content[:head_bytes].tobytes()]
        for other in alike:
            if other.path == part.path:  # second reading of the stream
                return 0
            common = min(other.size, len(content))
            if _begins_with(other.path, content[:common]):
                return common
        alike.append(part)
        return 0

    def note_unread(self) -> None:
        """Note the streams that were not read, with their sizes."""
        for name in sorted(self._unread)[:_MAX_NAMED]:
            slices = self._slices[name]
            size = sum(part.size for part in slices)
            self._notes.info(
                self._label, f"{name}: not decoded ({counted(len(slices), 'slice')}, {counted(size, 'byte')})"
            )
        if len(self._unread) > _MAX_NAMED:
            self._notes.info(self._label, "more streams are not decoded", len(self._unread) - _MAX_NAMED)

    def _read_slice(self, path: Path, place: Uint8) -> int:
        """Read a slice into its place in the buffer; return the number of bytes."""
        try:
            with path.open("rb") as file:
                read = 0
                for start, end in written_parts(file):
                    file.seek(start)
                    read += file.readinto(place[read : read + end - start].data)
                return read
        except OSError as error:
            self._notes.error(self._label, f"{path.name} cannot be read ({error.strerror or error})")
            return 0


def _list(folder: Path, notes: Notes, label: str) -> Folder:
    try:
        contents = read_folder(folder)
    except OSError as error:
        notes.warning(label, f"its data folder cannot be read ({error.strerror or error})")
        return Folder()
    for name in contents.others[:_MAX_NAMED]:
        notes.info(label, f"{name}: not a slice of a stream, not decoded")
    if len(contents.others) > _MAX_NAMED:
        notes.info(label, "more files are no slices of a stream, not decoded", len(contents.others) - _MAX_NAMED)
    for stream, message, count, is_lost in contents.problems():
        notes.warning(label, f"{stream}: {message}", count, lacks=tables_of(stream) if is_lost else ())
    return contents


def _bare(name: str) -> str:
    return next((name.removeprefix(age) for age in _AGES if name.startswith(age)), name)


def _name(slices: list[Slice]) -> str:
    names = [part.path.name for part in slices]
    return ", ".join(names[:_MAX_SLICES]) + (f" and {len(names) - _MAX_SLICES} more" * (len(names) > _MAX_SLICES))


def _begins_with(path: Path, content: Uint8) -> bool:
    try:
        with path.open("rb") as file:
            parts = (content[at : at + _PART_BYTES].tobytes() for at in range(0, len(content), _PART_BYTES))
            return all(file.read(len(part)) == part for part in parts)
    except OSError:
        return False


def _shifts(kept: list[tuple[Slice, int]], ends: list[int]) -> set[int]:
    """Return the offsets of slices, and of the end of the stream, from their positions when written."""
    usual = max((part.size for part, _ in kept), default=0)
    shifts, written, before = set(), 0, -1
    for (part, size), end in zip(kept, ends, strict=True):
        written += max(part.number - before - 1, 0) * usual if before >= 0 else 0
        shifts.add(end - size - written)
        written += size if part.written is None else part.written
        before = part.number
        shifts.add(end - written)
    return shifts
