"""Make tables of the slices of a timeline: what timelines of NPUs and of torch's own profiler share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int32, Int64, Records
from npuprof.notes import Notes
from npuprof.sources.columns.builders import Columns, recoded
from npuprof.sources.columns.steps import step_numbers
from npuprof.sources.trace.columns import LAST_THREAD, Trace
from npuprof.sources.trace.nesting import python_calls


@dataclass
class TraceTables:
    """The tables of one timeline, the lane of each row that flows can touch, and frames beside the tables."""

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    lanes: dict[str, Int32] = field(default_factory=dict)
    statistics: dict[str, pd.DataFrame] = field(default_factory=dict)


class TableMaker:
    """Makes tables of slices in :attr:`built`, sorted by time, with the lane of each row."""

    def __init__(self, trace: Trace, notes: Notes, source: str) -> None:
        self.trace, self.notes, self.source = trace, notes, source
        self.threads = thread_numbers(trace)
        self.built = TraceTables()

    def put(self, name: str, frame: pd.DataFrame, lane: Int32) -> Records:
        """Keep a table in order of time; return that order."""
        order: Records = np.lexsort((-frame["duration_ns"].to_numpy(), frame["start_ns"].to_numpy()))
        self.built.tables[name] = frame.iloc[order].reset_index(drop=True)
        self.built.lanes[name] = lane[order]
        self.notes.ledger.keep(self.source, name, len(frame))
        return order

    def steps(self, slices: Columns) -> Bools:
        """Make ``steps`` of the slices that a framework puts around its steps; return which slices they are."""
        numbers = step_numbers(enumerate(slices.names("name")), self.notes, self.source)
        chosen: Bools = np.isin(slices["name"], list(numbers))
        if chosen.any():
            step = pd.array([numbers[code] for code in slices["name"][chosen].tolist()], dtype="Int64")
            frame = tables.build("steps", {"step": step, **span(slices, chosen)})
            self.built.tables["steps"] = tables.sort_by_time(frame)
            self.notes.ledger.keep(self.source, "steps", len(frame))
        return chosen

    def python(self, slices: Columns) -> None:
        """Make ``python``; the root is its own parent in the file, and has none in the table."""
        columns = {
            **span(slices),
            "name": names(slices, "name"),
            "thread_id": self.threads[slices["lane"]],
            **python_calls(slices["id"], slices["parent_id"], self.notes, self.source),
        }
        self.put("python", tables.build("python", columns), slices["lane"])


def thread_numbers(trace: Trace) -> Int64:
    """Return the thread number of each lane; a thread without a valid number gets a free one above all others.

    npuprof's own traces have several threads for the slices of one that cross; their name has its number.
    """
    numbers = [_own_number(trace.threads.get(lane, "")) or _thread_number(lane[1]) for lane in trace.lanes]
    free = max((number for number in numbers if number is not None), default=0) + 1
    return np.array([free + row if number is None else number for row, number in enumerate(numbers)], np.int64)


_FURTHER = re.compile(r"(?:Thread|Stream) (\d{1,18}) \(\d{1,9}\)")


def _own_number(name: str) -> int | None:
    match = _FURTHER.fullmatch(name)
    return int(match[1]) if match else None


def _thread_number(tid: object) -> int | None:
    """Return the number of a thread, also one that is written as text; None for none, and for one that is too large."""
    if isinstance(tid, str) and len(tid) < 20 and tid.isascii() and tid.isdigit():
        tid = int(tid)
    return tid if isinstance(tid, int) and abs(tid) < LAST_THREAD else None


def span(slices: Columns, chosen: Records | None = None) -> dict[str, Any]:
    """Return start and duration of the chosen slices, or of all."""
    rows = slice(None) if chosen is None else chosen
    return {"start_ns": slices["start_ns"][rows], "duration_ns": slices["duration_ns"][rows]}


def names(
    slices: Columns, column: str, chosen: Records | None = None, change: Callable[[str], str | None] | None = None
) -> pd.Categorical:
    """Return a name column of the chosen slices; `change` is applied to each distinct text once."""
    return used_names(slices[column] if chosen is None else slices[column][chosen], slices.names(column), change)


def used_names(
    codes: Records, texts: Sequence[str], change: Callable[[str], str | None] | None = None
) -> pd.Categorical:
    """Return a name column of codes into texts, without those that no code refers to; `change` as for :func:`names`."""
    used = np.flatnonzero(np.bincount(codes + 1, minlength=len(texts) + 1)[1:])
    new_codes = np.full(len(texts) + 1, -1, np.int32)  # code -1 takes the last entry
    new_codes[used] = np.arange(len(used))
    used_texts = [texts[code] for code in used.tolist()]
    return recoded(new_codes[codes], [change(text) for text in used_texts] if change else list(used_texts))
