"""CSV files of msprof that only it writes: tasks and marks; the step trace has a neighbour of its own.

Source: sources/RESULTS.md section 4.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.sources.text.csv_table import CsvTable

_OF_TASKS = {
    *("Device_id", "kernel_name", "kernel_type", "stream_id", "task_id"),
    *("task_time(us)", "task_start(us)", "task_stop(us)"),
}
_OF_MARKS = {
    *("Device_id", "pid", "tid", "category", "event_type", "payload_type", "payload_value", "Start_time(us)"),
    *("End_time(us)", "message_type", "message", "domain", "Device Start_time(us)", "Device End_time(us)"),
}


def read_task_time(path: Path, notes: Notes, default_device: int = 0) -> pd.DataFrame:
    """Read ``task_time`` as the table ``tasks``; rows without a time are counted and left out.

    Raises
    ------
    SourceError
        If the file cannot be read or has no start or duration of tasks.
    """
    table = CsvTable(path, notes)
    table.expect(_OF_TASKS)
    _need(table, path, "task_start(us)", "task_time(us)")
    duration = table.durations("task_time(us)")
    usable = table.time_ns("task_start(us)")[1] & ~np.asarray(duration.isna())
    table.drop(~usable, "a row has no start or duration", "tasks")
    columns: dict[str, Any] = {
        "start_ns": table.time_ns("task_start(us)")[0],
        "duration_ns": duration[usable].to_numpy(np.int64),
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
    """Read ``msprof_tx`` as the table ``marks``, with `kind`, `category` and the `device_id` of the device side.

    Raises
    ------
    SourceError
        If the file cannot be read or has no start or message.
    """
    table = CsvTable(path, notes)
    table.expect(_OF_MARKS)
    _need(table, path, "Start_time(us)", "message")
    table.drop(~table.time_ns("Start_time(us)")[1], "a row has no readable start", "marks")
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


def _until(table: CsvTable, header: str, start_ns: Any) -> Any:
    """Return the time from each start to an end; <NA> without one, 0 for one that lies before it."""
    if header not in table.names:
        return pd.array([pd.NA] * len(start_ns), dtype="Int64")
    end, ended = table.time_ns(header)
    return pd.arrays.IntegerArray(np.where(ended, np.maximum(end - start_ns, 0), 0), ~ended)
