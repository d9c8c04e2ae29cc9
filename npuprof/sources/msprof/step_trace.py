"""Read ``step_trace``: iterations of a graph, each with its gradient reductions.

Its rows are of unlike length: after the columns of the iteration come as many pairs of start and duration as it had
reductions, and the line of names repeats those two names.

Source: sources/RESULTS.md section 4.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.ledger import STATISTICS
from npuprof.notes import Notes
from npuprof.sources.columns.decimals import US_TO_NS, scaled_one
from npuprof.sources.files.gzip_file import is_zipped, read_whole
from npuprof.sources.text.csv_table import UNKNOWN, column_names, note_damage

_MAX_STEPS = 1_000_000
_MAX_BYTES = 8 << 30
_MAX_REDUCTIONS = 5_000_000
_STEP_COLUMNS = ("Iteration ID", "Iteration End(us)", "Iteration Time(us)", "Model ID", "Device_id")
_MOMENTS = ("FP Start(us)", "BP End(us)", "Iteration End(us)")
_DURATIONS = ("Iteration Time(us)", "FP to BP Time(us)", "Iteration Refresh(us)", "Data Aug Bound(us)")
_NUMBERS = ("Device_id", "Iteration ID", "Model ID")
_REDUCE, _LASTING = "Reduce Start(us)", "Reduce Duration(us)"


def read_steps(path: Path, notes: Notes) -> pd.DataFrame:
    """Read the iterations as the table ``steps``.

    Raises
    ------
    SourceError
        If the file cannot be read or holds no iterations.
    """
    names = column_names(path)
    at = {name: names.index(name) for name in _STEP_COLUMNS if name in names}
    if not {"Iteration ID", "Iteration End(us)", "Iteration Time(us)"} <= set(at):
        raise SourceError(f"{path} has no column 'Iteration End(us)', so it is no step trace; is it another file?")
    rows: list[list[int | None]] = []
    lost = 0
    for cells in islice(_rows(path, Notes()), _MAX_STEPS):  # whoever reads the whole tells of a damaged archive
        cell = {name: cells[place].strip() if place < len(cells) else "" for name, place in at.items()}
        end = scaled_one(cell["Iteration End(us)"], US_TO_NS, exponents=False)
        duration = scaled_one(cell["Iteration Time(us)"], US_TO_NS)
        if end is None or duration is None or duration < 0:
            lost += 1
            continue
        others = [scaled_one(cell.get(name, ""), 1) for name in ("Iteration ID", "Device_id", "Model ID")]
        rows.append([end - duration, duration, *others])
    if lost:
        notes.warning(path.name, "a row has no end or time of an iteration: a step is missing", lost)
    columns = {
        "start_ns": np.array([row[0] for row in rows], np.int64),
        "duration_ns": np.array([row[1] for row in rows], np.int64),
        **{
            name: pd.array([row[place] for row in rows], dtype="Int64")
            for place, name in ((2, "step"), (3, "device_id"), (4, "model_id"))
        },
    }
    return tables.sort_by_time(tables.build("steps", columns))


def read_step_trace(path: Path, notes: Notes) -> dict[str, pd.DataFrame]:
    """Read all that the file tells, as it came; moments are whole nanoseconds, so that ``x(us)`` is called ``x(ns)``.

    The ledger has the file's rows from here, :func:`read_steps` reads the same ones.

    Returns
    -------
    ``step_trace``: a row for each iteration; ``step_trace_reduce``: a row for each of its gradient reductions.

    Raises
    ------
    SourceError
        If the file cannot be read.
    """
    names = column_names(path)
    note_damage(path, notes, read_whole(path, _MAX_BYTES)[0] if is_zipped(path) else b"")
    first = names.index(_REDUCE) if _REDUCE in names else len(names)
    at = {name: names.index(name) for name in (*_NUMBERS, *_MOMENTS, *_DURATIONS) if name in names[:first]}
    iterations: list[dict[str, Any]] = []
    reductions: list[dict[str, Any]] = []
    rows, unread = _rows(path, notes), 0
    for cells in islice(rows, _MAX_STEPS):
        told = {name: cells[place].strip() if place < len(cells) else "" for name, place in at.items()}
        iterations.append({name: _value(name, text) for name, text in told.items()})
        unread += sum(iterations[-1][name] is None and text != "N/A" for name, text in told.items())
        identity = {name: _value(name, told[name]) for name in _NUMBERS[:2] if name in told}
        unread += sum(not cell.strip() for cell in cells[first:]) + len(cells[first:]) % 2
        pairs = list(zip(cells[first::2], cells[first + 1 :: 2], strict=False))
        for start, duration in pairs[: max(0, _MAX_REDUCTIONS - len(reductions))]:
            value = {_REDUCE: _value(_MOMENTS[0], start.strip()), _LASTING: _value("", duration.strip())}
            reductions.append({**identity, **value})
    if len(reductions) == _MAX_REDUCTIONS or next(rows, None) is not None:
        notes.error(path.name, "it holds more iterations or reductions than one run has; the rest is not read")
    known = (*_NUMBERS, *_MOMENTS, *_DURATIONS, _REDUCE, _LASTING)
    for name in dict.fromkeys(name for name in names if name and name not in known):
        notes.warning(path.name, UNKNOWN.format(name))
    if unread:
        notes.warning(path.name, "a cell is blank or no number", unread)
    notes.ledger.read(path.name, len(iterations))
    notes.ledger.keep(path.name, STATISTICS, len(iterations))
    found = {"step_trace": _frame(iterations, list(at))}
    if reductions:
        found["step_trace_reduce"] = _frame(reductions, [*_NUMBERS[:2], _REDUCE, _LASTING])
    return found


def _value(name: str, text: str) -> int | float | None:
    if name in _MOMENTS:
        return scaled_one(text, US_TO_NS, exponents=False)
    if name in _NUMBERS:
        return scaled_one(text, 1)
    try:
        return float(text)
    except ValueError:
        return None


def _frame(rows: list[dict[str, Any]], names: list[str]) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if name in (*_MOMENTS, _REDUCE):
            columns[f"{name[:-4]}(ns)"] = pd.array(values, dtype="Int64")
        else:
            columns[name] = pd.array(values, dtype="Int64" if name in _NUMBERS else "Float64")
            if name not in _NUMBERS:
                columns[name] = columns[name].to_numpy(np.float64, na_value=np.nan)
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


def _rows(path: Path, notes: Notes) -> Iterator[list[str]]:
    """Yield the rows after the header; what is no UTF-8 is replaced, zero bytes are left out."""
    try:
        opened = gzip.open if is_zipped(path) else open
        with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            lines = (line.replace("\0", "") for line in file)
            yield from islice(csv.reader(lines), 1, None)
    except (EOFError, zlib.error) as error:
        notes.warning(path.name, f"the gzip archive is damaged, its rest is lost: {error}")
    except (OSError, csv.Error) as error:
        raise SourceError(f"{path} cannot be read as CSV: {error}; export the result again") from error
