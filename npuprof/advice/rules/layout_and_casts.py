"""Kernels that only change dtype or layout."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.wording import most_time
from npuprof.analysis.device_words import NPU
from npuprof.quantities import share

NAME = "layout_and_casts"
_THRESHOLD = 0.05  # of computing
_TYPES = re.compile(r"Cast|TransData|Transpose|TensorMove|Slice|Concat|AsStrided|ViewCopy", re.IGNORECASE)


def check(facts: Facts) -> Finding:
    """Fire if casts, transposes and copies of layout take more than 5 % of kernel time."""
    kernels = facts.tables["kernels"]
    if not len(kernels):
        return Finding(NAME, "cannot tell", collect=facts.needs("--activities cpu,npu"))
    rows = kernels[schema.matching(kernels["op_type"], lambda kind: bool(_TYPES.match(kind))) & facts.in_steps]
    whole = facts.kernels_ns
    cost = facts.kernels_per_step(rows["duration_ns"].to_numpy(np.int64))
    if not whole or int(rows["duration_ns"].sum()) <= _THRESHOLD * whole:
        return Finding(NAME, "clean", cost_ns=cost)
    return Finding(
        NAME,
        "fires",
        title="Kernels that only change dtype or layout",
        cost_ns=cost,
        **facts.gain(cost, saved_ns=rows["duration_ns"], surely=_undone(kernels)[rows.index]),
        detail=f"{share(int(rows['duration_ns'].sum()), whole)} of kernel time: {most_time(rows, facts.steps)}",
        action="one dtype through the loss, torch.npu.config.allow_internal_format=False, contiguous tensors",
        table="kernels",
        rows=rows,
    )


def _undone(kernels: pd.DataFrame) -> pd.Series[bool]:
    """Return which kernels change what the kernel before or after them on the stream changes back."""
    columns = ("shapes", "dtypes", "formats")
    ordered = kernels.sort_values(["device_id", "stream_id", "start_ns"], kind="stable")
    made, given = (
        pd.DataFrame({name: _first_tensor(ordered[f"{side}_{name}"]) for name in columns})
        for side in ("output", "input")
    )
    next_to = (ordered[["device_id", "stream_id"]] == ordered[["device_id", "stream_id"]].shift()).all(axis=1)
    back = next_to & (given == made.shift()).all(axis=1) & (made == given.shift()).all(axis=1)
    back &= (made != given).any(axis=1) & made.notna().all(axis=1)
    undone: pd.Series[bool] = (back | back.shift(-1, fill_value=False)).reindex(kernels.index)
    return undone


def _first_tensor(tensors: pd.Series[str]) -> pd.Series[str]:
    return tensors.astype("object").str.partition(";")[0]


RULE = Rule(NAME, "casts, transposes and layout copies", check, frozenset({NPU}))
