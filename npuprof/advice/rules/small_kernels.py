"""Many kernels that are shorter than the time it takes to launch them."""

from __future__ import annotations

import numpy as np

from npuprof.advice.actions import action_for
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.rules import host_bound
from npuprof.advice.wording import most_lines
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.device_words import GPU, NPU
from npuprof.words.quantities import duration, share

NAME = "small_kernels"
_SHORT_NS = 10_000
_THRESHOLD = 0.3  # of all kernels
_WORTH = 0.01  # of the step: idle time while operators are dispatched
_DISPATCH = ("forward_dispatch", "backward_dispatch", "optimizer", "other_operators")


def check(facts: Facts) -> Finding:
    """Fire if more than 30 % of kernels take less than 10 us and the host cannot launch them fast enough."""
    kernels = facts.tables["kernels"]
    if not len(kernels):
        return Finding(NAME, "cannot tell", collect=facts.needs("--activities cpu,npu", level="kernels"))
    short = kernels["duration_ns"].to_numpy(np.int64) < _SHORT_NS
    if not facts.host_known:
        return Finding(NAME, "cannot tell", collect=host_bound.needs(facts))
    dispatch = sum(time for cause, time in facts.idle_causes.items() if cause in _DISPATCH)
    few = short.mean() <= _THRESHOLD or dispatch <= _WORTH * facts.usual_ns
    if few or not host_bound.starved(facts):
        return Finding(NAME, "clean")
    count, rows = int(short.sum()), np.flatnonzero(short)
    lines = most_lines(facts.lines_of_kernels(rows), np.ones(len(rows), np.int64))
    where = f", most from {' and '.join(lines)}" if lines else ""
    return Finding(
        NAME,
        "fires",
        title=f"{share(count, len(kernels))} of kernels are shorter than their launch",
        cost_ns=dispatch,
        **facts.gain(dispatch, cause=_DISPATCH),
        detail=f"{count:,} of {len(kernels):,} kernels take less than {duration(_SHORT_NS)} each{where}; while the "
        f"host dispatches operators, the {facts.device} is idle for {duration(dispatch)} a step",
        action=action_for(NAME, facts),
        place=lines[0] if lines else "",
        table="kernels",
        rows=kernels[short],
        parts=IDLE,
    )


RULE = Rule(NAME, "kernels shorter than their launch", check, frozenset({GPU, NPU}))
