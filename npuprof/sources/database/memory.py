"""Memory: allocator samples, reservations of the process and of driver modules, and blocks.

Source: sources/RESULTS.md sections 5.1 and 5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, Records
from npuprof.sources.columns.builders import ABSENT, missing, module_component, optional
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.columns.decimals import MAX_TIME_NS
from npuprof.sources.database.connection import Database
from npuprof.sources.database.intervals import drop_repeated, sampled, take
from npuprof.sources.database.names import TextsById, memory_names

_RECORD = ["component", "timestamp", "totalAllocated", "totalReserved", "totalActive", "streamPtr", "deviceId"]
_OPERATOR = [
    "operatorName",
    "addr",
    "type",
    "size",
    "timestampNs",
    "totalAllocate",
    "totalReserve",
    "component",
    "deviceId",
]
_TOTALS = {
    f"{when}Total{what}": f"{when}_total_{what.lower()}_bytes"
    for when in ("allocation", "release")
    for what in ("Allocated", "Reserved", "Active")
}
"""Allocator totals at a block's allocation and release: columns of `allocations` by those of the file."""
_UNKNOWN = (-1,)
_KINDS = {"app": "APP", "device": "Device"}
_EVENTS = ("allocate", "release")


def memory_table(database: Database, strings: TextsById) -> pd.DataFrame | None:
    """Build `memory` in order of time.

    Components are the allocators (``PTA``, ``GE``, ``PTA+GE``, ``WORKSPACE``), ``APP`` for the process's device
    memory, and driver modules such as ``HCCL (module)``, which share names with allocators but count other memory.
    """
    parts = [_allocators(database, strings), _process(database, strings), _modules(database)]
    frames = [tables.build("memory", part) for part in parts if len(part["time_ns"])]
    if not frames:
        return None
    return tables.sort_by_time(stacked(frames))


def allocations_table(database: Database, strings: TextsById) -> pd.DataFrame | None:
    """Build `allocations`: the framework's blocks in the order of the file, else those of the graph engine.

    A block that is live at the end has no release; a negative size is the release of a block allocated before the
    recording.
    """
    wanted_names = [
        "name",
        "size",
        "allocationTime",
        "releaseTime",
        "activeReleaseTime",
        "streamPtr",
        "deviceId",
        *_TOTALS,
    ]
    rows = database.rows("OP_MEMORY", wanted_names)
    if len(rows["size"]):
        sized = rows["size"] != ABSENT
        database.accounts.leave_out(
            "OP_MEMORY", "a block has no readable size", int((~sized).sum()), affects=("allocations",)
        )
        rows = drop_repeated(database, "OP_MEMORY", take(rows, sized), "allocationTime")
        database.accounts.keep("OP_MEMORY", "allocations", len(rows["size"]))
        _account_repeated(database, rows)
    else:
        rows = _paired_blocks(database, strings)
    if not len(rows["size"]):
        return None
    columns: dict[str, Any] = {
        "name": strings.column(rows["name"]),
        "size_bytes": rows["size"],
        "allocated_ns": _times(rows["allocationTime"]),
        "released_ns": _times(rows["releaseTime"]),
        "device_id": optional(rows["deviceId"], _UNKNOWN),
        "stream": optional(rows["streamPtr"]),
    }
    if "addr" in rows:
        columns["address"] = rows["addr"]
    if "activeReleaseTime" in rows:
        columns["active_released_ns"] = _times(rows["activeReleaseTime"])
    columns |= {name: optional(rows[column]) for column, name in _TOTALS.items() if column in rows}
    return tables.build("allocations", columns)


def _account_repeated(database: Database, blocks: dict[str, Records]) -> None:
    """Register the events of ``NPU_OP_MEM`` that repeat blocks of the framework."""
    if database.has("MEMORY_RECORD") and database.has("NPU_OP_MEM"):
        moments = database.rows("NPU_OP_MEM", ["timestampNs"])["timestampNs"]
        repeated = np.isin(moments, np.concatenate((blocks["allocationTime"], blocks["releaseTime"])))
        repeated &= moments != ABSENT
        database.accounts.use("NPU_OP_MEM", int(np.count_nonzero(repeated)))
        database.accounts.leave_out(
            "NPU_OP_MEM", "an event belongs to no block", int(np.count_nonzero(~repeated)), affects=("allocations",)
        )


