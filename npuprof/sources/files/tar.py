"""Read a tar archive as a stream, first block to last: only one header and one block of content are in memory.

Links, devices and sparse files are skipped and counted. The archive is untrusted: headers that describe the next member
are bounded, and a missing end or a damaged header is an error.

Source: POSIX ``ustar`` and ``pax``, and GNU tar's headers of long names.
"""

from __future__ import annotations

import os
import re
import tarfile
from contextlib import suppress

from npuprof.sources.files.members import BLOCK_BYTES, Content, Copier

RECORD_BYTES = 512
"""Headers and contents take whole records."""

_MAX_HEADER_BYTES = 1 << 20  # real paths are far shorter
_NEXT_NAME, _NEXT_FACTS = tarfile.GNUTYPE_LONGNAME, (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_PASSED_OVER = (tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE)
_WITHOUT_CONTENT = (
    *(tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE),
)
_FACT = re.compile(rb"(\d{1,7}) ([^=\n]{1,100})=")
_SIZE, _KIND = slice(124, 136), slice(156, 157)
_SPARSE = b"GNU.sparse"
_SPARSE_GOES_ON, _MAP_GOES_ON = 482, 504  # where a GNU header, and a block of its map, say that another block follows

_BEHIND_END = "data after its end: bytes are damaged or gone, or several archives were joined"


def header(block: bytes) -> tarfile.TarInfo:
    """Parse the header of a member."""
    return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")


def from_tar(stream: Content, copier: Copier) -> None:
    """Copy the files of a tar archive."""
    facts: dict[bytes, bytes] = {}
    is_described = False  # whether the previous block was a header of the next member
    while True:
        block = stream.read(RECORD_BYTES)
        copier.count_bytes(len(block))
        if len(block) < RECORD_BYTES:
            raise tarfile.ReadError("its end is missing: it was cut")
        if not block.strip(b"\0"):
            if is_described:
                raise tarfile.ReadError("the member that a header describes is missing")
            break
        try:
            info = header(block)
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"a header is damaged: {error}") from error
        content = _Body(stream, copier, info.size)
        if info.type == _NEXT_NAME:
            facts[b"path"] = content.whole().partition(b"\0")[0]
        elif info.type in _NEXT_FACTS:
            facts |= _facts(content.whole())
        elif info.type in _PASSED_OVER:
            content.pass_over()
        else:
            copier.count_member()
            _member(info, facts, block, stream, copier)
            facts = {}
        is_described = info.type in (_NEXT_NAME, *_NEXT_FACTS)
    size, is_empty = 0, True
    while remainder := stream.read(BLOCK_BYTES):  # a compressed archive ends with its checksum
        copier.count_bytes(len(remainder))
        size, is_empty = size + len(remainder), is_empty and not remainder.strip(b"\0")
    if size % RECORD_BYTES or not is_empty:
        copier.note(_BEHIND_END)


def _member(info: tarfile.TarInfo, facts: dict[bytes, bytes], block: bytes, stream: Content, copier: Copier) -> None:
    size, modified_s = info.size, float(info.mtime)
    with suppress(ValueError):
        size = int(facts.get(b"size", size))
        modified_s = float(facts.get(b"mtime", modified_s))
    content = _Body(stream, copier, 0 if info.type in _WITHOUT_CONTENT else size)
    if info.type == tarfile.GNUTYPE_SPARSE:
        goes_on = block[_SPARSE_GOES_ON]
        while goes_on:
            goes_on = _Body(stream, copier, RECORD_BYTES).whole()[_MAP_GOES_ON]
    if info.type == tarfile.GNUTYPE_SPARSE or any(fact.startswith(_SPARSE) for fact in facts):
        copier.note("a sparse file: make the archive without --sparse")
    elif info.type in _WITHOUT_CONTENT:
        if info.type != tarfile.DIRTYPE:
            copier.note("a link or a device")
    else:
        name = os.fsdecode(facts[b"path"]) if b"path" in facts else info.name
        copier.copy(name, content, modified_s)
    content.pass_over()


def members_in(stream: Content, most: int) -> int:
    """Return how many members an archive has, from its headers; `most` if there are more, fewer if it is damaged."""
    count = 0
    while count < most and len(block := stream.read(RECORD_BYTES)) == RECORD_BYTES and block.strip(b"\0"):
        try:
            left = int(block[_SIZE].strip(b"\0 ") or b"0", 8)
        except ValueError:  # such as the size of a huge file, in another form
            break
        kind = block[_KIND]
        count += kind not in (_NEXT_NAME, *_NEXT_FACTS, *_PASSED_OVER)
        left = 0 if left < 0 or kind in _WITHOUT_CONTENT else left + -left % RECORD_BYTES
        while left and (part := stream.read(min(left, BLOCK_BYTES))):
            left -= len(part)
    return count


class _Body:
    """The content of a member; the bytes that are read are counted."""

    def __init__(self, stream: Content, copier: Copier, size: int) -> None:
        if size < 0:
            raise tarfile.ReadError("a header is damaged: its size is negative")
        self._stream, self._copier, self._size = stream, copier, size
        self._left, self._padding = size, -size % RECORD_BYTES

    def read(self, size: int) -> bytes:
        """Read up to `size` next bytes."""
        block = self._stream.read(min(size, self._left))
        self._copier.count_bytes(len(block))
        self._left -= len(block)
        if self._left and not block:
            raise tarfile.ReadError("it was cut within a file")
        return block

    def whole(self) -> bytes:
        """Read the whole description of the next member."""
        if self._size > _MAX_HEADER_BYTES:
            raise tarfile.ReadError("a header is damaged: it is far too large")
        parts = []
        while part := self.read(BLOCK_BYTES):
            parts.append(part)
        self.pass_over()
        return b"".join(parts)

    def pass_over(self) -> None:
        """Skip to the end of its last record."""
        while self.read(BLOCK_BYTES):
            pass
        self._left, self._padding = self._padding, 0
        if self._left:
            self.read(self._left)


def _facts(content: bytes) -> dict[bytes, bytes]:
    """Parse a ``pax`` header: path, size and time of the next member, and whether the member is sparse."""
    facts, place = {}, 0
    while match := _FACT.match(content, place):
        end = place + int(match[1])
        if end <= match.end() or end > len(content):
            break
        if match[2] in (b"path", b"size", b"mtime") or match[2].startswith(_SPARSE):
            facts[match[2]] = content[match.end() : end - 1]
        place = end
    if place < len(content):
        raise tarfile.ReadError("a header is damaged: it describes no member")
    return facts
