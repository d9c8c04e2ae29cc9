"""Marks of a timeline: markers and ranges of the user, and pauses of Python's garbage collector.

Source: sources/RESULTS.md sections 2.2 and 2.3.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int32, Int64
from npuprof.sources.columns.builders import ABSENT, FIRST_MARK_CONNECTION, PYTHON_GC, SENTINELS, optional
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.trace.columns import Trace
from npuprof.sources.trace.maker import names, span

_MOST_DIGITS = 18
_DEVICE_SIDE = {"device_start_ns": "start_ns", "device_duration_ns": "duration_ns", "device_id": "device_id"}


def marks_rows(trace: Trace, threads: Int64) -> tuple[pd.DataFrame, Int32]:
    """Build the unsorted rows of ``marks``, with the lane of each; `threads` are thread numbers by lane.

    Pauses of the garbage collector are ranges of the domain ``python_gc``, as in raw data and databases.
    """
    parts, lanes = [], []
    slices, pauses = trace.slices["mark"], trace.slices["pause"]
    if len(slices):
        columns = {
            **span(slices),
            "message": names(slices, "name"),
            "domain": names(slices, "domain"),
            "thread_id": threads[slices["lane"]],
            "kind": names(slices, "kind"),
            "category": optional(slices["mark_category"], SENTINELS),
        }
        parts.append(tables.build("marks", columns))
        lanes.append(slices["lane"])
    if len(pauses):
        columns = {
            **span(pauses),
            "message": names(pauses, "name"),
            "domain": tables.categorical(np.zeros(len(pauses), np.int8), [PYTHON_GC]),
            "thread_id": threads[pauses["lane"]],
        }
        parts.append(tables.build("marks", columns))
        lanes.append(pauses["lane"])
    return stacked(parts), np.concatenate(lanes)


def add_ids(frames: dict[str, pd.DataFrame], rows: npt.NDArray[np.int64], flows: Sequence[str]) -> None:
    """Set the collector's ids of ``marks`` that have a device side, in place.

    `rows` is the row in ``marks`` of each flow, -1 for none; `flows` are the flow ids, which contain the ids of the
    marks.
    """
    if "marks" not in frames:
        return
    ids = np.full(len(frames["marks"]), ABSENT, np.int64)
    for row, flow in zip(rows.tolist(), flows, strict=True):
        if row >= 0 and flow.isascii() and flow.isdecimal() and len(flow) <= _MOST_DIGITS:
            ids[row] = max(int(flow) - FIRST_MARK_CONNECTION, ABSENT)
    frames["marks"]["id"] = optional(np.where(ids < 0, ABSENT, ids))


def add_device_sides(frames: MutableMapping[str, pd.DataFrame]) -> None:
    """Set device time and device of ``marks`` from the tasks that ``mark`` links lead to, in place."""
    links = frames["links"] if "links" in frames else tables.empty("links")
    links = links[(links["kind"] == "mark").to_numpy()].drop_duplicates("source_row")
    if not len(links):
        return
    marks, rows = frames["marks"], links["source_row"].to_numpy()
    sides = frames["tasks"].iloc[links["target_row"].to_numpy()]
    for column, task_column in _DEVICE_SIDE.items():
        values = np.full(len(marks), ABSENT, np.int64)
        values[rows] = sides[task_column].to_numpy(np.int64)
        marks[column] = optional(values)
