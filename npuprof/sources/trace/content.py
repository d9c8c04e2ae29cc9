"""The text of a timeline: decompressed, converted from UTF-16, and with NDJSON lines made into a list of events.

Source: sources/RESULTS.md section 2.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from contextlib import suppress
from typing import Any, cast

from npuprof.sources.files.converted import HEAD_BYTES, Converted, utf8_stream, wide_encoding
from npuprof.sources.files.encodings import ToUtf8

KEY = rb'"(?:ph|name|pid|tid|ts|dur|cat|id|args|bp)"\s*:'
"""A key at the beginning of an event."""
_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 1 << 16
_EVENT = re.compile(rb"\s*\{\s*" + KEY)
_BETWEEN = re.compile(rb"\}\s*,?\s*?\n\s*(?=\{)")  # within a string, a line end is escaped
_END = re.compile(rb"\}[\s,]*\Z")
_JSON = json.JSONDecoder()


def content_of(file: io.BufferedReader, to_utf8: ToUtf8 | None = None) -> io.BufferedIOBase:
    """Return a timeline (gzipped, in UTF-16 or GB18030, or an event a line) as JSON text in UTF-8.

    Reading it raises EOFError, zlib.error or gzip.BadGzipFile for a damaged archive; `to_utf8` then knows the encoding.
    """
    convert = to_utf8 or ToUtf8()
    head = _head(_decode(file, ToUtf8()))
    if not _is_of_lines(head.removeprefix(b"\xef\xbb\xbf")):
        return _decode(file, convert)
    return io.BufferedReader(Converted(_decode(file, convert), _Lines()))


def is_archive(file: io.BufferedReader) -> bool:
    """Return whether a file is gzip-compressed; rewinds it."""
    file.seek(0)
    head = file.read(len(_GZIP))
    file.seek(0)
    return head == _GZIP


def _decode(file: io.BufferedReader, to_utf8: ToUtf8) -> io.BufferedIOBase:
    def unpacked() -> io.BufferedIOBase:
        return cast("io.BufferedIOBase", gzip.GzipFile(fileobj=file)) if is_archive(file) else file

    encoding = wide_encoding(_head(unpacked(), HEAD_BYTES))
    if encoding:
        return utf8_stream(unpacked(), encoding)
    return io.BufferedReader(Converted(unpacked(), to_utf8))


def _head(stream: io.BufferedIOBase, size: int = _HEAD_BYTES) -> bytes:
    with suppress(EOFError, zlib.error, gzip.BadGzipFile):  # reading the file reports the error
        return stream.read(size)
    return b""


def _is_of_lines(head: bytes) -> bool:
    """Return whether a text begins with an event outside of a list."""
    if not _EVENT.match(head):
        return False
    with suppress(ValueError, RecursionError):
        first: dict[str, Any] = _JSON.raw_decode(head.decode("latin-1").lstrip())[0]
        return isinstance(first.get("ph"), str)
    return False


class _Lines:
    """Converter of events, one per line, with or without a trailing comma, to one list."""

    def __init__(self) -> None:
        self._kept: bytes | None = None  # the last line of the text so far, which may end an event

    def __call__(self, block: bytes) -> bytes:
        text = (b"[" if self._kept is None else self._kept) + (
            block.removeprefix(b"\xef\xbb\xbf") if self._kept is None else block
        )
        if not block:
            end = _END.search(text)
            return text[: end.start()] + b"}]" if end else text
        end = _END.search(text)
        place = end.start() if end else len(text)
        self._kept = text[place:]
        return _BETWEEN.sub(b"},\n", text[:place])
