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
from npuprof.arrays import Int64
from npuprof.words.quantities import share

NAME = "layout_and_casts"
_OF_TENSORS = ("shapes", "dtypes", "formats")
_THRESHOLD = 0.05  # of computing
_TYPES = re.compile(r"Cast|TransData|Transpose|TensorMove|Slice|Concat|AsStrided|ViewCopy", re.IGNORECASE)


def check(facts: Facts) -> Finding:
    """Fire if casts, transposes and copies of layout take more than 5 % of kernel time."""
    kernels = facts.tables["kernels"]
    if not len(kernels):
        return Finding(NAME, "cannot tell", collect=facts.needs("--activities cpu,npu", level="kernels"))
    rows = kernels[schema.matching(kernels["op_type"], lambda kind: bool(_TYPES.match(kind))) & facts.in_steps]
    whole = facts.kernels_ns
    cost = facts.kernels_per_step(rows["duration_ns"].to_numpy(np.int64))
    if not whole or int(rows["duration_ns"].sum()) <= _THRESHOLD * whole:
        return Finding(NAME, "clean", cost_ns=cost)
    return Finding(
        NAME,
        "fires",
        title=f"{share(int(rows['duration_ns'].sum()), whole)} of kernel time only changes dtype or layout",
        cost_ns=cost,
        **facts.gain(cost, saved_ns=rows["duration_ns"], surely=_undone(kernels)[rows.index]),
        detail=f"Casts, transposes and copies of layout: {most_time(rows, facts.steps)}",
        action="Keep one dtype, contiguous tensors, and `torch.npu.config.allow_internal_format=False`.",
        table="kernels",
        rows=rows,
    )


def _undone(kernels: pd.DataFrame) -> pd.Series[bool]:
    """Return the kernels that undo a change of the kernel before or after them on the stream."""
    device, stream = (kernels[name].to_numpy(np.int64, na_value=-1) for name in ("device_id", "stream_id"))
    order = np.lexsort((kernels["start_ns"].to_numpy(np.int64), stream, device))
    tensors = [_first_tensors(kernels[f"output_{name}"], kernels[f"input_{name}"]) for name in _OF_TENSORS]
    made, given = (np.stack(of_side)[:, order] for of_side in zip(*tensors, strict=True))
    next_to = (device[order][1:] == device[order][:-1]) & (stream[order][1:] == stream[order][:-1])
    same = (given[:, 1:] == made[:, :-1]) & (made[:, 1:] == given[:, :-1]) & (made[:, 1:] >= 0) & (given[:, 1:] >= 0)
    back = next_to & same.all(axis=0) & (made[:, 1:] != given[:, 1:]).any(axis=0)
    is_undone = np.zeros(len(kernels), bool)
    is_undone[order[1:][back]] = is_undone[order[:-1][back]] = True
    return pd.Series(is_undone, kernels.index, dtype=bool)


def _first_tensors(made: pd.Series[str], given: pd.Series[str]) -> tuple[Int64, Int64]:
    """Return a number for what each row has of its first tensor, equal for equal texts; -1 where it is absent."""
    sides = [side.astype("category").cat for side in (made, given)]
    texts = [str(text).partition(";")[0] for side in sides for text in side.categories]
    numbers = np.append(pd.factorize(np.array(texts, object))[0], -1).astype(np.int64)
    count = len(sides[0].categories)
    of_given = sides[1].codes.to_numpy(np.int64)
    return numbers[sides[0].codes.to_numpy(np.int64)], numbers[np.where(of_given < 0, -1, of_given + count)]


RULE = Rule(NAME, "casts, transposes and layout copies", check, frozenset({NPU}))
