"""A disk without room: a small file system where this process may mount one, a limit on files elsewhere."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def small_disk(place: Path, size_bytes: int, inodes: int = 0) -> Iterator[Path]:
    """Return a directory of a file system of so many bytes; the test is skipped where none can be mounted."""
    place.mkdir()
    options = f"size={size_bytes}{f',nr_inodes={inodes}' * bool(inodes)}"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def small_files(size_bytes: int) -> Iterator[None]:
    """Limit the size of files of this process in the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def refusing(place: Path, number: int) -> Iterator[None]:
    """Let every write below a directory fail with an error of the system in the block; what is there can be read."""

    def refuse(call: Callable[..., Any], writes: Callable[..., bool]) -> Callable[..., Any]:
        def refused(*given: Any, **named: Any) -> Any:
            target = given[0] if not isinstance(given[0], int) else Path(f"/proc/self/fd/{given[0]}").readlink()
            if writes(*given) and Path(os.fsdecode(target)).is_relative_to(place.resolve()):
                raise OSError(number, os.strerror(number))
            return call(*given, **named)

        return refused

    def opens_to_write(_path: Any, flags: int = 0, *_rest: Any) -> bool:
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", refuse(os.open, opens_to_write))
        for name in ("write", "pwrite", "mkdir", "rename", "replace", "unlink", "fsync"):
            patch.setattr(os, name, refuse(getattr(os, name), lambda *_given: True))
        yield
