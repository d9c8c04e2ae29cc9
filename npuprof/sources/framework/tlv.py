"""Records of type, length and value in bytes that may be cut or damaged anywhere.

A file is a row of records, ``u16 type, u32 length, payload``; a payload is a fixed part and then fields of the same
form. Records are found one after another, since each tells where the next begins; everything after that works on
all records at once.

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
from npuprof.notes import Notes

PADDING_BYTES = 8
"""Zeros that stand behind the content, so that a word may be read at each of its bytes."""

_HEADER = struct.Struct("<HI")
_WINDOW_BYTES = 1 << 16  # searched at once for the next record behind damage
_MAX_REPAIRS = 1000  # a file with more damage than this is not read on
_MAX_FIELDS = 32  # the longest record has nine


@dataclass(frozen=True)
class Content:
    """The bytes of a file with :data:`PADDING_BYTES` zeros behind them."""

    padded: Uint8

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return len(self.padded) - PADDING_BYTES

    def words(self, dtype: str) -> npt.NDArray[Any]:
        """See the content as words that begin at every byte: item `i` is the word at byte `i`, whatever its alignment.

        Only positions inside the content may be asked for, one at a time or by an array of them.
        """
        size = np.dtype(dtype).itemsize
        words: npt.NDArray[Any] = np.ndarray((len(self.padded) - size + 1,), dtype, self.padded.data, strides=(1,))
        return words


@dataclass(frozen=True)
class Records:
    """Where the payloads of one file's records lie.

    Attributes
    ----------
    content
        The file.
    start, length
        Shape (records,): the payload's first byte, and its bytes.
    fixed_bytes
        The length of the fixed part, which every payload has in full.
    """

    content: Content
    start: Int64
    length: Int64
    fixed_bytes: int

    def column(self, offset: int, dtype: str) -> npt.NDArray[Any]:
        """Return a word of the fixed part, of all records."""
        found: npt.NDArray[Any] = self.content.words(dtype)[self.start + offset]
        return found

    def fields(self, wanted: Collection[int], notes: Notes, source: str) -> dict[int, tuple[Int64, Int64]]:
        """Find the fields behind the fixed parts.

        Returns
        -------
        For each wanted type the first byte and the length of that field in every record; length -1 where a record
        does not have it.
        """
        found = {kind: (np.zeros(len(self.start), np.int64), np.full(len(self.start), -1)) for kind in wanted}
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
            for number, (starts, sizes) in found.items():
                mine = kind == number
                starts[rows[mine]], sizes[rows[mine]] = at[mine] + _HEADER.size, length[mine]
            cursor[rows] = at + _HEADER.size + length
            rows = rows[cursor[rows] < end[rows]]
        if damaged or len(rows):
            notes.warning(source, "a record is damaged behind its fixed part: its later fields", damaged + len(rows))
        return found


def scan(content: Content, kind: int, fixed_bytes: int, notes: Notes, source: str) -> Records:
    """Find the records of a file.

    Parameters
    ----------
    content
        The file.
    kind
        The type of its records: a file has one.
    fixed_bytes
        The bytes that every payload has at least; shorter ones are skipped and noted.
    notes, source
        Take what was skipped. Behind damage, reading goes on at the next place that looks like a record.
    """
    starts: list[int] = []
    ends: list[int] = []  # one for each stretch of records that follow each other
    counts: list[int] = []
    at = lost = 0
    for _ in range(_MAX_REPAIRS):
        stop = _walk(content, kind, at, starts)
        counts.append(len(starts))
        ends.append(stop)
        at = stop if stop >= content.size else _next_record(content, stop + 1, kind, fixed_bytes)
        lost += at - stop
        if at >= content.size:
            break
    lost += max(content.size - at, 0)
    if lost:
        notes.warning(source, f"{lost} of {content.size} bytes are damaged or cut off, and skipped")
    start = np.array(starts, np.int64)
    end = np.append(start[1:], ends[-1:])
    borders = np.array(counts, np.int64)
    held = borders > 0
    end[borders[held] - 1] = np.array(ends, np.int64)[held]
    length = end[: len(start)] - start - _HEADER.size
    whole = length >= fixed_bytes
    notes.ledger.read(source, len(start))
    if not whole.all():
        notes.warning(source, "a record is shorter than its kind, and skipped", int((~whole).sum()))
        notes.ledger.leave_out(source, int((~whole).sum()))
    return Records(content, start[whole] + _HEADER.size, length[whole], fixed_bytes)


def _walk(content: Content, kind: int, at: int, starts: list[int]) -> int:
    """Follow records from one place until damage or the end; give where that is.

    The one loop over records: 0.1 us each, and only the headers are looked at.
    """
    unpack, buffer, size = _HEADER.unpack_from, content.padded.data, content.size
    last = size - _HEADER.size
    append = starts.append
    while at <= last:
        found, length = unpack(buffer, at)
        following = at + 6 + length
        if found != kind or following > size:
            break
        append(at)
        at = following
    return at


def _next_record(content: Content, at: int, kind: int, fixed_bytes: int) -> int:
    """Find the first place from `at` on that looks like a record with another, or the end, behind it."""
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
