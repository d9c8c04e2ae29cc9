"""Where the time of a cell goes that its steps do not cover."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.to_collect import of_cell
from npuprof.analysis.intervals import Spans, covering, executed_spans, intersection, subtract, total, within
from npuprof.lines.frames import cell_text, line_text
from npuprof.words.quantities import share

_COVERED = 0.8  # of the cell
_MOST = 0.5  # of the rest


def outside_steps(facts: Facts) -> str:
    """Return how much of a cell its steps cover, and what takes most of the rest; empty if they cover most of it."""
    steps, (begin, end) = facts.tables["steps"], facts.info.recorded
    if not len(steps) or facts.info.selection or begin is None or end is None or begin >= end:
        return ""
    whole = np.array([begin], np.int64), np.array([end], np.int64)
    cells = executed_spans(facts.info.executed)
    whole = intersection(whole, cells) if len(cells[0]) else whole
    marks = covering(steps["start_ns"].to_numpy(np.int64), steps["duration_ns"].to_numpy(np.int64))
    rest, covered = subtract(whole, marks), total(intersection(whole, marks))
    if covered >= _COVERED * total(whole):
        return ""
    subject = "cell" if of_cell(facts.info) else "run"
    where = _line(facts, rest) or _side(steps, rest)
    return f"The steps cover {share(covered, total(whole))} of the {subject}{f'; {where}' if where else ''}."


def _line(facts: Facts, rest: Spans) -> str:
    """Return the line of the cell that takes most of the rest, in a clause; empty if none takes half of it."""
    statements = facts.tables["statements"]
    if not len(statements):
        return ""
    starts, durations = (statements[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
    sums = pd.Series(within(rest, starts, starts + durations)).groupby(facts.code_lines.of_statements).sum()
    sums = sums[sums.index >= 0]
    if not len(sums) or sums.max() < _MOST * total(rest):
        return ""
    file, line = facts.code_lines.place(int(sums.idxmax()))
    is_profiled = cell_text(file) and cell_text(file) == cell_text(next(iter(facts.info.code), ""))
    return f"{f'line {line}' if is_profiled else line_text(file, line)} takes most of the rest"


def _side(steps: pd.DataFrame, rest: Spans) -> str:
    """Return on which side of the steps most of the rest lies, in a clause; empty if it lies between them."""
    first = int(steps["start_ns"].min())
    last = int((steps["start_ns"] + steps["duration_ns"]).max())
    before = int((np.minimum(rest[1], first) - np.minimum(rest[0], first)).sum())
    after = int((np.maximum(rest[1], last) - np.maximum(rest[0], last)).sum())
    if max(before, after) < _MOST * total(rest):
        return ""
    return f"most of the rest lies {'before the first' if before >= after else 'after the last'} step"
