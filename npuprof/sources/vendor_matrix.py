"""Read the vendor's matrix of communication without the tables of its run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pandas as pd

from npuprof.errors import SourceError
from npuprof.sources.database.analyzer import communication_statistics
from npuprof.sources.database.connection import open_database
from npuprof.sources.database.reader import Reader
from npuprof.sources.global_ranks import MATRIX
from npuprof.sources.msprof.layout import ANALYZED
from npuprof.sources.result_folder.layout import OUTPUT
from npuprof.sources.text.communication_json import read_communication_matrix
from npuprof.tables.notes import Notes

_MAX_BYTES = 64 << 20
_MATRICES = [
    f"{folder}{name}"
    for folder in ("", f"{OUTPUT}/", f"{ANALYZED}/")
    for name in (
        "communication_matrix.json",
        "communication_matrix.json.gz",
        "analysis.db",
        "communication_analyzer.db",
    )
]


def vendor_matrix(path: Path) -> dict[str, pd.DataFrame]:
    """Return the vendor's ``communication_matrix`` of a run, under that name; empty if there is none."""
    for name in _MATRICES:
        file = path / name
        with suppress(SourceError, OSError):
            if not file.is_file() or file.stat().st_size > _MAX_BYTES:
                continue
            if file.suffix != ".db":
                return {MATRIX: read_communication_matrix(file, Notes())}
            with open_database(file, Notes()) as database:
                frames = communication_statistics(Reader(database))
            return {name: frame for name, frame in frames.items() if name == MATRIX}
    return {}
