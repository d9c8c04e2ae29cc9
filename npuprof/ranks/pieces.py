"""One part of a run, read without the rest, in this process, another process or on another host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from npuprof import tables
from npuprof.ranks.tasks import unexpected
from npuprof.sources.base import Alone, PartName
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import Run
from npuprof.sources.registry import source_named

NoteRow: TypeAlias = tuple[str, str, str, int]
"""A note: severity, source, message and count."""

MATRIX = "communication_matrix"
_MAX_FILES = 1_000  # of a run whose changes are detected


@dataclass(frozen=True)
class PieceTask:
    """A part of a run to read: the name of its source, its path, the part, and its columns (empty for all)."""

    source: str
    path: Path
    part: PartName
    columns: tuple[str, ...] = ()


@dataclass
class Piece:
    """A part of a run: rows, notes, and the key of its files, which is empty if they changed during reading."""

    frame: pd.DataFrame
    notes: list[NoteRow]
    key: str


def key_of(source: str, path: Path, part: PartName) -> str | None:
    """Return a key that changes with the files of a part (names, sizes, times of change); None without such files.

    Raises
    ------
    OSError
        If the status of a file cannot be read.
    """
    part_files = _part_of(source, path, part)
    if part_files is None:
        return None
    states = [(file.name, file.stat()) for file in part_files.files]
    return "|".join(f"{name}:{state.st_size}:{state.st_mtime_ns}" for name, state in states)


def has_small_files(source: str) -> bool:
    """Return whether runs of a source have a file per part; otherwise reading a part means reading the whole run."""
    return source_named(source).alone is not None


def _part_of(source: str, path: Path, part: PartName) -> Alone | None:
    """Return how to read a part: alone where the format has a file of it, else with the run; None if its file lacks."""
    of_source = source_named(source)
    if of_source.alone is not None:
        return of_source.alone(path, part)
    files = [path] if path.is_file() else [file for file in islice(path.rglob("*"), _MAX_FILES) if file.is_file()]
    return Alone(tuple(sorted(files)), lambda: decode_run(Run(of_source, path)))


def read_pieces(tasks: Sequence[PieceTask]) -> list[Piece]:
    """Read parts of several runs; a failure in one is noted there, and the others are read."""
    return [_read(task) for task in tasks]


def lost_piece(task: PieceTask, fate: str) -> Piece:
    """Return the note on a part whose reading ended its process."""
    problem = f"{task.path} could not be read: {fate}; load it by itself to try again"
    return Piece(_nothing(task.part), [("error", task.part, problem, 1)], "")


def _read(task: PieceTask) -> Piece:
    try:
        return _read_alone(task)
    except Exception as error:  # noqa: BLE001 - a fault in reading one run must not lose the others
        return Piece(_nothing(task.part), [("error", task.part, unexpected(task.path, error), 1)], "")


def _read_alone(task: PieceTask) -> Piece:
    before = key_of(task.source, task.path, task.part)
    part_files = _part_of(task.source, task.path, task.part)
    if part_files is None:
        gone = f"{task.path} has no file of {task.part} any more: load the ranks again when whatever writes it is done"
        return Piece(_nothing(task.part), [("warning", task.part, gone, 1)], "")
    decoded = part_files.read()
    frame = (decoded.statistics if task.part == MATRIX else decoded.tables).get(task.part, _nothing(task.part))
    if task.columns:
        frame = frame[list(task.columns)]
    notes = [tuple(row) for row in decoded.notes.to_frame().itertuples(index=False)] if len(decoded.notes) else []
    if key_of(task.source, task.path, task.part) == before and before is not None:
        return Piece(frame, notes, before)
    changed = f"{task.path} changed while it was read: load the ranks again when whatever writes it is done"
    return Piece(frame, [*notes, ("warning", task.part, changed, 1)], "")


def _nothing(part: PartName) -> pd.DataFrame:
    return pd.DataFrame() if part == MATRIX else tables.empty(part)
