"""The part of a run's steps that selected rows cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import Accounting
from npuprof.analysis.intervals import Spans, covering, pieces, union
from npuprof.arrays import Int64

NOT_SELECTED = "not selected"
"""The part of a step that no selected row covers."""

_OF_DEVICE = ("kernels", "tasks", "communication", "communication_tasks")
_OF_HOST = ("operators", "api", "python", "marks")


def covered(whole: Accounting, tables: Mapping[str, pd.DataFrame]) -> Accounting:
    """Return the time of each step that the rows of tables cover, by activity.

    Rows of a device count for the steps of that device. Without any, rows of the host count for all steps: the parts
    then say what each device did meanwhile. A step's duration is the covered time.
    """
    intervals, steps = whole.intervals, whole.steps
    placed = intervals[intervals["start_ns"].notna().to_numpy(bool)]
    start = placed["start_ns"].to_numpy(np.int64)
    length = placed["duration_ns"].to_numpy(np.int64)
    device = steps["device_id"].to_numpy(np.int64, na_value=-1)[placed["row"].to_numpy()]
    has_device = any(len(tables[name]) for name in _OF_DEVICE)
    parts = []
    for number in np.unique(device).tolist():
        rows = np.flatnonzero(device == number)
        spans = _spans(tables, _OF_DEVICE, number) if has_device else _spans(tables, _OF_HOST, None)
        for row, begin, end in _cut(rows, start[rows], length[rows], spans):
            parts.append(placed.iloc[row].assign(start_ns=begin, duration_ns=end - begin))
    cut = pd.concat(parts, ignore_index=True) if parts else placed.iloc[:0]
    sums = np.zeros(len(steps), np.int64)
    np.add.at(sums, cut["row"].to_numpy(np.int64), cut["duration_ns"].to_numpy(np.int64))
    kept = cut.assign(start_ns=cut["start_ns"].astype(intervals["start_ns"].dtype))
    return replace(whole, steps=steps.assign(duration_ns=sums), intervals=kept)


def with_rest(shown: pd.DataFrame, selected: Accounting, whole: Accounting) -> pd.DataFrame:
    """Return the sums of selected time with the rest of each step, so that they add up to its duration."""
    rest = whole.steps["duration_ns"].to_numpy(np.int64) - selected.steps["duration_ns"].to_numpy(np.int64)
    rows = whole.steps[["rank", "device_id", "step"]].assign(part=NOT_SELECTED, cause="", duration_ns=rest)
    frames = [frame.astype({"part": object, "cause": object}) for frame in (shown, rows[rest > 0])]
    joined = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    return joined.sort_values(["rank", "device_id", "step"], kind="stable", ignore_index=True)


def _spans(tables: Mapping[str, pd.DataFrame], names: tuple[str, ...], device: int | None) -> Spans:
    parts = []
    for name in names:
        frame = tables[name]
        if device is not None:
            frame = frame[frame["device_id"].to_numpy(np.int64, na_value=-1) == device]
        parts.append(covering(frame["start_ns"].to_numpy(np.int64), frame["duration_ns"].to_numpy(np.int64)))
    return union(np.concatenate([begins for begins, _ in parts]), np.concatenate([ends for _, ends in parts]))


def _cut(rows: Int64, start: Int64, length: Int64, spans: Spans) -> list[tuple[Int64, Int64, Int64]]:
    """Return rows of intervals, and starts and ends of what spans cover of them."""
    order = np.argsort(start, kind="stable")
    begins, ends, window = pieces(spans, (start[order], (start + length)[order]))
    return [(rows[order][window], begins, ends)] if len(begins) else []
