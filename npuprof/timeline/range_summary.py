"""The summary of a range of time: busy time of each device, and the kernels with the most time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.intervals import total, union
from npuprof.arrays import Int64


@dataclass(frozen=True)
class TopKernel:
    """The kernels of one name in a range: their number, and their time within it."""

    name: str
    count: int
    total_ns: int


@dataclass(frozen=True)
class Readout:
    """The summary of a range.

    Attributes
    ----------
    busy_ns
        For each device the time with a kernel or a collective.
    kernels
        Number of kernels that touch the range.
    top
        The names with the most time in the range, greatest first.
    """

    start_ns: int
    end_ns: int
    busy_ns: Mapping[int, int]
    kernels: int
    top: tuple[TopKernel, ...]

    @property
    def span_ns(self) -> int:
        """The length of the range."""
        return self.end_ns - self.start_ns


def readout(tables: Mapping[str, pd.DataFrame], start_ns: int, end_ns: int, *, top: int = 5) -> Readout:
    """Return the summary of a range, with the `top` names."""
    devices: dict[int, list[tuple[Int64, Int64]]] = {}
    for name in ("kernels", "communication"):
        rows, low, high = _clipped(tables[name], start_ns, end_ns)
        device_of = tables[name]["device_id"].to_numpy(np.int64)[rows]
        for device in np.unique(device_of).tolist():
            mine = device_of == device
            devices.setdefault(device, []).append((low[mine], high[mine]))
    busy = {
        device: total(union(*(np.concatenate(side) for side in zip(*parts, strict=True))))
        for device, parts in sorted(devices.items())
    }
    rows, low, high = _clipped(tables["kernels"], start_ns, end_ns)
    return Readout(start_ns, end_ns, busy, len(rows), _top(tables["kernels"]["name"], rows, high - low, top))


def _clipped(frame: pd.DataFrame, start_ns: int, end_ns: int) -> tuple[Int64, Int64, Int64]:
    """Return the rows that touch a range, clipped to it."""
    start, duration = frame["start_ns"].to_numpy(), frame["duration_ns"].to_numpy()
    rows = np.flatnonzero((start <= end_ns) & (start + duration >= start_ns))
    return rows, np.maximum(start[rows], start_ns), np.minimum(start[rows] + duration[rows], end_ns)


def _top(names: pd.Series, rows: Int64, time_ns: Int64, top: int) -> tuple[TopKernel, ...]:
    codes = names.cat.codes.to_numpy()[rows].astype(np.int64)
    order = np.argsort(codes, kind="stable")
    begins = np.flatnonzero(np.diff(codes[order], prepend=-2))
    if not len(begins):
        return ()
    sums = np.add.reduceat(time_ns[order], begins)
    counts = np.diff(np.append(begins, len(order)))
    ranked = np.argsort(-sums, kind="stable")[:top]
    categories = names.cat.categories
    heads = codes[order][begins]
    return tuple(
        TopKernel(str(categories[heads[at]]) if heads[at] >= 0 else "", int(counts[at]), int(sums[at]))
        for at in ranked.tolist()
    )
