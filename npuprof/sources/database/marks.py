"""``MSTX_EVENTS``: markers and ranges of the user; ``GC_RECORD``: pauses of Python's garbage collector.

Source: sources/RESULTS.md sections 5.1 and 5.2.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.arrays import Int64, first_rows
from npuprof.sources.columns.builders import ABSENT, FIRST_MARK_CONNECTION, PYTHON_GC, SENTINELS, optional, recoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.database.device import Tasks
from npuprof.sources.database.reader import Reader


def marks_table(reader: Reader, tasks: Tasks) -> tuple[pd.DataFrame | None, Int64]:
    """Build `marks`; also return the connection ID from each row to its device side.

    `kind` is the call of the mark (``marker``, ``push/pop``, ``start/end``, ``marker_ex``), `device_id` the device of
    its device side, `id` its number in the collector. Pauses of Python's garbage collector are ranges of the domain
    ``python_gc``.
    """
    marks, connection = _marks(reader, tasks)
    rows = reader.rows("GC_RECORD").in_order()
    texts = (recoded(np.zeros(len(rows), np.int32), [text]) for text in ("GC", PYTHON_GC))
    pauses = rows.build("marks", **dict(zip(("message", "domain"), texts, strict=True)))
    connection = np.concatenate((connection, np.full(len(rows), ABSENT)))
    if pauses is None or marks is None:
        return marks if pauses is None else pauses, connection
    frame = stacked([marks, pauses])
    order = np.lexsort((-frame["duration_ns"].to_numpy(), frame["start_ns"].to_numpy()))
    return frame.iloc[order].reset_index(drop=True), connection[order]


def _marks(reader: Reader, tasks: Tasks) -> tuple[pd.DataFrame | None, Int64]:
    rows = reader.rows("MSTX_EVENTS").in_order()
    connection = np.where(np.isin(rows["connectionId"], SENTINELS), ABSENT, rows["connectionId"])
    task = np.where(connection != ABSENT, first_rows(tasks.rows["connectionId"], connection), -1)
    device = {
        column: optional(tasks.at(task, name))
        for name, column in (
            ("startNs", "device_start_ns"),
            ("duration", "device_duration_ns"),
            ("deviceId", "device_id"),
        )
    }
    of_connection = np.where(connection >= FIRST_MARK_CONNECTION, connection - FIRST_MARK_CONNECTION, ABSENT)
    number = np.where(np.isin(rows["rangeId"], SENTINELS), of_connection, rows["rangeId"])
    return rows.build("marks", **device, id=optional(number)), connection
