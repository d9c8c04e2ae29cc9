"""Operators that run on the device's AI CPU instead of its AI cores."""

from __future__ import annotations

import numpy as np

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.wording import most_time
from npuprof.analysis.device_words import NPU
from npuprof.words.quantities import counted

NAME = "ai_cpu"
_THRESHOLD = 0.005  # of the step
_OF_CORES_NS = 10_000  # what such an operator takes on the AI cores


def check(facts: Facts) -> Finding:
    """Fire if kernels on the AI CPU take more than 0.5 % of the step."""
    kernels = facts.tables["kernels"]
    if not len(kernels):
        return Finding(NAME, "cannot tell", collect=facts.needs("--activities cpu,npu", level="kernels"))
    of_cpu = schema.matching(kernels["task_type"], lambda kind: kind.replace("_", "").upper().startswith("AICPU"))
    rows = kernels[of_cpu & facts.in_steps]
    cost = facts.kernels_per_step(rows["duration_ns"].to_numpy(np.int64))
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    return Finding(
        NAME,
        "fires",
        title=f"{counted(rows['op_type'].nunique(), 'kind')} of kernels run on the slow AI CPU",
        cost_ns=cost,
        **facts.gain(cost, saved_ns=(rows["duration_ns"] - _OF_CORES_NS).clip(lower=0)),
        detail=f"On the AI CPU: {most_time(rows, facts.steps)}",
        action="Use another dtype: `float64` and `int64` often lack an AI core kernel.",
        table="kernels",
        rows=rows,
    )


RULE = Rule(NAME, "kernels on the AI CPU", check, frozenset({NPU}))
