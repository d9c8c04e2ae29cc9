"""The recordings that a folder holds, also those of earlier kernels, and how each ended."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from npuprof.errors import SourceError
from npuprof.recordings.recording import FILE_NAME, Recording

MOST_RUNS = 1_000
"""Maximum number of recordings of a folder that are looked at, the newest first."""

_MOST_BYTES = 256 << 20  # of descriptions that are read


def recordings_in(folder: Path, sought: Sequence[bytes] = (), most: int = MOST_RUNS) -> Iterator[Recording]:
    """Yield the readable recordings of a folder, the newest first; only those that hold one of the texts sought."""
    dated = []
    try:
        for path in islice(folder.iterdir(), 10 * MOST_RUNS):
            try:
                status = (path / FILE_NAME).stat()
                dated.append((status.st_mtime_ns, path, status.st_size))
            except OSError:
                continue
    except OSError:
        return
    left = _MOST_BYTES
    for _, path, size in sorted(dated, reverse=True)[:most]:
        left -= size
        if left < 0:
            return
        try:
            if not sought or _holds(path / FILE_NAME, size, sought):
                yield Recording.read(path)
        except (SourceError, OSError):
            continue


def _holds(path: Path, size: int, sought: Sequence[bytes]) -> bool:
    """Return whether a file holds one of some texts: much faster than to decode it."""
    with path.open("rb") as file:
        content = file.read(size)
    return any(text in content for text in sought)


def how_ended(recording: Recording) -> str:
    """Return how a recording ended: ``normally``, with which exception, or not at all."""
    if recording.failed:
        return recording.failed
    if recording.stopped_ns:
        return "normally"
    pid = recording.environment.get("pid", "")
    if recording.environment.get("hostname") == platform.node() and pid.isdecimal() and _runs(int(pid)):
        return f"not yet: process {pid} runs"
    return "cut: what was written is recovered"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
