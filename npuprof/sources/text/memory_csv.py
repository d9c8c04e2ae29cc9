"""Read the memory files of a result: memory record, operator memory, and samples of devices and modules.

Sizes are decimals of MB (torch_npu) or KB (msprof), as their column name says, and become exact integer bytes. In
MindSpore's memory record an MB is 1000 KB of 1024 bytes. Every reader raises a SourceError for a file that cannot be
read or lacks a required column.

Source: sources/RESULTS.md sections 1.2 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources.columns.builders import module_component
from npuprof.sources.columns.decimals import KB_TO_BYTES, MB_TO_BYTES, US_TO_NS
from npuprof.sources.text.csv_table import CsvTable
from npuprof.tables.notes import Notes
from npuprof.tables.schema import SCHEMA

_UNITS = {"KB": KB_TO_BYTES, "MB": MB_TO_BYTES}
_EVENTS = {"app": "APP", "device": "Device"}
_TOTALS = {"PTA+GE", "MindSpore+GE"}
_MINDSPORE = ("MindSpore", "MindSpore+GE")
_MINDSPORE_MB_TO_BYTES = 1000 * KB_TO_BYTES
_DEVICE = re.compile(r"NPU:(\d{1,18})", re.ASCII)
_MEMORY, _BLOCKS = (SCHEMA[name].names_in("csv") for name in ("memory", "allocations"))
_DEVICES = _MEMORY["device_id"]
_TIME, _SAMPLE_TIME = _MEMORY["time_ns"]  # the latter in npu_mem
_COMPONENT, _EVENT = _MEMORY["component"]
(_NAME,), (_ALLOCATED,), (_RELEASED,), (_STREAM,) = (
    _BLOCKS[name] for name in ("name", "allocated_ns", "released_ns", "stream")
)
_LAST_USE = "Active Release Time(us)"


def _in_units(*stems: str) -> tuple[str, ...]:
    return tuple(f"{stem}({unit})" for stem in stems for unit in _UNITS)


_SIZES = {name: _MEMORY[name] for name in ("allocated_bytes", "reserved_bytes", "active_bytes")}
_TOTAL_SIZES = tuple(header for headers in _SIZES.values() for header in headers if header.startswith("Total"))
_AT_ALLOCATION = _in_units("Allocation Total Allocated", "Allocation Total Reserved")
_AT_RELEASE = (_RELEASED, "Duration(us)", *_in_units("Release Total Allocated", "Release Total Reserved"))
_AT_LAST_USE = (_LAST_USE, "Active Duration(us)", *_in_units("Release Total Active"))
_ACTIVE = (_STREAM, *_in_units("Allocation Total Active"))  # blank for the GE allocator


def read_memory_record(path: Path, notes: Notes) -> pd.DataFrame:
    """Read allocator and process samples as the table ``memory``, sorted by time.

    ``PTA+GE`` and ``MindSpore+GE`` rows are the sum of the two component rows; ``APP`` has only a reserved size.
    """
    table = CsvTable(path, notes, (*_TOTAL_SIZES, _STREAM))
    table.expect((_COMPONENT, _TIME, *_TOTAL_SIZES, _STREAM, *_DEVICES))
    for name in (_COMPONENT, _TIME):
        if name not in table.names:
            raise SourceError(f"{path} has no column {name!r}, so it is no memory record; is it another file?")
    table.require(_SIZES["allocated_bytes"], _SIZES["reserved_bytes"], _DEVICES)
    table.drop(~table.time_ns(_TIME)[1], "a row has no readable time", ("memory",))
    columns: dict[str, Any] = {
        "time_ns": table.time_ns(_TIME)[0],
        "device_id": _device(table),
        "component": table.categories(_COMPONENT),
    }
    for name, headers in _SIZES.items():
        if (sized := _find_size(table, headers)) is not None:
            header, unit_bytes = sized
            thousands = unit_bytes == MB_TO_BYTES and is_of_mindspore(columns["component"])
            columns[name] = table.scaled(header, _MINDSPORE_MB_TO_BYTES if thousands else unit_bytes)
    if _STREAM in table.names:
        columns["stream"] = table.whole(_STREAM)
    sizes = [columns[name] for name in (*_SIZES, "stream") if name in columns]
    lacking = sum(_partly_absent(values, columns["component"]) for values in sizes)
    table.warn("a cell is blank or no number, unlike in other rows of its component", lacking)
    counts = columns["component"].value_counts()
    for total in _TOTALS.intersection(counts.index):
        parts = sum(int(counts.get(part, 0)) for part in total.split("+"))
        table.warn(f"rows of {total} and of its components do not match", abs(parts - counts[total]))
    table.put("memory")
    return tables.sort_by_time(tables.build("memory", columns))


def _partly_absent(values: Any, component: pd.Categorical) -> int:
    """Count the absent values in rows of a component that has values in other rows."""
    codes, absent = component.codes + 1, np.asarray(values.isna())
    rows, absent_rows = np.bincount(codes), np.bincount(codes[absent], minlength=int(codes.max(initial=0)) + 1)
    return int(absent_rows[absent_rows < rows].sum())


def is_of_mindspore(component: pd.Categorical) -> bool:
    """Check by the components whether a memory record was written by MindSpore."""
    return not set(component.categories).isdisjoint(_MINDSPORE)


def read_operator_memory(path: Path, notes: Notes) -> pd.DataFrame:
    """Read blocks, and the operators that allocated them, as the table ``allocations`` in the order of the file.

    A block still held at the end has no release; a negative size is the release of a block that was
    allocated before the recording.
    """
    groups = (_AT_RELEASE, _AT_LAST_USE, _ACTIVE)
    table = CsvTable(path, notes, {name for names in groups for name in names})
    known = (name for names in (*_BLOCKS.values(), *groups, _AT_ALLOCATION) for name in names)
    table.expect({*known})
    for names in groups:
        table.note_partly_blank(*names)
    size = _find_size(table, _BLOCKS["size_bytes"])
    if size is None or _NAME not in table.names:
        raise SourceError(f"{path} has no name or size of blocks, so it is no operator memory; is it another file?")
    table.require((_ALLOCATED,), (_RELEASED, "Duration(us)"), _DEVICES)
    sizes = table.scaled(*size)
    if sizes.isna().any():
        table.drop(np.asarray(sizes.isna()), "a row has no readable size", ("allocations",))
        sizes = table.scaled(*size)
    if (moment := table.find(_ALLOCATED, _RELEASED)) is not None:
        sizes = sizes[table.drop_repeated(*table.time_ns(moment))]
    columns: dict[str, Any] = {
        "name": table.categories(_NAME),
        "size_bytes": sizes.to_numpy("int64"),
        "device_id": _device(table),
    }
    for name, header in (("allocated_ns", _ALLOCATED), ("released_ns", _RELEASED)):
        if header in table.names:
            values, valid = table.time_ns(header)
            columns[name] = pd.arrays.IntegerArray(values, ~valid)
    if _RELEASED not in table.names and {_ALLOCATED, "Duration(us)"} <= set(table.names):
        columns["released_ns"] = columns["allocated_ns"] + table.scaled("Duration(us)", US_TO_NS)
    if _STREAM in table.names:
        columns["stream"] = table.whole(_STREAM)
    columns |= _totals(table)
    table.put("allocations")
    return tables.build("allocations", columns)


def _totals(table: CsvTable) -> dict[str, Any]:
    """Return the last use of each block and the allocator totals at its allocation and release."""
    columns: dict[str, Any] = {}
    if _LAST_USE in table.names:
        values, valid = table.time_ns(_LAST_USE)
        columns["active_released_ns"] = pd.arrays.IntegerArray(values, ~valid)
    for when in ("Allocation", "Release"):
        for kind in ("Allocated", "Reserved", "Active"):
            if (sized := _find_size(table, _in_units(f"{when} Total {kind}"))) is not None:
                columns[f"{when.lower()}_total_{kind.lower()}_bytes"] = table.scaled(*sized)
    return columns


def read_device_memory(path: Path, notes: Notes) -> pd.DataFrame:
    """Read ``npu_mem``, memory of the process and of the whole device, as the table ``memory``.

    `reserved_bytes` is the sum of `hbm_bytes` and `ddr_bytes`, as in raw data.
    """
    table = _samples(path, notes, _SAMPLE_TIME, _EVENT)
    columns: dict[str, Any] = {
        "time_ns": table.time_ns(_SAMPLE_TIME)[0],
        "device_id": _device(table),
        "component": table.categories(_EVENT, lambda event: _EVENTS.get(event.lower(), event)),
    }
    table.expect((_SAMPLE_TIME, _EVENT, *_in_units("memory", "hbm", "ddr"), *_DEVICES))
    table.require(_in_units("memory"), _DEVICES)
    for name, stem in (("reserved_bytes", "memory"), ("hbm_bytes", "hbm"), ("ddr_bytes", "ddr")):
        if (sized := _find_size(table, _in_units(stem))) is not None:
            columns[name] = table.scaled(*sized)
    table.put("memory")
    return tables.sort_by_time(tables.build("memory", columns))


def read_module_memory(path: Path, notes: Notes) -> pd.DataFrame:
    """Read ``npu_module_mem``, memory reserved by each module, as the table ``memory``; -1 is absent.

    Components are called ``HCCL (module)`` and so on, since allocators share some of the names.
    """
    table = _samples(path, notes, _TIME, _COMPONENT)
    columns: dict[str, Any] = {
        "time_ns": table.time_ns(_TIME)[0],
        "device_id": _device(table),
        "component": table.categories(_COMPONENT, module_component),
    }
    table.expect((_TIME, _COMPONENT, *_in_units("Total Reserved"), *_DEVICES))
    table.require(_in_units("Total Reserved"), _DEVICES)
    moments = pd.DataFrame({name: columns[name] for name in ("time_ns", "device_id")})
    sizes = moments.groupby(["time_ns", "device_id"], dropna=False).size()
    table.warn("a sample lacks a module that others have", int((sizes.max() - sizes).sum()) if len(sizes) else 0)
    if (sized := _find_size(table, _in_units("Total Reserved"))) is not None:
        sizes = table.scaled(*sized)
        columns["reserved_bytes"] = pd.array(pd.Series(sizes).mask(sizes < 0), dtype="Int64")
    table.put("memory")
    return tables.sort_by_time(tables.build("memory", columns))


def _samples(path: Path, notes: Notes, *needed_names: str) -> CsvTable:
    """Open a file of samples and drop the rows without a time, the first needed column."""
    table = CsvTable(path, notes)
    for name in needed_names:
        if name not in table.names:
            raise SourceError(f"{path} has no column {name!r}, so it is no record of memory; is it another file?")
    table.drop(~table.time_ns(needed_names[0])[1], "a row has no readable time", ("memory",))
    return table


def _find_size(table: CsvTable, headers: Sequence[str]) -> tuple[str, int] | None:
    """Return the first of some headers that the file has, and the bytes of the unit in its brackets."""
    header = table.find(*headers)
    return None if header is None else (header, _UNITS[header[-3:-1]])


def _device(table: CsvTable) -> Any:
    if "Device_id" in table.names:
        return table.whole("Device_id")
    header = table.find(*_DEVICES[1:])
    if header is None:
        return pd.array([pd.NA] * len(table), dtype="Int64")
    return table.whole_within(header, _DEVICE)


MEMORY_READERS: dict[str, Callable[[Path, Notes], pd.DataFrame]] = {
    "memory_record": read_memory_record,
    "ge_memory_record": read_memory_record,
    "npu_mem": read_device_memory,
    "npu_module_mem": read_module_memory,
}
"""How to read each kind of file that fills `memory`, in the order in which its rows come."""
