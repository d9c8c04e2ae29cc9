"""Read ``kernel_details.csv`` (torch_npu, MindSpore) and ``op_summary_*.csv`` (msprof): one table, many headers.

Columns are found by any of the names they had over the versions. Communication operators are rows of the
same file but no kernels: they come apart, since their time is not compute time.

Source: sources/RESULTS.md section 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from npuprof import tables
from npuprof.arrays import Bools
from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.sources.columns.decimals import US_TO_NS
from npuprof.sources.overlapping import COMMUNICATION_KERNELS
from npuprof.sources.text.csv_table import CsvTable, without_quotes

COMMUNICATION_CORES = ("HCCL", "COMMUNICATION")
_COMMUNICATION_NAME = "hcom_"
_OF_BOTH = ("start_ns", "duration_ns", "device_id", "name", "op_type", "step")  # kernels and communication operators

_SYNONYMS = {
    "step": ("Step Id", "Step ID"),
    "device_id": ("Device_id",),
    "model_id": ("Model ID", "Model Id"),
    "model_name": ("Model Name",),
    "task_id": ("Task ID",),
    "stream_id": ("Stream ID",),
    "name": ("Name", "Op Name"),
    "op_type": ("Type", "OP Type"),
    "op_state": ("OP State",),
    "core": ("Accelerator Core", "Task Type"),
    "start": ("Start Time(us)", "Task Start Time(us)", "Task Start Time"),
    "duration": ("Duration(us)", "Task Duration(us)"),
    "wait": ("Wait Time(us)", "Task Wait Time(us)"),
    "block_num": ("Block Num", "Block Dim"),
    "mix_block_num": ("Mix Block Num", "Mix Block Dim"),
    "hf32": ("HF32 Eligible",),
    "input_shapes": ("Input Shapes",),
    "input_dtypes": ("Input Data Types",),
    "input_formats": ("Input Formats",),
    "output_shapes": ("Output Shapes",),
    "output_dtypes": ("Output Data Types",),
    "output_formats": ("Output Formats",),
    "context_id": ("Context ID",),
}
_TOTALS = {"aicore_time_ns": "aic_total_time_ns", "aiv_time_ns": "aiv_total_time_ns"}  # as raw data names them
_UNITS = {"us": "ns", "%": "percent", "gb/s": "gb_s", "kb": "kb", "mb/s": "mb_s"}
_UNIT = re.compile(r"(.*?)\s*\(([^()]*)\)")
_KNOWN = {"Infer ID", "Attr Info", *(name for names in _SYNONYMS.values() for name in names)}
_COUNTER = re.compile(r"[a-z0-9]\S*|\w+_to_\w+\(.*\)")  # all other columns begin with a capital letter
_FORMAT_PREFIX = re.compile(r"FORMAT_(?=[A-Z])")


@dataclass
class KernelDetails:
    """What the file holds: the kernels, and the communication operators; `source` is the file's name."""

    source: str
    kernels: pd.DataFrame
    communication: pd.DataFrame


def read_kernel_details(path: Path, notes: Notes, default_device: int = 0) -> KernelDetails:
    """Read one file.

    Parameters
    ----------
    path
        The file.
    notes
        Where rows without a time are counted.
    default_device
        The device of files that do not name it.

    Returns
    -------
    Both tables sorted by time. Where the file has no stream, task or batch number it is 0 until a timeline
    tells better, see :func:`npuprof.sources.text.kernel_join.take_task_numbers`.

    Raises
    ------
    SourceError
        If the file cannot be read or has no column of names, starts or durations.
    """
    table = CsvTable(path, notes, _SYNONYMS["step"])
    table.expect(_KNOWN, _COUNTER)
    found = {key: name for key, names in _SYNONYMS.items() if (name := table.find(*names))}
    missing = [_SYNONYMS[key][0] for key in ("name", "start", "duration") if key not in found]
    if missing:
        raise SourceError(f"{path} has no column {missing[0]!r}, so it is no table of kernels; is it another file?")
    start, timed = table.time_ns(found["start"])
    duration = table.scaled(found["duration"], US_TO_NS)
    usable = timed & ~np.asarray(duration.isna())
    if not usable.all():
        table.drop(~usable, "a row has no start or duration", "kernels and communication")
        start, duration = start[usable], duration[usable]
    columns = {"start_ns": start, "duration_ns": duration.to_numpy(np.int64), **_identity(table, found, default_device)}
    columns.update(_properties(table, found))
    columns.update(_counters(table, found))
    is_communication = _communication_rows(columns)
    operators = _rows({name: columns[name] for name in _OF_BOTH if name in columns}, is_communication)
    kernels = _rows(columns, ~is_communication) if is_communication.any() else columns
    table.put("communication", count := int(is_communication.sum()))
    table.put("kernels", len(table) - count)
    return KernelDetails(
        path.name,
        tables.sort_by_time(tables.build("kernels", kernels)),
        tables.sort_by_time(tables.build("communication", operators)),
    )


