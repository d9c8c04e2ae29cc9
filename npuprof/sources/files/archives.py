"""Results packed in an archive: ``.zip``, ``.tar``, ``.tar.gz`` and ``.tgz``, identified by content.

An archive is never written to. Its content is copied into a private folder, which is removed when the last object that
uses it is gone. The archive may be malicious, so the libraries only find the members: their bytes are copied here into
new files, whose names stay below the folder and whose sizes are counted.

Source: the formats of PKWARE's ``.ZIP`` (the record at the end of its directory) and of POSIX ``ustar``.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import re
import secrets
import shutil
import struct
import tarfile
import tempfile
import time
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.files.members import Copier, Limits, from_zip
from npuprof.sources.files.tar import RECORD_BYTES, from_tar, header, members_in
from npuprof.words.texts import plain_line

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_GZIP = b"\x1f\x8b"
_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
_OTHERS = {
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "RAR",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "Zstandard",
}
_MAX_LOOKED_AT = 1000
_FOLDER = re.compile(r"npuprof-[0-9a-f]{16}")
_REMOVING_S = 0.3  # what is left then is removed by the next load
_NEW_S = 60  # a folder that is newer may not be held yet
# of the directory of a zip: each entry takes at least 46 bytes, and ten times that in memory
_MAX_DIRECTORY_BYTES = 16 << 20
_END = struct.Struct("<4s4H2IH")
_MANY_ENTRIES = (1 << 16) - 1  # that many; or more, and another record has the number
_LEAST_ENTRY_BYTES = 46
_END_64_PLACE = struct.Struct("<4sIQI")
_END_MAGIC, _END_64_MAGIC = b"PK\x05\x06", b"PK\x06\x07"
_END_64 = struct.Struct("<4sQ2H2I4Q")
_MAX_COMMENT_BYTES = (1 << 16) - 1
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    gzip.BadGzipFile,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


@dataclass(eq=False)
class Unpacked:
    """The content of an archive in a private folder, which exists as long as this object, or until :meth:`remove`."""

    archive: Path  # the file
    folder: Path  # the folder of the content, named like the archive
    problems: dict[str, int] = field(default_factory=dict)  # number of skipped members by reason
    remove: Callable[[], object] = lambda: None

    def places(self) -> Iterator[Path]:
        """Iterate over the possible roots of the content: the folder, and while it has a single entry, that entry."""
        place = self.folder
        yield place
        while place.is_dir() and len(entries := list(islice(place.iterdir(), 2))) == 1:
            place = entries[0]
            yield place

    @property
    def left_out(self) -> list[str]:
        """Skipped members, one line per reason."""
        return [f"left out of the archive: {subject} ({count})" for subject, count in self.problems.items()]

    def named(self, text: str) -> str:
        """Return a message in which the path of the archive replaces the private folder."""
        return text.replace(str(self.folder), str(self.archive))


def is_archive(path: Path) -> bool:
    """Check by content whether a file is an archive; a single compressed file is not."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(RECORD_BYTES)
        if head.startswith(_GZIP):
            with gzip.open(path, "rb") as stream:
                head = stream.read(RECORD_BYTES)
    except (OSError, EOFError, zlib.error):
        return False
    return head.startswith(_ZIP) or _is_header(head)


def refuse_other_archive(path: Path, head: bytes) -> None:
    """Check by the first bytes that a file is no archive of an unsupported kind."""
    for magic, kind in _OTHERS.items():
        if head.startswith(magic):
            raise SourceError(
                f"{path} is compressed as {kind}, which npuprof does not open: unpack it and load what it holds, "
                "or pack it as .zip or .tar.gz"
            )


def packed_in(folder: Path) -> list[Path]:
    """Return the archives in a folder, except those unpacked next to themselves in a folder of the same name."""
    with suppress(OSError):
        files = (file for file in folder.iterdir() if file.name.lower().endswith(_SUFFIXES))
        return sorted(
            file
            for file in islice(files, _MAX_LOOKED_AT)
            if not (folder / _stem(file.name)).is_dir() and is_archive(file)
        )
    return []


def unpack(path: Path, limits: Limits | None = None) -> Unpacked:
    """Copy the content of an archive into a private folder."""
    with _new_folder(path) as unpacked:
        copier = Copier(path, unpacked.folder, limits or Limits.of(path, unpacked.folder), problems=unpacked.problems)
        _copy(path, copier)
        if not copier.files:
            reason = "; ".join(copier.problems)
            raise SourceError(f"{path} holds no file that can be read{': ' * bool(reason)}{reason}")
    return unpacked


def unpack_runs(path: Path, write: Callable[[Path], None]) -> Unpacked:
    """Return a private folder with the runs of a file, which `write` puts into it."""
    with _new_folder(path) as unpacked:
        write(unpacked.folder)
    return unpacked


