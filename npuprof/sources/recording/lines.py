"""Read the file of lines as the table ``statements``, and as the stacks of CANN calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.intervals import Spans
from npuprof.analysis.loops import Loop
from npuprof.arrays import Bools, Int64
from npuprof.lines.frames import cell_name, same_text
from npuprof.lines.recorder import INTEGERS, TEXTS
from npuprof.lines.stamps import NO_STATEMENT
from npuprof.sources.python_frames import AFTERWARDS, PROFILER, role_of_frame
from npuprof.sources.recording import lists
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted, duration

SOURCE = "lines"
"""The source of the notes."""
KINDS = {**dict.fromkeys(INTEGERS, "int64"), **dict.fromkeys(TEXTS, "string")}
_MOST_LATE_NS = 100_000  # from taking the stack of a call to the call


@dataclass(frozen=True)
class Lines:
    """What a recording knows of lines."""

    # The table, with rows of line 0 between statements, while IPython compiles the next one, and between cells.
    statements: pd.DataFrame
    loops: list[Loop]  # the loops that ran, outer ones first
    calls: pd.DataFrame  # `thread_id`, `time_ns` and `stack` of each call whose stack was taken
    cells: Spans | None = None  # begins and ends of the cells that ran, where the run spans cells


def decode(
    columns: Mapping[str, Any], path: Path, epoch_ns: int, stopped_ns: int, notes: Notes, cells: Spans | None = None
) -> Lines:
    """Return what the columns of a file hold.

    Parameters
    ----------
    cells
        Begins and ends of the cells that ran, where the run spans cells: a statement ends with its cell.
    """
    _check(columns, path)
    last = int(columns["stopped_ns"][-1]) + epoch_ns if len(columns["stopped_ns"]) else 0
    end_ns = stopped_ns or last
    cell_of = _cell_of_stamps(columns)
    columns = {**columns, **_same_again(columns)}
    times, numbers = columns["stamp_time_ns"] + epoch_ns, columns["stamp_number"]
    loops = _loops(columns, numbers)
    notes.ledger.read(SOURCE, len(times) + len(columns["call_time_ns"]))
    notes.ledger.use(SOURCE, len(columns["call_time_ns"]))
    _note_thinned(loops, columns, notes)
    calls: pd.DataFrame = pd.DataFrame(
        {
            "thread_id": columns["call_thread_id"],
            "time_ns": columns["call_time_ns"] + epoch_ns,
            "stack": _stacks(columns)[columns["call_stack"]] if len(columns["call_stack"]) else _stacks(columns)[:0],
        }
    )
    ends = np.append(times[1:], max(end_ns, int(times[-1]) if len(times) else 0))[: len(times)]
    if cells is not None and len(cells[0]):
        ends = np.minimum(ends, _ends_of_cells(times, *cells))
    return Lines(_statements(columns, times, ends, cell_of, loops), loops, calls, cells)


def _note_thinned(loops: list[Loop], columns: Mapping[str, Any], notes: Notes) -> None:
    for loop in loops:
        if loop.thinned:
            spent = columns["thinned_ns"][columns["counted_loop"] == loop.number].sum()
            notes.info(
                SOURCE,
                f"the statements of the loop of {loop.place} took less than 20 µs: "
                f"{counted(loop.thinned, 'iteration')} in {duration(int(spent))} were counted, not timed",
            )


def _check(columns: Mapping[str, Any], path: Path) -> None:
    """Raise an error if the lengths of columns differ, or they refer to what is missing."""
    for prefix in ("statement_", "stamp_", "call_", "line_", "counted_", "cell_"):
        if len({len(columns[name]) for name in columns if name.startswith(prefix)}) != 1:
            raise lists.damage_error(path, f"has columns of different lengths among {prefix}*")
    statements, stacks, lines = (len(columns[name]) for name in ("statement_line", "stack_length", "line_file"))
    for name, least, most in (
        ("statement_loop", -1, np.arange(statements)),
        ("statement_cell", 0, len(columns["cell_file"])),
        ("stamp_number", NO_STATEMENT, statements),
        ("counted_loop", 0, statements),
        ("call_stack", 0, stacks),
        ("stack_length", 0, len(columns["stack_line"]) + 1),
        ("stack_line", 0, lines),
    ):
        if ((columns[name] < least) | (columns[name] >= most)).any():
            raise lists.damage_error(path, f"refers to a missing entry in {name}")
    if int(columns["stack_length"].sum()) != len(columns["stack_line"]):
        raise lists.damage_error(path, "has stacks of other lengths than it says")
    if (np.diff(columns["statement_cell"]) < 0).any():
        raise lists.damage_error(path, "has statements of cells in another order than the cells")


def _cell_of_stamps(columns: Mapping[str, Any]) -> Int64:
    """Return the cell of each stamp, from 0; of one between statements that of the statement before."""
    numbers: Int64 = columns["stamp_number"]
    if not len(numbers):
        return numbers
    of_statement = np.append(columns["statement_cell"], 0)  # the last is for none
    before = np.maximum.accumulate(np.where(numbers >= 0, np.arange(len(numbers)), 0))
    return of_statement[numbers[before]]


def _same_again(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns in which a cell that ran again has the numbers of its first time: its loops go on.

    A cell is the same if its file, which IPython names by its text, and each of its statements are.
    """
    names = ("line", "last_line", "is_loop", "update")
    cells = columns["statement_cell"]
    begins = np.searchsorted(cells, np.arange(len(columns["cell_file"]) + 1))
    known: dict[tuple[str, str, str], int] = {}
    number = np.arange(len(cells))
    for cell, (begin, end) in enumerate(pairwise(begins.tolist())):
        inner = columns["statement_loop"][begin:end]
        parts = [columns[f"statement_{name}"][begin:end].tolist() for name in names]
        key = (
            same_text(columns["cell_file"][cell]),
            str(parts),
            str(np.where(inner < 0, inner, inner - begin).tolist()),
        )
        number[begin:end] = known.setdefault(key, begin) + np.arange(end - begin)
    of_stamp, of_loop = columns["stamp_number"], columns["counted_loop"]
    if not len(number):
        return {}
    return {
        "stamp_number": np.where(of_stamp < 0, of_stamp, number[of_stamp]),
        "counted_loop": number[of_loop],
    }


