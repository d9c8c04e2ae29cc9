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

FILE_NAME = "profile.json"
FORMAT = "npuprof-profile"
_MAX_BYTES = 64 << 20


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
            file.stem: pd.read_parquet(file) for file in sorted((path / "statistics").glob("*.parquet"))
        }
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SourceError(f"{path} is a damaged profile ({error}): save it again from its recording") from error
    return decoded


def _read_table(path: Path, name: str) -> pd.DataFrame:
    stored = pd.read_parquet(_file(path, name))
    # A name column without any name comes back as another dtype; whatever else differs is refused.
    frame = tables.build(name, {str(column): stored[column] for column in stored})
    tables.check(name, frame)
    return frame


def _file(path: Path, name: str) -> Path:
    return path / f"{name}.parquet"
