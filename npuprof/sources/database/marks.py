"""``MSTX_EVENTS``: markers and ranges that the user put into the run.

Source: formats/results.md section 5.1.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.sources.columns import ABSENT, SENTINELS, optional
from npuprof.sources.database.connection import Database
from npuprof.sources.database.device import Tasks
from npuprof.sources.database.names import Names
from npuprof.sources.database.spans import first_of, in_order, span, thread_ids
from npuprof.sources.decimals import Ints

_COLUMNS = ["startNs", "endNs", "eventType", "rangeId", "category", "message", "globalTid", "domainId", "connectionId"]


def marks_table(database: Database, strings: Names, tasks: Tasks) -> tuple[pd.DataFrame | None, Ints]:
    """Make `marks`, and give the connection of each row to its device side.

    `kind` tells how it was made (``marker``, ``push/pop``, ``start/end``, ``marker_ex``), `device_id` where its device
    side was seen.
    """
    rows = in_order(database, "MSTX_EVENTS", database.rows("MSTX_EVENTS", _COLUMNS))
    connection = np.where(np.isin(rows["connectionId"], SENTINELS), ABSENT, rows["connectionId"])
    if not len(connection):
        return None, connection
    task = first_of(tasks.rows["connectionId"], connection)
    seen = (task >= 0) & (connection != ABSENT)
    device = {
        name: np.where(seen, tasks.rows[name][task], ABSENT) if len(tasks.rows[name]) else np.full(len(task), ABSENT)
        for name in ("startNs", "duration", "deviceId")
    }
    columns = {
        **span(rows),
        "message": strings.column(rows["message"]),
        "domain": strings.column(rows["domainId"]),
        "thread_id": thread_ids(rows["globalTid"]),
        "device_start_ns": optional(device["startNs"]),
        "device_duration_ns": optional(device["duration"]),
        "id": optional(rows["rangeId"], SENTINELS),
        "device_id": optional(device["deviceId"]),
        "kind": Names(database, "ENUM_MSTX_EVENT_TYPE").column(rows["eventType"]),
        "category": optional(rows["category"], SENTINELS),
    }
    return tables.build("marks", columns), connection
