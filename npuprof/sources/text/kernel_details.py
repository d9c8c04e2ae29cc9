"""Kernels: ``kernel_details.csv`` (torch_npu, MindSpore), ``op_summary_*.csv`` (msprof), joined with device tasks.

Columns are looked up by every name that a version gave them. Communication operators are rows of the same file; they
become a separate table, since their time is not compute time.

The CSV and the timeline do not share a kernel number at every level, so their rows are joined by name and start. Starts
differ by up to 1 ns, because the two files round independently.

Source: sources/RESULTS.md sections 1.2 and 3.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.compute as pc

from npuprof import tables
from npuprof.arrays import Bools, Int64
from npuprof.errors import SourceError
from npuprof.sources.columns.decimals import KB_TO_BYTES, MB_TO_BYTES, US_TO_NS
from npuprof.sources.columns.shares import as_fractions
from npuprof.sources.overlap import COMMUNICATION_KERNELS
from npuprof.sources.text.csv_table import CsvTable, without_quotes
from npuprof.sources.trace.nesting import starting_at
from npuprof.tables.notes import Notes
from npuprof.tables.schema import SCHEMA, Column

COMMUNICATION_CORES = ("HCCL", "COMMUNICATION")
_COMMUNICATION_NAME = "hcom_"
_SHARED = ("start_ns", "duration_ns", "device_id", "name", "op_type", "step")  # including communication operators

_HEADERS = {
    **SCHEMA["kernels"].names_in("csv"),
    "model_id": ("Model ID", "Model Id"),
    "model_name": ("Model Name",),
}
# in each version and at each level; other columns are required below
_ALWAYS = ("op_type", "core", "wait_ns", "block_num")
_TOTALS = {"aicore_time_ns": "aic_total_time_ns", "aiv_time_ns": "aiv_total_time_ns"}  # as in raw data
_NANOSECONDS = {"ns": 1, "us": US_TO_NS, "ms": 1000 * US_TO_NS}
_MULTIPLIERS = {**_NANOSECONDS, "kb": KB_TO_BYTES, "mb": MB_TO_BYTES}
_UNITS = {**dict.fromkeys(_NANOSECONDS, "ns"), "%": "percent", "gb/s": "gb_s", "kb": "kb", "mb/s": "mb_s"}
_UNIT = re.compile(r"(.*?)\s*\(([^()]*)\)")
_KNOWN = {"Infer ID", *(name for names in _HEADERS.values() for name in names)}
_COUNTER = re.compile(r"[a-z0-9]\S*|\w+_to_\w+\(.*\)")  # all other columns begin with a capital letter
_OF_THE_TABLE = frozenset(column.name for column in SCHEMA["kernels"].columns)
_SIDES = ("input_", "output_")
_FORMAT_PREFIX = re.compile(r"FORMAT_(?=[A-Z])")


@dataclass
class KernelDetails:
    """The kernels and the communication operators of the file `source`."""

    source: str
    kernels: pd.DataFrame
    communication: pd.DataFrame


def read_kernel_details(path: Path, notes: Notes, default_device: int = 0) -> KernelDetails:
    """Read both tables of a file, sorted by time; `default_device` is the device of files without a device column.

    Missing numbers of streams, tasks and batches are 0: :func:`take_task_numbers` fills them in.
    """
    table, headers = _table(path, notes)
    columns = {**_times(table, headers), **_identity(table, headers, default_device)}
    columns.update(_properties(table, headers))
    columns.update(_counters(table, headers, notes))
    is_communication = _communication_rows(columns)
    operators = _rows({name: columns[name] for name in _SHARED if name in columns}, is_communication)
    kernels = _rows(columns, ~is_communication) if is_communication.any() else columns
    table.put("communication", count := int(is_communication.sum()))
    table.put("kernels", len(table) - count)
    return KernelDetails(
        path.name,
        tables.sort_by_time(tables.build("kernels", kernels)),
        tables.sort_by_time(tables.build("communication", operators)),
    )


def read_communication_operators(path: Path, notes: Notes, default_device: int = 0) -> pd.DataFrame:
    """Read only the communication operators of :func:`read_kernel_details`; cells of kernels are not converted."""
    table, headers = _table(path, notes)
    kinds: dict[str, Any] = {key: table.categories(headers[key]) for key in ("name", "core") if key in headers}
    table.restrict(_communication_rows(kinds))
    columns = {**_times(table, headers), **_identity(table, headers, default_device)}
    columns.update(_properties(table, {key: headers[key] for key in ("name", *_SHARED) if key in headers}))
    table.put("communication")
    operators = {name: columns[name] for name in _SHARED if name in columns}
    return tables.sort_by_time(tables.build("communication", operators))


def _table(path: Path, notes: Notes) -> tuple[CsvTable, dict[str, str]]:
    """Return the cells of a file, and the header of each column that it has."""
    table = CsvTable(path, notes, _HEADERS["step"])
    table.expect(_KNOWN, _COUNTER)
    table.require(*(_HEADERS[key] for key in _ALWAYS))
    headers = {key: name for key, names in _HEADERS.items() if (name := table.find(*names))}
    missing = [_HEADERS[key][0] for key in ("name", "start_ns", "duration_ns") if key not in headers]
    if missing:
        raise SourceError(f"{path} has no column {missing[0]!r}, so it is no table of kernels; is it another file?")
    return table, headers


def _times(table: CsvTable, headers: dict[str, str]) -> dict[str, Any]:
    """Return starts and durations; rows without either are dropped from the table, and repeated ones."""
    start, timed = table.time_ns(headers["start_ns"])
    duration = table.durations(headers["duration_ns"])
    usable = timed & ~np.asarray(duration.isna())
    if not usable.all():
        table.drop(~usable, "a row has no start or duration", ("kernels", "communication"))
        start, duration = start[usable], duration[usable]
    duration_ns = duration.to_numpy(np.int64)
    kept_rows = table.drop_repeated(start, duration_ns > 0)
    return {"start_ns": start[kept_rows], "duration_ns": duration_ns[kept_rows]}


def _communication_rows(columns: dict[str, Any]) -> Bools:
    """Return a mask of communication operators: by their core, or by name at Level0, where the core is N/A.

    Communication kernels have the same core and stay kernels: their operators have separate rows.
    """
    kernels = tables.matching(columns["name"], lambda name: name.endswith(COMMUNICATION_KERNELS))
    prefixed = tables.matching(columns["name"], lambda name: name.startswith(_COMMUNICATION_NAME))
    if "core" not in columns:
        return prefixed & ~kernels
    core: pd.Categorical = columns["core"]
    by_core = tables.matching(core, lambda name: name in COMMUNICATION_CORES)
    return (by_core | (prefixed & np.asarray(core.codes < 0))) & ~kernels


def _identity(table: CsvTable, headers: dict[str, str], default_device: int) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if "device_id" in headers:
        columns["device_id"] = table.whole(headers["device_id"]).fillna(default_device).to_numpy(np.int64)
    else:
        columns["device_id"] = np.full(len(table), default_device, np.int64)
    columns.update({name: table.whole(headers[name]) for name in ("stream_id", "task_id") if name in headers})
    return columns


def _properties(table: CsvTable, headers: dict[str, str]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for column in SCHEMA["kernels"].columns:
        name = column.name
        if name not in headers or name in ("start_ns", "duration_ns", "device_id", "stream_id", "task_id"):
            continue
        columns[name] = _cells(table, headers[name], column)
    columns["op_name"] = columns["name"]
    if "core" in columns:
        columns["task_type"] = columns["core"]
    if "model_id" in headers:
        columns["model_id"] = table.whole(headers["model_id"])
    if "model_name" in headers:
        columns["model_name"] = table.categories(headers["model_name"])
    return columns


def _cells(table: CsvTable, header: str, column: Column) -> Any:
    """Return the cells of a column by its kind, in the unit of the table."""
    if column.kind == "flag":
        return pd.array(pc.equal(table.text(header), "YES").to_pylist(), dtype="boolean")
    if column.kind == "name":
        return table.categories(header, operand_text if column.name.startswith(_SIDES) else None)
    if column.kind == "float":
        return table.numbers(header)
    _, unit = column_name(header)
    return table.scaled(header, _MULTIPLIERS[unit]) if unit in _MULTIPLIERS else table.whole(header)


def operand_text(cell: str) -> str:
    """Return shapes, dtypes or formats of operands without the quotes and the prefix of older writers."""
    return _FORMAT_PREFIX.sub("", without_quotes(cell))


def _counters(table: CsvTable, headers: dict[str, str], notes: Notes) -> dict[str, Any]:
    """Return the remaining columns: AI Core counters of the chosen metrics, and text as names."""
    columns: dict[str, Any] = {}
    # A chip with separate cube and vector cores counts the cycles of each; other chips have one core, and its time.
    totals = _TOTALS if "aic_total_cycles" in table.names or "aiv_total_cycles" in table.names else {}
    for header in table.names:
        if header in headers.values() or not header:
            continue
        name, unit = column_name(header)
        name = totals.get(name, name)
        if name in columns or name in _OF_THE_TABLE:
            table.warn(f"the column {header!r} reads as {name!r}, which is another column; left out", 1)
        elif not _COUNTER.fullmatch(header) and not table.is_numeric(header):
            columns[name] = table.categories(header)
        elif unit in _NANOSECONDS:
            columns[name] = table.scaled(header, _NANOSECONDS[unit])
        elif name.endswith(("_cycles", "_id")):
            columns[name] = table.whole(header)
        else:
            columns[name] = table.numbers(header)
    as_fractions(columns, notes, table.source)
    return columns


def column_name(header: str) -> tuple[str, str]:
    """Return the column name and the unit of a header: ``aic_mac_time(us)`` -> ``aic_mac_time_ns``, ``us``."""
    match = _UNIT.fullmatch(header)
    stem, unit = (match[1].removesuffix("_datas"), match[2].lower()) if match else (header, "")
    words = [re.sub(r"\W+", "_", stem).strip("_").lower(), _UNITS.get(unit, re.sub(r"\W+", "_", unit))]
    return "_".join(word for word in words if word), unit


def _rows(columns: dict[str, Any], is_selected: Bools) -> dict[str, Any]:
    """Return the selected rows of all columns, without unused categories."""
    taken = {name: values[is_selected] for name, values in columns.items()}
    return {
        name: values.remove_unused_categories() if isinstance(values, pd.Categorical) else values
        for name, values in taken.items()
    }


_OFFSETS_NS = (0, -1, 1)  # the two files round independently
_FLOAT_NS = 250  # the step of today's microseconds in a float64, as in timelines of 2023
_TASK_COLUMNS = ("start_ns", "stream_id", "task_id", "batch_id", "context_id", "connection_id", "task_type")


def take_task_numbers(kernels: pd.DataFrame, device_tasks: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Copy start, stream, task, batch, context, connection and task type from its device task to each kernel.

    Both tables are sorted by time; the task of a kernel has its name and its start, within 1 ns, or 500 ns where one
    of the tables was a float. The second result is the number of kernels without a task.
    """
    if not len(device_tasks):
        return kernels, len(kernels)
    row = _matching_rows(kernels, device_tasks)
    is_known = row >= 0
    joined = kernels.copy(deep=False)
    for name in _TASK_COLUMNS:
        values = pd.Series(device_tasks[name].take(np.maximum(row, 0)).array, index=kernels.index)
        before: Any = kernels[name].astype(object) if name == "task_type" else kernels[name]
        merged = values.astype(before.dtype).where(is_known, before)
        joined[name] = merged.astype(kernels[name].dtype if name != "task_type" else "category")
    return tables.sort_by_time(joined), int((~is_known).sum())


