"""Floating-point operations of torch_npu's operators: the markers of a domain of their own, one around each operator.

With ``with_flops`` and ``mstx``, torch_npu opens a range named ``<operations>-<function>`` (such as ``512-linear``)
around each call of a function that it has a formula for. Source: collectors/FRONTENDS.md section 2.2.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.arrays import Int64
from npuprof.notes import Notes
from npuprof.recording import FLOPS_DOMAIN
from npuprof.sources.columns.nullable import ABSENT, optional

_MESSAGE = r"^([0-9]{1,18})-"


def add_flops(frames: dict[str, pd.DataFrame], notes: Notes) -> None:
    """Build the column `flops` of ``operators`` from the ranges in ``marks``, in place; the ranges stay there.

    A range belongs to the longest operator of its thread within it: the outermost.

    Parameters
    ----------
    frames
        The tables of one run.
    notes
        Told of ranges that have no figure, or no operator.
    """
    marks, operators = frames.get("marks"), frames.get("operators")
    if marks is None or operators is None or "flops" in operators:
        return
    ranges = marks[(marks["domain"] == FLOPS_DOMAIN).to_numpy()]
    if not len(ranges):
        return
    figures = ranges["message"].astype("string").str.extract(_MESSAGE, expand=False)
    if unread := int(figures.isna().sum()):
        notes.warning("marks", f"ranges of {FLOPS_DOMAIN} have no number of operations in their names", unread)
    known = figures.notna().to_numpy()
    ranges, flops = ranges[known], figures[known].to_numpy(np.int64)
    rows = _outermost(operators, ranges)
    found = rows >= 0
    if lonely := int((~found).sum()):
        notes.warning(
            "operators",
            f"ranges of {FLOPS_DOMAIN} hold no operator: their operations are in marks and not in flops",
            lonely,
        )
    column = np.full(len(operators), ABSENT, np.int64)
    column[rows[found]] = flops[found]
    frames["operators"] = operators.assign(flops=optional(column))


def _outermost(operators: pd.DataFrame, ranges: pd.DataFrame) -> Int64:
    """Find the row of the longest operator within each range; -1 where there is none."""
    result = np.full(len(ranges), ABSENT, np.int64)
    threads = operators["thread_id"].to_numpy(np.int64)
    starts = operators["start_ns"].to_numpy(np.int64)
    durations = operators["duration_ns"].to_numpy(np.int64)
    calls = (operators["kind"] == "op").to_numpy()
    own_threads = ranges["thread_id"].to_numpy(np.int64)
    begins = ranges["start_ns"].to_numpy(np.int64)
    ends = begins + ranges["duration_ns"].to_numpy(np.int64)
    for thread in np.unique(own_threads):
        of_thread = np.flatnonzero(own_threads == thread)
        of_thread = of_thread[np.argsort(begins[of_thread], kind="stable")]
        rows = np.flatnonzero(calls & (threads == thread))
        place = np.searchsorted(begins[of_thread], starts[rows], side="right") - 1
        rows, around = rows[place >= 0], of_thread[place[place >= 0]]
        within = starts[rows] + durations[rows] <= ends[around]
        rows, around = rows[within], around[within]
        longest = np.lexsort((-rows, durations[rows]))  # of two equal ones the first, which is the caller, is last
        result[around[longest]] = rows[longest]
    return result
