"""The time axis of all figures of a run, and the thinning of samples along it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Float64, Int64
from npuprof.errors import OptionsError


def thinned(values: Float64, limit: int) -> Int64:
    """Return positions of at most `limit` points: both ends, and minimum and maximum of each interval, without NaN."""
    if limit < 4:
        raise OptionsError(f"{limit} points are too few for a line; at least 4 are needed")
    count = len(values)
    if count <= limit:
        return np.arange(count)
    edges = np.linspace(0, count, (limit - 2) // 2 + 1).astype(np.int64)
    begins, stretch = edges[:-1], np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    is_known = ~np.isnan(values)
    kept = [np.array([0, count - 1])]
    for extreme, worst in ((np.minimum, np.inf), (np.maximum, -np.inf)):
        filled = np.where(is_known, values, worst)
        hit = np.flatnonzero(is_known & (filled == extreme.reduceat(filled, begins)[stretch]))
        kept.append(hit[np.flatnonzero(np.diff(stretch[hit], prepend=-1))])  # the first of equal values
    return np.unique(np.concatenate(kept))


_DRAWN = ("steps", "marks", "python", "operators", "api", "kernels", "tasks", "communication", "overlap")
_UNITS = ((10_000_000_000, 1_000_000_000, "s"), (2_000_000, 1_000_000, "ms"), (2_000, 1_000, "µs"), (0, 1, "ns"))


def unit_of(span_ns: int) -> tuple[int, str]:
    """Return the unit for an interval: its length in nanoseconds and its symbol."""
    return next((size, name) for least, size, name in _UNITS if span_ns >= least)


@dataclass(frozen=True)
class TimeAxis:
    """A range in epoch nanoseconds, and its unit."""

    first_ns: int
    last_ns: int
    unit_ns: int
    unit: str

    def places(self, times_ns: Int64) -> npt.NDArray[np.float64]:
        """Return times as positions on the axis, by integer subtraction."""
        return (times_ns - self.first_ns) / self.unit_ns

    def moment(self, place: float) -> int:
        """Return a position on the axis as a moment, epoch nanoseconds."""
        return self.first_ns + round(place * self.unit_ns)

    @property
    def look(self) -> dict[str, Any]:
        """Plotly options of the axis."""
        span = max(self.last_ns - self.first_ns, 1) / self.unit_ns
        return {"range": [0, span], "ticksuffix": f" {self.unit}", "exponentformat": "none"}


def time_axis(tables: Mapping[str, pd.DataFrame], samples_ns: Int64) -> TimeAxis:
    """Return the time axis of a figure of samples.

    It is the timeline's axis, so that the figures align; it is extended to the last sample if fewer than two samples
    lie on it. For a run without slices, it begins at the first sample.
    """
    frames = [tables[name] for name in _DRAWN if len(tables[name])]
    spans = [(frame["start_ns"].to_numpy(np.int64), frame["duration_ns"].to_numpy(np.int64)) for frame in frames]
    begin, end = int(samples_ns.min()), int(samples_ns.max())
    if not spans:
        return TimeAxis(begin, end, *unit_of(end - begin))
    first = min(int(start.min()) for start, _ in spans)
    last = max(int((start + duration).max()) for start, duration in spans)
    if np.count_nonzero((samples_ns >= first) & (samples_ns <= last)) < 2:
        last = max(last, end)
    return TimeAxis(first, last, *unit_of(last - first))
