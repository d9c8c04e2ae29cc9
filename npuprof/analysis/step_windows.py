"""Step windows: the intervals that belong to each step."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from npuprof.analysis.intervals import Spans
from npuprof.arrays import Int64

Basis: TypeAlias = Literal["steps", "kernels", "step_times", "run"]
"""The origins of windows: marked steps, step numbers of kernels, the vendor's step times, or the run as a whole."""

_SLICES = ("steps", "python", "operators", "api", "tasks", "kernels", "communication", "marks")


@dataclass(frozen=True)
class StepWindows:
    """The steps of a device as disjoint intervals, in order of time.

    Attributes
    ----------
    steps
        The number of each step, ``Int64``; <NA> for a run without steps.
    starts, ends
        Epoch nanoseconds of each interval. A step with another step nested in it has several intervals.
    owner
        The position in `steps` of each interval's step.
    basis
        The origin of the windows.
    """

    steps: Any
    starts: Int64
    ends: Int64
    owner: Int64
    basis: Basis

    @property
    def spans(self) -> Spans:
        """All intervals."""
        return self.starts, self.ends

    def clipped(self, start_ns: int | None, end_ns: int | None) -> StepWindows:
        """Return the windows clipped to a selection."""
        low = np.iinfo(np.int64).min if start_ns is None else start_ns
        high = np.iinfo(np.int64).max if end_ns is None else end_ns
        starts, ends = np.clip(self.starts, low, high), np.clip(self.ends, low, high)
        is_kept = ends > starts
        steps, owner = np.unique(self.owner[is_kept], return_inverse=True)
        return StepWindows(self.steps[steps], starts[is_kept], ends[is_kept], owner.astype(np.int64), self.basis)

    def timed(self) -> StepWindows:
        """Return the steps that have any time of their own, or all if none has.

        If a step is marked twice, one mark has all of its time.
        """
        timed = self.clipped(None, None)
        return timed if len(timed.steps) else self

    def durations(self) -> Int64:
        """Return the duration of each step in nanoseconds."""
        lengths = np.zeros(len(self.steps), np.int64)
        np.add.at(lengths, self.owner, self.ends - self.starts)
        return lengths


def step_windows(tables: Mapping[str, pd.DataFrame], device_id: int) -> StepWindows:
    """Return the windows of the steps of a device.

    They are the rows of ``steps``; without any, for each value of ``kernels.step`` the time from the first start to
    the last end of kernels and communication; without these, one window over all slices of the run.
    If steps overlap or nest, the common time belongs to the step that began last.

    Parameters
    ----------
    tables
        Every table of the schema by name.
    device_id
        The device; steps marked on the host apply to all devices.
    """
    steps = tables["steps"]
    if len(steps):
        starts = steps["start_ns"].to_numpy(np.int64)
        return _innermost(steps["step"].array, starts, starts + steps["duration_ns"].to_numpy(np.int64), "steps")
    rows = pd.concat(
        [
            frame[(frame["device_id"] == device_id).to_numpy(bool)][["step", "start_ns", "duration_ns"]]
            for frame in (tables["kernels"], tables["communication"])
        ],
        ignore_index=True,
    )
    if tables["kernels"]["step"].notna().any() and rows["step"].notna().any():
        known_rows = rows[rows["step"].notna().to_numpy(bool)]
        known_rows = known_rows.assign(end_ns=known_rows["start_ns"] + known_rows["duration_ns"])
        bounds = known_rows.groupby("step").agg(start=("start_ns", "min"), end=("end_ns", "max"))
        return _innermost(
            bounds.index.array, bounds["start"].to_numpy(np.int64), bounds["end"].to_numpy(np.int64), "kernels"
        )
    whole = run_window(tables)
    edges = np.array([] if whole is None else whole, np.int64).reshape(-1, 2)
    return _innermost(pd.array([pd.NA] * len(edges), dtype="Int64"), edges[:, 0], edges[:, 1], "run")


def run_window(tables: Mapping[str, pd.DataFrame]) -> tuple[int, int] | None:
    """Return the first start and the last end of all slices, in epoch nanoseconds; None without slices."""
    bounds = [
        (int(starts.min()), int((starts + frame["duration_ns"].to_numpy()).max()))
        for frame in (tables[name] for name in _SLICES)
        if len(starts := frame["start_ns"].to_numpy())
    ]
    if not bounds:
        return None
    return min(start for start, _ in bounds), max(end for _, end in bounds)


def _innermost(steps: Any, starts: Int64, ends: Int64, basis: Basis) -> StepWindows:
    """Cut steps so that each moment belongs to one step; where steps overlap, to the one that began last."""
    order = np.lexsort((-ends, starts))
    if not (starts[order][1:] < np.maximum.accumulate(ends[order])[:-1]).any():
        return StepWindows(steps[order], starts[order], ends[order], np.arange(len(order)), basis)
    stretches: list[tuple[int, int, int]] = []
    active: list[tuple[int, int, int]] = []  # the latest start first, then the latest row
    edges = np.unique(np.concatenate((starts, ends)))
    rows = iter(order.tolist())
    row = next(rows, None)
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        while row is not None and starts[row] <= begin:
            heapq.heappush(active, (-int(starts[row]), int(ends[row]), row))
            row = next(rows, None)
        while active and active[0][1] <= begin:
            heapq.heappop(active)
        if active:
            stretches.append((begin, end, active[0][2]))
    begins, stops, owners = (np.array(column, np.int64) for column in zip(*stretches, strict=True))
    is_joined = np.concatenate(([True], (owners[1:] != owners[:-1]) | (begins[1:] != stops[:-1])))
    last = np.append(is_joined[1:], True)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return StepWindows(steps[order], begins[is_joined], stops[last], place[owners[is_joined]], basis)
