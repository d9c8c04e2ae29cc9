"""Counter tracks: counter values in a window, as lines below the slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.queue_depth import queue_depth
from npuprof.arrays import Float64, Int64
from npuprof.figures.memory import MODULE
from npuprof.figures.time_axis import thinned
from npuprof.tables import owner

QUEUE = "launched, not started"
"""Title of the track of launched kernels that have not started."""

MOST_LINES = 8
"""Maximum number of counter tracks; the Counters tab has all counters."""

_MOST_POINTS = 300
_MIB = 1 << 20


@dataclass(frozen=True)
class CounterLine:
    """A counter's samples."""

    # title, unit: the counter with its rank and device, and the unit of its values.
    title: str
    unit: str
    # time_ns, value: ascending epoch nanoseconds, and finite values; a value holds until the next sample.
    time_ns: Int64
    value: Float64
    kind: str  # the counter without rank and device: lines of the same kind can be overlaid or summed
    total: bool = False  # whether the line is the sum of the lines of its kind

    @property
    def top(self) -> float:
        """The value at the upper edge of the track."""
        return max(float(self.value.max()), 1e-300)

    def within(self, start_ns: int, end_ns: int) -> tuple[Int64, Float64]:
        """Return the samples of a window and the nearest one on either side, thinned to a few hundred."""
        low = max(int(np.searchsorted(self.time_ns, start_ns, side="left")) - 1, 0)
        high = int(np.searchsorted(self.time_ns, end_ns, side="right")) + 1
        kept = thinned(self.value[low:high], _MOST_POINTS)
        return self.time_ns[low:high][kept], self.value[low:high][kept]


def lines(counters: pd.DataFrame) -> list[CounterLine]:
    """Return the counters that change most often, sorted by name."""
    known = counters[np.isfinite(counters["value"].to_numpy(np.float64))]
    if not len(known):
        return []
    keys = ["counter", "instance", *owner(known), "device_id", "unit"]
    ranked: list[tuple[int, CounterLine]] = []
    for key, rows in known.groupby(keys, observed=True, dropna=False, sort=False):
        facts: Mapping[str, object] = dict(zip(keys, key, strict=True))
        order = np.argsort(rows["time_ns"].to_numpy(), kind="stable")
        value = rows["value"].to_numpy(np.float64)[order]
        unit = facts["unit"] if isinstance(facts["unit"], str) else ""
        line = CounterLine(_title(facts), unit, rows["time_ns"].to_numpy()[order], value, str(facts["counter"]))
        ranked.append((int(np.count_nonzero(np.diff(value))), line))
    ranked.sort(key=lambda pair: -pair[0])
    return sorted((line for _, line in ranked[:MOST_LINES]), key=lambda line: line.title)


def memory_lines(memory: pd.DataFrame) -> list[CounterLine]:
    """Return the allocated memory of the largest components, reserved memory if only that is known; no modules."""
    is_drawn = ~memory["component"].astype(str).str.endswith(MODULE) & memory["time_ns"].notna()
    rows = memory[is_drawn.to_numpy(bool)]
    keys = [*owner(rows), "device_id", "component"]
    lines = []
    for key, some in rows.groupby(keys, observed=True, dropna=False, sort=True):
        for column, word in (("allocated_bytes", "allocated"), ("reserved_bytes", "reserved")):
            known = some[some[column].notna().to_numpy(bool)].sort_values("time_ns", kind="stable")
            if len(known):
                facts: Mapping[str, object] = dict(zip(keys, key, strict=True))
                kind = f"{facts['component']} {word}"
                mib = known[column].to_numpy(np.float64) / _MIB
                lines.append(
                    CounterLine(" ".join([kind, *_whose(facts)]), "MiB", known["time_ns"].to_numpy(np.int64), mib, kind)
                )
                break
    return sorted(lines, key=lambda line: -line.top)[:MOST_LINES]


def queue_lines(tables: Mapping[str, pd.DataFrame]) -> list[CounterLine]:
    """Return the number of launched kernels not yet started, per device; see :mod:`npuprof.analysis.queue_depth`."""
    if not len(tables["links"]) or not len(tables["kernels"]):
        return []
    depths = queue_depth(tables)
    keys = [*owner(depths), "device_id"]
    devices = [rows for _, rows in depths.groupby(keys, dropna=False, sort=True)]
    return [
        CounterLine(
            " ".join([QUEUE, *(_whose(rows[keys].iloc[0].to_dict()) if len(devices) > 1 else [])]),
            "kernels",
            rows["time_ns"].to_numpy(np.int64),
            rows["depth"].to_numpy(np.float64),
            QUEUE,
        )
        for rows in devices[:MOST_LINES]
    ]


def totals(lines: Sequence[CounterLine]) -> list[CounterLine]:
    """Return the sum of lines of the same kind and unit; a line counts as 0 before its first sample."""
    alike: dict[tuple[str, str], list[CounterLine]] = {}
    for line in lines:
        alike.setdefault((line.kind, line.unit), []).append(line)
    return [_total(kind, unit, some) for (kind, unit), some in alike.items() if len(some) > 1]


def _total(kind: str, unit: str, lines: Sequence[CounterLine]) -> CounterLine:
    time_ns = np.unique(np.concatenate([line.time_ns for line in lines]))
    value = np.zeros(len(time_ns))
    for line in lines:
        at = np.searchsorted(line.time_ns, time_ns, side="right")
        value += np.concatenate([[0.0], line.value])[at]
    return CounterLine(f"{kind}, sum of {len(lines)}", unit, time_ns, value, kind, total=True)


def _whose(facts: Mapping[str, object]) -> list[str]:
    words = {"rank": "rank", "run": "run", "device_id": "device"}
    return [f"{words[key]} {facts[key]}" for key in words if key in facts and not pd.isna(facts[key])]  # type: ignore[call-overload]


def _title(facts: Mapping[str, object]) -> str:
    words = [str(facts[key]) for key in ("counter", "instance") if isinstance(facts[key], str)]
    return " ".join([*words, *_whose(facts)])
