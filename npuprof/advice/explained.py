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
    """Return the nanoseconds of the step of median length that findings explain together.

    Each moment counts once, for the first finding that covers it, and no finding explains more than it costs. A plain
    sum of costs or gains would count overlaps repeatedly.
    """
    steps = facts.median_steps
    whole = sum(_explained_ns(facts, findings, steps[at : at + 1]) for at in range(len(steps))) // max(1, len(steps))
    return min(whole, facts.usual_ns)


def _explained_ns(facts: Facts, findings: Iterable[Finding], step: Int64) -> int:
    explained, taken = 0, union(np.zeros(0, np.int64), np.zeros(0, np.int64))
    for finding in findings:
        fresh = _first(subtract(_about(facts, finding, step), taken), finding.cost_ns)
        explained += total(fresh)
        taken = union(*(np.concatenate(edges) for edges in zip(taken, fresh, strict=True)))
    return explained


def _about(facts: Facts, finding: Finding, step: Int64) -> Spans:
    """Return the intervals of a step that a finding covers: its parts of the step, or the time of its evidence."""
    if finding.parts:
        return facts.spans(finding.parts, steps=step)
    rows = finding.rows
    if not {"start_ns", "duration_ns"} <= set(rows):
        return facts.spans((), steps=step)
    if (table := facts.tables.get(finding.table)) is not None and rows.index.isin(table.index).all():
        rows = table.loc[rows.index]  # the evidence has recorded times, which may be on another clock
    if "device_id" in rows:
        rows = rows[(rows["device_id"] == facts.accounting.steps["device_id"].iloc[step[0]]).to_numpy(bool)]
    of_rows = covering(*(rows[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns")))
    return intersection(
        facts.spans(_BUSY if finding.table in _OF_DEVICE else (*IDLE, BETWEEN_STEPS), steps=step), of_rows
    )


def _first(spans: Spans, length_ns: int) -> Spans:
    """Return the first of disjoint intervals up to a length in all."""
    starts, ends = spans
    before = np.cumsum(ends - starts) - (ends - starts)
    return union(starts, np.minimum(ends, starts + np.maximum(length_ns - before, 0)))
