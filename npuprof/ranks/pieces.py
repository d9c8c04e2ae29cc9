"""One part of a run, read alone, here or in another process or on another host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from npuprof import tables
from npuprof.ranks.tasks import unexpected
from npuprof.sources.base import PartName
from npuprof.sources.registry import source_named

Told: TypeAlias = tuple[str, str, str, int]
"""A note: severity, source, message and count."""

MATRIX = "communication_matrix"


@dataclass(frozen=True)
class PieceTask:
    """A part of a run to read: the name of its source, its path, the part, and its columns; none are all."""

    source: str
    path: Path
    part: PartName
    columns: tuple[str, ...] = ()


@dataclass
class Piece:
    """A part of a run: rows, notes, and the key of its files, which is empty if they changed while they were read."""

    frame: pd.DataFrame
    notes: list[Told]
    key: str


def key_of(source: str, path: Path, part: PartName) -> str | None:
    """Return what changes with the files of a part: names, sizes and times of change; None if it has no such files.

    Raises
    ------
    OSError
        If a file cannot be looked at.
    """
    of_part = source_named(source).alone
    part_files = None if of_part is None else of_part(path, part)
    if part_files is None:
        return None
    states = [(file.name, file.stat()) for file in part_files.files]
    return "|".join(f"{name}:{state.st_size}:{state.st_mtime_ns}" for name, state in states)


def read_pieces(tasks: Sequence[PieceTask]) -> list[Piece]:
    """Read parts of several runs; whatever is wrong with one is noted there, and the others are read."""
    return [_read(task) for task in tasks]


def lost_piece(task: PieceTask, fate: str) -> Piece:
    """Return what is known of a part whose reading ended the process: why."""
    problem = f"{task.path} could not be read: {fate}; load it by itself to try again"
    return Piece(_nothing(task.part), [("error", task.part, problem, 1)], "")


def _read(task: PieceTask) -> Piece:
    try:
        return _read_alone(task)
    except Exception as error:  # noqa: BLE001 - a fault in reading one run must not lose the others
        return Piece(_nothing(task.part), [("error", task.part, unexpected(task.path, error), 1)], "")


def _read_alone(task: PieceTask) -> Piece:
    before = key_of(task.source, task.path, task.part)
    of_part = source_named(task.source).alone
    part_files = None if of_part is None else of_part(task.path, task.part)
    if part_files is None:
        gone = f"{task.path} has no file of {task.part} any more: load the ranks again when whatever writes it is done"
        return Piece(_nothing(task.part), [("warning", task.part, gone, 1)], "")
    decoded = part_files.read()
    frame = (decoded.statistics if task.part == MATRIX else decoded.tables).get(task.part, _nothing(task.part))
    if task.columns:
        frame = frame[list(task.columns)]
    notes = [tuple(row) for row in decoded.notes.to_frame().itertuples(index=False)]
    if key_of(task.source, task.path, task.part) == before and before is not None:
        return Piece(frame, notes, before)
    changed = f"{task.path} changed while it was read: load the ranks again when whatever writes it is done"
    return Piece(frame, [*notes, ("warning", task.part, changed, 1)], "")


def _nothing(part: PartName) -> pd.DataFrame:
    return pd.DataFrame() if part == MATRIX else tables.empty(part)
