"""How much a recording holds while it is being made, from the sizes of its files alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

_MOST_ENTRIES = 2000  # of one look: some milliseconds
_DEEPEST = 6

# Bytes of a record, by what a stream's name holds. Source: raw/FORMAT.md sections 3 to 5.
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
    """What was found.

    Attributes
    ----------
    size_bytes
        Bytes on disk.
    records
        Records in the streams whose records have one size; what is written in another form has none.
    at_least
        Whether there were more files than one look takes in.
    """

    size_bytes: int = 0
    records: int = 0
    at_least: bool = False


def measure(directory: Path) -> Growth:
    """Look at the files below a directory, without opening any; links are not followed.

    What cannot be looked at, or has gone meanwhile, counts as nothing.
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
                        found = entry.stat(follow_symlinks=False).st_size
                        size += found
                        records += found // _record_bytes(entry.name)
        except OSError:
            continue
    return Growth(size, records, seen >= _MOST_ENTRIES)


def _record_bytes(name: str) -> int:
    """Return the size of a file's records; more than any file has where they have none."""
    if not any(word in name for word in _NOT_RECORDS):
        for word, size in _RECORD_BYTES:
            if word in name:
                return size
    return 1 << 62


_MOST = 50
_MOST_LOOKED_AT = 5000
_RESULT_SUFFIXES = (".json", ".json.gz", ".csv", ".db", ".zip")


def complete(typed: str) -> list[str]:
    """Return paths that begin with what was typed, directories first, with a slash at their end.

    Parameters
    ----------
    typed
        The beginning of a path; ``~`` is the home directory; a relative one starts in the working directory.

    Returns
    -------
    At most 50 paths, as the user would go on typing them. Hidden names come only after a dot was typed.
    """
    folder, name = os.path.split(typed)
    if "\0" in typed:
        return []
    try:
        place = Path(folder or ".").expanduser()
        with os.scandir(place) as entries:
            found = [
                (not entry.is_dir(), entry.name)
                for entry in islice(entries, _MOST_LOOKED_AT)
                if entry.name.startswith(name)
                and (name.startswith(".") or not entry.name.startswith("."))
                and (entry.is_dir() or entry.name.endswith(_RESULT_SUFFIXES))
            ]
    except (OSError, RuntimeError):  # RuntimeError: nobody knows whose home ~name is
        return []
    return [os.path.join(folder, entry) + ("" if is_file else "/") for is_file, entry in sorted(found)[:_MOST]]  # noqa: PTH118