def take_steps(communication: pd.DataFrame, listed: pd.DataFrame) -> pd.DataFrame:
    """Copy the step of each communication operator from the CSV to the timeline's table."""
    if not len(listed):
        return communication
    row = _matching_rows(communication, listed)
    joined_rows: pd.DataFrame = communication.copy(deep=False)
    is_known = row >= 0
    step = listed["step"].take(np.maximum(row, 0)).array
    joined_rows["step"] = pd.Series(step, index=communication.index).where(is_known, communication["step"])
    return joined_rows


def is_timed(listed: pd.DataFrame, timeline: pd.DataFrame) -> Bools:
    """Return a mask of the rows that start within 1 ns of a row of the timeline; names may differ between the files."""
    return np.any([np.isin(starts, known) for starts, known in _comparable(listed, timeline)], axis=0)


def _matching_rows(frame: pd.DataFrame, other: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the row of `other` with the name and start (within 1 ns) of each row; -1 for none."""
    names = pd.Index(frame["name"].cat.categories)
    other_codes = np.append(names.get_indexer(other["name"].cat.categories), -1)[other["name"].cat.codes]
    codes = frame["name"].cat.codes.to_numpy()
    rows = np.full(len(frame), -1, np.int64)
    for starts, other_values in _comparable(frame, other):
        candidates = starting_at(other_codes, other_values, codes, starts)
        rows = np.where((rows < 0) & (codes >= 0), candidates, rows)
    return rows


def _comparable(frame: pd.DataFrame, other: pd.DataFrame) -> Iterator[tuple[Int64, Int64]]:
    """Yield starts of both tables that are equal where a row may be the same, the closest first."""
    starts, other_values = (each["start_ns"].to_numpy(np.int64) for each in (frame, other))
    for offset in _OFFSETS_NS:
        yield starts + offset, other_values
    if any(len(times) and not (times % _FLOAT_NS).any() for times in (starts, other_values)):
        starts, other_values = ((times + _FLOAT_NS // 2) // _FLOAT_NS for times in (starts, other_values))
        for offset in _OFFSETS_NS:
            yield starts + offset, other_values


def take_task_names(kernels: pd.DataFrame, device_tasks: pd.DataFrame) -> pd.DataFrame:
    """Rename kernels that MindSpore lists as ``operator/kernel`` to the name of their device task, ``kernel``.

    The task starts with the kernel, within 1 ns, and has the last part of the kernel's name. `op_name` is kept.
    """
    listed = [str(name) for name in kernels["name"].cat.categories]
    known_names = [str(name) for name in device_tasks["name"].cat.categories]
    task_names = set(known_names)
    unmatched = np.array([*("/" in name and name not in task_names for name in listed), False], np.bool_)
    if not unmatched.any():
        return kernels
    codes, task_codes = kernels["name"].cat.codes.to_numpy(), device_tasks["name"].cat.codes.to_numpy()
    starting: defaultdict[int, list[int]] = defaultdict(list)
    for start_ns, code in zip(device_tasks["start_ns"].tolist(), task_codes.tolist(), strict=True):
        if code >= 0:
            starting[start_ns].append(code)

    @cache
    def fits(code: int, task_code: int) -> bool:
        return listed[code].endswith(f"/{known_names[task_code]}")

    names = kernels["name"].astype(object).to_numpy(copy=True)
    starts = kernels["start_ns"].to_numpy()
    for row in np.flatnonzero(unmatched[codes]).tolist():
        near = (code for offset in _OFFSETS_NS for code in starting.get(int(starts[row]) + offset, ()))
        task_code = next((code for code in near if fits(int(codes[row]), code)), None)
        if task_code is not None:
            names[row] = known_names[task_code]
    return kernels.assign(name=pd.Categorical(names))
