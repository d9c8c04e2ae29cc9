"""CSV files of msprof that only it writes: tasks, marks and the ragged step trace.

Source: formats/results.md section 4.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.sources.csv_table import CsvTable, column_names
from npuprof.sources.decimals import US_TO_NS, scaled_one

_MAX_STEPS = 1_000_000
_STEP_COLUMNS = ("Iteration ID", "Iteration End(us)", "Iteration Time(us)", "Model ID", "Device_id")


def read_task_time(path: Path, notes: Notes, default_device: int = 0) -> pd.DataFrame:
    """Read ``task_time`` as the table ``tasks``; rows without a time are counted and left out.

    Raises
    ------
    SourceError
        If the file cannot be read or has no start or duration of tasks.
    """
    table = CsvTable(path, notes)
    _need(table, path, "task_start(us)", "task_time(us)")
    usable = table.time_ns("task_start(us)")[1] & ~np.asarray(table.scaled("task_time(us)", US_TO_NS).isna())
    if not usable.all():
        notes.warning(path.name, "a row has no start or duration and is left out", int((~usable).sum()))
        table.keep(usable)
    columns: dict[str, Any] = {
        "start_ns": table.time_ns("task_start(us)")[0],
        "duration_ns": table.scaled("task_time(us)", US_TO_NS).to_numpy(np.int64),
        "device_id": _devices(table, default_device),
    }
    for name, header in (("stream_id", "stream_id"), ("task_id", "task_id")):
        if header in table.names:
            columns[name] = table.whole(header)
    for name, header in (("name", "kernel_name"), ("task_type", "kernel_type")):
        if header in table.names:
            columns[name] = table.categories(header)
    return tables.sort_by_time(tables.build("tasks", columns))


def read_marks(path: Path, notes: Notes) -> pd.DataFrame:
    """Read ``msprof_tx`` as the table ``marks``, with `kind`, `category` and the `device_id` of the device side.

    Raises
    ------
    SourceError
        If the file cannot be read or has no start or message.
    """
    table = CsvTable(path, notes)
    _need(table, path, "Start_time(us)", "message")
    usable = table.time_ns("Start_time(us)")[1]
    table.keep(usable)
    start_ns = table.time_ns("Start_time(us)")[0]
    columns: dict[str, Any] = {
        "start_ns": start_ns,
        "duration_ns": _until(table, "End_time(us)", start_ns).fillna(0).to_numpy(np.int64),
        "message": table.categories("message"),
        "thread_id": table.whole("tid").fillna(0).to_numpy(np.int64) if "tid" in table.names else start_ns * 0,
    }
    for name, header in (("domain", "domain"), ("kind", "event_type")):
        if header in table.names:
            columns[name] = table.categories(header)
    if "category" in table.names:
        columns["category"] = table.whole("category")
    if "Device Start_time(us)" in table.names:
        begin, seen = table.time_ns("Device Start_time(us)")
        columns["device_start_ns"] = pd.arrays.IntegerArray(begin, ~seen)
        columns["device_duration_ns"] = _until(table, "Device End_time(us)", begin)
        columns["device_duration_ns"][~seen] = pd.NA
    if "Device_id" in table.names:
        columns["device_id"] = table.scaled("Device_id", 1, ("host",))
    return tables.sort_by_time(tables.build("marks", columns))


def read_steps(path: Path, notes: Notes) -> pd.DataFrame:
    """Read the iterations of ``step_trace`` as the table ``steps``; its rows are of unlike length.

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
    for cells in islice(_rows(path), _MAX_STEPS):
        cell = {name: cells[place].strip() if place < len(cells) else "" for name, place in at.items()}
        end = scaled_one(cell["Iteration End(us)"], US_TO_NS, exponents=False)
        duration = scaled_one(cell["Iteration Time(us)"], US_TO_NS)
        if end is None or duration is None or duration < 0:
            lost += 1
            continue
        others = [scaled_one(cell.get(name, ""), 1) for name in ("Iteration ID", "Device_id", "Model ID")]
        rows.append([end - duration, duration, *others])
    if lost:
        notes.warning(path.name, "a row has no end or time of an iteration and is left out", lost)
    columns = {
        "start_ns": np.array([row[0] for row in rows], np.int64),
        "duration_ns": np.array([row[1] for row in rows], np.int64),
        **{
            name: pd.array([row[place] for row in rows], dtype="Int64")
            for place, name in ((2, "step"), (3, "device_id"), (4, "model_id"))
        },
    }
    return tables.sort_by_time(tables.build("steps", columns))


def _rows(path: Path) -> Iterator[list[str]]:
    """Give the rows after the header; what is no UTF-8 is replaced, zero bytes are left out."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            lines = (line.replace("\0", "") for line in file)
            yield from islice(csv.reader(lines), 1, None)
    except (OSError, csv.Error) as error:
        raise SourceError(f"{path} cannot be read as CSV: {error}; export the result again") from error


def _need(table: CsvTable, path: Path, *names: str) -> None:
    for name in names:
        if name not in table.names:
            raise SourceError(f"{path} has no column {name!r}; is it another file?")


def _devices(table: CsvTable, default: int) -> Any:
    if "Device_id" not in table.names:
        return np.full(len(table), default, np.int64)
    return table.scaled("Device_id", 1, ("host",)).fillna(default).to_numpy(np.int64)


def _until(table: CsvTable, header: str, start_ns: Any) -> Any:
    """Give the time from each start to an end; <NA> without one, 0 for one that lies before it."""
    if header not in table.names:
        return pd.array([pd.NA] * len(start_ns), dtype="Int64")
    end, ended = table.time_ns(header)
    return pd.arrays.IntegerArray(np.where(ended, np.maximum(end - start_ns, 0), 0), ~ended)
