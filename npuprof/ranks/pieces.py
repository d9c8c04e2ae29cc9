"""One part of a run, read without the rest, in this process, another process or on another host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from npuprof import tables
from npuprof.ranks.tasks import unexpected
from npuprof.sources.base import PARTS, PartName, PartReader
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import DetectedResult
from npuprof.sources.registry import source_named
from npuprof.tables.notes import Notes

NoteRow: TypeAlias = tuple[str, str, str, int]
"""A note: severity, source, message and count."""

MATRIX = "communication_matrix"
_MAX_FILES = 1_000  # maximum number of files of a run in which changes are detected


@dataclass(frozen=True)
class PieceTask:
    """Parts of a run to read: the name of its source, its path, and the columns of each part; none are all."""

    source: str
    path: Path
    wanted: Mapping[PartName, tuple[str, ...]]


@dataclass
class Piece:
    """A part of a run: rows, notes, and the key of its files, which is empty if they changed during reading."""

    frame: pd.DataFrame
    notes: list[NoteRow]
    key: str


Pieces: TypeAlias = dict[PartName, Piece]
"""Parts of one run."""


def keys_of_run(source: str, path: Path) -> dict[PartName, str]:
    """Return a key that changes with the files of each part of a run: their names, sizes and modification times."""
    return _keys_of(_parts_of(source, path))


def _keys_of(parts: Mapping[PartName, PartReader]) -> dict[PartName, str]:
    known: dict[Path, str] = {}  # several parts are of one file
    return {part: _key_of(files, known) for part, files in parts.items()}


def _key_of(part: PartReader, known: dict[Path, str]) -> str:
    for file in part.files:
        if file not in known:
            state = file.stat()
            known[file] = f"{file.name}:{state.st_size}:{state.st_mtime_ns}"
    return "|".join(known[file] for file in part.files)


def has_small_files(source: str) -> bool:
    """Return whether runs of a source have a file per part; otherwise reading a part means reading the whole run."""
    return source_named(source).has_small_files


def _parts_of(source: str, path: Path) -> Mapping[PartName, PartReader]:
    """Return how to read the parts of a run: from the files of its format, or every part with the whole run."""
    of_source = source_named(source)
    if of_source.has_small_files:
        parts = of_source.parts(path)
        return {name: parts[name] for name in PARTS if name in parts}
    files = [path] if path.is_file() else [file for file in islice(path.rglob("*"), _MAX_FILES) if file.is_file()]

    def read(notes: Notes, _columns: Collection[str]) -> Mapping[str, pd.DataFrame]:
        decoded = decode_run(DetectedResult(of_source, path))
        notes.extend(decoded.notes)
        return {**decoded.statistics, **decoded.tables}

    return dict.fromkeys(PARTS, PartReader(read, tuple(sorted(files))))


def read_pieces(tasks: Sequence[PieceTask]) -> list[Pieces]:
    """Read parts of several runs; a run with a problem has a note, and the others are read."""
    return [_read(task) for task in tasks]


def lost_pieces(task: PieceTask, fate: str) -> Pieces:
    """Return the failed parts of a run whose reading ended the process, with the reason."""
    return _failed(task, f"{task.path} could not be read: {fate}; load it by itself to try again")


def _failed(task: PieceTask, problem: str) -> Pieces:
    return {part: Piece(_nothing(part), [("error", part, problem, 1)], "") for part in task.wanted}


def _read(task: PieceTask) -> Pieces:
    try:
        return _read_alone(task)
    except Exception as error:  # noqa: BLE001 - a fault in reading one run must not lose the others
        return _failed(task, unexpected(task.path, error))


def _read_alone(task: PieceTask) -> Pieces:
    parts = _parts_of(task.source, task.path)
    before = _keys_of(parts)
    pieces = {part: _read_part(task, part, parts.get(part)) for part in task.wanted}
    after = keys_of_run(task.source, task.path)
    for part, piece in pieces.items():
        if part in parts and after.get(part) == before[part]:
            piece.key = before[part]
        elif part in parts:
            changed = f"{task.path} changed while it was read: load the ranks again when whatever writes it is done"
            piece.notes.append(("warning", part, changed, 1))
    return pieces


def _read_part(task: PieceTask, name: PartName, part: PartReader | None) -> Piece:
    if part is None:
        gone = f"{task.path} has no file of {name} any more: load the ranks again when whatever writes it is done"
        return Piece(_nothing(name), [("warning", name, gone, 1)], "")
    notes = Notes()
    try:
        frame = part.read(notes, task.wanted[name]).get(name, _nothing(name))
    except Exception as error:  # noqa: BLE001 - a fault in reading one part must not lose the others
        return Piece(_nothing(name), [("error", name, unexpected(task.path, error), 1)], "")
    if task.wanted[name]:
        frame = frame[list(task.wanted[name])]
    plain = notes.to_frame()[["severity", "source", "message", "count"]] if len(notes) else pd.DataFrame()
    return Piece(frame, [tuple(row) for row in plain.itertuples(index=False)], "")


def _nothing(part: PartName) -> pd.DataFrame:
    return pd.DataFrame() if part == MATRIX else tables.empty(part)
