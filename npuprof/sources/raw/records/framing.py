"""Whole records of a stream that may be truncated or damaged anywhere.

Records have a fixed length, so missing or foreign bytes shift all later records. Framing resumes at the next magic word
or, for records without a magic word, where records resemble the first and last records of the stream. Only damaged
records are lost.

Source: raw/FORMAT.md sections 2.1, 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Bools, Float64, Int64, Records, Uint8
from npuprof.sources.raw.records.layouts import magic_word

Segment: TypeAlias = tuple[int, Bools]
"""The first bytes of consecutive records, and a mask of the valid ones."""

_CHUNK = 1 << 16  # records checked at a time
_WINDOW_BYTES = 1 << 16  # bytes searched at a time for the next record after damage
_MOST_REPAIRS = 20_000  # a stream with more shifts is not read further
_NEAR = 64  # number of records at either end that serve as references
_CHAIN = 8  # records after a candidate that may start another chain
_MUCH_STRANGER = 3  # in bytes
_FEW_BYTES = 8  # total size of small cuts
_BLOCK = 16  # number of records whose values are summed
_MOST_PHASES = 16
_MOST_LOOKED_AT = 1 << 14  # records sampled to find roughly where another phase begins
_STAMPS = ("stamp", "counter", "values")  # time fields of the layouts
_BACKWARDS = 64


@dataclass(frozen=True)
class Framed:
    """The valid records of a stream, and the least number of truncated or damaged ones."""

    records: Records
    lost: int


def frame(content: Uint8, record: np.dtype[Any], ends: Sequence[int] = (), shifts: Iterable[int] = ()) -> Framed:
    """Return the records in the bytes of a stream."""
    size, magic = record.itemsize, magic_word(record)
    is_whole = len(content) % size == 0
    if magic is None:
        if is_whole and not any(shifts):
            return Framed(content.view(record), 0)
        return _assemble(content, record, _by_values(content, record, shifts))
    if is_whole:
        records: Records = content.view(record)
        if bool((records["magic"] == magic[1]).all()):
            return Framed(records, 0)
    return _assemble(content, record, _ByMagic(content, record, magic, ends).segments())


def _assemble(content: Uint8, record: np.dtype[Any], segments: Sequence[Segment]) -> Framed:
    whole = np.dtype(f"V{record.itemsize}")  # fields may overlap or leave gaps, which a copy of the fields loses
    parts: list[Records] = []
    at = lost_count = 0
    for start, sound in segments:
        part = content[start : start + len(sound) * record.itemsize].view(whole)
        count = int(np.count_nonzero(sound))
        parts.append(part if count == len(part) else part[sound])
        lost_count += _records(start - at, record) + len(part) - count
        at = start + len(sound) * record.itemsize
    lost_count += _records(len(content) - at, record)
    sound_records = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, whole), *parts])
    return Framed(sound_records.view(record), lost_count)


def _records(size_bytes: int, record: np.dtype[Any]) -> int:
    return -(-max(size_bytes, 0) // record.itemsize)


class _ByMagic:
    """Framing by the magic word (its offset, and the word)."""

    def __init__(self, content: Uint8, record: np.dtype[Any], magic: tuple[int, int], ends: Sequence[int]) -> None:
        self._content, self._record, self._size = content, record, record.itemsize
        self._last_start = len(content) - self._size
        words: npt.NDArray[Any] = np.ndarray((max(len(content) - 1, 0),), "<u2", content.data, 0, (1,))
        self._words, self._word = words[magic[0] :], magic[1]
        self._ends = {*ends, len(content)}
        self._phases = {end % self._size for end in self._ends}
        self._is_first = not magic[0]
        self._segments: list[Segment] = []

    def segments(self) -> list[Segment]:
        """Return the segments: starts of consecutive records, with the mask of valid ones."""
        at = 0
        for _ in range(_MOST_REPAIRS):
            at = self._follow(at)
            start = self._next(at)
            if start is None:
                break
            at = self._drop_truncated(at, start)
        return self._segments

    def _starts(self, low: int, high: int, step: int = 1) -> Bools:
        """Return the positions in an interval that have the magic word of a record."""
        return self._words[low : max(min(high, self._last_start + 1), low) : step] == self._word

    def _follow(self, at: int) -> int:
        """Follow consecutive records; return the position of the first two without a magic word."""
        while at <= self._last_start:
            sound = self._starts(at, at + _CHUNK * self._size, self._size)
            behind = at + len(sound) * self._size
            is_lost = ~sound & ~np.append(sound[1:], behind <= self._last_start)
            count = int(is_lost.argmax()) if bool(is_lost.any()) else len(sound)
            if count:
                self._segments.append((at, sound[:count]))
            at += count * self._size
            if count < len(sound):
                break
        return at

    def _next(self, at: int) -> int | None:
        """Return the next record that is followed by another or by the end, and that resembles earlier records."""
        first = max(at - self._size + 1, 0)
        for low in range(first, self._last_start + 1, _WINDOW_BYTES):
            places = low + np.flatnonzero(self._starts(low, low + _WINDOW_BYTES))
            behind = places + self._size
            followed = behind == len(self._content)
            within = behind <= self._last_start
            followed[within] = self._words[behind[within]] == self._word
            places = places[followed]
            if len(places):
                near = places[places < places[0] + _CHAIN * self._size]
                _, distinct = np.unique(near % self._size, return_index=True)
                return self._best(near[np.sort(distinct)].tolist())
        return None

    def _best(self, candidates: list[int]) -> int:
        """Return the candidate whose chain fits best: payloads may hold the word at the same place in every record."""
        if len(candidates) == 1:
            return candidates[0]
        known = self._before()
        scores = []
        for place in candidates:
            chain = np.arange(place, min(place + 4 * self._size, self._last_start + 1), self._size)
            strange = _strangeness(self._content, chain, known, self._size).mean()
            values = _magnitudes(_at(self._content, chain, self._record)).mean()
            scores.append((strange, place % self._size not in self._phases, values, place))
        return min(scores)[-1]

    def _before(self) -> Int64:
        if not self._segments:
            return np.empty(0, np.int64)
        start, sound = self._segments[-1]
        places = start + np.flatnonzero(sound[-_NEAR - 1 :]) * self._size
        return places + max(len(sound) - _NEAR - 1, 0) * self._size

    def _drop_truncated(self, at: int, following: int) -> int:
        """Drop the truncated record at a seam: the last one before it, or the first one after it."""
        before = self._before()
        if not len(before) or (following - at) % self._size == 0:
            return following
        overlap = following < before[-1] + self._size
        if self._is_last_cut(before, following, overlap=overlap):
            start, sound = self._segments.pop()
            self._segments.append((start, sound[:-1]))
            return following
        return following + self._size if overlap else following

    def _is_last_cut(self, before: Int64, following: int, *, overlap: bool) -> bool:
        """Return whether the last record before a seam is truncated, rather than the bytes up to the next record."""
        if int(before[-1]) + self._size in self._ends:
            return False
        if overlap and self._is_first:  # the next record begins intact: nothing else can be truncated
            return True
        behind = np.arange(
            following + self._size, min(following + _NEAR * self._size, self._last_start + 1), self._size
        )
        follows = self._words[behind] == self._word
        if not bool(follows.all()):  # the last of these records may be truncated too
            behind = behind[: max(int(follows.argmin()) - 1, 0)]
        edges = np.array((before[-1], following))
        strange, other = _strangeness(self._content, edges, np.concatenate((before[:-1], behind)), self._size).tolist()
        return bool(strange > other + (0 if overlap else _MUCH_STRANGER))


def _by_values(content: Uint8, record: np.dtype[Any], shifts: Iterable[int]) -> list[Segment]:
    """Return segments of records without a magic word, which resemble the records at either end of the stream."""
    size, count = record.itemsize, len(content) // record.itemsize
    phases = _phases(len(content), size, shifts)
    if len(phases) < 2:
        return [(start, np.ones((len(content) - start) // size, bool)) for start in phases]
    rough = _divide(content, record, phases, _reference_positions(content, record, count))
    places = np.concatenate([start + np.flatnonzero(sound) * size for start, sound in rough])
    even = np.linspace(0, len(places) - 1, min(len(places), 4 * _NEAR)).astype(np.int64)
    return _divide(content, record, phases, places[even])


def _divide(content: Uint8, record: np.dtype[Any], phases: list[int], known: Int64) -> list[Segment]:
    """Divide a stream into intervals of constant phase, by the similarity to reference records."""
    size, count = record.itemsize, len(content) // record.itemsize
    step = max(1, count // _MOST_LOOKED_AT)
    block = max(1, min(_BLOCK, count // 4))
    sums = []
    for start in phases:
        strange = _strangeness(content, np.arange(start, len(content) - size + 1, step * size), known, size)
        padded = np.pad(strange, (0, -(-(count // step + 1) // block) * block - len(strange)), mode="edge")
        sums.append(padded.reshape(-1, block).sum(axis=1))
    block *= step
    # If possible, a stream is not divided at its very begin or end.
    best = [phases.index(0), *np.argmin(sums, axis=0).tolist(), 0]
    segments, first, phase = [], 0, 0
    for number, after in ((number, phases[best_phase]) for number, best_phase in enumerate(best)):
        if after != phase:
            among = (max(first, (number - 2) * block), number * block)
            last = _seam(content, record, known, (phase, after), among)
            segments.append((phase + first * size, np.ones(max(last - first, 0), bool)))
            first, phase = last + (after < phase), after
    segments.append((phase + first * size, np.ones(max((len(content) - phase) // size - first, 0), bool)))
    return segments


def _phases(length: int, size: int, shifts: Iterable[int]) -> list[int]:
    """Return the possible offsets of records modulo their length, first the offset at the end of the stream."""
    remainder = length % size
    offsets = [remainder, 0]
    if remainder <= _FEW_BYTES:
        offsets += range(remainder)
    elif size - remainder <= _FEW_BYTES:
        offsets += range(remainder, size)
    for shift in shifts:
        offsets += (shift % size, (shift + remainder) % size)
    return [phase for phase in dict.fromkeys(offsets) if phase + size <= length][:_MOST_PHASES]


def _reference_positions(content: Uint8, record: np.dtype[Any], count: int) -> Int64:
    """Return positions of reference records: the first and the last records.

    If the two ends differ, one end of the stream is truncated: the one with large values.
    """
    size = record.itemsize
    for width in (_NEAR // 16, _NEAR // 4, _NEAR):
        near = np.arange(max(1, min(width, count // 4))) * size
        ends = near, len(content) - size - near[::-1]
        if all(_strangeness(content, left, right, size).mean() <= size // 20 for left, right in (ends, ends[::-1])):
            return np.concatenate(ends)
    costs = [_costs(_at(content, places, record)).sum() for places in ends]
    return ends[0] if costs[0] < costs[1] else ends[1]


def _seam(content: Uint8, record: np.dtype[Any], known: Int64, phases: tuple[int, int], among: tuple[int, int]) -> int:
    """Return the number of the first truncated record, `among` those before a change of phase."""
    size, (before, after) = record.itemsize, phases
    last = min(among[1], (len(content) - before) // size)
    first = min(among[0], last)  # a short stream may end earlier
    numbers = np.arange(first, last)

    def costs(start: int) -> Float64:
        """Return the magnitude of the record at each number after `start`."""
        places = start + numbers * size
        places = places[places + size <= len(content)]
        values = _magnitudes(_at(content, places, record))
        return values + 8 * _strangeness(content, places, known, size)

    costs_before, costs_after = costs(before), costs(after + (after < before) * size)
    costs_after = np.append(
        costs_after,
        np.full(len(costs_before) - len(costs_after), max(costs_before.max(initial=0), costs_after.max(initial=0)) + 1),
    )
    kept = np.concatenate(([0], np.cumsum(costs_before)))
    remainder = np.concatenate((np.cumsum(costs_after[::-1])[::-1], [0]))
    return first + int((kept + remainder).argmin())


def _strangeness(content: Uint8, places: Int64, known: Int64, size: int) -> Int64:
    """Return the number of bytes that differ from all reference records where these hardly vary."""
    strange = np.zeros(len(places), np.int64)
    if not len(known):
        return strange
    windows = np.ndarray((len(content) - size + 1, size), np.uint8, content.data, 0, (1, 1))
    is_seen = np.zeros((size, 256), bool)
    is_seen[np.arange(size), windows[known]] = True
    rows = windows[places]
    for column in np.flatnonzero(is_seen.sum(axis=1) <= max(1, len(known) // 4)):
        strange += ~is_seen[column][rows[:, column]]
    return strange


def _at(content: Uint8, places: Int64, record: np.dtype[Any]) -> Records:
    """Return the records at the given positions."""
    return content[places[:, None] + np.arange(record.itemsize)].view(record).reshape(-1)


def _costs(records: Records) -> Float64:
    """Return the magnitude of each record's values; it is huge for a shifted record or decreasing timestamps."""
    costs = _magnitudes(records)
    while (name := next((name for name in _STAMPS if name in (records.dtype.names or ())), "")) == "values":
        records = records[name][:, 0]
    if name:
        stamps = records[name]
        costs += _BACKWARDS * ((stamps == 0) | (stamps < np.concatenate((stamps[:1], stamps[:-1]))))
    return costs


def _magnitudes(records: Records) -> Float64:
    """Return the number of bits of each record's integers."""
    if records.dtype.names:
        parts = [_magnitudes(records[name]) for name in records.dtype.names]
        return np.sum([part.sum(axis=tuple(range(1, part.ndim))) for part in parts], axis=0)
    if records.dtype.kind not in "ui":
        return np.zeros(records.shape)
    return np.frexp(np.abs(records.astype(np.float64)))[1].astype(np.float64)
