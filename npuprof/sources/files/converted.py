"""Read UTF-16 text, as PowerShell and spreadsheets save it, as UTF-8; streams that convert while reading."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BLOCK_BYTES = 1 << 16
MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
HEAD_BYTES = 8
"""The number of first bytes that identify such a file."""
_WITHOUT_MARK = {  # eight bytes that are four ASCII characters
    "utf-16-le": re.compile(rb"(?:[\t\n\r -~]\0){4}"),
    "utf-16-be": re.compile(rb"(?:\0[\t\n\r -~]){4}"),
}


def wide_encoding(head: bytes) -> str:
    """Return the encoding of a UTF-16 file, with or without byte order mark, by its first bytes; else empty."""
    if head.startswith(MARKS):
        return "utf-16"
    return next((name for name, form in _WITHOUT_MARK.items() if form.match(head)), "")


def as_utf8(content: bytes, head: bytes = b"") -> bytes:
    """Return UTF-16 text as UTF-8, other text unchanged; `content` ends the file that begins with `head`."""
    encoding = wide_encoding(head or content)
    if not encoding:
        return content
    if head:
        encoding = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(head[:2], encoding)
        content = content[len(content) % 2 :]
    return content.decode(encoding, "replace").removeprefix("\ufeff").encode("utf-8", "replace")


class Converted(io.RawIOBase):
    """A stream that converts each block."""

    def __init__(self, stream: io.BufferedIOBase, convert: Callable[[bytes], bytes]) -> None:
        self._stream, self._convert = stream, convert
        self._left = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        """Return that the stream is readable: always True."""
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


def utf8_stream(stream: io.BufferedIOBase, encoding: str) -> io.BufferedReader:
    """Return a UTF-8 stream of a UTF-16 stream; the encoding is that of :func:`wide_encoding`."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    return io.BufferedReader(
        Converted(stream, lambda block: decoder.decode(block, not block).encode("utf-8", "replace"))
    )
