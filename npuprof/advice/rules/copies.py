"""Copies between host and device, or within the device, while nothing else runs."""

from __future__ import annotations

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.analysis.device_words import GPU, NPU
from npuprof.words.quantities import counted

NAME = "copies"
_THRESHOLD = 0.01  # of the step


def check(facts: Facts) -> Finding:
    """Fire if copies outside kernels and collectives take more than 1 % of the step."""
    cost = facts.per_step(["copy"])
    if not len(facts.tables["tasks"]):
        return Finding(NAME, "cannot tell", collect=facts.needs(level="tasks"))
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    tasks = facts.tables["tasks"]
    overlap = facts.overlapping("tasks", facts.spans(["copy"]))
    rows = tasks.assign(exposed_ns=overlap)[overlap > 0]
    return Finding(
        NAME,
        "fires",
        title="Data is copied while nothing computes",
        cost_ns=cost,
        **facts.gain(cost, part=["copy"]),
        detail=f"{counted(len(rows), 'copy', 'copies')} run while no kernel and no collective does",
        action="Copy from pinned memory with `non_blocking=True`, in fewer and larger copies.",
        table="tasks",
        rows=rows,
        parts=("copy",),
    )


RULE = Rule(NAME, "copies while nothing else runs", check, frozenset({GPU, NPU}))
