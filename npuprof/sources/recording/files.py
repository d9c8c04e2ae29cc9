"""What a recording has lost since it was made: its files, compared with the list that it keeps of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from npuprof.notes import Notes

_SOURCE = "recording"
_MAX_NAMED = 5
_LOST = "rows may be missing or wrong; copy the recording again"


def note_changes(directory: Path, sizes: Mapping[str, int], notes: Notes) -> None:
    """Warn of each kind of change: files that are missing, shorter, longer, or links now.

    Parameters
    ----------
    directory
        The recording.
    sizes
        The bytes of its files when it was made, by their paths in it.
    notes
        Where the warnings go, with the number of files.
    """
    leads_away = _leads_away(directory)
    missing, shorter, longer, linked = (dict[str, int]() for _ in range(4))
    for name, size in sizes.items():
        if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
            notes.warning(_SOURCE, "a path in the list of its files is none of the recording's; left out")
            continue
        try:
            status = os.lstat(f"{directory}/{name}")  # quicker than by a Path, of which there may be thousands
        except OSError:
            missing[name] = size
            continue
        if stat.S_ISLNK(status.st_mode) or leads_away(name.rpartition("/")[0]):
            linked[name] = size
        elif not stat.S_ISREG(status.st_mode):
            missing[name] = size
        elif status.st_size < size:
            shorter[name] = size - status.st_size
        elif status.st_size > size:
            longer[name] = status.st_size - size
    _note(notes, missing, "missing, with {} bytes", _LOST)
    _note(notes, shorter, "shorter than they were recorded, by {} bytes", _LOST)
    _note(notes, longer, "longer than they were recorded, by {} bytes", _LOST)
    _note(notes, linked, "links now instead of the {} bytes that were recorded", "what they lead to is read")


def _leads_away(directory: Path) -> Callable[[str], bool]:
    """Return a function that tells whether a directory of the recording is a link, or in one."""

    @cache
    def leads_away(inner: str) -> bool:
        path = PurePosixPath(inner)
        return any((directory / outer).is_symlink() for outer in (path, *path.parents)[:-1])

    return leads_away


def _note(notes: Notes, changed: Mapping[str, int], what: str, effect: str) -> None:
    if changed:
        told = f"files are {what.format(sum(changed.values()))} ({_named(changed)}): {effect}"
        notes.warning(_SOURCE, told, len(changed))


def _named(names: Iterable[str]) -> str:
    every = sorted(names)
    rest = len(every) - _MAX_NAMED
    return ", ".join(every[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
