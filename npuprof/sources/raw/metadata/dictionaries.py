"""Dictionaries of the host: names by hash, and by (level, type).

Source: raw/FORMAT.md section 2.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int32, Int64
from npuprof.sources.raw.records import enums
from npuprof.sources.raw.records.slices import Streams
from npuprof.tables.notes import Notes

HASHES = "unaging.additional.hash_dic"
TYPES = "unaging.additional.type_info_dic"
FORMATS = "unaging.additional.data_format_dic"
_OF_TYPES = ("name", "task_type", "Task Type")
_WITH_NUMBERS = ("input_shapes", "output_shapes", "instance")
_MAX_NAME = 60
NO_NAMES: Mapping[int, str] = {}


@dataclass(frozen=True)
class NameColumn:
    """A column of names: codes of distinct names, -1 where absent."""

    codes: Int32  # `int32`, per row
    names: list[str]  # the distinct names

    @classmethod
    def absent(cls, length: int) -> NameColumn:
        """Return a column without names."""
        return cls(np.full(length, -1, np.int32), [])

    @classmethod
    def lookup(cls, values: npt.NDArray[Any], name_of: Callable[[int], str]) -> NameColumn:
        """Return the names of an integer column; `name_of` is called once per distinct value."""
        if not len(values):
            return cls.absent(0)
        codes, distinct = pd.factorize(values)
        return cls.distinct(codes, [name_of(value) for value in distinct.tolist()])

    @classmethod
    def distinct(cls, codes: npt.NDArray[Any], names: list[str]) -> NameColumn:
        """Merge codes of equal names."""
        index: dict[str, int] = {}
        merged = np.array([index.setdefault(name, len(index)) for name in names] + [-1], np.int32)
        codes = codes.astype(np.int32, copy=False)
        return cls(codes if len(index) == len(names) else merged[codes], list(index))

    def take(self, rows: Int64) -> NameColumn:
        """Return the names at the given rows; row -1 is absent."""
        if not len(self.codes):
            return NameColumn.absent(len(rows))
        return NameColumn(np.where(rows >= 0, self.codes[rows], -1), self.names)

    def where(self, is_wanted: Bools) -> NameColumn:
        """Return the column with only the `is_wanted` rows; other rows are absent."""
        return NameColumn(np.where(is_wanted, self.codes, -1), self.names)

    def fill(self, other: NameColumn) -> NameColumn:
        """Return the column with absent rows filled from `other`."""
        if not len(other.names) or bool((self.codes >= 0).all()):
            return self
        shifted = np.where(other.codes >= 0, other.codes + len(self.names), -1)
        return NameColumn.distinct(np.where(self.codes >= 0, self.codes, shifted), self.names + other.names)

    def append(self, other: NameColumn) -> NameColumn:
        """Return the column followed by `other`."""
        shifted = np.where(other.codes >= 0, other.codes + len(self.names), -1)
        return NameColumn.distinct(np.concatenate((self.codes, shifted)), self.names + other.names)

    def categorical(self) -> pd.Categorical:
        """Return the column as a categorical of a table."""
        return tables.categorical(self.codes, self.names)


@dataclass(frozen=True)
class Dictionaries:
    """The host's names."""

    hashes: Mapping[int, str]  # name by 64-bit hash
    types: Mapping[tuple[int, int], str]  # name by (level, type)
    # Names of tensor formats beyond those of `FORMATS` by number.
    formats: Mapping[int, str] = field(default_factory=dict)
    # Numbers without a name, as text, by the dictionary that lacks them.
    unnamed: dict[str, set[str]] = field(default_factory=lambda: {HASHES: set(), TYPES: set()})

    def names_of(self, hashes: npt.NDArray[Any]) -> NameColumn:
        """Return the names of a column of hashes; an unknown hash is its number as text."""
        return NameColumn.lookup(hashes, self.name_of)

    def name_of(self, hash_id: int) -> str:
        """Return the name of a hash; an unknown hash is its number as text."""
        return self.hashes.get(hash_id) or self._number(HASHES, hash_id)

    def type_name(self, level: int, type_id: int, known: Mapping[int, str] = NO_NAMES) -> str:
        """Return the name of a (level, type), else the name of the type in `known`, else its number as text."""
        return self.types.get((level, type_id)) or known.get(type_id) or self._number(TYPES, type_id)

    def note_unnamed(self, frames: Iterable[pd.DataFrame], notes: Notes) -> None:
        """Note the number of rows that show a number instead of a name, by the dictionary that lacks the name."""
        shown = {dictionary: 0 for dictionary, numbers in self.unnamed.items() if numbers}
        columns = [(name, frame[name]) for frame in frames if shown for name in frame.select_dtypes("category")]
        for name, column in columns:
            for dictionary in shown:
                if name not in _WITH_NUMBERS and (dictionary == HASHES or name in _OF_TYPES):
                    is_number = [
                        not self.unnamed[dictionary].isdisjoint(str(text).split(";")) for text in column.cat.categories
                    ]
                    shown[dictionary] += int(np.array([*is_number, False])[column.cat.codes].sum())
        for dictionary, count in shown.items():
            if count:
                has_names = bool(self.hashes if dictionary == HASHES else self.types)
                problem = "it lacks a name" if has_names else "missing or empty"
                notes.warning(dictionary, f"{problem}: a row shows a number in the place of a name", count)

    def _number(self, dictionary: str, number: int) -> str:
        if number:  # 0 stands for no name
            self.unnamed[dictionary].add(str(number))
        return str(number)


