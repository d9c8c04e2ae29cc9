"""Atomic writes of files and directories: the old contents stay until the new contents are complete on disk."""

from __future__ import annotations

import errno
import gzip
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from stat import S_IMODE
from typing import Any, BinaryIO, TextIO, TypeAlias, cast

from npuprof.errors import NpuprofError
from npuprof.words.quantities import size

PARTIAL = ".part"
"""The suffix of incomplete files; only a killed process leaves one behind."""

_PREFIX = ".npuprof_"
_BUFFER_BYTES = 1 << 20
_SMALL_FILE_BYTES = 1 << 14
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_WRONG_PLACE = (
    errno.EACCES,
    errno.ENOENT,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENOTEMPTY,
    errno.ENAMETOOLONG,
    errno.EEXIST,
)

AddFile: TypeAlias = Callable[[str], AbstractContextManager[BinaryIO]]


@contextmanager
def replacing(path: Path, *, like_before: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` at the end of the block, unless the block raises.

    Parameters
    ----------
    path
        The file; missing directories are created. Symbolic links are followed, and special files such as
        ``/dev/stdout`` are written directly.
    like_before
        Whether to keep the owner and permissions of the replaced file; otherwise the file is private to the user.
    """
    target = Path(os.path.realpath(path))
    tally = _Tally()
    with _explain(path, tally), _inside(target.parent):
        if target.exists() and not target.is_file():
            with _open(os.open(target, os.O_WRONLY), tally) as out:
                yield out
            tally.check()
            return
        partial = _partial(target.parent)
        try:
            number = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.fchmod(number, 0o600)  # a umask may remove the user's permissions
            if like_before:
                _take_over(target, partial)
            with _open(number, tally) as out:
                yield out
            tally.check()
            partial.replace(target)
        except BaseException:
            tally.inodes = _room(partial)[1]
            with suppress(OSError):
                partial.unlink()
            raise


@contextmanager
def new_directory(path: Path) -> Iterator[AddFile]:
    """Create a private directory of files that becomes visible only when all are complete.

    Parameters
    ----------
    path
        The directory, missing or empty. In an empty directory the files become visible in the order they were added.

    Yields
    ------
    callable
        A context manager that opens a file for writing, by its path in the directory.
    """
    target, tally = Path(os.path.realpath(path)), _Tally()
    with _explain(path, tally), _inside(target.parent):
        into = target.is_dir()
        partial = _partial(target if into else target.parent)
        names: dict[str, None] = {}

        @contextmanager
        def add(name: str) -> Iterator[BinaryIO]:
            """Open a file of the directory for writing."""
            file = partial / name
            file.parent.mkdir(mode=0o700, exist_ok=True)
            names[file.relative_to(partial).parts[0]] = None
            with _open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), tally) as out:
                yield out

        try:
            partial.mkdir(0o700)
            yield add
            tally.check()
            if into:
                for name in names:
                    (partial / name).rename(target / name)
                partial.rmdir()
            else:
                partial.rename(target)
        except BaseException:
            tally.inodes = _room(partial)[1]
            for left in (partial, *(target / name for name in names if into)):
                shutil.rmtree(left, ignore_errors=True)
                with suppress(OSError):
                    left.unlink()
            raise


def _partial(folder: Path) -> Path:
    """Return an unused name, chosen before anything is created, so that an interrupt leaves nothing behind."""
    return folder / f"{_PREFIX}{secrets.token_hex(8)}{PARTIAL}"


def write(path: Path, content: bytes) -> None:
    """Write a private file atomically; see :func:`replacing`."""
    with replacing(path) as out:
        out.write(content)


def overwrite(path: Path, content: bytes) -> bool:
    """Write a file over its old contents, padded with spaces to their length, which a full disk may still take.

    Return whether it did; if not, or if the old contents are shorter, the file is as it was.
    """
    try:
        number = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        before = os.pread(number, os.fstat(number).st_size, 0)
        padded = content.ljust(len(before))
        if len(padded) == len(before) and os.pwrite(number, padded, 0) == len(padded):
            os.fsync(number)
            return True
        os.pwrite(number, before, 0)
    except OSError:
        with suppress(OSError):
            os.pwrite(number, before, 0)
    finally:
        os.close(number)
    return False


def reason(
    error: OSError,
    place: Path,
    needed_bytes: int = 0,
    elsewhere: str = "choose another directory",
    *,
    inodes: bool = True,
) -> str:
    """Return why a write below a directory failed, and what to do."""
    subject = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        free_bytes, left_inodes = _room(place)
        if error.errno == errno.ENOSPC and not (inodes and left_inodes):
            return f"{subject}: the file system has no inodes left; remove some files, or {elsewhere}"
        needs = f"; {size(needed_bytes)} are needed, {size(free_bytes)} are free" if needed_bytes else ""
        missing = f"{size(needed_bytes - free_bytes)} more" if needed_bytes > free_bytes else "some space"
        return f"{subject}{needs}: free {missing}, or {elsewhere}"
    if error.errno == errno.EMFILE:
        return f"{subject}: this process has no file descriptors left; close some, or raise its limit (ulimit -n)"
    if error.errno == errno.ENFILE:
        return f"{subject}: the system has no file descriptors left; end some programs"
    if error.errno in _WRONG_PLACE:
        return f"{subject}: {elsewhere} that you can write to"
    return f"{subject}: check the disk, or {elsewhere}"


def lacking(place: Path, elsewhere: str = "choose another directory") -> str:
    """Return the reason why a small file cannot be written in a directory, as :func:`reason` does; empty if it can."""
    free_bytes, inodes = _room(place)
    if free_bytes < _SMALL_FILE_BYTES or not inodes:
        return reason(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), place, elsewhere=elsewhere)
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return reason(error, place, elsewhere=elsewhere)
    return ""


def absent(directory: Path) -> list[Path]:
    """Return the missing directories on a path, innermost first."""
    return [place for place in (directory, *directory.parents) if not os.path.lexists(place)]


def remove_empty(directories: list[Path]) -> None:
    """Remove directories, innermost first, up to one that is not empty."""
    with suppress(OSError):
        for directory in directories:
            directory.rmdir()


@dataclass
class _Tally:
    """The number of bytes to write, the error of a full disk, and whether inodes were left then."""

    size: int = 0
    full: OSError | None = None
    inodes: bool = True

    def check(self) -> None:
        """Raise the error of a full disk, if there was one."""
        if self.full is not None:
            raise self.full


class _Sink(io.RawIOBase):
    """A raw file that is written until the disk is full; from then on, bytes are only counted.

    Closing it leaves the descriptor open: after an interrupt the garbage collector may close it at any time.
    """

    def __init__(self, number: int, tally: _Tally) -> None:
        self._number = number
        self._tally = tally

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Write data, or only count its bytes once the disk is full."""
        view = memoryview(data).cast("B")
        self._tally.size += len(view)
        at = 0
        try:
            while at < len(view) and self._tally.full is None:
                at += os.write(self._number, view[at:])
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._tally.full = error
        return len(view)


@contextmanager
def _open(number: int, tally: _Tally) -> Iterator[BinaryIO]:
    """Write to a descriptor through a buffer; it is synced at the end of the block, and closed."""
    try:
        with _Sink(number, tally) as sink, io.BufferedWriter(sink, _BUFFER_BYTES) as out:
            yield out
        try:
            os.fsync(number)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a pipe or a device
                tally.full = tally.full or error
    finally:
        os.close(number)


@contextmanager
def _explain(path: Path, tally: _Tally) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NpuprofError(
            f"{path} cannot be written: {reason(error, path.parent, tally.size, inodes=tally.inodes)}"
        ) from error


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    made_paths = absent(directory)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield
    except BaseException:
        remove_empty(made_paths)
        raise


def _take_over(target: Path, partial: Path) -> None:
    with suppress(FileNotFoundError):
        there = target.stat()
        with suppress(OSError):  # only root may give a file away
            os.chown(partial, there.st_uid, there.st_gid)
        partial.chmod(S_IMODE(there.st_mode))


def _room(place: Path) -> tuple[int, bool]:
    """Return the free bytes around a directory, and whether inodes are left; unknown inodes count as left."""
    for around in (place.absolute(), *place.absolute().parents):
        with suppress(OSError):
            state = os.statvfs(around)
            return state.f_bavail * state.f_frsize, bool(state.f_favail or not state.f_files)
    return 0, True


def write_text(path: str | PathLike[str], content: str) -> Path:
    """Write a text file atomically, compressed if its name ends in ``.gz``, and return its path."""
    target = Path(path)
    with replacing(target, like_before=True) as file, text(file, target) as out:
        out.write(content)
    return target


def text(file: BinaryIO, path: Path) -> TextIO:
    """Return a text stream to a file in UTF-8, compressed if its name ends in ``.gz``."""
    return io.TextIOWrapper(binary(file, path), encoding="utf-8", errors="backslashreplace")


def binary(file: BinaryIO, path: Path) -> BinaryIO:
    """Return a binary stream to a file, compressed if its name ends in ``.gz``."""
    return cast("BinaryIO", gzip.GzipFile(fileobj=file, mode="wb")) if path.suffix == ".gz" else file


def empty_directory(path: str | PathLike[str]) -> Path:
    """Return the path of a directory to save in, which must be missing or empty."""
    directory = Path(path)
    with suppress(OSError):  # a failure is reported when the directory is written to
        if next(directory.iterdir(), None) is not None:
            raise NpuprofError(f"{directory} is not empty: choose a new directory to save the profile in")
    return directory
