"""A saved profile: the tables of one run as Parquet files beside ``profile.json``."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources.base import Decoded
from npuprof.sources.files.room import refuse_too_large

FILE_NAME = "profile.json"
FORMAT = "npuprof-profile"
_MAX_BYTES = 64 << 20
_CELL_BYTES = 8


def recognises(path: Path) -> bool:
    """Tell whether `path` is a directory that ``Profile.save`` wrote."""
    return (path / FILE_NAME).is_file() and not (path / "recording.json").exists()


def read(path: Path) -> Decoded:
    """Read a saved profile.

    Raises
    ------
    SourceError
        If a file is missing, damaged or not one of ours.
    """
    try:
        with (path / FILE_NAME).open("rb") as file:
            plain = json.loads(file.read(_MAX_BYTES))
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise SourceError(f"{path / FILE_NAME} was not written by Profile.save: give another directory")
        decoded = Decoded(info=Info.from_dict(plain["info"]))
        decoded.tables = {name: _read_table(path, name) for name in tables.NAMES if _file(path, name).is_file()}
        decoded.notes = Notes.from_frame(pd.DataFrame(plain["notes"]))
        decoded.statistics = {
            file.stem: _read_frame(file) for file in sorted((path / "statistics").glob("*.parquet")) if file.is_file()
        }
    except (OSError, ValueError, KeyError, TypeError, RecursionError, NotImplementedError) as error:
        raise SourceError(f"{path} is a damaged profile ({error}): save it again from its recording") from error
    return decoded


def _read_table(path: Path, name: str) -> pd.DataFrame:
    stored = _read_frame(_file(path, name))
    # A name column without any name comes back as another dtype; whatever else differs is refused.
    frame = tables.build(name, {str(column): stored[column] for column in stored})
    tables.check(name, frame)
    return frame


def _read_frame(path: Path) -> pd.DataFrame:
    from pyarrow import parquet  # takes a while to import, and most runs come from elsewhere

    # Of rows that are all alike a file of a few bytes can hold any number.
    metadata = parquet.read_metadata(path)
    refuse_too_large(path, metadata.num_rows * metadata.num_columns * _CELL_BYTES)
    return pd.read_parquet(path)


def _file(path: Path, name: str) -> Path:
    return path / f"{name}.parquet"
