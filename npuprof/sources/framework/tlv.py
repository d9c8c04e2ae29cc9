"""Type-length-value records in a file that may be truncated or damaged anywhere.

A record is ``u16 type, u32 length, payload``; a payload is a fixed part followed by fields of the same form. Records
are located sequentially, since each length leads to the next record; all further steps are vectorised.

Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64, Uint8
from npuprof.tables.notes import Notes

PADDING_BYTES = 8
"""Zeros after the content, so that a word can be read at every byte."""

TABLES = ("python", "operators", "memory", "allocations")
"""What is made of a framework's own files."""

_HEADER = struct.Struct("<HI")
_WINDOW_BYTES = 1 << 16  # bytes per search for the next record after damage
_MAX_REPAIRS = 1000  # a file with more damaged places than this is not read further
_MAX_FIELDS = 32  # the longest record has nine


@dataclass(frozen=True)
class PaddedBytes:
    """The bytes of a file, followed by :data:`PADDING_BYTES` zeros."""

    padded: Uint8

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self.padded) - PADDING_BYTES

    def words(self, dtype: str) -> npt.NDArray[Any]:
        """Return the unaligned words that begin at every byte; only positions within the content are valid."""
        size = np.dtype(dtype).itemsize
        return np.ndarray((len(self.padded) - size + 1,), dtype, self.padded.data, strides=(1,))


@dataclass(frozen=True)
class Records:
    """The payloads of one file."""

    content: PaddedBytes  # the file
    # start, length: the first byte and the size in bytes of each payload.
    start: Int64
    length: Int64
    fixed_bytes: int  # the length of the fixed part, complete in every payload

    def column(self, offset: int, dtype: str) -> npt.NDArray[Any]:
        """Return a word in the fixed part of every record."""
        return self.content.words(dtype)[self.start + offset]

    def fields(self, wanted: Collection[int], notes: Notes, source: str) -> dict[int, tuple[Int64, Int64]]:
        """Return first byte and size of each wanted field in every record; size -1 for a missing field."""
        fields = {kind: (np.zeros(len(self.start), np.int64), np.full(len(self.start), -1)) for kind in wanted}
        kinds, lengths = self.content.words("<u2"), self.content.words("<u4")
        cursor, end = self.start + self.fixed_bytes, self.start + self.length
        rows = np.flatnonzero(cursor < end)
        damaged = 0
        for _ in range(_MAX_FIELDS):
            if not len(rows):
                break
            at = cursor[rows]
            length = lengths[np.minimum(at + 2, self.content.size)].astype(np.int64)
            fits = (at + _HEADER.size <= end[rows]) & (at + _HEADER.size + length <= end[rows])
            damaged += int((~fits).sum())
            rows, at, length = rows[fits], at[fits], length[fits]
            kind = kinds[at]
            for number, (starts, sizes) in fields.items():
                matching = kind == number
                starts[rows[matching]], sizes[rows[matching]] = at[matching] + _HEADER.size, length[matching]
            cursor[rows] = at + _HEADER.size + length
            rows = rows[cursor[rows] < end[rows]]
        if damaged or len(rows):
            notes.warning(source, "a record is damaged after its fixed part: its later fields", damaged + len(rows))
        return fields


def scan(content: PaddedBytes, kind: int, fixed_bytes: int, notes: Notes, source: str) -> Records:
    """Find the records of a file, all of one kind, with payloads of at least `fixed_bytes`.

    After damage, the scan resumes at the next place that looks like a record; notes count skipped bytes and records.
    """
    starts: list[int] = []
    ends: list[int] = []  # of each run of adjacent records
    counts: list[int] = []
    at = lost_count = 0
    for _ in range(_MAX_REPAIRS):
        stop = _walk(content, kind, at, starts)
        counts.append(len(starts))
        ends.append(stop)
        at = stop if stop >= content.size else _next_record(content, stop + 1, kind, fixed_bytes)
        lost_count += at - stop
        if at >= content.size:
            break
    lost_count += max(content.size - at, 0)
    if lost_count:
        notes.warning(source, f"{lost_count} of {content.size} bytes are damaged or cut off, and skipped", lacks=TABLES)
    start = np.array(starts, np.int64)
    end = np.append(start[1:], ends[-1:])
    borders = np.array(counts, np.int64)
    nonempty = borders > 0
    end[borders[nonempty] - 1] = np.array(ends, np.int64)[nonempty]
    length = end[: len(start)] - start - _HEADER.size
    whole = length >= fixed_bytes
    notes.ledger.read(source, len(start))
    if not whole.all():
        notes.warning(source, "a record is shorter than its kind, and skipped", int((~whole).sum()), lacks=TABLES)
        notes.ledger.leave_out(source, int((~whole).sum()))
    return Records(content, start[whole] + _HEADER.size, length[whole], fixed_bytes)


def _walk(content: PaddedBytes, kind: int, at: int, starts: list[int]) -> int:
    """Follow records until damage or the end; return the position reached.

    This is the only loop over records: 0.1 us per record header.
    """
    unpack, buffer, size = _HEADER.unpack_from, content.padded.data, content.size
    last = size - _HEADER.size
    append = starts.append
    while at <= last:
        record_kind, length = unpack(buffer, at)
        following = at + 6 + length
        if record_kind != kind or following > size:
            break
        append(at)
        at = following
    return at


def _next_record(content: PaddedBytes, at: int, kind: int, fixed_bytes: int) -> int:
    """Return the next place that looks like a record followed by another record or the end."""
    kinds, lengths, size = content.words("<u2"), content.words("<u4"), content.size
    for low in range(at, size - _HEADER.size - fixed_bytes + 1, _WINDOW_BYTES):
        places = low + np.flatnonzero(kinds[low : min(low + _WINDOW_BYTES, size - _HEADER.size)] == kind)
        length = lengths[places + 2].astype(np.int64)
        following = places + _HEADER.size + length
        good = (length >= fixed_bytes) & (following <= size)
        places, following = places[good], following[good]
        good = (following == size) | (kinds[np.minimum(following, size)] == kind)
        if good.any():
            return int(places[good][0])
    return size