def hash_of(name: str) -> int:
    """Return the hash that records hold for a name.

    Source: raw/FORMAT.md section 2.6 (two polynomials over signed characters).
    """
    high = low = 0
    for byte in name.encode():
        character = byte - 256 if byte > 127 else byte
        high = high * 29 + character & 0xFFFFFFFF
        low = low * 131 + character & 0xFFFFFFFF
    return high << 32 | low


def read_dictionaries(streams: Streams, notes: Notes) -> Dictionaries:
    """Read both dictionaries; the last entry of a key wins. A note counts lines without ``key:name``."""
    hashes = {key: name for key, name in _lines(streams, HASHES, notes) if isinstance(key, int)}
    types = {key: name for key, name in _lines(streams, TYPES, notes) if isinstance(key, tuple)}
    formats = {key: name for key, name in _lines(streams, FORMATS, notes) if isinstance(key, int)}
    _note_other_kernels(types, notes)
    return Dictionaries(hashes, types, formats)


def _note_other_kernels(types: Mapping[tuple[int, int], str], notes: Notes) -> None:
    """Warn if the dictionary gives a type of kernels the name of another type."""
    for (level, number), name in types.items():
        known = enums.TRACK_TASK_TYPES.get(number, "") if level == enums.RUNTIME else ""
        if known in enums.KERNEL_TASK_TYPES and not name.startswith("KERNEL_"):
            message = f"it names the task type {number} {name[:_MAX_NAME]!r}, which is {known} elsewhere"
            notes.warning(TYPES, f"{message}: such tasks are not read as kernels, whose figures may be too low")


def _lines(streams: Streams, name: str, notes: Notes) -> list[tuple[int | tuple[int, int], str]]:
    raw = streams.read_bytes(name)
    entries: list[tuple[int | tuple[int, int], str]] = []
    damaged = 0
    for line in raw.tobytes().decode("utf-8", "replace").split("\n"):
        key, colon, value = line.strip("\0\r").partition(":")  # trailing zeros of a preallocated file
        number = _key(key)
        if colon and number is not None:
            entries.append((number, value))
        elif line.strip("\0 \r"):
            damaged += 1
    if entries or damaged:
        notes.ledger.read(streams.account(name), len(entries) + damaged)
        notes.ledger.use(streams.account(name), len(entries))
    if damaged:
        notes.warning(name, "a line is damaged; skipped", damaged)
        notes.ledger.leave_out(streams.account(name), damaged)
    return entries


def _key(text: str) -> int | tuple[int, int] | None:
    if text.isascii() and text.isdigit() and len(text) <= 20:
        return int(text)
    level, underscore, type_id = text.partition("_")
    if underscore and text.isascii() and level.isdigit() and type_id.isdigit() and len(text) <= 32:
        return int(level), int(type_id)
    return None
