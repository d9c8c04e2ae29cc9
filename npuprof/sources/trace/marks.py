"""Marks of a timeline: what the user put into the run, and the pauses of Python's garbage collector.

Source: sources/RESULTS.md sections 2.2 and 2.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int32, Int64
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.columns.nullable import ABSENT, FIRST_MARK_CONNECTION, PYTHON_GC, SENTINELS, optional
from npuprof.sources.trace.columns import Trace
from npuprof.sources.trace.slices import names, span

_MOST_DIGITS = 18
_DEVICE_SIDE = {"device_start_ns": "start_ns", "device_duration_ns": "duration_ns", "device_id": "device_id"}


def marks_rows(trace: Trace, threads: Int64) -> tuple[pd.DataFrame, Int32]:
    """Make the rows of ``marks``, in no order, with the lane of each.

    Pauses of Python's garbage collector are ranges of the domain ``python_gc``, as raw data and databases have them.

    Parameters
    ----------
    trace
        A timeline with markers, ranges or pauses.
    threads
        Thread number by lane.
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


def add_ids(found: dict[str, pd.DataFrame], rows: npt.NDArray[np.int64], flows: Sequence[str]) -> None:
    """Set the ids of ``marks`` that the collector gave to those with a device side, by their flows, in place.

    Parameters
    ----------
    found
        The tables.
    rows
        The row of each flow in ``marks``; -1 where there is none.
    flows
        The id of each flow: a decimal number, made of the mark's.
    """
    if "marks" not in found:
        return
    ids = np.full(len(found["marks"]), ABSENT, np.int64)
    for row, flow in zip(rows.tolist(), flows, strict=True):
        if row >= 0 and flow.isascii() and flow.isdecimal() and len(flow) <= _MOST_DIGITS:
            ids[row] = max(int(flow) - FIRST_MARK_CONNECTION, ABSENT)
    found["marks"]["id"] = optional(np.where(ids < 0, ABSENT, ids))


def add_device_sides(found: dict[str, pd.DataFrame]) -> None:
    """Set time and device of ``marks``, in place, to those of the tasks that links of kind ``mark`` lead to."""
    links = found["links"] if "links" in found else tables.empty("links")
    links = links[(links["kind"] == "mark").to_numpy()].drop_duplicates("source_row")
    if not len(links):
        return
    marks, rows = found["marks"], links["source_row"].to_numpy()
    sides = found["tasks"].iloc[links["target_row"].to_numpy()]
    for column, of_task in _DEVICE_SIDE.items():
        values = np.full(len(marks), ABSENT, np.int64)
        values[rows] = sides[of_task].to_numpy(np.int64)
        marks[column] = optional(values)