def _communication_rows(columns: dict[str, Any]) -> Bools:
    """Return the rows of communication operators: by their core, and at Level0, where it is N/A, by their name.

    The kernels by which communication is done have the same core, but are kernels: their operators have rows too.
    """
    kernels = _is(columns["name"], lambda name: name.endswith(COMMUNICATION_KERNELS))
    named = _is(columns["name"], lambda name: name.startswith(_COMMUNICATION_NAME))
    if "core" not in columns:
        return named & ~kernels
    core: pd.Categorical = columns["core"]
    of_core = _is(core, lambda name: name in COMMUNICATION_CORES)
    return (of_core | (named & np.asarray(core.codes < 0))) & ~kernels


def _is(names: pd.Categorical, what: Callable[[str], bool]) -> Bools:
    """Return where a column holds one of the names that are so; each name is asked once."""
    table = np.array([*map(what, names.categories), False], np.bool_)
    rows: Bools = table[names.codes]  # code -1, absent, takes the last entry
    return rows


def _identity(table: CsvTable, found: dict[str, str], default_device: int) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if "device_id" in found:
        columns["device_id"] = table.whole(found["device_id"]).fillna(default_device).to_numpy(np.int64)
    else:
        columns["device_id"] = np.full(len(table), default_device, np.int64)
    columns.update({name: table.whole(found[name]) for name in ("stream_id", "task_id") if name in found})
    return columns


def _properties(table: CsvTable, found: dict[str, str]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name in ("context_id", "block_num", "mix_block_num", "step"):
        if name in found:
            columns[name] = table.whole(found[name])
    columns["name"] = columns["op_name"] = table.categories(found["name"])
    for name in ("op_type", "core", "op_state"):
        if name in found:
            columns[name] = table.categories(found[name])
    if "core" in columns:
        columns["task_type"] = columns["core"]
    if "hf32" in found:
        columns["hf32"] = pd.array(pc.equal(table.text(found["hf32"]), "YES").to_pylist(), dtype="boolean")
    for side in ("input", "output"):
        for what in ("shapes", "dtypes", "formats"):
            if (name := f"{side}_{what}") in found:
                columns[name] = table.categories(found[name], operand_text)
    if "wait" in found:
        columns["wait_ns"] = table.scaled(found["wait"], US_TO_NS)
    if "model_id" in found:
        columns["model_id"] = table.whole(found["model_id"])
    if "model_name" in found:
        columns["model_name"] = table.categories(found["model_name"])
    return columns


def operand_text(cell: str) -> str:
    """Return shapes, dtypes or formats of operands without the quotes and the prefix that older writers put on."""
    return _FORMAT_PREFIX.sub("", without_quotes(cell))


def _counters(table: CsvTable, found: dict[str, str]) -> dict[str, Any]:
    """Take the columns of no known meaning: the AI Core's counters, by whichever metrics were chosen; else names."""
    columns: dict[str, Any] = {}
    # A chip with separate cube and vector cores counts the cycles of each; others have one core, and its time.
    totals = _TOTALS if "aic_total_cycles" in table.names or "aiv_total_cycles" in table.names else {}
    for header in table.names:
        if header in found.values() or not header:
            continue
        name, unit = column_name(header)
        name = totals.get(name, name)
        if not _COUNTER.fullmatch(header) and not table.is_numeric(header):
            columns[name] = table.categories(header)
        elif unit == "us":
            columns[name] = table.scaled(header, US_TO_NS)
        elif name.endswith(("_cycles", "_id")):
            columns[name] = table.whole(header)
        else:
            columns[name] = table.numbers(header)
    return columns


def column_name(header: str) -> tuple[str, str]:
    """Return a header in the form of our columns, and its unit: ``aic_mac_time(us)`` -> ``aic_mac_time_ns``, ``us``."""
    match = _UNIT.fullmatch(header)
    stem, unit = (match[1].removesuffix("_datas"), match[2].lower()) if match else (header, "")
    words = [re.sub(r"\W+", "_", stem).strip("_").lower(), _UNITS.get(unit, re.sub(r"\W+", "_", unit))]
    return "_".join(word for word in words if word), unit


def _rows(columns: dict[str, Any], chosen: Bools) -> dict[str, Any]:
    """Take rows of all columns, and of names only those that are still there."""
    taken = {name: values[chosen] for name, values in columns.items()}
    return {
        name: values.remove_unused_categories() if isinstance(values, pd.Categorical) else values
        for name, values in taken.items()
    }
