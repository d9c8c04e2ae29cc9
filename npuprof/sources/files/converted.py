"""Text in UTF-16, as PowerShell and spreadsheets save it, read as UTF-8; and streams that are converted so."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BLOCK_BYTES = 1 << 16
MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The first bytes of such a file."""


def as_utf8(content: bytes, mark: bytes = b"") -> bytes:
    """Return text in UTF-16 as UTF-8, and any other unchanged; `mark` is the beginning of a file whose end it is."""
    if not mark and not content.startswith(MARKS):
        return content
    text = mark + content[len(content) % 2 if mark else 0 :]
    return text.decode("utf-16", "replace").encode("utf-8", "replace")


class Converted(io.RawIOBase):
    """A stream of which each block is converted.

    Parameters
    ----------
    stream
        The stream, which stays open.
    convert
        Called with each block and, at the end, with no bytes; returns what takes its place.
    """

    def __init__(self, stream: io.BufferedIOBase, convert: Callable[[bytes], bytes]) -> None:
        self._stream, self._convert = stream, convert
        self._left = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        """Return whether it can be read: always."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill a buffer with the next bytes; return their number, 0 at the end."""
        while not self._left and not self._ended:
            block = self._stream.read1(_BLOCK_BYTES)
            self._ended = not block
            self._left = memoryview(self._convert(block))
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._left))
        target[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def utf8_stream(stream: io.BufferedIOBase) -> io.BufferedReader:
    """Return a stream of UTF-16 as one of UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    return io.BufferedReader(
        Converted(stream, lambda block: decoder.decode(block, not block).encode("utf-8", "replace"))
    )
