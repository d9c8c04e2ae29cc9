"""What the tables with a start and an end share: exact times in order, and steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, Records
from npuprof.notes import Notes
from npuprof.sources.database.connection import Database

MAX_TIME_NS = 4 * 10**18  # 2096; beyond it a time is damage
_THREAD = 0xFFFFFFFF
_ENOUGH_PAIRS = 1_000_000


def in_order(database: Database, table: str, rows: dict[str, Records], affects: str) -> dict[str, Records]:
    """Put rows with ``startNs`` and ``endNs`` in order of time, longer ones first; they get ``duration``.

    A row without a readable start is left out, one that ends before it starts has no length; both are noted.
    `affects` are the tables of the profile that lack the former.
    """
    start, end = rows["startNs"], rows["endNs"]
    timed = (start >= 0) & (start < MAX_TIME_NS)
    database.accounts.leave_out(table, "a row has no readable time", int((~timed).sum()), affects=affects)
    whole = timed & (end >= start) & (end < MAX_TIME_NS)
    if not whole[timed].all():
        bad = int((timed & ~whole).sum())
        database.notes.warning(database.path.name, f"{table}: a row has no valid end; its duration is taken as 0", bad)
    duration = np.where(whole, end - np.where(timed, start, 0), 0)
    order = np.lexsort((-duration, start))
    order = order[timed[order]]
    return {name: values[order] for name, values in {**rows, "duration": duration}.items()}


def sampled(
    database: Database, table: str, rows: dict[str, Records], column: str, affects: str = "counters"
) -> dict[str, Records]:
    """Keep the rows of which the time in a column can be read; the others are noted."""
    timed = (rows[column] >= 0) & (rows[column] < MAX_TIME_NS)
    if timed.all():
        return rows
    database.accounts.leave_out(table, "a sample has no readable time", int((~timed).sum()), affects=affects)
    return {name: values[timed] for name, values in rows.items()}


def span(rows: dict[str, Records]) -> dict[str, Any]:
    """Return the first two columns of most tables."""
    return {"start_ns": rows["startNs"], "duration_ns": rows["duration"]}


def thread_ids(global_ids: Records) -> Int64:
    """Return the thread's own number of ``pid << 32 | tid``."""
    numbers: Int64 = global_ids & _THREAD
    return numbers


def take(rows: dict[str, Records], chosen: Records) -> dict[str, Records]:
    """Return some of the rows."""
    return {name: values[chosen] for name, values in rows.items()}


def first_of(keys: Records, wanted: Records) -> Int64:
    """Find the first row with each wanted key; -1 where there is none."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)
    found: Int64 = np.where(keys[order][at] == wanted, order[at], -1)
    return found


def pairs_of(keys: Records, wanted: Records, notes: Notes) -> tuple[Int64, Int64]:
    """Pair every wanted key with every row that has it: positions in `wanted`, and rows.

    Of keys that stand for nothing, since far too many rows share them, each wanted one keeps its first rows; `notes`
    tells how many pairs are left out.
    """
    order = np.argsort(keys, kind="stable")
    first, last = np.searchsorted(keys[order], wanted), np.searchsorted(keys[order], wanted, side="right")
    counts = last - first
    bound = _ENOUGH_PAIRS + 4 * (len(keys) + len(wanted))
    if (found := int(counts.sum())) > bound:
        counts = np.minimum(counts, max(bound // len(wanted), 1))
        lost = found - int(counts.sum())
        notes.warning("CONNECTION_IDS", "one connection of far too many rows: most of its pairs are left out", lost)
    which = np.repeat(np.arange(len(wanted)), counts)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    return which, order[first[which] + offset]


def steps_table(rows: dict[str, Records]) -> pd.DataFrame:
    """Make `steps` of rows in order, with the step's number in ``id``."""
    return tables.build("steps", {"step": pd.array(rows["id"], dtype="Int64"), **span(rows)})
