"""What each step's time went into, so that the parts add up to the step to the nanosecond."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.analysis.overlap import Spans, subtract, union
from npuprof.arrays import Int64

PARTS = ("computing_ns", "communication_ns", "bubble_ns", "free_ns")
"""Disjoint parts of a step: computing, communication that no computing hides, waiting for another stage, the rest."""

VENDOR, COMPUTED = "vendor", "computed"
"""Where a breakdown comes from: the vendor's step trace, or the intervals of ``overlap`` within the steps."""

_RECEIVE = r"receive|recv"  # what the vendor counts as a bubble: waiting for the stage before


def step_parts(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Break the steps down.

    Parameters
    ----------
    tables
        Every table of the schema by name.

    Returns
    -------
    pandas.DataFrame
        A row for each step and device: ``step`` (<NA> where the run marked none), ``device_id``, ``rank`` (of a
        cluster's rows, else <NA>), the columns of :data:`PARTS`, ``total_ns``, which is their sum exactly, and
        ``basis``, :data:`VENDOR` or :data:`COMPUTED`. The vendor's step times are taken where there are some; their
        bubble is part of what they call communication not overlapped. Else each step is cut out of ``overlap``;
        bubbles are then what point-to-point receives took of the communication not overlapped, and free is all the
        rest of the step, so also the host's time before the device began.
    """
    vendor = tables["step_times"]
    if vendor[["computing_ns", "communication_not_overlapped_ns", "free_ns"]].notna().any(axis=1).any():
        return _from_vendor(vendor)
    return _computed(tables)


def _from_vendor(step_times: pd.DataFrame) -> pd.DataFrame:
    rows = step_times
    if "kind" in rows:  # a stage's times are the longest of its ranks
        rows = rows[(rows["kind"] == "rank").to_numpy(dtype=bool, na_value=False)]
    exposed = _known(rows, "communication_not_overlapped_ns")
    bubble = np.minimum(_known(rows, "bubble_ns"), exposed)
    parts = {
        "computing_ns": _known(rows, "computing_ns"),
        "communication_ns": exposed - bubble,
        "bubble_ns": bubble,
        "free_ns": _known(rows, "free_ns"),
    }
    rank = rows["rank"].array if "rank" in rows else pd.array([pd.NA] * len(rows), dtype="Int64")
    return _frame(rows["step"].array, rows["device_id"].array, rank, parts, VENDOR)


def _computed(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    steps = tables["steps"].sort_values("start_ns", kind="stable")
    overlap, communication = tables["overlap"], tables["communication"]
    starts = steps["start_ns"].to_numpy(np.int64)
    ends = starts + steps["duration_ns"].to_numpy(np.int64)
    receives = communication["op_type"].astype(str).str.contains(_RECEIVE, case=False, regex=True).to_numpy(bool)
    frames = []
    for device in sorted(overlap["device_id"].unique().tolist()):
        own = overlap[(overlap["device_id"] == device).to_numpy()]
        kinds = {kind: union(*_ends(own[(own["kind"] == kind).to_numpy(bool)])) for kind in _KINDS}
        computing = kinds["computing"]
        exposed = subtract(kinds["communication_not_overlapped"], computing)
        received = union(*_ends(communication[receives & (communication["device_id"] == device).to_numpy(bool)]))
        told = subtract(exposed, received)
        parts = {"computing_ns": _within(computing, starts, ends), "communication_ns": _within(told, starts, ends)}
        parts["bubble_ns"] = _within(exposed, starts, ends) - parts["communication_ns"]
        parts["free_ns"] = ends - starts - sum(parts.values())
        devices = pd.array([device] * len(steps), dtype="Int64")
        frames.append(_frame(steps["step"].array, devices, devices[:0].take([-1] * len(steps), allow_fill=True), parts))
    empty = np.zeros(0, np.int64)
    none = pd.array([], dtype="Int64")
    frames.append(_frame(none, none, none, dict.fromkeys(PARTS, empty)))
    joined: pd.DataFrame = pd.concat(frames, ignore_index=True)
    return joined


_KINDS = ("computing", "communication_not_overlapped")


def _ends(frame: pd.DataFrame) -> Spans:
    starts = frame["start_ns"].to_numpy(np.int64)
    return starts, starts + frame["duration_ns"].to_numpy(np.int64)


def _within(spans: Spans, starts: Int64, ends: Int64) -> Int64:
    """Return how much of disjoint, sorted intervals lies within each window; windows may overlap."""
    return _until(spans, ends) - _until(spans, starts)


def _until(spans: Spans, moments: Int64) -> Int64:
    """Return how much of disjoint, sorted intervals lies before each moment."""
    begins, ends = spans
    if not len(begins):
        return np.zeros(len(moments), np.int64)
    before = np.concatenate([[0], np.cumsum(ends - begins)])
    place = np.searchsorted(begins, moments, side="right")
    last = np.maximum(place - 1, 0)
    part = np.clip(moments, begins[last], ends[last]) - begins[last]
    return np.where(place > 0, before[last] + part, 0)


def _known(rows: pd.DataFrame, column: str) -> Int64:
    values: Int64 = rows[column].fillna(0).to_numpy(np.int64) if column in rows else np.zeros(len(rows), np.int64)
    return values


def _frame(
    step: object, device: object, rank: object, parts: Mapping[str, Int64], basis: str = COMPUTED
) -> pd.DataFrame:
    total = sum((parts[name] for name in PARTS), np.zeros(len(parts["free_ns"]), np.int64))
    frame: pd.DataFrame = pd.DataFrame(
        {"step": step, "device_id": device, "rank": rank, **parts, "total_ns": total, "basis": [basis] * len(total)}
    )
    return frame
