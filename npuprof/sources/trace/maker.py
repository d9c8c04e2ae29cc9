"""Build tables from the slices of a timeline: the part shared by timelines of NPUs and of torch's own profiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int32, Int64, Records
from npuprof.sources.columns.builders import GatheredColumns, recoded
from npuprof.sources.columns.steps import step_numbers
from npuprof.sources.trace.columns import LAST_THREAD, Trace
from npuprof.sources.trace.nesting import python_calls
from npuprof.tables.notes import Notes


@dataclass
class TraceTables:
    """The tables of a timeline, the lane of each row that flows can refer to, and additional frames."""

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    lanes: dict[str, Int32] = field(default_factory=dict)
    statistics: dict[str, pd.DataFrame] = field(default_factory=dict)


class TableMaker:
    """Builds tables of slices in :attr:`built`, sorted by time, with the lane of each row."""

    def __init__(self, trace: Trace, notes: Notes, source: str) -> None:
        self.trace, self.notes, self.source = trace, notes, source
        self.threads = thread_numbers(trace)
        self.built = TraceTables()

    def put(self, name: str, frame: pd.DataFrame, lane: Int32) -> Records:
        """Store a table sorted by time; return the order of its rows."""
        order: Records = np.lexsort((-frame["duration_ns"].to_numpy(), frame["start_ns"].to_numpy()))
        self.built.tables[name] = frame.iloc[order].reset_index(drop=True)
        self.built.lanes[name] = lane[order]
        self.notes.ledger.keep(self.source, name, len(frame))
        return order

    def steps(self, slices: GatheredColumns) -> Bools:
        """Build ``steps`` from the slices that a framework puts around its steps; return the mask of these slices."""
        numbers = step_numbers(enumerate(slices.names("name")), self.notes, self.source)
        is_selected: Bools = np.isin(slices["name"], list(numbers))
        if is_selected.any():
            step = pd.array([numbers[code] for code in slices["name"][is_selected].tolist()], dtype="Int64")
            frame = tables.build("steps", {"step": step, **span(slices, is_selected)})
            self.built.tables["steps"] = tables.sort_by_time(frame)
            self.notes.ledger.keep(self.source, "steps", len(frame))
        return is_selected

    def python(self, slices: GatheredColumns) -> None:
        """Build ``python``; in the file the root is its own parent, in the table it has none."""
        columns = {
            **span(slices),
            "name": names(slices, "name", change=_path_as_written),
            "thread_id": self.threads[slices["lane"]],
            **python_calls(slices["id"], slices["parent_id"], self.notes, self.source),
        }
        self.put("python", tables.build("python", columns), slices["lane"])


_LETTERS = str.maketrans({"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def _path_as_written(name: str) -> str:
    r"""Return the name of a Python call without control characters: ``C:\\temp`` that was written as ``C:\temp``."""
    return name if name.isprintable() else name.translate(_LETTERS)


def thread_numbers(trace: Trace) -> Int64:
    """Return the thread number of each lane; a thread without a valid number gets an unused one above all others.

    npuprof's own traces split a thread with crossing slices into several; the number in their name is used.
    """
    numbers = [_own_number(trace.threads.get(lane, "")) or _thread_number(lane[1]) for lane in trace.lanes]
    free = max((number for number in numbers if number is not None), default=0) + 1
    return np.array([free + row if number is None else number for row, number in enumerate(numbers)], np.int64)


_FURTHER = re.compile(r"(?:Thread|Stream) (\d{1,18}) \(\d{1,9}\)")


def _own_number(name: str) -> int | None:
    match = _FURTHER.fullmatch(name)
    return int(match[1]) if match else None


def _thread_number(tid: object) -> int | None:
    """Return a thread number, parsed if it is text; None if it is missing or too large."""
    if isinstance(tid, str) and len(tid) < 20 and tid.isascii() and tid.isdigit():
        tid = int(tid)
    return tid if isinstance(tid, int) and abs(tid) < LAST_THREAD else None


def span(slices: GatheredColumns, selected_records: Records | None = None) -> dict[str, Any]:
    """Return start and duration of the selected slices, or of all."""
    rows = slice(None) if selected_records is None else selected_records
    return {"start_ns": slices["start_ns"][rows], "duration_ns": slices["duration_ns"][rows]}


def names(
    slices: GatheredColumns,
    column: str,
    selected_records: Records | None = None,
    change: Callable[[str], str | None] | None = None,
) -> pd.Categorical:
    """Return a name column of the selected slices; `change` is applied once to each distinct text."""
    return used_names(
        slices[column] if selected_records is None else slices[column][selected_records], slices.names(column), change
    )


def used_names(
    codes: Records, texts: Sequence[str], change: Callable[[str], str | None] | None = None
) -> pd.Categorical:
    """Return a name column of codes into texts, without unused texts; `change` as for :func:`names`."""
    used = np.flatnonzero(np.bincount(codes + 1, minlength=len(texts) + 1)[1:])
    new_codes = np.full(len(texts) + 1, -1, np.int32)  # code -1 selects the last entry
    new_codes[used] = np.arange(len(used))
    used_texts = [texts[code] for code in used.tolist()]
    return recoded(new_codes[codes], [change(text) for text in used_texts] if change else list(used_texts))
