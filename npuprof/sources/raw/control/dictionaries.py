"""Dictionaries of the host side: hashes to names, and (level, type) to names.

Source: formats/raw.md section 2.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.notes import Notes
from npuprof.sources.raw.records.slices import Streams

Codes: TypeAlias = npt.NDArray[np.int64]
HASHES = "unaging.additional.hash_dic"
TYPES = "unaging.additional.type_info_dic"
FORMATS = "unaging.additional.data_format_dic"


@dataclass(frozen=True)
class Names:
    """A column of names before it is a column: codes into distinct names, -1 where absent.

    Attributes
    ----------
    codes
        ``int64``, one a row.
    names
        The distinct names.
    """

    codes: Codes
    names: list[str]

    @classmethod
    def absent(cls, length: int) -> Names:
        """Give a column without any name."""
        return cls(np.full(length, -1, np.int64), [])

    @classmethod
    def lookup(cls, values: npt.NDArray[Any], name_of: Callable[[int], str]) -> Names:
        """Name every value of an integer column; each distinct value is named once."""
        codes, distinct = pd.factorize(values)
        return cls.distinct(codes, [name_of(value) for value in distinct.tolist()])

    @classmethod
    def distinct(cls, codes: npt.NDArray[Any], names: list[str]) -> Names:
        """Merge codes of equal names."""
        index: dict[str, int] = {}
        merged = np.array([index.setdefault(name, len(index)) for name in names] + [-1], np.int64)
        codes = codes.astype(np.int64, copy=False)
        return cls(codes if len(index) == len(names) else merged[codes], list(index))

    def take(self, rows: Codes) -> Names:
        """Give the names at other rows; row -1 is absent."""
        if not len(self.codes):
            return Names.absent(len(rows))
        return Names(np.where(rows >= 0, self.codes[rows], -1), self.names)

    def where(self, wanted: npt.NDArray[np.bool_]) -> Names:
        """Make the rows that are not wanted absent."""
        return Names(np.where(wanted, self.codes, -1), self.names)

    def fill(self, other: Names) -> Names:
        """Take the names of another column where this one has none."""
        if not len(other.names) or bool((self.codes >= 0).all()):
            return self
        shifted = np.where(other.codes >= 0, other.codes + len(self.names), -1)
        return Names.distinct(np.where(self.codes >= 0, self.codes, shifted), self.names + other.names)

    def append(self, other: Names) -> Names:
        """Put the rows of another column after these."""
        shifted = np.where(other.codes >= 0, other.codes + len(self.names), -1)
        return Names.distinct(np.concatenate((self.codes, shifted)), self.names + other.names)

    def categorical(self) -> pd.Categorical:
        """Make it a column of a table."""
        return tables.categorical(self.codes, self.names)


@dataclass(frozen=True)
class Dictionaries:
    """What the host wrote of its names.

    Attributes
    ----------
    hashes
        Name by 64-bit hash.
    types
        Name by (level, type).
    formats
        Name by number of tensor formats that came after those of :data:`enums.FORMATS`.
    """

    hashes: Mapping[int, str]
    types: Mapping[tuple[int, int], str]
    formats: Mapping[int, str] = field(default_factory=dict)

    def names_of(self, hashes: npt.NDArray[Any]) -> Names:
        """Name a column of hashes; an unknown hash is its number as text."""
        return Names.lookup(hashes, self.name_of)

    def name_of(self, hash_id: int) -> str:
        """Name one hash; an unknown one is its number as text."""
        return self.hashes.get(hash_id) or str(hash_id)

    def type_name(self, level: int, type_id: int) -> str:
        """Name one (level, type); an unknown one is the number of its type as text."""
        return self.types.get((level, type_id)) or str(type_id)


def hash_of(name: str) -> int:
    """Give the hash that records carry in the place of a name.

    Source: formats/raw.md section 2.6 (two polynomials over signed characters).
    """
    high = low = 0
    for byte in name.encode():
        character = byte - 256 if byte > 127 else byte
        high = high * 29 + character & 0xFFFFFFFF
        low = low * 131 + character & 0xFFFFFFFF
    return high << 32 | low


def read_dictionaries(streams: Streams, notes: Notes) -> Dictionaries:
    """Read both dictionaries; a later entry of one key wins. Lines without ``key:name`` are counted in notes."""
    hashes = {key: name for key, name in _lines(streams, HASHES, notes) if isinstance(key, int)}
    types = {key: name for key, name in _lines(streams, TYPES, notes) if isinstance(key, tuple)}
    formats = {key: name for key, name in _lines(streams, FORMATS, notes) if isinstance(key, int)}
    return Dictionaries(hashes, types, formats)


# Streams whose records refer to names; without them a dictionary has nothing to tell.
_NAMED = ("aging.api_event", "unaging.api_event", "aging.compact", "unaging.compact")


def _lines(streams: Streams, name: str, notes: Notes) -> list[tuple[int | tuple[int, int], str]]:
    raw = streams.read_bytes(name)
    if name != FORMATS and not len(raw) and any(name.startswith(_NAMED) for name in streams.names()):
        notes.warning(name, "missing or empty: names are shown as numbers")
    entries: list[tuple[int | tuple[int, int], str]] = []
    damaged = 0
    for line in raw.tobytes().decode("utf-8", "replace").split("\n"):
        key, colon, value = line.rstrip("\r").partition(":")
        number = _key(key)
        if colon and number is not None:
            entries.append((number, value))
        elif line.strip("\0 \r"):
            damaged += 1
    if damaged:
        notes.warning(name, "damaged lines skipped", damaged)
    return entries


def _key(text: str) -> int | tuple[int, int] | None:
    if text.isascii() and text.isdigit() and len(text) <= 20:
        return int(text)
    level, underscore, type_id = text.partition("_")
    if underscore and text.isascii() and level.isdigit() and type_id.isdigit() and len(text) <= 32:
        return int(level), int(type_id)
    return None
