"""Memory: allocator samples, reservations of the process and of driver modules, and blocks.

Source: sources/RESULTS.md sections 5.1 and 5.2.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64, Records
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.database.format import TABLES
from npuprof.sources.database.reader import Reader, Rows

_SAMPLES, _BLOCKS, _EVENTS, _PROCESS = "MEMORY_RECORD", "OP_MEMORY", "NPU_OP_MEM", "NPU_MEM"
_UNSIZED = "a block has no readable size"


def memory_table(reader: Reader) -> pd.DataFrame | None:
    """Build `memory` in order of time.

    Components are the allocators (``PTA``, ``GE``, ``PTA+GE``, ``WORKSPACE``), ``APP`` for the process's device
    memory, and driver modules such as ``HCCL (module)``, which share names with allocators but count other memory.
    """
    allocators = reader.rows(_SAMPLES if reader.has(_SAMPLES) else _EVENTS)
    parts = (
        allocators.sampled().build("memory"),
        _process(reader),
        reader.rows("NPU_MODULE_MEM").sampled().build("memory"),
    )
    frames = [part for part in parts if part is not None]
    return tables.sort_by_time(stacked(frames)) if frames else None


def allocations_table(reader: Reader) -> pd.DataFrame | None:
    """Build `allocations`: the framework's blocks in the order of the file, else those of the graph engine.

    A block that is live at the end has no release; a negative size is the release of a block allocated before the
    recording.
    """
    rows = reader.rows(_BLOCKS)
    if len(rows):
        rows = rows.without(rows["size"] == ABSENT, _UNSIZED).distinct("allocationTime")
        _account_repeated(reader, rows)
        return rows.build("allocations")
    return _paired_blocks(reader)


def process_samples(reader: Reader) -> tuple[Rows, Bools]:
    """Read ``NPU_MEM``: memory of the process (app) and of the whole device, and which rows are in the table `memory`.

    Those are only the rows of the process, if its allocators are recorded too.
    """
    rows = reader.rows(_PROCESS).sampled()
    owners = rows.column("type")
    return rows, np.asarray(owners == "APP", np.bool_) if reader.has(_SAMPLES) else owners.codes >= 0


def _process(reader: Reader) -> pd.DataFrame | None:
    """Return the reserved memory of the process, and of the device where no allocator is recorded (msprof)."""
    rows, in_memory = process_samples(reader)
    rows = rows.take(in_memory).keep("memory")
    columns = rows.columns()
    if reader.has(_SAMPLES):
        del columns["hbm_bytes"], columns["ddr_bytes"]
    held = np.maximum(rows["ddr"], 0) + np.maximum(rows["hbm"], 0)
    return tables.build("memory", {**columns, "reserved_bytes": optional(held, (-1,))}) if len(rows) else None


def _account_repeated(reader: Reader, blocks: Rows) -> None:
    """Register the events of ``NPU_OP_MEM`` that repeat blocks of the framework."""
    if reader.has(_SAMPLES) and reader.has(_EVENTS):
        moments = reader.numbers(_EVENTS, "timestampNs")
        repeated = np.isin(moments, np.concatenate((blocks["allocationTime"], blocks["releaseTime"])))
        repeated &= moments != ABSENT
        reader.accounts.use(_EVENTS, int(np.count_nonzero(repeated)))
        reader.leave_out(_EVENTS, "an event belongs to no block", int(np.count_nonzero(~repeated)), ("allocations",))


def _paired_blocks(reader: Reader) -> pd.DataFrame | None:
    """Build blocks from ``NPU_OP_MEM``: the next row with the address of an allocation releases it."""
    rows, release = _block_events(reader)
    is_same = (rows["addr"][1:] == rows["addr"][:-1]) & (rows["deviceId"][1:] == rows["deviceId"][:-1])
    follows = np.concatenate((is_same & ~release[:-1] & release[1:], [False]))[: len(release)]  # its release comes next
    released_by = np.roll(np.arange(len(release)), -1)  # the row of the release, where `follows`
    lonely = release & ~np.concatenate(([False], follows[:-1]))[: len(release)]

    def at_release(column: str) -> Int64:
        unpaired = np.where(lonely, rows[column], ABSENT)
        return np.where(follows, rows[column][released_by], unpaired)

    def at_allocation(column: str) -> Int64:
        return np.where(lonely, ABSENT, rows[column])

    blocks = Rows(
        reader,
        TABLES[_BLOCKS],
        {
            **{column.name: np.full(len(release), ABSENT) for column in TABLES[_BLOCKS].columns if column.kind},
            "addr": rows["addr"],
            "name": rows["operatorName"],
            "size": np.where(lonely & (rows["size"] > 0), -rows["size"], rows["size"]),
            "deviceId": rows["deviceId"],
            "allocationTime": at_allocation("timestampNs"),
            "releaseTime": at_release("timestampNs"),
            "allocationTotalAllocated": at_allocation("totalAllocate"),
            "allocationTotalReserved": at_allocation("totalReserve"),
            "releaseTotalAllocated": at_release("totalAllocate"),
            "releaseTotalReserved": at_release("totalReserve"),
        },
    )
    selected_rows = np.flatnonzero(~release | lonely)
    sized = blocks["size"][selected_rows] != ABSENT
    _note_no_blocks(reader, _UNSIZED, int((~sized).sum()))
    selected_rows = selected_rows[sized]
    rows_used = 0 if not reader.has(_SAMPLES) else len(release)  # else `memory` is built from them too
    reader.accounts.keep(_EVENTS, "allocations", rows_used, len(selected_rows))
    blocks = blocks.take(selected_rows[np.argsort(rows["timestampNs"][selected_rows], kind="stable")])
    if not len(blocks):
        return None
    columns = {name: values for name, values in blocks.columns().items() if name not in _NOT_OF_THE_ENGINE}
    return tables.build("allocations", {"address": blocks["addr"], **columns})


_NOT_OF_THE_ENGINE = ("active_released_ns", "allocation_total_active_bytes", "release_total_active_bytes")


def _block_events(reader: Reader) -> tuple[Rows, Records]:
    """Return the rows of ``NPU_OP_MEM`` sorted by device, address and time, and the mask of releases."""
    rows = reader.rows(_EVENTS).sampled()
    words = rows.column("type")
    is_taken, release = (np.asarray(words == word, np.bool_) for word in ("allocate", "release"))
    order = np.lexsort((rows["timestampNs"], rows["addr"], rows["deviceId"]))
    is_known = (is_taken | release)[order]
    lost_count = int((~is_known).sum())
    _note_no_blocks(reader, "a row neither allocates nor releases", lost_count)
    if reader.has(_SAMPLES):
        reader.accounts.use(_EVENTS, lost_count)
    order = order[is_known]
    return rows.take(order), release[order]


def _note_no_blocks(reader: Reader, reason: str, count: int) -> None:
    reader.warn(f"{_EVENTS}: {reason}; left out of allocations", count)
