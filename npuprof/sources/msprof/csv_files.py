"""CSV files that only msprof writes: tasks, marks and the step trace, which holds the iterations of a graph.

Rows of the step trace differ in length: each gradient reduction of the iteration adds a pair of start and duration, and
the header repeats these two names.

Source: sources/RESULTS.md section 4.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources.columns.decimals import US_TO_NS, scaled_one
from npuprof.sources.files.gzip_file import is_plain, read_whole
from npuprof.sources.text.csv_table import UNKNOWN, CsvTable, column_names, note_damage
from npuprof.tables.ledger import STATISTICS
from npuprof.tables.notes import Notes

_TASK_COLUMNS = {
    *("Device_id", "kernel_name", "kernel_type", "stream_id", "task_id"),
    *("task_time(us)", "task_start(us)", "task_stop(us)"),
}
_MARK_COLUMNS = {
    *("Device_id", "pid", "tid", "category", "event_type", "payload_type", "payload_value", "Start_time(us)"),
    *("End_time(us)", "message_type", "message", "domain", "Device Start_time(us)", "Device End_time(us)"),
}


def read_task_time(path: Path, notes: Notes, default_device: int = 0) -> pd.DataFrame:
    """Read ``task_time`` as the table ``tasks``."""
    table = CsvTable(path, notes)
    table.expect(_TASK_COLUMNS)
    _need(table, path, "task_start(us)", "task_time(us)")
    duration = table.durations("task_time(us)")
    usable = table.time_ns("task_start(us)")[1] & ~np.asarray(duration.isna())
    table.drop(~usable, "a row has no start or duration", ("tasks",))
    start_ns, duration_ns = table.time_ns("task_start(us)")[0], duration[usable].to_numpy(np.int64)
    kept_rows = table.drop_repeated(start_ns, duration_ns > 0)
    columns: dict[str, Any] = {
        "start_ns": start_ns[kept_rows],
        "duration_ns": duration_ns[kept_rows],
        "device_id": _devices(table, default_device),
    }
    for name, header in (("stream_id", "stream_id"), ("task_id", "task_id")):
        if header in table.names:
            columns[name] = table.whole(header)
    for name, header in (("name", "kernel_name"), ("task_type", "kernel_type")):
        if header in table.names:
            columns[name] = table.categories(header)
    table.put("tasks")
    return tables.sort_by_time(tables.build("tasks", columns))


def read_marks(path: Path, notes: Notes) -> pd.DataFrame:
    """Read ``msprof_tx`` as the table ``marks``, with `kind`, `category` and the device side of the marks."""
    table = CsvTable(path, notes)
    table.expect(_MARK_COLUMNS)
    _need(table, path, "Start_time(us)", "message")
    table.drop(~table.time_ns("Start_time(us)")[1], "a row has no readable start", ("marks",))
    start_ns = table.time_ns("Start_time(us)")[0]
    columns: dict[str, Any] = {
        "start_ns": start_ns,
        "duration_ns": _durations(table, "End_time(us)", start_ns).fillna(0).to_numpy(np.int64),
        "message": table.categories("message"),
        "thread_id": table.whole("tid").fillna(0).to_numpy(np.int64) if "tid" in table.names else start_ns * 0,
    }
    for name, header in (("domain", "domain"), ("kind", "event_type")):
        if header in table.names:
            columns[name] = table.categories(header)
    if "category" in table.names:
        columns["category"] = table.whole("category")
    if "Device Start_time(us)" in table.names:
        begin, valid = table.time_ns("Device Start_time(us)")
        columns["device_start_ns"] = pd.arrays.IntegerArray(begin, ~valid)
        columns["device_duration_ns"] = _durations(table, "Device End_time(us)", begin)
        columns["device_duration_ns"][~valid] = pd.NA
    if "Device_id" in table.names:
        columns["device_id"] = table.scaled("Device_id", 1, ("host",))
    table.put("marks")
    return tables.sort_by_time(tables.build("marks", columns))


def _need(table: CsvTable, path: Path, *names: str) -> None:
    for name in names:
        if name not in table.names:
            raise SourceError(f"{path} has no column {name!r}; is it another file?")


def _devices(table: CsvTable, default: int) -> Any:
    if "Device_id" not in table.names:
        return np.full(len(table), default, np.int64)
    return table.scaled("Device_id", 1, ("host",)).fillna(default).to_numpy(np.int64)


def _durations(table: CsvTable, header: str, start_ns: Any) -> Any:
    """Return the durations from each start to its end; <NA> without an end, 0 for an end before the start."""
    if header not in table.names:
        return pd.array([pd.NA] * len(start_ns), dtype="Int64")
    end, is_ended = table.time_ns(header)
    return pd.arrays.IntegerArray(np.where(is_ended, np.maximum(end - start_ns, 0), 0), ~is_ended)


_MAX_STEPS = 1_000_000
_MAX_BYTES = 8 << 30
_MAX_REDUCTIONS = 5_000_000
_STEP_COLUMNS = ("Iteration ID", "Iteration End(us)", "Iteration Time(us)", "Model ID", "Device_id")
_MOMENTS = ("FP Start(us)", "BP End(us)", "Iteration End(us)")
_DURATIONS = ("Iteration Time(us)", "FP to BP Time(us)", "Iteration Refresh(us)", "Data Aug Bound(us)")
_NUMBERS = ("Device_id", "Iteration ID", "Model ID")
_REDUCE, _REDUCE_DURATION = "Reduce Start(us)", "Reduce Duration(us)"


def read_steps(path: Path, notes: Notes) -> pd.DataFrame:
    """Read the iterations as the table ``steps``."""
    names = column_names(path)
    at = {name: names.index(name) for name in _STEP_COLUMNS if name in names}
    if not {"Iteration ID", "Iteration End(us)", "Iteration Time(us)"} <= set(at):
        raise SourceError(f"{path} has no column 'Iteration End(us)', so it is no step trace; is it another file?")
    rows: list[list[int | None]] = []
    lost_count = 0
    for cells in islice(_rows(path, Notes()), _MAX_STEPS):  # read_step_trace notes a damaged archive
        cell = {name: cells[place].strip() if place < len(cells) else "" for name, place in at.items()}
        end = scaled_one(cell["Iteration End(us)"], US_TO_NS, exponents=False)
        duration = scaled_one(cell["Iteration Time(us)"], US_TO_NS)
        if end is None or duration is None or duration < 0:
            lost_count += 1
            continue
        others = [scaled_one(cell.get(name, ""), 1) for name in ("Iteration ID", "Device_id", "Model ID")]
        rows.append([end - duration, duration, *others])
    if lost_count:
        notes.warning(path.name, "a row has no end or time of an iteration: a step is missing", lost_count)
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
    """Read the whole file; times become integer nanoseconds, and ``x(us)`` becomes ``x(ns)``.

    This function registers the rows in the ledger; :func:`read_steps` reads the same rows.

    Returns
    -------
    ``step_trace``: a row for each iteration; ``step_trace_reduce``: a row for each gradient reduction.
    """
    names = column_names(path)
    note_damage(path, notes, b"" if is_plain(path) else read_whole(path, _MAX_BYTES)[0])
    first = names.index(_REDUCE) if _REDUCE in names else len(names)
    at = {name: names.index(name) for name in (*_NUMBERS, *_MOMENTS, *_DURATIONS) if name in names[:first]}
    iterations: list[dict[str, Any]] = []
    reductions: list[dict[str, Any]] = []
    rows, unreadable, contradictory = _rows(path, notes), 0, 0
    for cells in islice(rows, _MAX_STEPS):
        texts = {name: cells[place].strip() if place < len(cells) else "" for name, place in at.items()}
        iteration = {name: _value(name, text) for name, text in texts.items()}
        identity = {name: iteration[name] for name in _NUMBERS[:2] if name in texts}
        starts = [_value(_MOMENTS[0], cell.strip()) for cell in cells[first::2]]
        durations = [_value("", cell.strip()) for cell in cells[first + 1 :: 2]]
        values = [*iteration.values(), *starts, *durations]
        empty = [*texts.values(), *(cell.strip() for cell in cells[first:])].count("N/A")
        unreadable += max(values.count(None) - empty, 0) + len(cells[first:]) % 2
        contradictory += len(cells) > len(names) or not _is_in_order(iteration, starts)
        for start, duration in islice(zip(starts, durations, strict=False), _MAX_REDUCTIONS - len(reductions)):
            reductions.append({**identity, _REDUCE: start, _REDUCE_DURATION: duration})
        iterations.append(iteration)
    if len(reductions) == _MAX_REDUCTIONS or next(rows, None) is not None:
        notes.error(
            path.name, "it holds more iterations or reductions than one run has; the remaining rows are not read"
        )
    _note_columns(names, first, path, notes)
    if unreadable:
        notes.warning(path.name, "a cell is blank or no number", unreadable)
    if contradictory:
        notes.warning(path.name, "cells of an iteration contradict each other: rows may be missing", contradictory)
    notes.ledger.read(path.name, len(iterations))
    notes.ledger.keep(path.name, STATISTICS, len(iterations))
    frames = {"step_trace": _frame(iterations, list(at))}
    if reductions:
        frames["step_trace_reduce"] = _frame(reductions, [*_NUMBERS[:2], _REDUCE, _REDUCE_DURATION])
    return frames


def _note_columns(names: list[str], first_reduction: int, path: Path, notes: Notes) -> None:
    if len(set(names[:first_reduction])) < first_reduction:
        notes.warning(path.name, "a column occurs twice: the cells after it may belong to another column")
    known_names = (*_NUMBERS, *_MOMENTS, *_DURATIONS, _REDUCE, _REDUCE_DURATION)
    for name in dict.fromkeys(name for name in names if name and name not in known_names):
        notes.warning(path.name, UNKNOWN.format(name))


def _is_in_order(iteration: Mapping[str, int | float | None], starts: list[int | float | None]) -> bool:
    """Return whether the times of an iteration are in order, and no reduction starts after its end."""
    moments = [moment for name in _MOMENTS if (moment := iteration.get(name)) is not None]
    end = iteration.get(_MOMENTS[-1])
    return moments == sorted(moments) and (end is None or all(start is None or start <= end for start in starts))


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
    return pd.DataFrame(columns)


def _rows(path: Path, notes: Notes) -> Iterator[list[str]]:
    """Yield the rows after the header; zero bytes are removed and invalid UTF-8 is replaced."""
    try:
        with (
            path.open(encoding="utf-8-sig", errors="replace", newline="")
            if is_plain(path)
            else StringIO(_text(path, notes), newline="")
        ) as file:
            lines = (line.replace("\0", "") for line in file)
            yield from islice(csv.reader(lines), 1, None)
    except (OSError, csv.Error) as error:
        raise SourceError(f"{path} cannot be read as CSV: {error}; export the result again") from error


def _text(path: Path, notes: Notes) -> str:
    """Return the text of a compressed or UTF-16 file."""
    content, problem = read_whole(path, _MAX_BYTES)
    if problem:
        notes.warning(path.name, problem)
    return content.decode("utf-8-sig", "replace")
