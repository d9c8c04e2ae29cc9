"""A saved profile: the tables of a run as Parquet files, listed in ``profile.json``."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.files import atomic
from npuprof.files.small_files import convert, read_fields, read_json
from npuprof.sources.base import Decoded, Source
from npuprof.sources.files.memory_limit import refuse_too_large
from npuprof.sources.lazy_tables import LazyTables, Make
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted
from npuprof.words.texts import encodable

FILE_NAME = "profile.json"
FORMAT = "npuprof-profile"
_VERSION = 2  # version 1 had no list of files
_MAX_BYTES = 64 << 20
_CELL_BYTES = 8
_PART_BYTES = 1 << 20
_STATISTICS = "statistics"
_NOT_IN_A_NAME = re.compile(r"[^\w.() -]|^\.+")
_MAX_NAME = 60
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _File(msgspec.Struct):
    """The description of a Parquet file; `statistic` is the name of a table of the vendor's sums."""

    rows: _Count
    sha256: str
    statistic: str | None = None


class _Notes(msgspec.Struct):
    """The notes, as columns."""

    severity: list[Literal["info", "warning", "error"]]
    source: list[str]
    message: list[str]
    count: list[_Count]
    lacks: list[str] | None = None
    missing_rows: list[_Count] | None = None


class _Contents(msgspec.Struct):
    """Contents of ``profile.json``; `files` are listed by their path in the profile."""

    version: int
    info: dict[str, Any]
    notes: _Notes
    files: dict[str, _File] | None = None


def recognises(path: Path) -> bool:
    """Return whether `path` is a directory that ``Profile.save`` wrote."""
    return (path / FILE_NAME).is_file() and not (path / "recording.json").exists()


def write(path: Path, decoded: Decoded) -> None:
    """Write a profile atomically: either the whole directory is on disk, or none of it."""
    frames = {f"{name}.parquet": frame for name, frame in decoded.tables.items() if len(frame)}
    names: dict[str, str] = {}
    for name in decoded.statistics:
        names[name] = _unlike(_NOT_IN_A_NAME.sub("_", name)[:_MAX_NAME] or "_", names.values())
    called = {f"{_STATISTICS}/{file}.parquet": name for name, file in names.items()}
    frames |= {file: decoded.statistics[name] for file, name in called.items()}
    files = {}
    with atomic.new_directory(path) as add:
        for name, frame in frames.items():
            content = _parquet(frame)
            files[name] = {"rows": len(frame), "sha256": sha256(content).hexdigest(), "statistic": called.get(name)}
            with add(name) as file:
                file.write(content)
        notes = decoded.notes.to_frame().fillna({"missing_rows": 0}).to_dict("list")
        plain = {
            "format": FORMAT,
            "version": _VERSION,
            "info": decoded.info.to_dict(),
            "notes": notes,
            "files": files,
        }
        with add(FILE_NAME) as file:
            file.write(json.dumps(plain, indent=1).encode())


def _parquet(frame: pd.DataFrame) -> bytes:
    """Return a table as Parquet; columns of mixed types, as in damaged files, are stored as text."""
    stored: bytes
    try:
        stored = frame.to_parquet()
    except (ValueError, TypeError, OverflowError):  # base class of Arrow's and of encoding errors
        columns: dict[str, Any] = {}
        for number, name in enumerate(frame.columns):
            column = frame.iloc[:, number]
            texts = column.map(_text, na_action="ignore") if column.dtype == object else column
            columns[_unlike(encodable(str(name)), columns)] = texts
        stored = pd.DataFrame(columns).to_parquet()
    return stored


def _text(value: Any) -> str:
    return encodable(value if isinstance(value, str) else str(value))


def _unlike(name: str, taken: Container[str]) -> str:
    """Return a name made unique by a number."""
    names = chain([name], (f"{name} ({number})" for number in count(2)))
    return next(name for name in names if name not in taken)


def read(path: Path) -> Decoded:
    """Open a saved profile and check its files; each table is read from its file when it is touched."""
    with _telling_damage(path, "save it again from its recording"):
        contents = _contents(path)
        notes = Notes.from_frame(pd.DataFrame(msgspec.to_builtins(contents.notes)))
        frames = LazyTables(notes)
        decoded = Decoded(frames, _info(contents, notes), notes)
        for name, expected in _files(path, contents, notes).items():
            if name.parent.name == _STATISTICS:
                called = expected.statistic if expected else None
                decoded.statistics[name.stem if called is None else called] = _read_frame(path, name, expected)
            else:
                with _checked(path, name, expected):
                    pass  # a file that is damaged already is told now
                frames.later(name.stem, _table_of(path, name, expected, notes))
    return decoded


