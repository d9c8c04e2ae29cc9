"""`overlap`: computed from kernels and collectives, or, if the file has neither, read from its ``OVERLAP_ANALYSIS``.

Unmodified files of older versions have no such table, and a viewer adds it when it opens them; the computed table is
the same for both.

Source: sources/RESULTS.md section 5.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.sources.columns.builders import recoded
from npuprof.sources.database.reader import Reader
from npuprof.sources.overlap import overlap_table

_KINDS = ["computing", "communication", "communication_not_overlapped", "free"]  # numbered so in the file


def overlap_of(reader: Reader, by_name: Mapping[str, pd.DataFrame]) -> pd.DataFrame | None:
    """Build `overlap` of each device in order of time.

    Newer tools widen a device's range to all its tasks. The stored range is used if it covers the kernels and
    collectives; otherwise it is damaged, or a viewer wrote it for a part of the data.
    """
    stored = reader.rows("OVERLAP_ANALYSIS").in_order()
    is_known = (stored["type"] >= 0) & (stored["type"] < len(_KINDS))
    kinds = recoded(np.where(is_known, stored["type"], -1).astype(np.int32), [*_KINDS])
    kernels, communication = (by_name.get(name, tables.empty(name)) for name in ("kernels", "communication"))
    if not len(kernels) and not len(communication):
        return stored.build("overlap", kind=kinds)
    reader.accounts.use("OVERLAP_ANALYSIS", len(stored))  # the same table, computed by the vendor
    frame = None
    if len(stored):
        frame = _covering(tables.build("overlap", {**stored.columns(), "kind": kinds}), kernels, communication)
    overlap = overlap_table(kernels, communication, frame)
    reader.notes.ledger.make("kernels", "overlap", len(overlap))
    return overlap


def _covering(stored: pd.DataFrame, *inside: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of devices whose stored range contains all kernels and collectives."""
    narrow = set()
    for device, rows in stored.groupby("device_id"):
        first, last = _bounds(rows)
        spans = [_bounds(frame[frame["device_id"] == device]) for frame in inside]
        if any(start < first or end > last for start, end in spans):
            narrow.add(device)
    return stored[~stored["device_id"].isin(narrow)]


def _bounds(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the first start and the last end as integers; for an empty frame, infinities that any range contains."""
    if not len(frame):
        return inf, -inf
    return int(frame["start_ns"].min()), int((frame["start_ns"] + frame["duration_ns"]).max())
