"""Build ``memory`` and ``allocations`` from the ``[memory]`` events of torch's allocators."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, Records
from npuprof.sources.allocator_totals import note_lost_ends, note_lost_events
from npuprof.sources.columns.builders import ABSENT, GatheredColumns, missing, optional
from npuprof.sources.trace.maker import TraceTables
from npuprof.sources.trace.nesting import innermost
from npuprof.tables.notes import Notes

_CPU = 0
_COMPONENTS = {0: "CPU", 1: "CUDA"}  # by torch's device type number


def read_memory(slices: GatheredColumns, built: TraceTables, notes: Notes, source: str) -> dict[str, pd.DataFrame]:
    """Build both tables from the instants of a trace; empty without memory events.

    A block allocated before the recording, or freed after it, lacks one of its two times. Its name is that of the
    innermost operator that ran on the thread when it was allocated.
    """
    if not len(slices):
        return {}
    is_memory = np.array([*(name == "[memory]" for name in slices.names("name")), False], np.bool_)[slices["name"]]
    is_memory &= slices["allocated_bytes"] != ABSENT
    notes.leave_out(source, "an instant belongs to no table", int((~is_memory).sum()))
    rows = np.flatnonzero(is_memory)
    rows = rows[np.argsort(slices["start_ns"][rows], kind="stable")]
    if not len(rows):
        return {}
    kind, device = slices["device_type"][rows], slices["device"][rows]
    on_cpu = kind == _CPU
    columns = {
        "time_ns": slices["start_ns"][rows],
        "device_id": optional(np.where(on_cpu, ABSENT, device), (-1,)),
        "component": _components(kind),
        "allocated_bytes": optional(slices["allocated_bytes"][rows]),
        # The CPU allocator does not reserve memory, and writes 0.
        "reserved_bytes": optional(np.where(on_cpu, ABSENT, slices["reserved_bytes"][rows])),
        "active_bytes": missing(len(rows)),
    }
    no_block = (slices["address"][rows] == ABSENT) | (slices["size_bytes"][rows] == ABSENT)
    if no_block.any():
        message = "a memory event has no readable address or size: it is in memory, but in no row of allocations"
        notes.warning(source, message, int(no_block.sum()))
    allocations = _allocations(slices, rows, built)
    whole = np.flatnonzero(~no_block & (slices["allocated_bytes"][rows] != ABSENT))
    kinds, totals = (kind[whole], device[whole]), slices["allocated_bytes"][rows][whole]
    note_lost_events(kinds, slices["size_bytes"][rows][whole], totals, notes, source)
    if "operators" in built.tables:
        note_lost_ends(built.tables["operators"], allocations, columns["time_ns"], notes, source)
    notes.ledger.keep(source, "memory", len(rows))
    notes.ledger.make(source, "allocations", len(allocations))
    return {"memory": tables.build("memory", columns), "allocations": allocations}


def _components(kind: Int64) -> pd.Categorical:
    distinct, codes = np.unique(kind, return_inverse=True)
    components = [_COMPONENTS.get(number, f"device type {number}") for number in distinct.tolist()]
    return tables.categorical(codes, components)


def _allocations(slices: GatheredColumns, rows: Records, built: TraceTables) -> pd.DataFrame:
    """Join the allocation of each block with its release: the next event at its address."""
    address, size, time_ns = (slices[name][rows] for name in ("address", "size_bytes", "start_ns"))
    kind, device = slices["device_type"][rows], slices["device"][rows]
    is_known = (address != ABSENT) & (size != ABSENT) & (size != 0)
    kept_rows = np.flatnonzero(is_known)
    order = kept_rows[np.lexsort((kept_rows, address[kept_rows], device[kept_rows], kind[kept_rows]))]
    begins = size[order] > 0
    is_same = np.zeros(len(order), np.bool_)
    for key in (address, device, kind):
        equal = key[order][1:] == key[order][:-1]
        is_same[:-1] = equal if key is address else is_same[:-1] & equal
    freed = np.append(~begins[1:], False) & is_same & begins  # the next event at the address ends the block
    ends_known = np.append(False, freed[:-1])
    block = begins | ~ends_known
    first = np.flatnonzero(block)
    end = np.where(freed[first], time_ns[order][np.minimum(first + 1, len(order) - 1)], ABSENT)
    start = np.where(begins[first], time_ns[order][first], ABSENT)
    end = np.where(begins[first], end, time_ns[order][first])
    chosen = order[first]
    columns = {
        "name": _operators_at(slices["lane"][rows][chosen], start, built),
        "size_bytes": np.abs(size[chosen]),
        "allocated_ns": optional(start),
        "released_ns": optional(end),
        "device_id": optional(np.where(kind[chosen] == _CPU, ABSENT, device[chosen]), (-1,)),
        "stream": missing(len(chosen)),
        "component": _components(kind[chosen]),
    }
    when = np.where(start == ABSENT, end, start)
    frame = tables.build("allocations", columns).iloc[np.argsort(when, kind="stable")]
    ordered: pd.DataFrame = frame.reset_index(drop=True)
    return ordered


def _operators_at(lanes: Records, times: Int64, built: TraceTables) -> pd.Categorical:
    """Return the names of the innermost operators that run on threads at some times; absent without one."""
    operators = built.tables.get("operators")
    if operators is None or not len(operators):
        return tables.categorical(np.full(len(times), -1), [])
    starts = operators["start_ns"].to_numpy(np.int64)
    ends = starts + operators["duration_ns"].to_numpy(np.int64)
    known = np.flatnonzero(times != ABSENT)
    row = np.full(len(times), -1, np.int64)
    row[known] = innermost(built.lanes["operators"], starts, ends, lanes[known], times[known])
    names: pd.Categorical = operators["name"].array.take(row, allow_fill=True).remove_unused_categories()
    return names
