"""The bars of a window as columns of numbers, which a browser draws without further requests."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Bools, Float64, Uint8
from npuprof.timeline.labels import Labels
from npuprof.timeline.lane_packing import Bars


@dataclass(frozen=True)
class Columns:
    """Bars ordered by lane and start; all arrays have the same length."""

    lane: npt.NDArray[np.uint16]
    # start, length: nanoseconds since the origin; integers, exact below 2**53 (104 days).
    start: Float64
    length: Float64
    # count, busy, longest: number of slices in the bar, the sum of their durations and the longest duration (ns, seven
    # digits).
    count: npt.NDArray[np.uint32]
    busy: npt.NDArray[np.float32]
    longest: npt.NDArray[np.float32]
    # slice, label, family: numbers of the longest slice, its name (`Labels`) and its colour family.
    slice: npt.NDArray[np.uint32]
    label: npt.NDArray[np.uint32]
    family: Uint8
    lit: Uint8  # 0 for bars without a match of the search, which are faded; else 1

    def __len__(self) -> int:
        return len(self.lane)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by column name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def columns(bars: Bars, labels: Labels, origin_ns: int, lit: Bools | None = None) -> Columns:
    """Return bars as columns; all bars are lit if `lit` is None."""
    return Columns(
        lane=bars.lane.astype(np.uint16),
        start=(bars.start_ns - origin_ns).astype(np.float64),
        length=(bars.end_ns - bars.start_ns).astype(np.float64),
        count=bars.count.astype(np.uint32),
        busy=bars.busy_ns.astype(np.float32),
        longest=bars.longest_ns.astype(np.float32),
        slice=bars.row.astype(np.uint32),
        label=labels.of(bars.row).astype(np.uint32),
        family=labels.families(bars.row),
        lit=np.ones(len(bars), np.uint8) if lit is None else lit.astype(np.uint8),
    )
