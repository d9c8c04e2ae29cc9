"""Counter tracks: the samples of a window as lines below the slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.queue_depth import queue_depth
from npuprof.arrays import Float64, Int64
from npuprof.figures.memory import MODULE
from npuprof.figures.time_axis import thinned

QUEUE = "launched, not started"
"""Title of the track of launched kernels that have not started."""

MOST_LINES = 8
"""Maximum number of counters; the Counters tab has all."""

_MOST_POINTS = 300
_MIB = 1 << 20


@dataclass(frozen=True)
class Line:
    """A sampled counter, with ascending times in epoch nanoseconds and finite values."""

    title: str
    unit: str
    time_ns: Int64
    value: Float64

    @property
    def top(self) -> float:
        """The value at the top of the track."""
        return max(float(self.value.max()), 1e-300)

    def within(self, start_ns: int, end_ns: int) -> tuple[Int64, Float64]:
        """Return the samples of a window, and the nearest on both sides, thinned to a few hundred."""
        low = max(int(np.searchsorted(self.time_ns, start_ns, side="left")) - 1, 0)
        high = int(np.searchsorted(self.time_ns, end_ns, side="right")) + 1
        kept = thinned(self.value[low:high], _MOST_POINTS)
        return self.time_ns[low:high][kept], self.value[low:high][kept]


def lines(counters: pd.DataFrame) -> list[Line]:
    """Return the counters with the most changes, by name."""
    known = counters[np.isfinite(counters["value"].to_numpy(np.float64))]
    if not len(known):
        return []
    keys = ["counter", "instance", "device_id", "unit"]
    ranked: list[tuple[int, Line]] = []
    for key, rows in known.groupby(keys, observed=True, dropna=False, sort=False):
        facts: Mapping[str, object] = dict(zip(keys, key, strict=True))
        order = np.argsort(rows["time_ns"].to_numpy(), kind="stable")
        value = rows["value"].to_numpy(np.float64)[order]
        unit = facts["unit"] if isinstance(facts["unit"], str) else ""
        line = Line(_title(facts), unit, rows["time_ns"].to_numpy()[order], value)
        ranked.append((int(np.count_nonzero(np.diff(value))), line))
    ranked.sort(key=lambda pair: -pair[0])
    return sorted((line for _, line in ranked[:MOST_LINES]), key=lambda line: line.title)


def memory_lines(memory: pd.DataFrame) -> list[Line]:
    """Return what the largest components had allocated, or reserved where that alone is known; modules left out."""
    rows = memory[~memory["component"].astype(str).str.endswith(MODULE).to_numpy(bool)]
    keys = [name for name in ("rank", "device_id", "component") if name in rows]
    lines = []
    for key, some in rows.groupby(keys, observed=True, dropna=False, sort=True):
        for column, word in (("allocated_bytes", "allocated"), ("reserved_bytes", "reserved")):
            known = some[some[column].notna().to_numpy(bool)].sort_values("time_ns", kind="stable")
            if len(known):
                facts: Mapping[str, object] = dict(zip(keys, key, strict=True))
                device = "" if pd.isna(facts["device_id"]) else f" NPU {facts['device_id']}"  # type: ignore[call-overload]
                mib = known[column].to_numpy(np.float64) / _MIB
                lines.append(
                    Line(f"{facts['component']} {word}{device}", "MiB", known["time_ns"].to_numpy(np.int64), mib)
                )
                break
    return sorted(lines, key=lambda line: -line.top)[:MOST_LINES]


def queue_lines(tables: Mapping[str, pd.DataFrame]) -> list[Line]:
    """Return for each device how many launched kernels it had not started; see :mod:`npuprof.analysis.queue_depth`."""
    if not len(tables["links"]) or not len(tables["kernels"]):
        return []
    depths = queue_depth(tables)
    keys = [name for name in ("rank", "device_id") if name in depths]
    devices = [rows for _, rows in depths.groupby(keys, dropna=False, sort=True)]
    return [
        Line(
            " ".join([QUEUE, *(_owner(keys, rows) if len(devices) > 1 else [])]),
            "kernels",
            rows["time_ns"].to_numpy(np.int64),
            rows["depth"].to_numpy(np.float64),
        )
        for rows in devices[:MOST_LINES]
    ]


def _owner(keys: Sequence[str], rows: pd.DataFrame) -> list[str]:
    words = {"rank": "rank", "device_id": "NPU"}
    return [f"{words[key]} {rows[key].iloc[0]}" for key in keys]


def _title(facts: Mapping[str, object]) -> str:
    words = [str(facts[key]) for key in ("counter", "instance") if isinstance(facts[key], str)]
    device = facts["device_id"]
    return " ".join([*words, *([f"NPU {device}"] if not pd.isna(device) else [])])  # type: ignore[call-overload]
