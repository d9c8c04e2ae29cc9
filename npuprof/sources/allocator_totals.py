"""Tell lost events of an allocator: by its totals against the running sum of its blocks, and by operators without any.

Each event of an allocator has the bytes of its block, and what is allocated in total after it. Where the total before
an event, which follows from both, is not the total after the event before it, events are missing in between: a file was
cut, or its events were lost. Before the first event and after the last, operators tell that otherwise allocate whenever
they run. In healthy results none is: measured on those of torch's own profiler, and on published
results of NPUs, which `tests/sources/test_allocator_totals.py` repeats.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from npuprof.arrays import Int64, Records
from npuprof.sources.columns.builders import ABSENT
from npuprof.tables.notes import Notes
from npuprof.words.quantities import share, size

_NEAR = 8  # events of threads may be written in another order than that of their totals, but not further apart
_MOST_REORDERED = 10_000  # places that are looked at
_FEW_CALLS = 3  # of an operator are too few to say that it always allocates, or that it should have


def note_lost_events(
    keys: Sequence[Records], change_bytes: Int64, total_bytes: Int64, notes: Notes, source: str
) -> None:
    """Warn of totals that the blocks between them do not explain, with the share of bytes that they concern."""
    if not len(total_bytes):
        return
    order = np.lexsort((np.arange(len(total_bytes)), *keys))
    change, total = change_bytes[order], total_bytes[order]
    is_new = np.zeros(len(order), np.bool_)
    is_new[0] = True
    for key in keys:
        is_new[1:] |= np.diff(key[order]) != 0
    begins = np.flatnonzero(is_new)
    lost_bytes = lost_count = 0
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
        if total[begin:end].any():  # an allocator that keeps no total writes 0
            gaps = _gaps(change[begin:end], total[begin:end])
            lost_bytes += sum(map(abs, gaps.tolist()))
            lost_count += len(gaps)
    if lost_count:
        recorded = sum(map(abs, change.tolist()))
        notes.warning(
            source,
            "an allocator's total is not that of the event before it and the block between: events of memory are "
            f"missing, of {size(lost_bytes)} ({share(lost_bytes, lost_bytes + recorded)} of the bytes allocated and "
            "released); rows of allocations are missing or lack their release, and the memory peak is at least what is "
            "shown",
            lost_count,
            lacks=("memory", "allocations"),
        )


def note_reused(count: int, notes: Notes, source: str) -> None:
    """Warn of blocks that were allocated where another one was in use: that one's release is missing."""
    if count:
        message = (
            "a block was allocated at an address in use: the release of the block before it is missing, which ends "
            "where the new one begins; lifetimes, leaks and the memory peak rest on it"
        )
        notes.warning(source, message, count, lacks=("memory", "allocations"))


def _gaps(change: Int64, total: Int64) -> Int64:
    """Return the bytes by which totals changed without an event, where events in another order do not explain it."""
    before = total - change
    rows = np.flatnonzero(before[1:] != total[:-1]) + 1
    is_lost = np.ones(len(rows), np.bool_)
    first = np.flatnonzero(np.diff(rows, prepend=-_NEAR - 1) > _NEAR)
    last = np.append(first[1:], len(rows)) - 1
    several = np.flatnonzero(last > first)[:_MOST_REORDERED]
    for at, until in zip(first[several].tolist(), last[several].tolist(), strict=True):
        begin, end = int(rows[at]), int(rows[until]) + 1
        is_lost[at : until + 1] = not _are_one_way(before[begin : end + 1], total[begin - 1 : end])
    return before[rows[is_lost]] - total[rows[is_lost] - 1]


def _are_one_way(before: Int64, after: Int64) -> bool:
    """Return whether each total after an event is that before another: all are there, in whatever order.

    At the end of a file nothing tells which event was the last.
    """
    froms, tos = np.sort(before), np.sort(after)
    if len(froms) == len(tos):
        return bool(np.array_equal(froms, tos))
    at = int(np.argmax(np.append(froms != tos[:-1], True)))
    return bool(np.array_equal(froms, np.delete(tos, at)))


def note_lost_ends(operators: pd.DataFrame, allocations: pd.DataFrame, times: Int64, notes: Notes, source: str) -> None:
    """Warn of operators before the first event or after the last that have no block, though they always allocate."""
    begun = allocations["allocated_ns"].to_numpy(np.int64, na_value=ABSENT)
    silent = 0
    for name, rows in allocations.groupby("name", observed=True).indices.items():
        calls = operators[(operators["name"] == name).to_numpy(bool)]
        starts = np.sort(calls["start_ns"].to_numpy(np.int64))
        inside = (starts >= times[0]) & (starts <= times[-1])
        allocating = np.unique(np.searchsorted(starts, begun[rows][begun[rows] != ABSENT], side="right"))
        always = np.isin(np.flatnonzero(inside)[:-1] + 1, allocating)  # the last may have begun before the end only
        outside = len(starts) - int(np.count_nonzero(inside))
        if len(always) >= _FEW_CALLS and always.all() and outside >= _FEW_CALLS:
            silent += outside
    if silent:
        notes.warning(
            source,
            "an operator that allocates whenever it runs has no block before the first event of memory or after the "
            "last: events are missing there; rows of allocations are missing, and the memory peak is at least what "
            f"is shown ({share(silent, len(operators))} of the operators)",
            silent,
            lacks=("memory", "allocations"),
        )
