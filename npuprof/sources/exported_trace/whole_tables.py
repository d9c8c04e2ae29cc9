"""The tables of a run whose rows were gathered: each row once, in order, and row numbers that exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, Records, first_rows
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.exported_trace.growing_table import GrowingTable
from npuprof.sources.exported_trace.head import Head, info_of, notes_of
from npuprof.sources.trace.nesting import call_depth
from npuprof.tables.notes import Notes
from npuprof.tables.schema import SCHEMA


@dataclass(frozen=True)
class Gathered:
    """The rows of a run."""

    rows: dict[str, GrowingTable] = field(default_factory=dict)  # those of each table that have a number in the file
    drawn: dict[str, GrowingTable] = field(default_factory=dict)  # the samples that viewers draw, which have none
    statistics: dict[str, GrowingTable] = field(default_factory=dict)  # those of the vendor's sums


def decoded_run(head: Head, path: Path, gathered: Gathered, file_notes: Notes) -> Decoded:
    """Return a run of a trace."""
    notes = notes_of(head)
    notes.extend(file_notes)
    decoded = Decoded(_tables(head, path, gathered, notes), info_of(head, path, notes), notes)
    for name, frame in decoded.tables.items():
        lost = head.tables[name].rows - len(frame)
        message = "a row is missing, since the trace was cut or edited after it was written: sums are too low"
        _note(notes, path, name, message, lost)
        notes.ledger.make(path.name, name, len(frame))
    for name, growing in gathered.statistics.items():
        places, _ = _numbered(name, growing, path, notes)
        decoded.statistics[name] = pd.DataFrame(growing.columns(places))
        _note(notes, path, name, "a row is missing", head.statistics[name].rows - len(places))
    notes.info(
        path.name, "a Chrome trace holds the tables, facts and notes of a run, but not the files that it was read of"
    )
    return decoded


def _tables(head: Head, path: Path, gathered: Gathered, notes: Notes) -> dict[str, pd.DataFrame]:
    frames: dict[str, pd.DataFrame] = {}
    numbers: dict[str, Int64] = {}
    for name, growing in gathered.rows.items():
        required = [column.name for column in SCHEMA[name].columns if column.kind == "int"]
        places, numbers[name] = _numbered(name, growing, path, notes, required)
        frames[name] = tables.build(name, growing.columns(places))
        if name in gathered.drawn:
            count = head.tables[name].rows
            frames[name] = _with_drawn(frames[name], numbers[name], gathered.drawn[name], count)
            numbers[name] = np.arange(len(frames[name]))
    if "communication_tasks" in frames:
        operators = frames["communication_tasks"]["op_id"].to_numpy(np.int64, na_value=ABSENT)
        placed = first_rows(numbers.get("communication", np.empty(0, np.int64)), operators)
        lost = int(((placed < 0) & (operators != ABSENT)).sum())
        _note(notes, path, "communication_tasks", "a task is of no operator", lost)
        frames["communication_tasks"]["op_id"] = optional(np.where(placed < 0, ABSENT, placed))
    if "links" in frames:
        frames["links"] = _between_rows(frames["links"], numbers, notes, path)
    if "python" in frames:
        _cut_cycles(frames["python"], notes, path)
    return frames


def _note(notes: Notes, path: Path, name: str, message: str, count: int) -> None:
    if count > 0:
        notes.warning(path.name, f"{name}: {message}", count)


def _numbered(
    name: str, growing: GrowingTable, path: Path, notes: Notes, required: Sequence[str] = ()
) -> tuple[Records, Int64]:
    """Return the places of the rows in the order of their numbers, each once, and the numbers.

    Rows without a value in a `required` column are left out.
    """
    numbers = growing.numbers()
    order = np.argsort(numbers, kind="stable")
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.diff(numbers[order]) != 0
    _note(notes, path, name, "a row is in the file more than once; counted once", int((~is_first).sum()))
    places = order[is_first & (numbers[order] != ABSENT)]
    sound = np.all([np.ones(len(places), np.bool_), *(growing.has(column, places) for column in required)], axis=0)
    if "duration_ns" in required:
        sound &= growing.columns(places)["duration_ns"] >= 0
    return places[sound], numbers[places[sound]]


def _with_drawn(undrawn: pd.DataFrame, numbers: Int64, growing: GrowingTable, count: int) -> pd.DataFrame:
    """Return all samples: those that viewers draw are in the file in order, and take the numbers that are left."""
    places = np.flatnonzero(growing.has("time_ns", np.arange(len(growing)))) if len(growing) else np.empty(0, np.intp)
    drawn = pd.DataFrame(growing.columns(places))
    whole = stacked([frame for frame in (drawn, undrawn) if len(frame)] or [undrawn])
    free = np.setdiff1d(np.arange(count), numbers)
    if len(free) != len(drawn) or len(whole) != count:
        return tables.sort_by_time(whole)  # some are missing
    return whole.iloc[np.argsort(np.concatenate([free, numbers]))].reset_index(drop=True)


def _between_rows(links: pd.DataFrame, numbers: Mapping[str, Int64], notes: Notes, path: Path) -> pd.DataFrame:
    """Return the links whose two ends are rows, with the rows' places."""
    columns: dict[str, Any] = {}
    for end in ("source", "target"):
        names, wanted = links[f"{end}_table"].astype(object).to_numpy(), links[f"{end}_row"].to_numpy(np.int64)
        placed = np.full(len(links), -1, np.int64)
        for name, known in numbers.items():
            at = names == name
            placed[at] = first_rows(known, wanted[at])
        columns[f"{end}_row"] = placed
    is_kept = np.all([placed >= 0 for placed in columns.values()], axis=0)
    _note(notes, path, "links", "a link has an end that is no row; left out", int((~is_kept).sum()))
    return links.assign(**columns)[is_kept].reset_index(drop=True)


def _cut_cycles(python: pd.DataFrame, notes: Notes, path: Path) -> None:
    """Remove the parents of calls that are their own ancestors, in place."""
    parents = python["parent_id"].to_numpy(np.int64, na_value=ABSENT)
    depth, cycles = call_depth(python["id"].to_numpy(np.int64), parents)
    if cycles:
        _note(notes, path, "python", "a call is its own ancestor; its parent is left out", cycles)
        python["parent_id"] = optional(np.where(depth < 0, ABSENT, parents))