def _loops(columns: Mapping[str, Any], numbers: Int64) -> list[Loop]:
    inner, cells = columns["statement_loop"], columns["statement_cell"]
    counted_of: Counter[int] = Counter()
    for loop, iterations in zip(columns["counted_loop"].tolist(), columns["counted_iterations"].tolist(), strict=True):
        counted_of[loop] += iterations
    ran = [number for number in np.flatnonzero(columns["statement_is_loop"]).tolist() if (numbers == number).any()]
    one_cell = len(columns["cell_file"]) == 1
    loops = []
    for number in ran:
        within = np.append(_within(inner, number), False)[numbers]
        headers = numbers == number
        # An iteration is the fetch of an item that a statement of the body follows.
        begins = np.flatnonzero(headers[:-1] & within[1:])
        leaves = np.append(np.flatnonzero(headers | ~within), len(numbers))
        ends = leaves[np.searchsorted(leaves, begins, side="right")]
        line, update = (int(columns[f"statement_{name}"][number]) for name in ("line", "update"))
        place = f"line {line}" if one_cell else f"line {line} of {_title(columns, int(cells[number]))}"
        loops.append(Loop(number, line, int(inner[number]), update, begins, ends, place, counted_of[number]))
    return loops


def _title(columns: Mapping[str, Any], cell: int) -> str:
    """Return what users call a cell: ``cell [3]``."""
    number = int(columns["cell_number"][cell])
    return f"cell [{number}]" if number else str(columns["cell_file"][cell])


def _ends_of_cells(times: Int64, begins: Int64, ends: Int64) -> Int64:
    """Return the end of the cell in which each moment lies; of others none."""
    at = np.searchsorted(begins, times, side="right") - 1
    never = np.iinfo(np.int64).max
    return np.where((at >= 0) & (times < ends[at]), ends[at], never)


def _within(inner: Int64, loop: int) -> Bools:
    """Return which statements are in the body of a loop; `inner` is the innermost loop of each."""
    within = np.zeros(len(inner), bool)
    for number in range(loop + 1, len(inner)):  # statements follow the loop that they are in
        within[number] = inner[number] == loop or (inner[number] > loop and within[inner[number]])
    return within


