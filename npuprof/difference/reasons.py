"""The reason why each row differs: count, shapes, data types, clock, or only duration."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64
from npuprof.difference.guards import clocks
from npuprof.difference.side import Side

OF_PART = {
    "waiting": "wait",
    "moving": "transfer",
    "communication": "communication",
    "copy": "copy",
    "idle": "gap",
    "between_steps": "gap",
    "not_recorded": "lost",
}
_OF_CLOCK = (0.5, 1.5)  # the log ratio of kernel times relative to that of clocks, within which the clock explains it


def reasons(frame: pd.DataFrame, sides: tuple[Side, Side], of: tuple[Int64, Int64]) -> list[str]:
    """Return the reason why each row differs."""
    leaves = ~frame.index.isin(frame["parent"])
    retyped = _in_other_dtypes(len(frame), sides, of) & leaves
    reclocked = _as_the_clock(frame, clocks(*sides)) & leaves
    part = frame["part"].to_numpy(object)
    in_a, in_b = ((frame[f"{side}_ns"] > 0).to_numpy() | (frame[f"{side}_count"] > 0).to_numpy() for side in "ab")
    by_count, by_mean = (frame[name].to_numpy(np.int64) for name in ("by_count_ns", "by_mean_ns"))
    conditions = [
        (frame["delta_ns"] == 0).to_numpy(bool),
        *(part == name for name in OF_PART),
        (in_a != in_b) & _in_other_shapes(frame),
        ~in_b,
        ~in_a,
        np.abs(by_count) > np.abs(by_mean),
        retyped,
        reclocked,
        by_mean > 0,
    ]
    names = ["", *OF_PART.values(), "shape", "new", "gone", "count", "dtype", "frequency", "slower"]
    return [str(reason) for reason in np.select(conditions, names, "faster")]


def _in_other_shapes(frame: pd.DataFrame) -> Bools:
    """Return a mask of rows on one side whose operator has other shapes under the same parent on the other side."""
    in_a, in_b = ((frame[f"{side}_count"] > 0).to_numpy() for side in "ab")
    alone = (frame["part"] == "computing").to_numpy(bool) & (frame["depth"] > 0).to_numpy(bool) & (in_a != in_b)
    rows = np.flatnonzero(alone)
    ops, names = pd.factorize(np.array([name.partition(" ")[0] for name in frame["name"].iloc[rows]], object))
    group, distinct = pd.factorize(frame["parent"].to_numpy(np.int64)[rows] * max(len(names), 1) + ops)
    both = np.ones(len(distinct), bool)
    for side in (in_a, in_b):
        both &= np.bincount(group[side[rows]], minlength=len(distinct)) > 0
    reshaped = np.zeros(len(frame), bool)
    reshaped[rows] = both[group]
    return reshaped


def _as_the_clock(frame: pd.DataFrame, mhz: tuple[float, float]) -> Bools:
    """Return a mask of rows whose mean kernel durations differ about as much as the core clocks."""
    if mhz[0] == mhz[1]:
        return np.zeros(len(frame), bool)
    means = [
        frame[f"{side}_ns"].to_numpy(np.float64) / np.maximum(frame[f"{side}_count"].to_numpy(np.float64), 1e-9)
        for side in "ab"
    ]
    both = (frame["part"] == "computing").to_numpy(bool) & (means[0] > 0) & (means[1] > 0)
    ratio = np.divide(means[0], means[1], out=np.ones(len(frame)), where=both)
    share = np.log(ratio) / np.log(mhz[1] / mhz[0])
    return both & (share >= _OF_CLOCK[0]) & (share <= _OF_CLOCK[1])


def _in_other_dtypes(count: int, sides: tuple[Side, Side], of: tuple[Int64, Int64]) -> Bools:
    """Return a mask of rows that have kernels on both sides, but not the same data types."""
    seen = []
    for side, node in zip(sides, of, strict=True):
        is_known = (side.kinds["dtypes"] != "").to_numpy(bool)
        seen.append(set(zip(node[is_known].tolist(), side.kinds["dtypes"][is_known], strict=True)))
    changed = np.zeros(count, bool)
    changed[[row for row, _ in seen[0] ^ seen[1]]] = True
    for pairs in seen:
        changed &= np.isin(np.arange(count), [row for row, _ in pairs])
    return changed