def _allocators(database: Database, strings: TextsById) -> dict[str, Any]:
    if database.has("MEMORY_RECORD"):
        rows = sampled(database, "MEMORY_RECORD", database.rows("MEMORY_RECORD", _RECORD), "timestamp", ("memory",))
        database.accounts.keep("MEMORY_RECORD", "memory", len(rows["timestamp"]))
        time, allocated, reserved = rows["timestamp"], rows["totalAllocated"], rows["totalReserved"]
        active, stream = optional(rows["totalActive"]), {"stream": optional(rows["streamPtr"])}
    else:
        rows = _engine_events(database)
        database.accounts.keep("NPU_OP_MEM", "memory", len(rows["timestampNs"]))
        time, allocated, reserved = rows["timestampNs"], rows["totalAllocate"], rows["totalReserve"]
        active, stream = missing(len(time)), {}
    return {
        "time_ns": time,
        "device_id": optional(rows["deviceId"], _UNKNOWN),
        "component": strings.column(rows["component"]),
        "allocated_bytes": optional(allocated),
        "reserved_bytes": optional(reserved),
        "active_bytes": active,
        **stream,
    }


def _process(database: Database, strings: TextsById) -> dict[str, Any]:
    """Return the reserved memory of the process, and of the device where no allocator is recorded (msprof)."""
    rows = process_samples(database, strings)
    rows = take(rows, rows["in_memory"])
    kinds = process_kinds(database, strings, rows)
    by_allocator = database.has("MEMORY_RECORD")
    database.accounts.keep("NPU_MEM", "memory", len(rows["type"]))
    held = np.maximum(rows["ddr"], 0) + np.maximum(rows["hbm"], 0)
    columns = _reserved_columns(rows, held, kinds)
    if by_allocator:
        return columns
    return {**columns, "hbm_bytes": optional(rows["hbm"], _UNKNOWN), "ddr_bytes": optional(rows["ddr"], _UNKNOWN)}


def process_samples(database: Database, strings: TextsById) -> dict[str, Records]:
    """Read ``NPU_MEM``: memory of the process (app) and of the whole device in bytes.

    `in_memory` marks the rows of the table `memory`: only rows of the process, if its allocators are recorded too.
    """
    columns = ["type", "timestampNs", "deviceId", "ddr", "hbm"]
    rows = sampled(database, "NPU_MEM", database.rows("NPU_MEM", columns), "timestampNs", ("memory", "counters"))
    kinds = process_kinds(database, strings, rows)
    by_allocator = database.has("MEMORY_RECORD")
    return {**rows, "in_memory": np.asarray(kinds == "APP", np.bool_) if by_allocator else kinds.codes >= 0}


def _engine_events(database: Database) -> dict[str, Records]:
    """Read ``NPU_OP_MEM``: allocations and releases of the graph engine, with its totals."""
    rows = database.rows("NPU_OP_MEM", _OPERATOR)
    return sampled(database, "NPU_OP_MEM", rows, "timestampNs", "memory and allocations")


def process_kinds(database: Database, strings: TextsById, rows: dict[str, Records]) -> pd.Categorical:
    """Return the owner of each row of ``NPU_MEM``: ``APP``, ``Device``, or another name in the file."""
    names = memory_names(database, strings, rows["type"], _KINDS)
    return names.column(rows["type"], lambda kind: _KINDS.get(kind.lower(), kind))


def _modules(database: Database) -> dict[str, Any]:
    columns = ["moduleId", "timestampNs", "totalReserved", "deviceId"]
    rows = sampled(database, "NPU_MODULE_MEM", database.rows("NPU_MODULE_MEM", columns), "timestampNs", ("memory",))
    database.accounts.keep("NPU_MODULE_MEM", "memory", len(rows["moduleId"]))
    modules = TextsById(database, "ENUM_MODULE").column(rows["moduleId"], module_component)
    return _reserved_columns(rows, rows["totalReserved"], modules)


