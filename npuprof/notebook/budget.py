"""What of an automatic report fits into its budget, estimated from the numbers of rows before anything is made.

Headline, findings and code are always there; of the rest, what does not fit is replaced by the call that makes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.words.quantities import duration, size

BUDGET_NS = 2_000_000_000
"""The CPU time of a report."""
BUDGET_BYTES = 200 << 20
"""The memory of a report, beside the tables of the run."""
ALWAYS_KERNELS = 20_000
"""The number of kernels below which nothing is left out."""

_COUNTED: Mapping[str, Sequence[str]] = {
    "calls": ("python", "operators", "api"),
    "tasks": ("kernels", "tasks", "communication", "communication_tasks"),
    "stamps": ("statements", "iterations", "sampled_lines"),
    "steps": ("steps",),
    "others": ("marks", "overlap", "memory", "allocations", "counters"),
}


@dataclass(frozen=True)
class Part:
    """A part of a report: the method that makes it, and nanoseconds and bytes for each row that it is made of."""

    name: str
    method: str
    base_ns: int
    ns: Mapping[str, float]
    bytes: Mapping[str, int]


# Measured with the runs of tests/rising.py, and with loops of 500 to 50,000 iterations.
_ALWAYS = Part(
    "headline, findings and code",
    "",
    220_000_000,
    {"calls": 1_000, "tasks": 3_000, "stamps": 8_000, "steps": 5_000, "others": 500, "texts": 14_000},
    {"calls": 400, "tasks": 800, "stamps": 250, "steps": 900, "texts": 300},
)
PARTS = (
    Part(
        "the timeline",
        "timeline",
        30_000_000,
        {"calls": 200, "tasks": 200, "others": 100, "texts": 200},
        {"calls": 40, "tasks": 40},
    ),
    Part(
        "the flame graph",
        "flamegraph",
        40_000_000,
        {"calls": 700, "tasks": 700, "texts": 1_500, "levels": 25_000},
        {"calls": 60, "tasks": 60, "texts": 30, "levels": 300},
    ),
    Part(
        "the explorer",
        "explore",
        90_000_000,
        {"calls": 1_000, "tasks": 2_000, "stamps": 7_000, "steps": 9_000, "others": 500, "texts": 17_000}
        | {"levels": 20_000},
        {"calls": 160, "tasks": 250, "stamps": 150, "steps": 350, "others": 150, "texts": 350, "levels": 300},
    ),
    Part(
        "the critical path",
        "critical_path",
        10_000_000,
        {"calls": 300, "tasks": 800, "steps": 800},
        {"tasks": 100, "steps": 100},
    ),
)
"""The parts that may be left out, the most wanted first; the last is drawn in the one before."""


@dataclass(frozen=True)
class Estimate:
    """The CPU time and memory that a part will take."""

    ns: int
    bytes: int


def estimate(part: Part, counts: Mapping[str, int]) -> Estimate:
    """Return the CPU time and memory of a part for a number of rows."""
    ns, needed = (sum(costs.get(kind, 0) * count for kind, count in counts.items()) for costs in (part.ns, part.bytes))
    return Estimate(part.base_ns + int(ns), int(needed))


def counts_of(tables: Mapping[str, pd.DataFrame]) -> dict[str, int]:
    """Return the numbers of rows that estimates are made from, of the texts in them, and of levels of calls."""
    counts = {kind: sum(len(tables[name]) for name in names) for kind, names in _COUNTED.items()}
    texts = sum(
        len(frame[column].cat.categories)
        for names in _COUNTED.values()
        for frame in (tables[name] for name in names)
        for column in frame.columns[frame.dtypes == "category"]
    )
    return {
        **counts,
        "texts": texts,
        "levels": _levels(tables["python"]) + _levels(tables["operators"]),
    }


def _levels(calls: pd.DataFrame) -> int:
    """Return how many calls of a thread run within each other at most."""
    starts, durations, threads = (calls[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns", "thread_id"))
    opens = np.repeat([1, -1], len(calls))
    order = np.lexsort((opens, np.concatenate([starts, starts + durations]), np.tile(threads, 2)))
    return int(np.cumsum(opens[order]).max(initial=0))


def left_out(tables: Mapping[str, pd.DataFrame]) -> dict[str, Estimate]:
    """Return the parts that do not fit, by method, with their estimates."""
    if len(tables["kernels"]) < ALWAYS_KERNELS:
        return {}
    counts = counts_of(tables)
    used = estimate(_ALWAYS, counts)
    left: dict[str, Estimate] = {}
    for part in PARTS:
        needed = estimate(part, counts)
        ns, total = used.ns + needed.ns, max(used.bytes, needed.bytes)  # what a part took is free again after it
        is_drawn = part.method != "critical_path" or "explore" not in left
        if is_drawn and ns <= BUDGET_NS and total <= BUDGET_BYTES:
            used = Estimate(ns, total)
        else:
            left[part.method] = needed
    return left


def left_out_text(left: Mapping[str, Estimate], run: str) -> str:
    """Return the parts that the report leaves out, and the calls that make them; empty for nothing."""
    if not left:
        return ""
    names = {part.method: part.name for part in PARTS}
    shown = "; ".join(
        f"{names[method]} (about {duration(needed.ns)} and {size(needed.bytes)}): {run}.{method}()"
        for method, needed in left.items()
    )
    return f"Left out, since a report takes at most {duration(BUDGET_NS)} and {size(BUDGET_BYTES)}: {shown}"
