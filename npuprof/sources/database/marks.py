"""``MSTX_EVENTS``: markers and ranges of the user; ``GC_RECORD``: pauses of Python's garbage collector.

Source: sources/RESULTS.md sections 5.1 and 5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, first_rows
from npuprof.sources.columns.builders import ABSENT, FIRST_MARK_CONNECTION, PYTHON_GC, SENTINELS, optional, recoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.database.connection import Database
from npuprof.sources.database.device import Tasks
from npuprof.sources.database.intervals import in_order, span, thread_ids
from npuprof.sources.database.names import TextsById

_COLUMNS = ["startNs", "endNs", "eventType", "rangeId", "category", "message", "globalTid", "domainId", "connectionId"]


def marks_table(database: Database, strings: TextsById, tasks: Tasks) -> tuple[pd.DataFrame | None, Int64]:
    """Build `marks`; also return the connection ID from each row to its device side.

    `kind` is the call of the mark (``marker``, ``push/pop``, ``start/end``, ``marker_ex``), `device_id` the device of
    its device side, `id` its number in the collector. Pauses of Python's garbage collector are ranges of the domain
    ``python_gc``.
    """
    marks, connection = _marks(database, strings, tasks)
    pauses = _pauses(database)
    if pauses is None or marks is None:
        return (marks, connection) if pauses is None else (pauses, np.full(len(pauses), ABSENT))
    frame = stacked([marks, pauses])
    connection = np.concatenate((connection, np.full(len(pauses), ABSENT)))
    order = np.lexsort((-frame["duration_ns"].to_numpy(), frame["start_ns"].to_numpy()))
    return frame.iloc[order].reset_index(drop=True), connection[order]


def _pauses(database: Database) -> pd.DataFrame | None:
    rows = in_order(database, "GC_RECORD", database.rows("GC_RECORD", ["startNs", "endNs", "globalTid"]), ("marks",))
    count = len(rows["startNs"])
    database.accounts.keep("GC_RECORD", "marks", count)
    if not count:
        return None
    columns: dict[str, Any] = {
        **span(rows),
        "message": recoded(np.zeros(count, np.int32), ["GC"]),
        "domain": recoded(np.zeros(count, np.int32), [PYTHON_GC]),
        "thread_id": thread_ids(rows["globalTid"]),
    }
    return tables.build("marks", columns)


def _marks(database: Database, strings: TextsById, tasks: Tasks) -> tuple[pd.DataFrame | None, Int64]:
    rows = in_order(database, "MSTX_EVENTS", database.rows("MSTX_EVENTS", _COLUMNS), ("marks",))
    database.accounts.keep("MSTX_EVENTS", "marks", len(rows["startNs"]))
    connection = np.where(np.isin(rows["connectionId"], SENTINELS), ABSENT, rows["connectionId"])
    if not len(connection):
        return None, connection
    task = first_rows(tasks.rows["connectionId"], connection)
    is_seen = (task >= 0) & (connection != ABSENT)
    device = {
        name: np.where(is_seen, tasks.rows[name][task], ABSENT) if len(tasks.rows[name]) else np.full(len(task), ABSENT)
        for name in ("startNs", "duration", "deviceId")
    }
    columns = {
        **span(rows),
        "message": strings.column(rows["message"]),
        "domain": strings.column(rows["domainId"]),
        "thread_id": thread_ids(rows["globalTid"]),
        "device_start_ns": optional(device["startNs"]),
        "device_duration_ns": optional(device["duration"]),
        "id": optional(_ids(rows["rangeId"], connection)),
        "device_id": optional(device["deviceId"]),
        "kind": TextsById(database, "ENUM_MSTX_EVENT_TYPE").column(rows["eventType"]),
        "category": optional(rows["category"], SENTINELS),
    }
    return tables.build("marks", columns), connection


def _ids(ranges: Int64, connection: Int64) -> Int64:
    """Return the number of each mark: that of its range, or the number within its connection ID."""
    of_connection = np.where(connection >= FIRST_MARK_CONNECTION, connection - FIRST_MARK_CONNECTION, ABSENT)
    return np.where(np.isin(ranges, SENTINELS), of_connection, ranges)
