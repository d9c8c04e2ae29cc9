"""Kernels that only change dtype or layout."""

from __future__ import annotations

import re

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.quantities import duration, share

NAME = "layout_and_casts"
_THRESHOLD = 0.05  # of computing
_TYPES = re.compile(r"Cast|TransData|Transpose|TensorMove|Slice|Concat|AsStrided|ViewCopy", re.IGNORECASE)
_MOST = 3


def check(facts: Facts) -> Finding:
    """Fire if casts, transposes and copies of layout take more than 5 % of kernel time."""
    kernels = facts.tables["kernels"]
    if not len(kernels):
        return Finding(NAME, "cannot tell", collect="kernels of the device")
    rows = kernels[schema.matching(kernels["op_type"], lambda kind: bool(_TYPES.match(kind)))]
    whole = int(kernels["duration_ns"].sum())
    cost = int(rows["duration_ns"].sum()) // max(1, len(facts.accounting.steps))
    if not whole or int(rows["duration_ns"].sum()) <= _THRESHOLD * whole:
        return Finding(NAME, "clean", cost_ns=cost)
    types = rows.groupby("op_type", observed=True)["duration_ns"].sum().sort_values(ascending=False)
    most = ", ".join(f"{kind} {duration(int(time))}" for kind, time in list(types.items())[:_MOST])
    return Finding(
        NAME,
        "fires",
        title="Kernels that only change dtype or layout",
        cost_ns=cost,
        **facts.gain(cost, saved_ns=rows["duration_ns"]),
        detail=f"{share(int(rows['duration_ns'].sum()), whole)} of kernel time: {most}",
        action="one dtype through the loss, torch.npu.config.allow_internal_format=False, contiguous tensors",
        table="kernels",
        rows=rows,
    )


RULE = Rule(NAME, "casts, transposes and layout copies", check)
