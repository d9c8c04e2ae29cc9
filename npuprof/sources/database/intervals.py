"""Rows with a start and an end: exact times in order, keys, and steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64, Records, first_rows
from npuprof.sources.columns.builders import optional
from npuprof.sources.columns.decimals import MAX_TIME_NS
from npuprof.sources.columns.repetitions import REPEATED, originals, repetitions
from npuprof.sources.database.connection import Database
from npuprof.tables.notes import Affects, Notes

_CENTURY_S = (10**9, 4 * 10**9)  # from 2001
_UNITS = {"microseconds": 10**6, "milliseconds": 10**3, "seconds": 1}
_THREAD = 0xFFFFFFFF
_ENOUGH_PAIRS = 1_000_000


def _note_other_unit(database: Database, table: str, times: Records) -> None:
    """Warn of times that date from 1970 in nanoseconds, and from this century in a coarser unit."""
    middle = np.median(times) if len(times) else 0
    for unit, per_second in _UNITS.items():
        if _CENTURY_S[0] * per_second <= middle < _CENTURY_S[1] * per_second:
            message = (
                f"{table}: a time is in 1970 in nanoseconds, which databases have, and in this century in {unit}: "
                f"starts and durations may be {10**9 // per_second:,} times too small; export the result again"
            )
            database.notes.warning(database.path.name, message, len(times))


def in_order(database: Database, table: str, rows: dict[str, Records], affects: Affects) -> dict[str, Records]:
    """Sort rows by ``startNs``, longer ones first, and add ``duration``.

    A row without a readable start is omitted; a row that ends before its start gets duration 0. Both are noted.
    `affects` are the tables of the profile that lack rows.
    """
    start, end = rows["startNs"], rows["endNs"]
    timed = (start >= 0) & (start < MAX_TIME_NS)
    _note_other_unit(database, table, start[timed])
    database.accounts.leave_out(table, "a row has no readable time", int((~timed).sum()), affects=affects)
    whole = timed & (end >= start) & (end < MAX_TIME_NS)
    if not whole[timed].all():
        bad = int((timed & ~whole).sum())
        database.notes.warning(database.path.name, f"{table}: a row has no valid end; its duration is taken as 0", bad)
    rows = take({**rows, "duration": np.where(whole, end - np.where(timed, start, 0), 0)}, timed)
    if affects != ("marks",):  # which may be there several times
        rows = drop_repeated(database, table, rows, "startNs", rows["duration"] > 0)
    return take(rows, np.lexsort((-rows["duration"], rows["startNs"])))


def drop_repeated(
    database: Database, table: str, rows: dict[str, Records], time: str, lasting: Bools | None = None
) -> dict[str, Records]:
    """Return the rows without those that equal an earlier row in every column that was read; a note counts them.

    See :func:`npuprof.sources.columns.repetitions.repetitions` for the column of times and the lasting rows.
    """
    repeated = repetitions(rows[time], lambda places: take(rows, places), lasting)
    if not repeated.any():
        return rows
    database.accounts.leave_out(table, REPEATED, int(np.count_nonzero(repeated)))
    return take(rows, ~repeated)


def without_repeated(
    database: Database, table: str, rows: dict[str, Records], key: str
) -> tuple[dict[str, Records], tuple[Int64, Int64]]:
    """Return intervals without those that equal an earlier one but for their key, and the pairs of these keys.

    A row that is written again has the next free key. For :func:`kept`, the pairs are the keys that are left out, and
    those of the equal rows that stay.
    """
    numbers = rows[key]
    others = {name: values for name, values in rows.items() if name != key}
    first = originals(rows["startNs"], lambda places: take(others, places), rows["endNs"] > rows["startNs"])
    is_kept = first == np.arange(len(first))
    database.accounts.leave_out(table, REPEATED, int(np.count_nonzero(~is_kept)))
    is_other = ~is_kept & (numbers != numbers[first])
    return take(rows, is_kept), (numbers[is_other], numbers[first[is_other]])


def kept(numbers: Records, repeated: tuple[Int64, Int64]) -> Records:
    """Return keys with those that are left out replaced by those of the equal rows."""
    place = first_rows(repeated[0], numbers)
    return np.where(place >= 0, repeated[1][place], numbers) if len(repeated[0]) else numbers


def sampled(
    database: Database, table: str, rows: dict[str, Records], column: str, affects: Affects = ("counters",)
) -> dict[str, Records]:
    """Return the rows with a readable time in a column; a note counts the rest."""
    timed = (rows[column] >= 0) & (rows[column] < MAX_TIME_NS)
    _note_other_unit(database, table, rows[column][timed])
    if timed.all():
        return rows
    database.accounts.leave_out(table, "a sample has no readable time", int((~timed).sum()), affects=affects)
    return {name: values[timed] for name, values in rows.items()}


def span(rows: dict[str, Records]) -> dict[str, Any]:
    """Return the start and duration columns of rows."""
    return {"start_ns": rows["startNs"], "duration_ns": rows["duration"]}


def thread_ids(global_ids: Records) -> Int64:
    """Return the thread id in ``pid << 32 | tid``."""
    return global_ids & _THREAD


def take(rows: dict[str, Records], selected_records: Records) -> dict[str, Records]:
    """Return the selected rows."""
    return {name: values[selected_records] for name, values in rows.items()}


def pairs_of(keys: Records, wanted_records: Records, notes: Notes) -> tuple[Int64, Int64]:
    """Return all pairs of a wanted key and a row with it: positions in `wanted_records`, and rows.

    The number of pairs is bounded: for a key with far too many rows, the first rows are kept, and a note counts the
    omitted pairs.
    """
    order = np.argsort(keys, kind="stable")
    first, last = (
        np.searchsorted(keys[order], wanted_records),
        np.searchsorted(keys[order], wanted_records, side="right"),
    )
    counts = last - first
    bound = _ENOUGH_PAIRS + 4 * (len(keys) + len(wanted_records))
    if (pairs := int(counts.sum())) > bound:
        counts = np.minimum(counts, max(bound // len(wanted_records), 1))
        lost_count = pairs - int(counts.sum())
        notes.warning(
            "CONNECTION_IDS", "one connection of far too many rows: most of its pairs are left out", lost_count
        )
    positions = np.repeat(np.arange(len(wanted_records)), counts)
    offset = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
    return positions, order[first[positions] + offset]


def steps_table(rows: dict[str, Records]) -> pd.DataFrame:
    """Build `steps` of rows in order; ``id`` is the step's number."""
    return tables.build("steps", {"step": optional(rows["id"]), **span(rows)})
