"""`overlap`: computed from kernels and collectives, or where the file has neither, its ``OVERLAP_ANALYSIS``.

Clean files of older versions have no such table, and a viewer adds one when it opens them; what is computed
is the same for both.

Source: formats/results.md section 5.6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.overlap import Spans, breakdown
from npuprof.sources.columns.nullable import recoded
from npuprof.sources.database.connection import Database
from npuprof.sources.database.spans import in_order, span

_KINDS = ["computing", "communication", "communication_not_overlapped", "free"]  # numbered so in the file


def overlap_table(database: Database, found: dict[str, pd.DataFrame]) -> pd.DataFrame | None:
    """Make `overlap` of each device, in order of time."""
    frames = [frame for name in ("kernels", "communication") if (frame := found.get(name)) is not None and len(frame)]
    if not frames:
        return _stored(database)
    stored = database.rows("OVERLAP_ANALYSIS", ["type"])
    database.accounts.use("OVERLAP_ANALYSIS", len(stored["type"]))  # the same, computed by the vendor
    parts: list[tuple[int, str, Spans]] = []
    devices = np.unique(np.concatenate([frame["device_id"].to_numpy(np.int64) for frame in frames]))
    for device in devices.tolist():
        computing, communication = (_spans(found.get(name), device) for name in ("kernels", "communication"))
        parts += [(device, kind, spans) for kind, spans in breakdown(computing, communication).items()]
    counts = [len(starts) for _, _, (starts, _) in parts]
    start = np.concatenate([starts for _, _, (starts, _) in parts])
    columns: dict[str, Any] = {
        "start_ns": start,
        "duration_ns": np.concatenate([ends for _, _, (_, ends) in parts]) - start,
        "device_id": np.repeat([device for device, _, _ in parts], counts),
        "kind": tables.categorical(np.repeat([_KINDS.index(kind) for _, kind, _ in parts], counts), _KINDS),
    }
    return tables.sort_by_time(tables.build("overlap", columns))


def _spans(frame: pd.DataFrame | None, device: int) -> Spans:
    if frame is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    own = frame[frame["device_id"] == device]
    start = own["start_ns"].to_numpy(np.int64)
    return start, start + own["duration_ns"].to_numpy(np.int64)


def _stored(database: Database) -> pd.DataFrame | None:
    columns = ["startNs", "endNs", "deviceId", "type"]
    rows = in_order(database, "OVERLAP_ANALYSIS", database.rows("OVERLAP_ANALYSIS", columns), "overlap")
    database.accounts.keep("OVERLAP_ANALYSIS", "overlap", len(rows["type"]))
    if not len(rows["type"]):
        return None
    known = (rows["type"] >= 0) & (rows["type"] < len(_KINDS))
    kinds = recoded(np.where(known, rows["type"], -1).astype(np.int32), [*_KINDS])
    return tables.build("overlap", {**span(rows), "device_id": np.maximum(rows["deviceId"], 0), "kind": kinds})
