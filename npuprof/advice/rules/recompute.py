"""Operators of the forward pass that run again in the backward pass."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.outer_calls import host_rows, kernels_within, outer_calls
from npuprof.advice.wording import most_time
from npuprof.analysis.correlation import nearest
from npuprof.analysis.device_words import GPU, NPU
from npuprof.arrays import Bools, Int64
from npuprof.words.quantities import counted, share

NAME = "recompute"
_THRESHOLD = 0.01  # of the step
_PATH = 3  # consecutive operators that must match the forward pass
_ENGINE = "autograd::engine"


def check(facts: Facts) -> Finding:
    """Fire if kernels of forward operators that run again in the backward pass take more than 1 % of the step."""
    operators = facts.tables["operators"]
    in_engine = schema.matching(operators["name"], lambda name: _ENGINE in name)
    if not in_engine.any() and schema.matching(operators["name"], lambda name: name.startswith("aten::")).any():
        return Finding(NAME, "clean")  # torch ran no backward pass
    if not in_engine.any() or not operators["input_shapes"].notna().any() or not len(facts.tables["kernels"]):
        return Finding(NAME, "cannot tell", collect=facts.needs_operators("--shapes"))
    again = _are_repeats(facts, in_engine)
    kernels = facts.tables["kernels"]
    rows = kernels[kernels_within(facts, again) & facts.in_steps]
    cost = facts.kernels_per_step(rows["duration_ns"].to_numpy(np.int64))
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    of_all = share(int(rows["duration_ns"].sum()), facts.kernels_ns)
    return Finding(
        NAME,
        "fires",
        title="The backward pass computes parts of the forward pass again",
        cost_ns=cost,
        **facts.gain(cost, saved_ns=rows["duration_ns"]),
        detail=f"{counted(int(again.sum()), 'operator')} run again and take {of_all} of kernel time: "
        f"{most_time(rows, facts.steps)}",
        action="Checkpoint fewer layers, or only cheap operators, if the memory allows.",
        table="kernels",
        rows=rows,
    )


def _are_repeats(facts: Facts, in_engine: Bools) -> Bools:
    """Return a mask of the backward pass's operators that repeat several consecutive ones of the forward pass."""
    operators, causes = facts.tables["operators"], facts.causes
    first = causes.first_row["operators"]
    of_operators = host_rows(facts)
    engine = np.zeros(len(causes.callers), bool)
    engine[of_operators] = in_engine
    rows = outer_calls(facts)
    node = nearest(causes.callers, rows + first, engine)
    thread = operators["thread_id"].to_numpy(np.int64)[rows]
    order = np.lexsort((operators["start_ns"].to_numpy(np.int64)[rows], node, thread))
    rows, node, thread = rows[order], node[order], thread[order]
    alike = operators[["name", "input_shapes"]].iloc[rows]
    path = _paths(alike.groupby(["name", "input_shapes"], observed=True, dropna=False).ngroup().to_numpy(np.int64))
    together = (node[: len(path)] == node[_PATH - 1 :]) & (thread[: len(path)] == thread[_PATH - 1 :])
    forward = np.unique(path[together & (node[: len(path)] < 0)])
    begins = np.flatnonzero(together & (node[: len(path)] >= 0) & np.isin(path, forward))
    again = np.zeros(len(operators), bool)
    again[rows[(begins[:, np.newaxis] + np.arange(_PATH)).ravel()]] = True
    return again


def _paths(codes: Int64) -> Int64:
    """Return a number for each sequence of a few consecutive operators."""
    number = codes
    for length in range(2, _PATH + 1):
        number = number[: max(len(codes) - length + 1, 0)]
        number = pd.factorize(number * (int(codes.max(initial=0)) + 1) + codes[length - 1 :])[0].astype(np.int64)
    return number


RULE = Rule(NAME, "forward operators that run again in the backward pass", check, frozenset({GPU, NPU}))
