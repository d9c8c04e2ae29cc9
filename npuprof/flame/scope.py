"""Scopes: the parts of a call tree that belong to a step, a host thread, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.correlation import LAYERS, own_ns
from npuprof.analysis.intervals import union
from npuprof.arrays import Bools, Int64
from npuprof.errors import OptionsError
from npuprof.flame.tree import MergedCalls, PathWeights, Weight

_MOST_LISTED = 12


@dataclass(frozen=True)
class Scope:
    """A part of a run."""

    # The number of a step; None for the whole run. Only the time of a host call within the step counts, and the call is
    # counted in the step where it starts. A kernel belongs to its recorded step, or else to the step of its launch.
    step: int | None = None
    # A host thread; None for all threads. A kernel belongs to every thread with a call that caused it, also through a
    # task queue.
    thread: int | None = None


def steps(tables: Mapping[str, pd.DataFrame]) -> list[int]:
    """Return the step numbers of a run."""
    numbers = pd.concat([tables["steps"]["step"], tables["kernels"]["step"]]).dropna()
    return sorted(int(number) for number in numbers.unique())


def threads(tables: Mapping[str, pd.DataFrame]) -> list[int]:
    """Return the host threads of a run, those with the most calls first."""
    return [int(thread) for thread in pd.Series(_host(tables, "thread_id")).value_counts().index]


def scoped(
    calls: MergedCalls,
    tables: Mapping[str, pd.DataFrame],
    scope: Scope,
    window: tuple[int, int] | None = None,
    rows: Mapping[str, Int64] | None = None,
) -> dict[Weight, PathWeights]:
    """Sum the weights of all paths within a scope; callers outside the scope have no self amount.

    Parameters
    ----------
    window
        Start and end of a range, in nanoseconds: only the time within it counts, and slices that touch it; None for
        all.
    """
    if scope == Scope() and window is None and rows is None:
        return calls.whole(tables)
    part = _Part(calls, tables)
    if scope.step is not None:
        part.keep_step(scope.step)
    if window is not None:
        part.keep_window(window)
    if scope.thread is not None:
        part.keep_thread(scope.thread)
    if rows is not None:
        part.keep_rows(rows)
    return part.sums()


class _Part:
    """What counts of a run: host slices, whose own time may count without them, kernels, and windows of time."""

    def __init__(self, calls: MergedCalls, tables: Mapping[str, pd.DataFrame]) -> None:
        self._calls, self._tables, self._kernels = calls, tables, tables["kernels"]
        self._start = _host(tables, "start_ns")
        self._end = self._start + _host(tables, "duration_ns")
        self._kernel_start, self._kernel_ns = (
            self._kernels[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns")
        )
        self._chosen, self._own_counts = np.ones(len(self._start), bool), np.ones(len(self._start), bool)
        self._chosen_kernels = np.ones(len(self._kernels), bool)
        self._windows: tuple[Int64, Int64] | None = None

    def keep_step(self, number: int) -> None:
        _check_known(number, steps(self._tables), "step")
        self._windows = _windows(self._tables["steps"], number)
        self._chosen = _inside(self._windows, self._start)
        launchers = self._calls.causes.launchers
        self._chosen_kernels = _are_of_step(self._kernels, number, launchers, self._chosen, self._windows)

    def keep_window(self, window: tuple[int, int]) -> None:
        self._windows = _common(self._windows, window)
        self._chosen = self._chosen & _touching(window, self._start, self._end)
        ends = self._kernel_start + self._kernel_ns
        self._chosen_kernels = self._chosen_kernels & _touching(window, self._kernel_start, ends)
        low, high = window
        self._kernel_ns = np.maximum(np.minimum(ends, high) - np.maximum(self._kernel_start, low), 0)

    def keep_thread(self, number: int) -> None:
        _check_known(number, threads(self._tables), "thread")
        on_thread = _host(self._tables, "thread_id") == number
        self._chosen, self._own_counts = self._chosen & on_thread, self._own_counts & on_thread
        self._chosen_kernels = self._chosen_kernels & _are_launched(self._calls, on_thread)

    def keep_rows(self, rows: Mapping[str, Int64]) -> None:
        is_among = np.concatenate([_among(rows, name, len(self._tables[name])) for name in LAYERS])
        self._chosen, self._own_counts = self._chosen & is_among, self._own_counts & is_among
        self._chosen_kernels = self._chosen_kernels & _among(rows, "kernels", len(self._kernels))

    def sums(self) -> dict[Weight, PathWeights]:
        """Return the weights of all paths."""
        causes = self._calls.causes
        self_ns = causes.self_ns
        if self._windows is not None:
            covered = _covered_before(self._windows, self._end) - _covered_before(self._windows, self._start)
            self_ns = own_ns(covered, causes.holders)
        counted = np.flatnonzero(self._chosen_kernels)
        self_ns = np.where(self._own_counts, self_ns, 0)
        return self._calls.sums(np.flatnonzero(self._chosen), self_ns, counted, self._kernel_ns[counted])


def _common(windows: tuple[Int64, Int64] | None, window: tuple[int, int]) -> tuple[Int64, Int64]:
    """Return the parts of windows within another one, which is all for None."""
    low, high = window
    starts, ends = (np.array([low]), np.array([high])) if windows is None else windows
    starts, ends = np.maximum(starts, low), np.minimum(ends, high)
    return starts[starts < ends], ends[starts < ends]


def _touching(window: tuple[int, int], start: Int64, end: Int64) -> Bools:
    return (start < window[1]) & (end > window[0])


def _among(rows: Mapping[str, Int64], table: str, count: int) -> Bools:
    is_among = np.zeros(count, bool)
    is_among[rows.get(table, np.zeros(0, np.int64))] = True
    return is_among


def _host(tables: Mapping[str, pd.DataFrame], column: str) -> Int64:
    return np.concatenate([tables[name][column].to_numpy(np.int64) for name in LAYERS])


def _check_known(number: int, known: list[int], subject: str) -> None:
    if number in known:
        return
    listed = ", ".join(map(str, known[:_MOST_LISTED])) + (" ..." if len(known) > _MOST_LISTED else "")
    raise OptionsError(f"the run has no {subject} {number}; it has {listed or 'none'}")


def _windows(steps: pd.DataFrame, number: int) -> tuple[Int64, Int64]:
    """Return the disjoint intervals of a step, of which each device may record one."""
    rows = steps[(steps["step"] == number).fillna(value=False).to_numpy(bool)]
    starts = rows["start_ns"].to_numpy(np.int64)
    return union(starts, starts + rows["duration_ns"].to_numpy(np.int64))


def _covered_before(windows: tuple[Int64, Int64], moments: Int64) -> Int64:
    """Return the total length of the windows before each time."""
    starts, ends = windows
    before = np.concatenate([[0], np.cumsum(ends - starts)])
    started = np.searchsorted(starts, moments, side="right")
    last_end = np.concatenate([[np.iinfo(np.int64).min], ends])[started]
    return before[started] - np.where(last_end > moments, last_end - moments, 0)


def _inside(windows: tuple[Int64, Int64], moments: Int64) -> Bools:
    starts, ends = windows
    started = np.searchsorted(starts, moments, side="right")
    return np.concatenate([[np.iinfo(np.int64).min], ends])[started] > moments


def _are_of_step(
    kernels: pd.DataFrame, number: int, launchers: Int64, started: Bools, windows: tuple[Int64, Int64]
) -> Bools:
    """Return a mask of the kernels of a step; `started` marks host slices that start in it."""
    is_known = kernels["step"].notna().to_numpy(bool)
    recorded = (kernels["step"] == number).fillna(value=False).to_numpy(bool)
    launched = np.append(started, False)[launchers]  # the last element is for -1, an unknown launcher
    meanwhile = _inside(windows, kernels["start_ns"].to_numpy(np.int64))
    return np.where(is_known, recorded, np.where(launchers >= 0, launched, meanwhile))


def _are_launched(calls: MergedCalls, on_thread: Bools) -> Bools:
    """Return a mask of the kernels that were caused, directly or indirectly, by a call on a thread."""
    caused = np.append(on_thread, False)  # the last element is for -1, no caller
    above = np.append(calls.causes.callers, -1)
    while (above >= 0).any():  # every round doubles the number of callers looked at
        caused |= caused[above]
        above = np.where(above >= 0, above[above], -1)
    return caused[calls.causes.launchers]
