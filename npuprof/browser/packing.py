"""Columns of whole numbers as few bytes, which a page unpacks without a library.

A column is stored as differences between neighbours or as its values, whichever deflates better, with one plane for
each byte of a number: first the lowest byte of every row, then the next one. Planes of high bytes are nearly constant,
so that deflate leaves little of them. ``scripts/packed.js`` is the other side.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64

_SAMPLE = 1 << 15  # rows by which the form of a column is chosen
_EXACT = 1 << 53  # numbers of JavaScript are exact below
_LEVEL = 6
# No letter ends an HTML element, a string of JSON or a formula's text; scripts/base85.js has the same.
_LETTERS = np.frombuffer(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#%()*+-;=?@^_{|}~,.:[]", np.uint8
)
_POWERS = np.array([85**4, 85**3, 85**2, 85, 1], np.uint32)


@dataclass(frozen=True)
class Packed:
    """A packed column."""

    count: int  # number of rows
    width: int  # bytes of a number; 0 if all rows have the value `low`
    is_delta: bool  # whether the numbers are differences to the row before, in zigzag form; the first one is to `low`
    low: int  # the least value, which is subtracted from all
    data: bytes  # the deflated planes


def pack(values: Int64) -> Packed | None:
    """Return a column of whole numbers as bytes; None if a page could not hold its numbers exactly."""
    if not len(values):
        return Packed(0, 0, False, 0, b"")
    low, high = int(values.min()), int(values.max())
    if max(abs(low), abs(high), high - low) >= _EXACT:
        return None
    if low == high:
        return Packed(len(values), 0, False, low, b"")
    plain = (values - low).astype(np.uint64)
    steps: Int64 = plain.astype(np.int64)
    steps[1:] -= steps[:-1].copy()
    delta = np.bitwise_xor(steps << 1, steps >> 63).view(np.uint64)
    forms = {False: plain, True: delta}
    sizes = {is_delta: len(_deflated(_planes(form[:_SAMPLE])[1])) for is_delta, form in forms.items()}
    is_delta = sizes[True] < sizes[False] and high - low < _EXACT // 2  # the zigzag form needs a bit more
    width, planes = _planes(forms[is_delta])
    return Packed(len(values), width, is_delta, low, _deflated(planes))


def pack_floats(values: npt.NDArray[Any]) -> Packed:
    """Return a column of floats with seven digits as bytes: the bit patterns of 32-bit floats."""
    bits = values.astype("<f4").view("<u4").astype(np.uint64)
    width, planes = _planes(bits) if len(bits) else (0, b"")
    return Packed(len(values), width, False, 0, _deflated(planes))


def _planes(numbers: npt.NDArray[np.uint64]) -> tuple[int, bytes]:
    """Return the width of the numbers in bytes, and the bytes plane by plane."""
    width = max((int(numbers.max()).bit_length() + 7) // 8, 1)
    return width, numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].T.tobytes()


def as_text(data: bytes) -> str:
    """Return bytes as text in base 85: five letters for four bytes, where base 64 takes five and a third."""
    missing = -len(data) % 4
    words = np.frombuffer(data + bytes(missing), ">u4").astype(np.uint32)
    letters = _LETTERS[words[:, None] // _POWERS % 85].tobytes().decode()
    return letters[: len(letters) - missing]


def deflated(data: bytes, level: int = 9) -> bytes:
    """Return data deflated, without zlib's header and checksum: there are many small columns."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _deflated(data: bytes) -> bytes:
    return deflated(data, _LEVEL)
