"""Files that may be gzip-compressed or in UTF-16: identified by their first bytes, read within bounds.

Source: sources/RESULTS.md section 0, item 10.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.files.converted import HEAD_BYTES, as_utf8, wide_encoding
from npuprof.sources.files.memory_limit import free_memory, refuse_too_large

_MAGIC = b"\x1f\x8b"
_BLOCK_BYTES = 1 << 20
_MAX_SEARCHED_BYTES = 8 << 30  # decompressed to find the end of an archive
_MAX_RATIO = 100  # a table shrinks to a tenth or a fortieth; a higher ratio is a decompression bomb
_STRETCH_BYTES = 64 << 20  # bytes of content within which the ratio is checked
_MAX_RATIO_OF_ALL = 200  # of all content from the first byte on
_CHECKED_BYTES = 8 << 20
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)


def is_zipped(path: Path) -> bool:
    """Return whether a file is a gzip archive."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def is_plain(path: Path) -> bool:
    """Return whether the bytes of a file are plain text: neither gzip nor UTF-16."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return not head.startswith(_MAGIC) and not wide_encoding(head)


def is_implausible(unpacked_bytes: int, packed_bytes: int) -> bool:
    """Return whether an archive expands more than any result does, as a decompression bomb."""
    return unpacked_bytes >= _CHECKED_BYTES and unpacked_bytes > packed_bytes * _MAX_RATIO_OF_ALL


def read_head(path: Path, size: int) -> bytes:
    """Return up to `size` first bytes of a file's content; fewer if the archive is damaged."""
    if is_zipped(path):
        return as_utf8(_unzip(path, max(size, HEAD_BYTES))[0])[:size]
    with path.open("rb") as file:
        return as_utf8(file.read(max(size, HEAD_BYTES)))[:size]


def read_tail(path: Path, size: int) -> bytes:
    """Return up to `size` last bytes of a file's content, or the last readable ones of a damaged or huge archive."""
    if not is_zipped(path):
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(max(path.stat().st_size - size, 0))
            return as_utf8(file.read(size), head)
    head = tail = b""
    remaining = _MAX_SEARCHED_BYTES
    try:
        with path.open("rb") as file, gzip.GzipFile(fileobj=file) as stream:
            while remaining > 0 and (part := stream.read1(_BLOCK_BYTES)):
                head = head or part[:HEAD_BYTES]
                tail = (tail + part)[-size:]
                remaining -= len(part)
                if is_implausible(_MAX_SEARCHED_BYTES - remaining, file.tell()):
                    break
    except _DAMAGE:
        pass  # reported by the reader of the whole file
    return as_utf8(tail, head)


def read_whole(path: Path, max_bytes: int) -> tuple[bytes, str]:
    """Return a file's content, and a description of the damage of its archive; empty if it is intact."""
    if is_zipped(path):
        return _unpack(path, max_bytes)
    size = path.stat().st_size
    if size > max_bytes:
        raise _is_beyond(path, max_bytes)
    refuse_too_large(path, size)
    with path.open("rb") as file:
        return as_utf8(file.read(size)), ""  # a limit far above the size would be allocated at once


def _unpack(path: Path, max_bytes: int) -> tuple[bytes, str]:
    fitting = free_memory() // 2  # the parts are joined
    content, problem = _unzip(path, min(max_bytes, fitting) + 1, refused=True)
    if len(content) > max_bytes:
        raise _is_beyond(path, max_bytes)
    if len(content) > fitting:
        raise _unpacks_to(path, fitting, "its content does not fit into memory")
    return as_utf8(content), problem


def _unpacks_to(path: Path, size: int, reason: str) -> SourceError:
    return SourceError(f"{path} unpacks to more than {size >> 20} MiB: {reason}; if it is one, unpack it and load that")


def _is_beyond(path: Path, max_bytes: int) -> SourceError:
    return SourceError(f"{path} is larger than {max_bytes >> 20} MiB, too large to be such a file; is it another?")


def _unzip(path: Path, size: int, *, refused: bool = False) -> tuple[bytes, str]:
    """Decompress the first bytes; with `refused`, stop at a part with an implausible compression ratio."""
    parts: list[bytes] = []
    remaining = size
    stretch = packed = 0
    try:
        with path.open("rb") as file, gzip.GzipFile(fileobj=file) as stream:
            while remaining > 0 and (part := stream.read1(min(remaining, _BLOCK_BYTES))):
                parts.append(part)
                remaining -= len(part)
                stretch += len(part)
                if refused and stretch >= _STRETCH_BYTES:
                    if stretch > (file.tell() - packed) * _MAX_RATIO:
                        raise _unpacks_to(path, size - remaining, "no such file shrinks that much")
                    stretch, packed = 0, file.tell()
    except _DAMAGE as error:
        return b"".join(parts), f"the gzip archive is damaged, its rest is lost: {error}"
    return b"".join(parts), ""
