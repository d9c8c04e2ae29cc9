"""Operators that run on the device's AI CPU instead of its AI cores."""

from __future__ import annotations

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.quantities import duration

NAME = "ai_cpu"
_THRESHOLD = 0.005  # of the step
_MOST = 3
_OF_CORES_NS = 10_000  # what such an operator may take on the AI cores


def check(facts: Facts) -> Finding:
    """Fire if kernels on the AI CPU take more than 0.5 % of the step."""
    kernels = facts.tables["kernels"]
    if not len(kernels):
        return Finding(NAME, "cannot tell", collect="kernels of the device")
    rows = kernels[
        schema.matching(kernels["task_type"], lambda kind: kind.replace("_", "").upper().startswith("AICPU"))
    ]
    steps = max(1, len(facts.accounting.steps))
    cost = int(rows["duration_ns"].sum()) // steps
    if cost <= _THRESHOLD * facts.step_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    called = rows["op_type"].astype(object).fillna(rows["name"].astype(object)).fillna("kernels without a name")
    types = rows["duration_ns"].groupby(called).agg(["sum", "size"]).sort_values("sum", ascending=False)[:_MOST]
    most = ", ".join(
        f"{name} ({count:,} times, {duration(int(time))})"
        for name, time, count in zip(types.index, types["sum"], types["size"], strict=True)
    )
    return Finding(
        NAME,
        "fires",
        title="Operators run on the AI CPU",
        cost_ns=cost,
        **facts.gain(cost, saved_ns=(rows["duration_ns"] - _OF_CORES_NS).clip(lower=0)),
        detail=most,
        action="another dtype (float64 and int64 often have no AI core kernel), or another operator",
        table="kernels",
        rows=rows,
    )


RULE = Rule(NAME, "kernels on the AI CPU", check)
