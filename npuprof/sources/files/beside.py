"""Several forms of one result in one place: only one of them is read, and what was left aside is told.

Source: formats/results.md section 5.4.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from npuprof.notes import Notes

_MAX_LISTED = 100_000
_MAX_NOTED = 40


def databases_in(folder: Path) -> list[Path]:
    """Give the databases in a folder, by name."""
    try:
        return sorted(entry for entry in islice(folder.iterdir(), _MAX_LISTED) if _is_database(entry))
    except OSError:
        return []


def note_databases(folder: Path, notes: Notes) -> None:
    """Tell which databases lie beside a text result that is read: both would count everything twice."""
    for path in databases_in(folder)[:_MAX_NOTED]:
        notes.info(
            path.name, "the text result beside it tells the same and is shown; load the file by itself to see it"
        )


def _is_database(path: Path) -> bool:
    return path.suffix == ".db" and path.is_file()
