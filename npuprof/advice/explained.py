"""The time of a step that findings explain together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, PARTS
from npuprof.analysis.intervals import Spans, covering, intersection, subtract, total, union
from npuprof.arrays import Int64

_OF_DEVICE = ("kernels", "tasks", "communication", "communication_tasks")
_BUSY = tuple(part for part in PARTS if part not in (*IDLE, BETWEEN_STEPS))


def explained_ns(facts: Facts, findings: Iterable[Finding]) -> int:
    """Return the nanoseconds of the usual step that findings explain together: a mean over the usual steps.

    Each moment counts once, for the first finding that covers it, and no finding explains more than it costs. A plain
    sum of costs or gains would count overlaps repeatedly.
    """
    steps = facts.accounting.steps.iloc[facts.basis.usual_rows]
    devices = [
        facts.basis.usual_rows[places]
        for places in steps.groupby(["rank", "device_id"], dropna=False, sort=False).indices.values()
    ]
    nothing = union(np.zeros(0, np.int64), np.zeros(0, np.int64))
    taken = [nothing] * len(devices)
    explained = 0
    for finding in findings:
        left = finding.cost_ns * len(steps)
        for place, of_device in enumerate(devices):
            fresh = _first(subtract(_about(facts, finding, of_device), taken[place]), left)
            left -= total(fresh)
            taken[place] = union(*(np.concatenate(edges) for edges in zip(taken[place], fresh, strict=True)))
        explained += finding.cost_ns * len(steps) - left
    return explained // max(1, len(steps))


def _about(facts: Facts, finding: Finding, steps: Int64) -> Spans:
    """Return the intervals of a device's steps that a finding covers: its parts, or the time of its evidence."""
    if finding.parts:
        return facts.spans(finding.parts, steps=steps)
    rows = finding.rows
    if not {"start_ns", "duration_ns"} <= set(rows):
        return facts.spans((), steps=steps)
    if (table := facts.tables.get(finding.table)) is not None and rows.index.isin(table.index).all():
        rows = table.loc[rows.index]  # the evidence has recorded times, which may be on another clock
    if "device_id" in rows:
        rows = rows[(rows["device_id"] == facts.accounting.steps["device_id"].iloc[steps[0]]).to_numpy(bool)]
    of_rows = covering(*(rows[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns")))
    return intersection(
        facts.spans(_BUSY if finding.table in _OF_DEVICE else (*IDLE, BETWEEN_STEPS), steps=steps), of_rows
    )


def _first(spans: Spans, length_ns: int) -> Spans:
    """Return the first of disjoint intervals up to a length in all."""
    starts, ends = spans
    before = np.cumsum(ends - starts) - (ends - starts)
    return union(starts, np.minimum(ends, starts + np.maximum(length_ns - before, 0)))
