"""Times of FRAMEWORK records, and lookup of rows by key and time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64
from npuprof.sources.raw.metadata.clocks import CounterClock
from npuprof.tables.notes import Notes

NONE = -1
"""No row."""


def reached(clock: CounterClock, stamps: list[npt.NDArray[Any]], notes: Notes, source: str) -> npt.NDArray[np.bool_]:
    """Return a mask of timestamps (8 bytes each) in range of the clock; a note counts the rest as damaged."""
    within = np.ones(len(stamps[0]), np.bool_)
    for column in stamps:
        within &= clock.reaches(column.view("<u8").astype(np.uint64, copy=False))
    if not within.all():
        notes.warning(source, "a record's time is far from the run, and the record left out", int((~within).sum()))
        notes.ledger.leave_out(source, int((~within).sum()))
    return within


def to_ns(clock: CounterClock, stamps: npt.NDArray[Any]) -> Int64:
    """Convert timestamps that :func:`reached` accepts to UTC epoch nanoseconds."""
    return clock.to_ns(stamps.view("<u8").astype(np.uint64, copy=False))


def durations(start_ns: Int64, end_ns: Int64, notes: Notes, source: str) -> Int64:
    """Return the durations; a negative duration becomes 0, with a note."""
    backwards = end_ns < start_ns
    if backwards.any():
        notes.warning(source, "a record ends before it starts; its duration is taken as 0", int(backwards.sum()))
    return np.maximum(end_ns - start_ns, 0)


def by_time(start_ns: Int64, duration_ns: Int64) -> Int64:
    """Return the order of rows by start, longer first, so that a caller precedes its callees."""
    return np.lexsort((-duration_ns, start_ns))


def latest_before(keys: Int64, times: Int64, at_keys: Int64, at: Int64) -> Int64:
    """Return the latest row with the key of each event and a time not after the event; :data:`NONE` for none."""
    if not len(keys) or not len(at):
        return np.full(len(at), NONE, np.int64)
    codes = np.unique(np.concatenate((keys, at_keys)), return_inverse=True)[1]
    moments, ranks = np.unique(np.concatenate((times, at)), return_inverse=True)
    # Codes and ranks are below the number of rows, so their product fits 63 bits.
    place = codes.astype(np.int64) * len(moments) + ranks
    order = np.argsort(place[: len(keys)], kind="stable")
    last = np.searchsorted(place[: len(keys)][order], place[len(keys) :], side="right") - 1
    rows = order[np.maximum(last, 0)]
    is_same = (last >= 0) & (codes[: len(keys)][rows] == codes[len(keys) :])
    return np.where(is_same, rows, NONE)


def lanes_of(*threads: Int64) -> list[Int64]:
    """Return numbers from 0 for the threads of several tables, the same for a thread in each table."""
    codes = np.unique(np.concatenate(threads), return_inverse=True)[1]
    borders = np.cumsum([len(part) for part in threads])[:-1]
    return np.split(codes.astype(np.int64), borders)
