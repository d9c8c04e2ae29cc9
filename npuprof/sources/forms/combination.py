"""Read the forms of a run: the text result, the database if the text lacks a table, raw data if both lack it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded
from npuprof.sources.database.layout import DatabaseFiles
from npuprof.sources.database.result import DatabaseReading
from npuprof.sources.forms.database_preview import holds_more
from npuprof.sources.forms.discovery import Forms
from npuprof.sources.forms.merge import ResultForm, join

_TEXT, _RAW = "the text result", "the raw data"
_NEEDED = ("api", "tasks", "kernels")  # tables that every run on a device has


def read_forms(path: Path, forms: Forms | None) -> Decoded:
    """Read the forms, each only if needed."""
    if forms is None:
        raise SourceError(f"{path} no longer holds a result; give the directory of a result")
    parts: list[ResultForm] = []
    failed: list[tuple[str, SourceError]] = []

    def attempt(name: str, form: str, read: Callable[[], Decoded]) -> None:
        try:
            parts.append(ResultForm(name, form, read()))
        except SourceError as error:
            failed.append((name, error))

    skipped = ""
    if forms.text is not None:
        attempt(_TEXT, "text", forms.text)
    if (layout := forms.database) is not None:
        if parts and not holds_more(layout, parts[0].decoded):
            skipped = _name(layout)
        else:
            attempt(_name(layout), "db", DatabaseReading(layout).run)
    lacking = [name for name in _NEEDED if not any(len(part.decoded.tables.get(name, ())) for part in parts)]
    if forms.raw is not None and lacking:
        attempt(_RAW, "raw", forms.raw)
    if not parts:
        raise failed[0][1]
    decoded = join(parts)
    for name, error in failed:
        decoded.notes.error(name, str(error))
    if skipped:
        decoded.notes.info(
            skipped,
            "not read: it has no table that the text result lacks, nor far more rows of a table; source='db' shows it",
        )
    return decoded


def _name(layout: DatabaseFiles) -> str:
    return (*layout.profile, *layout.analysis)[0].name
