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
from npuprof.arrays import Bools, Int64, outer_first

Origin: TypeAlias = Literal["steps", "kernels", "step_times", "run"]
"""The origins of windows: marked steps, step numbers of kernels, the vendor's step times, or the run as a whole."""

_SLICES = ("steps", "python", "operators", "api", "tasks", "kernels", "communication", "marks")


@dataclass(frozen=True)
class StepWindows:
    """The steps of a device as disjoint intervals, in order of time."""

    steps: Any  # the number of each step, `Int64`; <NA> for a run without steps
    # starts, ends: epoch nanoseconds of each interval. A step with another step nested in it has several intervals.
    starts: Int64
    ends: Int64
    owner: Int64  # the position in `steps` of each interval's step
    basis: Origin  # the origin of the windows
    between: Bools  # which intervals lie between a step and the next one; see `lasting`
    closed: Bools  # which of `steps` last to the start of the next one, or are of a kind that has no such end
    # Which of `steps` are of another kind than the one that figures per step are of; see `of_counted_kind`.
    other: Bools
    overlapping: bool = False  # whether the steps overlapped or nested before they were cut

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
        is_cut = np.zeros(len(self.steps), bool)
        is_cut[self.owner[ends < self.ends]] = True
        return replace(
            self,
            steps=self.steps[steps],
            starts=starts[is_kept],
            ends=ends[is_kept],
            owner=owner.astype(np.int64),
            between=self.between[is_kept],
            closed=(self.closed & ~is_cut)[steps],
            other=self.other[steps],
        )

    def within(self, spans: Spans) -> StepWindows:
        """Return the windows without the time outside of some intervals, which are sorted and disjoint."""
        starts, ends, window = pieces(spans, self.spans)
        if not len(starts):
            return self
        return replace(self, starts=starts, ends=ends, owner=self.owner[window], between=self.between[window])

    def timed(self) -> StepWindows:
        """Return the steps that have any time of their own, or all if none has.

        If a step is marked twice, one mark has all of its time.
        """
        timed = self.clipped(None, None)
        return timed if len(timed.steps) else self

    def lasting(self, *, every_kind: bool = False) -> StepWindows:
        """Return the windows of steps that last to the start of the next consecutive one, which are then closed.

        Steps of another kind end those before them, and are left out unless `every_kind` is asked for. The last step,
        and one before a gap in the numbers, ends with its mark or its last task. So do steps that overlap, nest or have
        a number twice, and a run without steps: no next step ends them, and all count as closed.
        """
        numbers = pd.array(self.steps, "Int64")
        if self.basis not in ("steps", "kernels") or self.overlapping or pd.Series(numbers).duplicated().any():
            return self if every_kind else self._of_counted_kind()
        first = np.arange(max(len(self.steps) - 1, 0))
        first = first[(numbers[first + 1] == numbers[first] + 1).to_numpy(bool, na_value=False)]
        closed = np.zeros(len(self.steps), bool)
        closed[first] = True
        first = first[self.starts[first + 1] > self.ends[first]]
        starts = np.concatenate((self.starts, self.ends[first]))
        order = np.argsort(starts, kind="stable")
        lasting = replace(
            self,
            starts=starts[order],
            ends=np.concatenate((self.ends, self.starts[first + 1]))[order],
            owner=np.concatenate((self.owner, self.owner[first]))[order],
            between=np.concatenate((self.between, np.ones(len(first), bool)))[order],
            closed=closed,
        )
        return lasting if every_kind else lasting._of_counted_kind()

    def _of_counted_kind(self) -> StepWindows:
        if not self.other.any():
            return self
        kept = ~self.other[self.owner]
        return replace(
            self,
            steps=self.steps[~self.other],
            starts=self.starts[kept],
            ends=self.ends[kept],
            owner=(np.cumsum(~self.other) - 1)[self.owner[kept]],
            between=self.between[kept],
            closed=self.closed[~self.other],
            other=self.other[~self.other],
        )

    def at(self, moments: Int64) -> Any:
        """Return the number of the step to which each moment belongs; <NA> outside all."""
        place = np.searchsorted(self.starts, moments, side="right") - 1
        inside = (place >= 0) & (moments < np.append(self.ends, 0)[place])
        step = np.where(inside, np.append(self.owner, -1)[place], -1)
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
        ends = starts + steps["duration_ns"].to_numpy(np.int64)
        return _innermost(steps["step"].array, starts, ends, "steps", ~of_counted_kind(steps))
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


def of_counted_kind(steps: pd.DataFrame) -> Bools:
    """Return which rows of ``steps`` are of the kind that figures per step are of: all without other kinds."""
    every = np.ones(len(steps), bool)
    if "counted" not in steps:
        return every
    counted_kind = steps["counted"].to_numpy(bool, na_value=True)
    return counted_kind if counted_kind.any() else every


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
    """Return the step of each kernel, as the breakdown counts it; <NA> outside all steps."""
    kernels = tables["kernels"]
    starts, devices = (kernels[name].to_numpy(np.int64) for name in ("start_ns", "device_id"))
    steps = pd.array([pd.NA], "Int64").repeat(len(kernels))
    for device in np.unique(devices).tolist():
        rows = devices == device
        windows = step_windows(tables, device, joined=device not in apart).timed().lasting(every_kind=True)
        steps[rows] = windows.at(starts[rows])
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


def _innermost(steps: Any, starts: Int64, ends: Int64, basis: Origin, other: Bools | None = None) -> StepWindows:
    """Cut steps so that each moment belongs to one step; where steps overlap, to the one that began last."""
    order = outer_first(starts, ends)
    other = np.zeros(len(order), bool) if other is None else other[order]
    if not (starts[order][1:] < np.maximum.accumulate(ends[order])[:-1]).any():
        neither = np.zeros(len(order), bool)
        return StepWindows(
            steps[order], starts[order], ends[order], np.arange(len(order)), basis, neither, ~neither, other
        )
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
    owner = place[owners[is_first]]
    between, closed = np.zeros(len(owner), bool), np.ones(len(order), bool)
    return StepWindows(
        steps[order], begins[is_first], stops[last], owner, basis, between, closed, other, overlapping=True
    )