def _statements(
    columns: Mapping[str, Any], times: Int64, ends: Int64, cell_of: Int64, loops: list[Loop]
) -> pd.DataFrame:
    """Return the table ``statements``: each lasts until the next one begins, or its cell ends."""
    numbers = columns["stamp_number"]
    # The last entries are for no statement.
    lines, last, inner = (
        np.append(columns[f"statement_{name}"], none) for name, none in (("line", 0), ("last_line", 0), ("loop", -1))
    )
    around = inner[numbers]
    iteration = np.full(len(times), -1, np.int64)
    for loop in loops:
        rows = np.flatnonzero(around == loop.number)
        iteration[rows] = np.searchsorted(loop.begins, rows, side="right") - 1
    files = [
        cell_name(file, int(number)) or file or "<cell>"
        for file, number in zip(columns["cell_file"], columns["cell_number"], strict=True)
    ] or ["<cell>"]
    names = list(dict.fromkeys(files))
    threads = columns["cell_thread_id"] if len(columns["cell_thread_id"]) else np.zeros(1, np.int64)
    return tables.build(
        "statements",
        {
            "start_ns": times,
            "duration_ns": np.maximum(ends - times, 0),
            "file": tables.categorical(np.array([names.index(file) for file in files], np.int64)[cell_of], names),
            "line": lines[numbers],
            "last_line": last[numbers],
            "thread_id": threads[cell_of],
            "loop": pd.arrays.IntegerArray(np.where(around >= 0, lines[around], 0), around < 0),
            "iteration": pd.arrays.IntegerArray(np.maximum(iteration, 0), iteration < 0),
        },
    )


def _stacks(columns: Mapping[str, Any]) -> Any:
    """Return the text of each stack as a column of names: a frame a line, without npuprof's."""
    texts = []
    parts = (columns[f"line_{name}"] for name in ("file", "number", "function", "module", "cell"))
    for file, line, function, module, cell in zip(*parts, strict=True):
        is_own = role_of_frame(file, function, module) in (PROFILER, AFTERWARDS)
        texts.append("" if is_own else f"{cell_name(file, int(cell)) or file}({line}): {function}")
    ends = np.cumsum(columns["stack_length"])
    names = [
        "\n".join(filter(None, (texts[line] for line in columns["stack_line"][end - length : end].tolist())))
        for end, length in zip(ends.tolist(), columns["stack_length"].tolist(), strict=True)
    ]
    distinct = {name: number for number, name in enumerate(dict.fromkeys(filter(None, names)))}
    return tables.categorical(np.array([distinct.get(name, -1) for name in names], np.int64), list(distinct))


def with_stacks(api: pd.DataFrame, calls: pd.DataFrame) -> pd.DataFrame:
    """Return the table ``api`` with a column ``stack``: that of the call whose stack was taken as it began."""
    starts, threads = (api[name].to_numpy(np.int64) for name in ("start_ns", "thread_id"))
    codes = np.full(len(api), -1, np.int64)
    for thread in np.unique(calls["thread_id"].to_numpy(np.int64)).tolist():
        rows = np.flatnonzero(threads == thread)
        rows = rows[np.lexsort((-api["duration_ns"].to_numpy(np.int64)[rows], starts[rows]))]
        taken = calls[(calls["thread_id"] == thread).to_numpy(bool)]
        order = np.argsort(taken["time_ns"].to_numpy(np.int64), kind="stable")
        times = taken["time_ns"].to_numpy(np.int64)[order]
        stacks = taken["stack"].cat.codes.to_numpy(np.int64)[order]
        at = np.searchsorted(starts[rows], times, side="left")
        began = np.append(starts[rows], np.iinfo(np.int64).max)[at]
        limit = np.minimum(np.append(times[1:], np.iinfo(np.int64).max)[: len(times)], times + _MOST_LATE_NS)
        is_met = began <= limit
        codes[rows[at[is_met]]] = stacks[is_met]
    names = [str(name) for name in calls["stack"].cat.categories]
    return api.assign(stack=tables.categorical(codes, names))
