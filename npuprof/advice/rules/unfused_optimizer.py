"""Optimizers that update each tensor with several small kernels."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice.actions import action_for
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.outer_calls import kernels_within
from npuprof.advice.wording import most_time
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.device_words import NPU
from npuprof.analysis.repeats import repeats
from npuprof.arrays import Bools, Int64
from npuprof.words.quantities import counted, duration

NAME = "unfused_optimizer"
_THRESHOLD = 0.01  # of the step
_MOSTLY = 0.5  # of the kernels of the optimizer
_MANY = 10  # tensors: fewer are updated in no time
_MOST_KERNELS = 200_000  # in longer runs, the last kernels stand for all
_TYPES = (
    "add adds sub subs mul muls div divs realdiv axpy axpyv2 addcmul addcdiv lerp sqrt rsqrt pow pows square sign "
    "maximum minimum clipbyvalue neg reciprocal"
)
_UPDATES = frozenset(_TYPES.split())
"""Types of kernels that an optimizer consists of, of one tensor each: ``ForeachMulScalar`` is of many."""


def check(facts: Facts) -> Finding:
    """Fire if kernels of single tensors are most of the optimizer's, and it takes more than 1 % of the step.

    The optimizer is what runs within an operator of that name; without operators, a sequence like Mul, Add, Axpy that
    repeats over tensors of different shapes.
    """
    kernels, operators = facts.tables["kernels"], facts.tables["operators"]
    if not kernels["op_type"].notna().any():
        return Finding(NAME, "cannot tell", collect=facts.needs("--activities cpu,npu", level="kernels with types"))
    small = schema.matching(kernels["op_type"], lambda name: name.lower() in _UPDATES)
    named = schema.matching(operators["name"], lambda name: name.startswith("Optimizer.step"))
    if named.any():
        within = kernels_within(facts, named) & facts.in_steps
        of_tensors = within & small
        if not within.any() or of_tensors.sum() <= max(_MANY, _MOSTLY * within.sum()):
            return Finding(NAME, "clean", cost_ns=_sum(facts, within))
    elif facts.host_known and len(operators):
        return Finding(NAME, "clean")  # no optimizer ran
    else:
        of_tensors = _sequences(kernels, small) & facts.in_steps
    idle = facts.per_step(IDLE, ["optimizer"])
    cost = min(_sum(facts, of_tensors) + idle, facts.usual_ns)
    if not of_tensors.any() or cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    rows = kernels[of_tensors]
    return Finding(
        NAME,
        "fires",
        title=f"The optimizer updates tensor after tensor: {counted(len(rows) // facts.steps, 'kernel')} a step",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"Most time: {most_time(rows, facts.steps)}"
        + f"; the {facts.device} is idle for {duration(idle)} meanwhile" * bool(idle),
        action=action_for("optimizer", facts),
        table="kernels",
        rows=rows,
    )


def _sum(facts: Facts, kernels: Bools) -> int:
    return facts.kernels_per_step(facts.tables["kernels"]["duration_ns"].to_numpy(np.int64)[kernels])


def _sequences(kernels: pd.DataFrame, small: Bools) -> Bools:
    """Return the kernels of sequences that an optimizer runs for each tensor, as far as the kernels show it.

    These have a product and a sum, and come at least ten times, for tensors of at least half as many shapes: layers
    repeat other sequences for the same shapes.
    """
    stream = kernels[["device_id", "stream_id"]].fillna(-1).to_numpy(np.int64)
    order = np.lexsort((kernels["start_ns"].to_numpy(np.int64), stream[:, 1], stream[:, 0]))[-_MOST_KERNELS:]
    types = kernels["op_type"].cat.codes.to_numpy(np.int64)
    codes = np.where(small, types, -1)[order]
    ends = np.flatnonzero((stream[order][1:] != stream[order][:-1]).any(axis=1)) + 1
    apart, place = np.insert(codes, ends, -1), np.insert(order, ends, -1)
    names = np.array([str(name).lower() for name in kernels["op_type"].cat.categories])
    shapes = kernels["input_shapes"].cat.codes.to_numpy(np.int64)
    updates: Bools = np.zeros(len(kernels), bool)
    for length, begins in repeats(apart, at_least=_MANY):
        rows: Int64 = place[begins[:, np.newaxis] + np.arange(length)]
        kinds = set(names[types[rows[0]]])
        is_update = any("mul" in kind for kind in kinds) and any(kind[:3] in ("add", "axp", "sub") for kind in kinds)
        if is_update and 2 * len(np.unique(shapes[rows[:, 0]])) >= min(len(rows), 2 * _MANY):
            updates[rows.ravel()] = True
    return updates


RULE = Rule(NAME, "optimizers of many kernels for each tensor", check, frozenset({NPU}))
