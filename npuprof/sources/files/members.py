"""Copy the members of an archive into a folder: only plain files, below the folder, within bounds.

Links, devices, encrypted files, names that leave the folder and duplicate names are skipped and counted.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from npuprof.errors import SourceError
from npuprof.progress import report_progress

BLOCK_BYTES = 1 << 20
"""Bytes unpacked at once."""

_MANY_MEMBERS = 2000  # of a result; copying as many takes less than a second
_RESERVE_BYTES = 256 << 20  # disk space that is left for others
_ALWAYS_BYTES = 256 << 20
_MAX_RATIO = 200  # a table shrinks to a tenth or a fortieth; a higher ratio is a decompression bomb
_MAX_DEPTH = 32
_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 1024
_LATEST_S = 4_000_000_000
_ENCRYPTED = 1
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)  # other methods may take unbounded memory
_OF_MACOS = ("__MACOSX", ".DS_Store")
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


class Content(Protocol):
    """The content of a member."""

    def read(self, size: int, /) -> bytes:
        """Read up to `size` next bytes; empty at the end."""
        ...


@dataclass(frozen=True)
class Limits:
    """The limits of an archive's contents."""

    # total_bytes, members: total bytes of all files, and number of members of any kind.
    total_bytes: int = 64 << 30
    members: int = 200_000
    # Reason of the limit, and what to do.
    why: str = "more than any such archive of a result: if it is one, unpack it yourself and load that"

    @classmethod
    def of(cls, archive: Path, folder: Path) -> Limits:
        """Return the limits of an archive, from its size and the free space of the target folder."""
        usual = min(cls.total_bytes, max(_ALWAYS_BYTES, archive.stat().st_size * _MAX_RATIO))
        free = shutil.disk_usage(folder).free
        room = free - min(_RESERVE_BYTES, free // 10)
        if room >= usual:
            return cls(usual)
        place = folder.parent.parent
        return cls(room, why=f"more than {place} has room for: free some space there, or set TMPDIR to another place")


@dataclass
class Copier:
    """Copies members into a folder, and counts them."""

    # archive, folder, limits: the archive, the folder, and the limits.
    archive: Path
    folder: Path
    limits: Limits
    files: int = 0  # the number of copied files
    problems: dict[str, int] = field(default_factory=dict)  # number of skipped members by reason
    # Counts the members of an archive without a directory, before many of them are copied.
    look_ahead: Callable[[], int] = lambda: 0
    _members: int = 0
    _bytes: int = 0

    def note(self, problem: str, count: int = 1) -> None:
        """Count skipped members."""
        self.problems[problem] = self.problems.get(problem, 0) + count

    def count_member(self) -> None:
        """Count a member of any kind."""
        self._members += 1
        self.expect_members(self._members)
        if self._members == _MANY_MEMBERS:
            self.expect_members(self.look_ahead())

    def expect_members(self, count: int) -> None:
        """Check how many members of any kind there are."""
        if count > self.limits.members:
            raise SourceError(f"{self.archive} holds more than {self.limits.members} files; is it another archive?")

    def count_bytes(self, count: int) -> None:
        """Count unpacked bytes."""
        self._bytes += count
        if self._bytes > self.limits.total_bytes:
            raise SourceError(
                f"{self.archive} unpacks to more than {self.limits.total_bytes >> 20} MiB, {self.limits.why}"
            )
        report_progress(self.archive.name, self._bytes, 0)

    def copy(self, name: str, content: Content, modified_s: float) -> None:
        """Copy a file; it replaces an earlier one with the same path, as when other tools unpack the archive.

        Parameters
        ----------
        modified_s
            Modification time, in seconds of the epoch; it determines the newest of several exports.
        """
        parts = self._parts(name)
        if not parts:
            return
        target = self.folder.joinpath(*parts)
        if target.is_dir() or any(folder.is_file() for folder in (target.parent, *target.parent.parents)):
            self.note("a file whose path is that of a folder too")
            return
        self._make_folders(parts[:-1])
        if target.exists():
            self.note("a file whose path comes again later in the archive")
            target.unlink()
        self.files += 1
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            os.fchmod(out.fileno(), 0o600)  # a umask may have removed the user's own permission
            while block := content.read(BLOCK_BYTES):
                out.write(block)
        if 0 <= modified_s < _LATEST_S:
            os.utime(target, (modified_s, modified_s))

    def _make_folders(self, parts: list[str]) -> None:
        folder = self.folder
        for part in parts:
            folder /= part
            if not folder.is_dir():
                folder.mkdir()
                folder.chmod(0o700)

    def _parts(self, name: str) -> list[str]:
        """Return the parts of a path; empty if it leaves the folder, is invalid, or is macOS metadata."""
        plain = name.replace("\\", "/")
        parts = [part for part in plain.split("/") if part not in ("", ".")]
        if plain.startswith("/") or ".." in parts or not parts or "\0" in plain or parts[0].endswith(":"):
            self.note("a path that leaves the archive")
            return []
        if parts[0] in _OF_MACOS or parts[-1] in _OF_MACOS or parts[-1].startswith("._"):
            return []
        encoded = [os.fsencode(part) for part in parts]
        long = max(map(len, encoded)) > _MAX_NAME_BYTES or sum(map(len, encoded)) > _MAX_PATH_BYTES
        if long or len(parts) > _MAX_DEPTH:
            self.note("a path that is too long")
            return []
        return parts


class _Counted:
    """Content whose bytes are counted."""

    def __init__(self, content: Content, copier: Copier) -> None:
        self._content, self._copier = content, copier

    def read(self, size: int) -> bytes:
        block = self._content.read(size)
        self._copier.count_bytes(len(block))
        return block


def from_zip(archive: zipfile.ZipFile, copier: Copier) -> None:
    """Copy the files of a zip."""
    for info in archive.infolist():
        copier.count_member()
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind == stat.S_IFDIR or info.filename.endswith(("/", "\\")):
            if info.file_size:
                copier.note("a file whose path is that of a folder")
            continue
        if kind not in (0, stat.S_IFREG):
            copier.note("a link or a device")
        elif info.flag_bits & _ENCRYPTED:
            copier.note("an encrypted file: unpack the archive with its password, and load that")
        elif info.compress_type not in _COMPRESSIONS:
            copier.note("a file compressed by another method than deflate: unpack the archive, and load that")
        else:
            try:
                with archive.open(info) as content:
                    copier.copy(info.filename, _Counted(content, copier), _modified_s(info))
            except _DAMAGE as error:
                copier.note(f"the rest of a damaged file ({error})")


def _modified_s(info: zipfile.ZipInfo) -> float:
    with suppress(ValueError, OverflowError):
        return time.mktime((*info.date_time, 0, 0, -1))
    return -1.0
