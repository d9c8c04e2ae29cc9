"""Step windows: the intervals that belong to each step."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from npuprof.analysis.correlation import launch_moments
from npuprof.analysis.intervals import Spans, pieces
from npuprof.arrays import Int64, outer_first

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
    overlapping
        Whether the steps overlapped or nested before they were cut.
    """

    steps: Any
    starts: Int64
    ends: Int64
    owner: Int64
    basis: Basis
    overlapping: bool = False

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
        return replace(
            self, steps=self.steps[steps], starts=starts[is_kept], ends=ends[is_kept], owner=owner.astype(np.int64)
        )

    def within(self, spans: Spans) -> StepWindows:
        """Return the windows without the time outside of some intervals, which are sorted and disjoint."""
        starts, ends, window = pieces(spans, self.spans)
        return replace(self, starts=starts, ends=ends, owner=self.owner[window]) if len(starts) else self

    def timed(self) -> StepWindows:
        """Return the steps that have any time of their own, or all if none has.

        If a step is marked twice, one mark has all of its time.
        """
        timed = self.clipped(None, None)
        return timed if len(timed.steps) else self

    @property
    def gaps(self) -> tuple[Spans, Int64]:
        """The time between a step and the next consecutive one, with the position of the step before it in `steps`.

        There is none around steps that are not numbered one after the other, or that overlap or nest.
        """
        gaps = max(len(self.steps) - 1, 0) if self.basis == "steps" and not self.overlapping else 0
        numbers, first = pd.array(self.steps, "Int64"), np.arange(gaps)
        first = first[(numbers[first + 1] == numbers[first] + 1).to_numpy(bool, na_value=False)]
        return (self.ends[first], self.starts[first + 1]), self.owner[first]

    def with_work(self, busy: Spans) -> StepWindows:
        """Return the windows with the device's work between a step and the next consecutive one, in the step before.

        Asynchronous work runs past the mark of its step.
        """
        between, owner = self.gaps
        starts, ends, gap = pieces(busy, between)
        if not len(starts):
            return self
        starts, ends = np.concatenate((self.starts, starts)), np.concatenate((self.ends, ends))
        order = np.argsort(starts, kind="stable")
        owners = np.concatenate((self.owner, owner[gap]))
        return replace(self, starts=starts[order], ends=ends[order], owner=owners[order])

    def at(self, moments: Int64) -> Any:
        """Return the number of the step to which each moment belongs, as in :meth:`with_work`; <NA> outside all."""
        step = np.full(len(moments), -1, np.int64)
        between, owner = self.gaps
        for (starts, ends), owners in (((self.starts, self.ends), self.owner), (between, owner)):
            place = np.searchsorted(starts, moments, side="right") - 1
            inside = np.flatnonzero((place >= 0) & (moments < np.append(ends, 0)[place]))
            step[inside] = owners[place[inside]]
        return pd.array(self.steps, "Int64").take(step, allow_fill=True)

    def durations(self) -> Int64:
        """Return the duration of each step in nanoseconds."""
        lengths = np.zeros(len(self.steps), np.int64)
        np.add.at(lengths, self.owner, self.ends - self.starts)
        return lengths


def step_windows(tables: Mapping[str, pd.DataFrame], device_id: int, *, joined: bool = True) -> StepWindows:
    """Return the windows of the steps of a device.

    They are the rows of ``steps``; without any, for each value of ``kernels.step`` the time from the first start to
    the last end of kernels and communication; without these, one window over all slices of the run.
    If steps overlap or nest, the common time belongs to the step that began last.

    Parameters
    ----------
    tables
        Every table of the schema by name, on one clock: :func:`npuprof.analysis.device_clocks.on_host_clock`.
    device_id
        The device; steps marked on the host apply to all devices, those that a device recorded to itself.
    joined
        Whether the times of the device can be compared with those of the host. If not, only work that is linked with
        its launch tells steps, by the step of the launch, and the run is that of the device.
    """
    steps = tables["steps"]
    if "device_id" in steps:
        steps = steps[steps["device_id"].isin([device_id, pd.NA]).to_numpy(bool)]
    elif not joined:
        steps = steps.iloc[:0]
    if not joined:
        tables = _of_device_alone(tables, device_id)
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


def _of_device_alone(tables: Mapping[str, pd.DataFrame], device_id: int) -> dict[str, pd.DataFrame]:
    """Return the tables with the rows of a device alone, and without the steps of work that has no launch."""
    alone = {name: tables[name] if name == "links" else tables[name].iloc[:0] for name in tables}
    targets = tables["links"]["target_table"]
    for name in ("tasks", "kernels", "communication"):
        frame = tables[name]
        linked = np.isin(np.arange(len(frame)), tables["links"]["target_row"][(targets == name).to_numpy(bool)])
        if name == "kernels":
            linked |= launch_moments(tables).notna().to_numpy(bool)
        if "step" in frame:
            frame = frame.assign(step=frame["step"].where(linked))
        alone[name] = frame[(frame["device_id"] == device_id).to_numpy(bool)]
    return alone


def steps_of_kernels(tables: Mapping[str, pd.DataFrame], apart: Collection[int] = ()) -> Any:
    """Return the step of each kernel by the windows of its device, as the breakdown counts it; <NA> outside all steps.

    Parameters
    ----------
    tables
        Every table of the schema by name, on one clock.
    apart
        The devices whose times cannot be compared with those of the host.
    """
    kernels = tables["kernels"]
    starts, devices = (kernels[name].to_numpy(np.int64) for name in ("start_ns", "device_id"))
    steps = pd.array([pd.NA], "Int64").repeat(len(kernels))
    for device in np.unique(devices).tolist():
        rows = devices == device
        steps[rows] = step_windows(tables, device, joined=device not in apart).timed().at(starts[rows])
    return steps


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
    order = outer_first(starts, ends)
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
    is_first = np.concatenate(([True], (owners[1:] != owners[:-1]) | (begins[1:] != stops[:-1])))
    last = np.append(is_first[1:], True)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return StepWindows(steps[order], begins[is_first], stops[last], place[owners[is_first]], basis, overlapping=True)
