"""The kernel, collective or copy that each nanosecond of a step belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, NOT_RECORDED, PARTS, copies
from npuprof.analysis.host_accounting import HOST
from npuprof.analysis.intervals import Spans, pieces
from npuprof.arrays import Int64

_TABLES = {
    "computing": "kernels",
    "waiting": "communication",
    "moving": "communication",
    "communication": "communication",
    "copy": "tasks",
}


class Owned(NamedTuple):
    """Stretches of time with the table row that each belongs to. Arrays with one element per stretch."""

    interval: Int64  # the row of the accounting's intervals
    # table, row: the table, as an index into `OWNERS`, and its row; -1 for idle time and for totals without a start.
    table: Int64
    row: Int64
    duration_ns: Int64  # the duration; 0 for a row that earlier rows cover entirely
    first: Int64  # 1 for the first stretch of its row in this part of the step, else 0


OWNERS = ("kernels", "communication", "tasks")
"""The tables whose rows own time."""


def owned(tables: Mapping[str, pd.DataFrame], steps: pd.DataFrame, intervals: pd.DataFrame) -> Owned:
    """Divide the intervals of an accounting among kernels, collectives and copies.

    Where rows of a table overlap, the time belongs to the one that began first, so that stretches add up exactly to
    their interval.
    """
    part = intervals["part"].cat.codes.to_numpy(np.int64)
    device = steps["device_id"].fillna(-1).to_numpy(np.int64)[intervals["row"].to_numpy()]
    starts = intervals["start_ns"].to_numpy(np.int64, na_value=0)
    ends = starts + intervals["duration_ns"].to_numpy(np.int64)
    is_placed = intervals["start_ns"].notna().to_numpy()
    without_rows = np.isin(part, [PARTS.index(name) for name in (*IDLE, BETWEEN_STEPS, NOT_RECORDED, HOST)])
    alone = np.flatnonzero(without_rows | ~is_placed)
    empty = np.full(len(alone), -1, np.int64)
    pieces = [Owned(alone, empty, empty, (ends - starts)[alone], empty * 0)]
    for number in np.unique(device):
        for name, table in _TABLES.items():
            selected_rows = np.flatnonzero((device == number) & is_placed & (part == PARTS.index(name)))
            if len(selected_rows):
                selected_rows = selected_rows[np.argsort(starts[selected_rows], kind="stable")]
                pieces.append(_divide(tables[table], int(number), OWNERS.index(table), selected_rows, (starts, ends)))
    return Owned(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))


def _divide(frame: pd.DataFrame, device: int, table: int, chosen: Int64, spans: Spans) -> Owned:
    """Divide the intervals of one part of a device, sorted by time, among the rows of a table."""
    of_device = (frame["device_id"] == device).to_numpy(bool)
    rows = np.flatnonzero(of_device & copies(frame) if OWNERS[table] == "tasks" else of_device)
    begins = frame["start_ns"].to_numpy(np.int64)[rows]
    order = np.argsort(begins, kind="stable")
    rows, begins = rows[order], begins[order]
    reach = np.maximum.accumulate(begins + frame["duration_ns"].to_numpy(np.int64)[rows])
    free = np.maximum(begins, np.concatenate((begins[:1], reach[:-1])))
    whole = (spans[0][chosen], spans[1][chosen])
    alone = reach > free
    starts, ends, window = pieces((free[alone], reach[alone]), whole)
    owner = np.searchsorted(free[alone], starts, side="right") - 1
    # A row that earlier rows cover entirely still counts in the interval where it began.
    hidden = np.flatnonzero(~alone)
    place = np.searchsorted(whole[0], begins[hidden], side="right") - 1
    inside = (place >= 0) & (begins[hidden] < whole[1][np.maximum(place, 0)])
    row = np.concatenate((rows[alone][owner], rows[hidden[inside]]))
    interval = np.concatenate((chosen[window], chosen[place[inside]]))
    duration = np.concatenate((ends - starts, np.zeros(int(inside.sum()), np.int64)))
    place = np.full(len(frame), -1, np.int64)
    place[row[::-1]] = np.arange(len(row))[::-1]
    first = np.zeros(len(row), np.int64)
    first[place[place >= 0]] = 1
    return Owned(interval, np.full(len(row), table, np.int64), row, duration, first)
