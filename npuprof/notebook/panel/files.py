"""File access of the panel: the size of a growing recording, and completion of paths."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

_MOST_ENTRIES = 2000  # keeps a measurement within some milliseconds
_DEEPEST = 6

# Record sizes by parts of the stream's name. Source: raw/FORMAT.md sections 3 to 5.
_RECORD_BYTES = (
    ("api_event", 40),
    (".compact.", 64),
    (".additional.", 256),
    ("stars_soc.data", 64),
    ("ts_track.data", 40),
    ("ffts_profile.data", 128),
)
_NOT_RECORDS = ("_dic.", ".done", ".complete")


@dataclass(frozen=True)
class Growth:
    """The size of a recording."""

    size_bytes: int = 0  # bytes on disk
    records: int = 0  # the number of records in streams with fixed-size records
    at_least: bool = False  # whether the directory had more files than were measured


def measure(directory: Path) -> Growth:
    """Return the size of the files below a directory, without opening them or following links.

    Unreadable or vanished files count as empty.
    """
    size = records = seen = 0
    folders = [(str(directory), 0)]
    while folders and seen < _MOST_ENTRIES:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen >= _MOST_ENTRIES:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        if depth < _DEEPEST:
                            folders.append((entry.path, depth + 1))
                    elif entry.is_file(follow_symlinks=False):
                        file_bytes = entry.stat(follow_symlinks=False).st_size
                        size += file_bytes
                        records += file_bytes // _record_bytes(entry.name)
        except OSError:
            continue
    return Growth(size, records, seen >= _MOST_ENTRIES)


def _record_bytes(name: str) -> int:
    """Return the record size of a file; a huge number if its records have no fixed size."""
    if not any(word in name for word in _NOT_RECORDS):
        for word, size in _RECORD_BYTES:
            if word in name:
                return size
    return 1 << 62


_MOST = 50
_MOST_LOOKED_AT = 5000
_RESULT_SUFFIXES = (".json", ".json.gz", ".csv", ".db", ".zip")


def complete(typed: str) -> list[str]:
    """Return up to 50 paths that begin with the typed text, directories first and with a slash.

    ``~`` is the home directory; hidden names are listed only after a dot.
    """
    folder, name = os.path.split(typed)
    if "\0" in typed:
        return []
    try:
        place = Path(folder or ".").expanduser()
        with os.scandir(place) as entries:
            matches = [
                (not entry.is_dir(), entry.name)
                for entry in islice(entries, _MOST_LOOKED_AT)
                if entry.name.startswith(name)
                and (name.startswith(".") or not entry.name.startswith("."))
                and (entry.is_dir() or entry.name.endswith(_RESULT_SUFFIXES))
            ]
    except (OSError, RuntimeError):  # RuntimeError: ~name is not a known user
        return []
    return [os.path.join(folder, entry) + ("" if is_file else "/") for is_file, entry in sorted(matches)[:_MOST]]  # noqa: PTH118
