"""Jump targets in a run: the longest kernels and gaps, steps, and slices of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import device_parts, devices_of
from npuprof.arrays import Int64
from npuprof.timeline.slices import NAME_COLUMNS, Slices

_MOST = 100  # longest kernels or gaps that repeated jumps go through


class Jumps:
    """Jump targets, computed at first use."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], slices: Slices) -> None:
        self._tables = tables
        self._slices = slices

    def kernel(self, selected: int | None) -> int | None:
        """Return the longest kernel, or the next shorter one if the longest is selected, and so on."""
        if not len(self._kernels):
            return None
        at = np.flatnonzero(self._kernels == selected) if selected is not None else np.zeros(0, np.int64)
        return int(self._kernels[(int(at[0]) + 1) % len(self._kernels)] if len(at) else self._kernels[0])

    def gap(self, marked: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the longest gap between two tasks of a device, or the next shorter gap after the marked one."""
        if not self.gaps:
            return None
        at = self.gaps.index(marked) + 1 if marked in self.gaps else 0
        return self.gaps[at % len(self.gaps)]

    def step(self, window: tuple[int, int], by: int) -> tuple[int, int] | None:
        """Return the step after (1) or before (-1) the middle of the window."""
        starts, ends = self._steps
        middle = window[0] + (window[1] - window[0]) // 2
        at = (
            int(np.searchsorted(starts, middle, side="right"))
            if by > 0
            else int(np.searchsorted(ends, middle, side="left")) - 1
        )
        return (int(starts[at]), int(ends[at])) if 0 <= at < len(starts) else None

    def same(self, number: int, by: int) -> int | None:
        """Return the next (1) or previous (-1) slice of the same table and name, by start time."""
        table, row = self._slices.row(number)
        if table not in NAME_COLUMNS:
            return None
        frame = self._tables[table]
        codes = frame[NAME_COLUMNS[table]].cat.codes.to_numpy()
        rows = np.flatnonzero(codes == codes[row])
        start = frame["start_ns"].to_numpy(np.int64)[rows]
        rows = rows[np.argsort(start, kind="stable")]
        at = int(np.flatnonzero(rows == row)[0]) + by
        return int(rows[at]) + self._slices.first[table] if 0 <= at < len(rows) else None

    @cached_property
    def _kernels(self) -> Int64:
        duration = self._tables["kernels"]["duration_ns"].to_numpy(np.int64)
        return _longest(duration) + self._slices.first["kernels"]

    @cached_property
    def gaps(self) -> list[tuple[int, int]]:
        """The longest gaps between two tasks of a device, longest first."""
        gaps = []
        for device in devices_of(self._tables):
            starts, ends = device_parts(self._tables, device)[1]
            at = _longest(starts[1:] - ends[:-1])
            gaps += list(zip(ends[at].tolist(), starts[at + 1].tolist(), strict=True))
        return sorted(gaps, key=lambda gap: gap[0] - gap[1])[:_MOST]

    @cached_property
    def _steps(self) -> tuple[Int64, Int64]:
        steps = self._tables["steps"]
        start = steps["start_ns"].to_numpy(np.int64)
        order = np.argsort(start, kind="stable")
        return start[order], (start + steps["duration_ns"].to_numpy(np.int64))[order]


def _longest(durations: Int64) -> Int64:
    """Return the positions of the greatest values, greatest first; equal values in their order."""
    if len(durations) > _MOST:
        least = np.partition(durations, len(durations) - _MOST)[len(durations) - _MOST]
        selected_rows = np.flatnonzero(durations >= least)
    else:
        selected_rows = np.arange(len(durations))
    return selected_rows[np.argsort(-durations[selected_rows], kind="stable")][:_MOST]
