"""Build ``memory`` and ``allocations`` from the ``[memory]`` events of torch's allocators."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, Records
from npuprof.sources.allocator_totals import note_lost_ends, note_lost_events, note_reused
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
    is_memory &= (slices["allocated_bytes"] != ABSENT) | (slices["size_bytes"] != ABSENT)
    notes.leave_out(source, "an instant belongs to no table", int((~is_memory).sum()))
    rows = np.flatnonzero(is_memory)
    rows = rows[np.argsort(slices["start_ns"][rows], kind="stable")]
    if not len(rows):
        return {}
    kind, device = slices["device_type"][rows], slices["device"][rows]
    totals = slices["allocated_bytes"][rows]
    if without := int((totals == ABSENT).sum()):
        totals = _with_sums((kind, device), slices["size_bytes"][rows], totals)
        message = (
            "a memory event has no total, as torch 1.8 and 1.9 write them: allocated_bytes is the sum of the events "
            "since the recording began, and the memory peak at least what is shown"
        )
        notes.info(source, message, without)
    on_cpu = kind == _CPU
    columns = {
        "time_ns": slices["start_ns"][rows],
        "device_id": optional(np.where(on_cpu, ABSENT, device), (-1,)),
        "component": _components(kind),
        "allocated_bytes": optional(totals),
        # The CPU allocator does not reserve memory, and writes 0.
        "reserved_bytes": optional(np.where(on_cpu, ABSENT, slices["reserved_bytes"][rows])),
        "active_bytes": missing(len(rows)),
    }
    no_block = (slices["address"][rows] == ABSENT) | (slices["size_bytes"][rows] == ABSENT)
    if no_block.any() and without < len(rows):  # until 2021 no event has an address
        message = "a memory event has no readable address or size: it is in memory, but in no row of allocations"
        notes.warning(source, message, int(no_block.sum()))
    allocations = _allocations(slices, rows, built, notes, source)
    whole = np.flatnonzero(~no_block & (slices["allocated_bytes"][rows] != ABSENT))
    kinds, totals = (kind[whole], device[whole]), slices["allocated_bytes"][rows][whole]
    note_lost_events(kinds, slices["size_bytes"][rows][whole], totals, notes, source)
    if "operators" in built.tables:
        note_lost_ends(built.tables["operators"], allocations, columns["time_ns"], notes, source)
    notes.ledger.keep(source, "memory", len(rows))
    notes.ledger.make(source, "allocations", len(allocations))
    return {"memory": tables.build("memory", columns), "allocations": allocations}


def _with_sums(keys: tuple[Int64, Int64], change: Int64, totals: Int64) -> Int64:
    """Return totals with running sums of the blocks for allocators that write none, which are never below zero."""
    result = totals.copy()
    for pair in np.unique(np.column_stack(keys), axis=0):
        of = np.flatnonzero((keys[0] == pair[0]) & (keys[1] == pair[1]))
        if (totals[of] == ABSENT).all():
            sums = np.cumsum(change[of])
            result[of] = sums - min(int(sums.min()), 0)
    return result


def _components(kind: Int64) -> pd.Categorical:
    distinct, codes = np.unique(kind, return_inverse=True)
    components = [_COMPONENTS.get(number, f"device type {number}") for number in distinct.tolist()]
    return tables.categorical(codes, components)


def _allocations(slices: GatheredColumns, rows: Records, built: TraceTables, notes: Notes, source: str) -> pd.DataFrame:
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
    reused = np.append(begins[1:], False) & is_same & begins
    note_reused(int(reused.sum()), notes, source)
    end = np.where((freed | reused)[first], time_ns[order][np.minimum(first + 1, len(order) - 1)], ABSENT)
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
        "address": address[chosen],
    }
    when = np.where(start == ABSENT, end, start)
    frame = tables.build("allocations", columns).iloc[np.argsort(when, kind="stable")]
    return frame.reset_index(drop=True)


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
    return operators["name"].array.take(row, allow_fill=True).remove_unused_categories()
