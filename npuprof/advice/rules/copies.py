"""Copies between host and device, or within the device, while nothing else runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.gains import gain_of
from npuprof.analysis.device_words import GPU, NPU
from npuprof.words.quantities import counted

if TYPE_CHECKING:
    from npuprof.arrays import Bools

NAME = "copies"
_THRESHOLD = 0.01  # of the step
_TO_HOST = ("device to host", "device to host ex")
_VALUE_BYTES = 64  # up to which a copy to the host is a value that code waits for: a finding of the host


def check(facts: Facts) -> Finding:
    """Fire if copies outside kernels and collectives take more than 1 % of the step."""
    tasks, cost = facts.tables["tasks"], facts.per_step(["copy"])
    if not len(tasks):
        return Finding(NAME, "cannot tell", collect=facts.needs(level="tasks"))
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    overlap = facts.overlapping("tasks", facts.spans(["copy"]))
    has_values = (values := _values(tasks) & (overlap > 0)).any()
    if has_values:
        cost = cost * int(overlap[~values].sum()) // int(overlap.sum())
        overlap[values] = 0
        if cost <= _THRESHOLD * facts.usual_ns:
            return Finding(NAME, "clean", cost_ns=cost)
    rows = tasks.assign(exposed_ns=overlap)[overlap > 0]
    return Finding(
        NAME,
        "fires",
        title="Data is copied while nothing computes",
        cost_ns=cost,
        **(gain_of(0, cost) if has_values else facts.gain(cost, part=["copy"])),  # a replay takes every copy out
        detail=f"{counted(len(rows), 'copy', 'copies')} run while no kernel and no collective does",
        action="Copy from pinned memory with `non_blocking=True`, in fewer and larger copies.",
        table="tasks",
        rows=rows,
        parts=("copy",),
    )


def _values(tasks: pd.DataFrame) -> Bools:
    """Return which tasks copy no more than a value or two to the host, as `.item()` does."""
    if not {"copied_bytes", "copy_direction"} <= {*tasks}:
        return np.zeros(len(tasks), np.bool_)
    is_small = tasks["copied_bytes"].le(_VALUE_BYTES).fillna(value=False)
    return (tasks["copy_direction"].isin(_TO_HOST) & is_small).to_numpy(np.bool_)


RULE = Rule(NAME, "copies while nothing else runs", check, frozenset({GPU, NPU}))