def _reserved_columns(rows: dict[str, Records], held_records: Int64, component: pd.Categorical) -> dict[str, Any]:
    return {
        "time_ns": rows["timestampNs"],
        "device_id": optional(rows["deviceId"], _UNKNOWN),
        "component": component,
        "reserved_bytes": optional(held_records, _UNKNOWN),
    }


def _paired_blocks(database: Database, strings: TextsById) -> dict[str, Records]:
    """Build blocks from ``NPU_OP_MEM``: the next row with the address of an allocation releases it."""
    rows, release = _block_events(database, strings)
    is_same = (rows["addr"][1:] == rows["addr"][:-1]) & (rows["deviceId"][1:] == rows["deviceId"][:-1])
    follows = np.concatenate((is_same & ~release[:-1] & release[1:], [False]))[: len(release)]  # its release comes next
    released_by = np.roll(np.arange(len(release)), -1)  # the row of the release, where `follows`
    lonely = release & ~np.concatenate(([False], follows[:-1]))[: len(release)]
    selected_rows = np.flatnonzero(~release | lonely)

    def at_release(column: str) -> Int64:
        unpaired = np.where(lonely, rows[column], ABSENT)
        return np.where(follows, rows[column][released_by], unpaired)

    blocks = {
        "name": rows["operatorName"],
        "addr": rows["addr"],
        "size": np.where(lonely & (rows["size"] > 0), -rows["size"], rows["size"]),
        "allocationTime": np.where(lonely, ABSENT, rows["timestampNs"]),
        "releaseTime": at_release("timestampNs"),
        "streamPtr": np.full(len(release), ABSENT),
        "deviceId": rows["deviceId"],
        "allocationTotalAllocated": np.where(lonely, ABSENT, rows["totalAllocate"]),
        "allocationTotalReserved": np.where(lonely, ABSENT, rows["totalReserve"]),
        "releaseTotalAllocated": at_release("totalAllocate"),
        "releaseTotalReserved": at_release("totalReserve"),
    }
    sized = blocks["size"][selected_rows] != ABSENT
    _note_no_blocks(database, "a block has no readable size", int((~sized).sum()))
    selected_rows = selected_rows[sized]
    rows_used = 0 if _are_samples(database) else len(release)
    database.accounts.keep("NPU_OP_MEM", "allocations", rows_used, len(selected_rows))
    return take(blocks, selected_rows[np.argsort(rows["timestampNs"][selected_rows], kind="stable")])


def _block_events(database: Database, strings: TextsById) -> tuple[dict[str, Records], Records]:
    """Return the rows of ``NPU_OP_MEM`` sorted by device, address and time, and the mask of releases."""
    rows = _engine_events(database)
    words = memory_names(database, strings, rows["type"], _EVENTS).column(rows["type"], str.lower)
    is_taken, release = (np.asarray(words == word, np.bool_) for word in _EVENTS)
    order = np.lexsort((rows["timestampNs"], rows["addr"], rows["deviceId"]))
    is_known = (is_taken | release)[order]
    lost_count = int((~is_known).sum())
    _note_no_blocks(database, "a row neither allocates nor releases", lost_count)
    if not _are_samples(database):
        database.accounts.use("NPU_OP_MEM", lost_count)
    order = order[is_known]
    return take(rows, order), release[order]


def _are_samples(database: Database) -> bool:
    """Return whether `memory` is built from ``NPU_OP_MEM`` too."""
    return not database.has("MEMORY_RECORD")


def _note_no_blocks(database: Database, reason: str, count: int) -> None:
    if count:
        database.notes.warning(database.path.name, f"NPU_OP_MEM: {reason}; left out of allocations", count)


def _times(values: Int64) -> Any:
    return optional(np.where((values > 0) & (values < MAX_TIME_NS), values, ABSENT))
