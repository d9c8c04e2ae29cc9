"""What a page reads of a saved run, in Python: for tests of what is written."""

from __future__ import annotations

import json
import re
import struct
import zlib
from typing import Any

import numpy as np

from npuprof.arrays import Int64
from npuprof.browser.packing import Packed

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#%()*+-;=?@^_{|}~,.:[]"


def unpack(column: Packed) -> Int64:
    """Return the numbers of a packed column."""
    if not column.width:
        return np.full(column.count, column.low, np.int64)
    planes = np.frombuffer(zlib.decompress(column.data, -15), np.uint8).reshape(column.width, column.count)
    numbers = sum((plane.astype(np.uint64) << np.uint64(8 * at) for at, plane in enumerate(planes)), np.uint64(0))
    whole = np.asarray(numbers, np.uint64)
    if column.is_delta:
        steps = (whole >> np.uint64(1)).view(np.int64) ^ -((whole & np.uint64(1)).view(np.int64))
        whole = np.cumsum(steps).view(np.uint64)
    values: Int64 = whole.view(np.int64) + column.low
    return values


class Saved:
    """A saved run.

    Attributes
    ----------
    header
        What it says of its columns.
    """

    def __init__(self, data: bytes) -> None:
        assert data[:8] == b"npuprof\x00"
        (size,) = struct.unpack("<I", data[8:12])
        self.header: dict[str, Any] = json.loads(zlib.decompress(data[12 : 12 + size], -15))
        self._body = data[12 + size :]

    def column(self, number: int) -> Int64:
        """Return the numbers of a column."""
        offset, length, count, width, is_delta, low = self.header["columns"][number]
        return unpack(Packed(count, width, bool(is_delta), low, self._body[offset : offset + length]))

    def table(self, name: str) -> dict[str, Any]:
        """Return what is said of a table."""
        found: dict[str, Any] = next(table for table in self.header["tables"] if table["name"] == name)
        return found


def data_of(page: str) -> bytes:
    """Return the data of the explorer in a page."""
    found = re.search(r'class="npuprof-saved-data">([^<]*)<', page)
    assert found is not None
    return _bytes(found[1])


def script_of(page: str) -> str:
    """Return the script that the explorer of a page unpacks and runs."""
    found = re.search(r'class="npuprof-saved-program">([^<]*)<', page)
    assert found is not None
    return zlib.decompress(_bytes(found[1]), -15).decode().partition("\0")[2]


def _bytes(letters: str) -> bytes:
    missing = -len(letters) % 5
    words = [0] * ((len(letters) + missing) // 5)
    for at, letter in enumerate(letters + LETTERS[-1] * missing):
        words[at // 5] = 85 * words[at // 5] + LETTERS.index(letter)
    data = b"".join(word.to_bytes(4, "big") for word in words)
    return data[: len(data) - missing]
