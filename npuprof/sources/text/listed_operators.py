"""`communication` of a run of which there are only the vendor's sums over its operators: ``communication.json``.

Source: sources/RESULTS.md sections 4 and 5.3.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.notes import Notes
from npuprof.sources.base import Decoded
from npuprof.sources.columns.decimals import MS_TO_NS, scaled
from npuprof.sources.columns.nullable import ABSENT, optional
from npuprof.sources.trace.communication import operator_type

_SUMS = "communication"
_ELAPSED = "Elapse Time(ms)"
_FROM_SUMS = (
    "operators are made of the vendor's sums: only name, group, step, start and duration are known, and the start, "
    "which was a float there, to a quarter of a microsecond"
)
_WITH_DEVICE = ("memory", "step_times", "kernels")


def add_listed_operators(decoded: Decoded) -> None:
    """Fill `communication` with the operators that the vendor summed, where nothing else of the run tells of them."""
    listed = decoded.statistics.get(_SUMS)
    if len(decoded.tables.get("communication", ())) or listed is None or not len(listed):
        return
    device = _device(decoded.tables)
    made = _operators(listed, 0 if device is None else device)
    decoded.tables["communication"] = made
    decoded.notes.ledger.make(_SUMS, "communication", len(made))
    decoded.derived["communication"] = (_SUMS, _FROM_SUMS)
    _tell(decoded.notes, len(listed) - len(made), device)


def _operators(listed: pd.DataFrame, device: int) -> pd.DataFrame:
    listed = listed.reindex(columns=list(dict.fromkeys([*listed.columns, "start_ns", _ELAPSED])))
    elapsed, timed = scaled(["" if pd.isna(one) else str(one) for one in listed[_ELAPSED]], MS_TO_NS)
    timed &= listed["start_ns"].notna().to_numpy() & (elapsed >= 0)
    rows = listed[timed]
    steps = pd.to_numeric(rows["step"], errors="coerce").fillna(ABSENT).astype(np.int64).to_numpy()
    columns = {
        "start_ns": rows["start_ns"].to_numpy(np.int64),
        "duration_ns": elapsed[timed],
        "device_id": np.full(len(rows), device, np.int64),
        "name": rows["name"],
        "op_type": rows["name"].astype(str).map(operator_type),
        "group": rows["group"].where(rows["group"] != "", None),
        "step": optional(steps),
    }
    return tables.sort_by_time(tables.build("communication", columns))


def _device(frames: Mapping[str, pd.DataFrame]) -> int | None:
    """Return the only device of the run, which the sums do not tell; None where there are several or none."""
    told = [frames[name]["device_id"].dropna() for name in _WITH_DEVICE if name in frames]
    devices = {int(device) for column in told for device in column.unique()}
    return devices.pop() if len(devices) == 1 else None


def _tell(notes: Notes, lost: int, device: int | None) -> None:
    if device is None:
        notes.warning(_SUMS, "no file tells on which device the operators ran: they are shown on device 0")
    if lost:
        notes.warning(_SUMS, "an operator has no start or no duration: it is in statistics, and not in the table", lost)
