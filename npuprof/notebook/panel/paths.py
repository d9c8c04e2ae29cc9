"""Completion of a path that is being typed: directories, and files that could be results."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

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