def _table_of(path: Path, name: PurePath, expected: _File | None, notes: Notes) -> Make:
    folder = path.absolute()  # the working directory may change before the table is touched

    def make() -> pd.DataFrame:
        with _telling_damage(path, "save it again from its recording, or load it again if it was replaced meanwhile"):
            frame = _as_table(name.stem, _read_frame(folder, name, expected))
        notes.ledger.read(name.name, len(frame))
        notes.ledger.keep(name.name, name.stem, len(frame))
        return frame

    return make


def describe(path: Path) -> Info:
    """Return the facts of a saved profile without reading its tables."""
    with _telling_damage(path, "save it again from its recording"):
        return _info(_contents(path), Notes())


@contextmanager
def _telling_damage(path: Path, advice: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, RecursionError, NotImplementedError) as error:
        raise SourceError(f"{path} is a damaged profile ({error}): {advice}") from error


def _contents(path: Path) -> _Contents:
    plain = read_json(path / FILE_NAME, _MAX_BYTES)
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise SourceError(f"{path / FILE_NAME} was not written by Profile.save: give another directory")
    contents: _Contents = convert(plain, _Contents)
    if contents.version > _VERSION:
        raise SourceError(f"{path} was saved by a newer npuprof: update this one to open it")
    return contents


def _info(contents: _Contents, notes: Notes) -> Info:
    values, problems = read_fields(Info, contents.info)
    for problem in problems:
        notes.warning(FILE_NAME, f"{problem}, and is left out")
    return Info(**values)


def _files(path: Path, contents: _Contents, notes: Notes) -> Mapping[PurePath, _File | None]:
    """Return the description of each Parquet file, by its path in the profile."""
    known = {PurePath(f"{name}.parquet") for name in tables.NAMES}
    there = {name for name in known if (path / name).is_file()}
    there |= {file.relative_to(path) for file in (path / _STATISTICS).glob("*.parquet")}
    if contents.version < _VERSION:
        notes.warning(FILE_NAME, "an earlier npuprof saved this without a list of its files: one may be missing")
        return dict.fromkeys(sorted(there))
    if contents.files is None:
        raise ValueError(f"{FILE_NAME} lists no files")
    listed = {PurePath(name): file for name, file in contents.files.items()}
    for name in listed:
        if name not in known and (len(name.parts) != 2 or name.parts[0] != _STATISTICS or name.suffix != ".parquet"):
            raise ValueError(f"{FILE_NAME} lists {name}, which is no file of a profile")
    for name in sorted(there - listed.keys()):
        notes.warning(str(name), "not in the list of the profile's files; left out")
    return listed


def _read_frame(path: Path, name: PurePath, expected: _File | None) -> pd.DataFrame:
    with _checked(path, name, expected) as opened:
        return pd.read_parquet(opened)


@contextmanager
def _checked(path: Path, name: PurePath, expected: _File | None) -> Iterator[BinaryIO]:
    """Open a file that is as it was saved, and not too large."""
    from pyarrow import PythonFile, parquet  # slow to import, and most runs come from elsewhere

    file = path / name
    if not file.is_file():
        raise ValueError(f"{name} is missing")
    refuse_too_large(file, file.stat().st_size)
    with file.open("rb") as opened:
        if expected and _checksum(opened) != expected.sha256:
            raise ValueError(f"{name} is not as it was saved")
        # A file of a few bytes can hold any number of equal rows.
        metadata = parquet.read_metadata(PythonFile(opened, "r"))
        if expected and metadata.num_rows != expected.rows:
            raise ValueError(f"{name} has {counted(metadata.num_rows, 'row')}, not {expected.rows}")
        refuse_too_large(file, metadata.num_rows * metadata.num_columns * _CELL_BYTES)
        opened.seek(0)
        yield opened


def _checksum(opened: BinaryIO) -> str:
    """Return the checksum of a file, read in parts, and rewind it."""
    summed = sha256()
    while part := opened.read(_PART_BYTES):
        summed.update(part)
    opened.seek(0)
    return summed.hexdigest()


def _as_table(name: str, stored: pd.DataFrame) -> pd.DataFrame:
    # A name column without any name is read back with another dtype; any other difference is refused.
    nameless = [column for column in stored if stored[column].dtype == object and stored[column].isna().all()]
    named = stored.astype(dict.fromkeys(nameless, "category"))
    frame = tables.build(name, {str(column): named[column] for column in named})
    tables.check(name, frame)
    return frame


SOURCE = Source("saved", (None, "parsed"), recognises, read, describe=describe, is_complete=True)
