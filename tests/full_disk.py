"""A disk without room: a small file system where this process may mount one, a limit on files elsewhere."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