@contextmanager
def _new_folder(path: Path) -> Iterator[Unpacked]:
    """Make a private folder for the content of a file; it is removed after an error."""
    top = _temporary(path) / f"npuprof-{secrets.token_hex(8)}"
    unpacked = Unpacked(path, top / (plain_line(_stem(path.name)) or "archive"))
    held: list[int] = []
    unpacked.remove = weakref.finalize(unpacked, _remove, top, os.getpid(), held)
    _remove_left_behind(top.parent)
    try:
        for folder in (top, unpacked.folder):
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)  # a umask may have removed the user's own permission
        held.extend(_hold(top))
        yield unpacked
    except OSError as error:
        unpacked.remove()
        raise SourceError(
            f"{path} cannot be unpacked into {top.parent} ({error.strerror or error}): free some space there, set "
            "TMPDIR to another directory, or unpack the archive and load that"
        ) from error
    except BaseException:
        unpacked.remove()
        raise


def _temporary(path: Path) -> Path:
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:  # the library tries to write there
        raise SourceError(
            f"{path} cannot be unpacked ({error.strerror or error}): free some space, or set TMPDIR to a directory "
            "that has some"
        ) from error


def _remove(top: Path, process: int, held: list[int]) -> None:
    if os.getpid() == process:  # a forked process that ends must not remove the folder of its parent
        shutil.rmtree(top, ignore_errors=True)
        while held:
            os.close(held.pop())


def _hold(folder: Path) -> list[int]:
    """Lock a folder as long as this process lives; return what holds it, nothing where folders cannot be locked."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return []
    return [opened]


def _remove_left_behind(place: Path) -> None:
    """Remove the folders of this user whose process was killed, and removed nothing itself."""
    with suppress(OSError), os.scandir(place) as entries:
        old = [Path(entry.path) for entry in islice(entries, _MAX_LOOKED_AT) if _FOLDER.fullmatch(entry.name)]
        until = time.monotonic() + _REMOVING_S
        for folder in old:
            with suppress(OSError):
                known = folder.lstat()
                if known.st_uid != os.getuid() or known.st_mtime > time.time() - _NEW_S:
                    continue
                for opened in _hold(folder):
                    _remove_until(folder, until)
                    os.close(opened)


def _remove_until(folder: Path, until: float) -> None:
    """Remove a folder with its content, or the part for which there is time; links are not followed."""
    for place, folders, files in os.walk(folder, topdown=False):
        for names, remove in ((files, os.unlink), (folders, os.rmdir)):
            for name in names:
                if time.monotonic() > until:
                    return
                with suppress(OSError):
                    remove(Path(place, name))
    folder.rmdir()


def _copy(path: Path, copier: Copier) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(RECORD_BYTES)
            file.seek(0)
            if head.startswith(_ZIP):
                size, entries = _directory(path)
                if size > _MAX_DIRECTORY_BYTES:
                    raise SourceError(f"{path} lists more files than any result has; is it another archive?")
                copier.expect_members(entries)
                with zipfile.ZipFile(file) as archive:
                    copier.expect_members(len(archive.infolist()))
                    from_zip(archive, copier)
                    missing = entries - len(archive.infolist())
                if missing > 0:
                    copier.note("files that its damaged list no longer names", missing)
            else:
                copier.look_ahead = partial(_members_of_tar, path, copier.limits.members + 1)
                with gzip.GzipFile(fileobj=file) if head.startswith(_GZIP) else nullcontext(file) as stream:
                    from_tar(stream, copier)
    except _DAMAGE as error:
        if not copier.files:
            raise SourceError(f"{path} is a damaged archive ({error}): copy or make it again") from error
        copier.note(f"all that follows the damage of the archive ({error})")


def _members_of_tar(path: Path, most: int) -> int:
    with suppress(*_DAMAGE), path.open("rb") as file:
        is_zipped = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        with gzip.GzipFile(fileobj=file) if is_zipped else nullcontext(file) as stream:
            return members_in(stream, most)
    return 0


def _is_header(block: bytes) -> bool:
    try:
        header(block)
    except (tarfile.TarError, ValueError):
        return False
    return True


def _directory(path: Path) -> tuple[int, int]:
    """Return the size in bytes of a zip's directory, which is read as a whole, and its number of entries."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - _END.size - _MAX_COMMENT_BYTES - _END_64_PLACE.size - _END_64.size, 0))
        tail = file.read()
        at = len(tail) - _END.size  # no comment follows: the library looks for the record here
        if not (tail[at:].startswith(_END_MAGIC) and tail.endswith(b"\0\0")):
            at = tail.rfind(_END_MAGIC)
        if at < 0 or len(tail) < at + _END.size:
            raise zipfile.BadZipFile("the list of its files is missing: it was cut")
        *_, entries, count, _, _ = _END.unpack_from(tail, at)
        place = at - _END_64_PLACE.size
        if place >= 0 and tail[place:].startswith(_END_64_MAGIC):
            file.seek(min(_END_64_PLACE.unpack_from(tail, place)[2], size))
            for record in (file.read(_END_64.size), tail[max(place - _END_64.size, 0) : place]):
                # at the recorded place, or right before the locator, where some versions of the library look for it
                if len(record) == _END_64.size:
                    fields = _END_64.unpack(record)
                    count = max(count, int(fields[8]))
                    whole = int(fields[7])
                    entries = whole if entries == _MANY_ENTRIES and whole * _LEAST_ENTRY_BYTES <= count else entries
    return count, entries


def _stem(name: str) -> str:
    suffix = next((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(suffix)].strip(".")
