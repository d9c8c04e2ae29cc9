"""What a page reads of a saved run, in Python: for tests of what is written."""

from __future__ import annotations

import json
import re
import struct
import zlib
from base64 import b64decode
from typing import Any

import numpy as np

from npuprof.arrays import Int64
from npuprof.browser.packing import Packed


def unpack(column: Packed) -> Int64:
    """Return the numbers of a packed column."""
    if not column.width:
        return np.full(column.count, column.low, np.int64)
    planes = np.frombuffer(zlib.decompress(column.data), np.uint8).reshape(column.width, column.count)
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
        self.header: dict[str, Any] = json.loads(zlib.decompress(data[12 : 12 + size]))
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
    return b64decode(found[1])
