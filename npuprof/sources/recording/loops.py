"""Steps of a recording whose cell loops."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.analysis.loops import other_loops, step_loop, steps_of
from npuprof.arrays import Int64
from npuprof.sources.base import Decoded
from npuprof.sources.columns.steps import launch_times
from npuprof.sources.recording.files import take_steps
from npuprof.sources.recording.lines import SOURCE, Lines
from npuprof.words.quantities import counted

_NOTED = "steps"
_MOST_NAMED = 5


def add_steps(decoded: Decoded, lines: Lines, line: int | None, collector: str, *, of_cell: bool) -> None:
    """Make the iterations of a loop the steps of a run that has none, and say which loop it is.

    Parameters
    ----------
    decoded
        The run; ``steps`` and the column ``step`` of its tables are replaced, if the cell has such a loop.
    line
        The line of the loop that the user has chosen; None for the one that :func:`step_loop` returns.
    """
    weights = _weights(decoded.tables, lines)
    if line is not None:
        loop = next((each for each in lines.loops if each.line == line), None)
        if loop is None:
            lines_of = ", ".join(str(each.line) for each in lines.loops) or "none"
            decoded.notes.warning(
                _NOTED, f"no loop of the cell begins in line {line}: loops that ran begin in {lines_of}"
            )
    else:
        loop = step_loop(lines.loops, weights)
    if loop is None or not len(loop.begins):
        return
    others = other_loops(loop, lines.loops, weights)
    steps = steps_of(loop, lines.loops, lines.statements, others, lines.cells)
    take_steps(decoded.tables, steps, collector, decoded.notes, SOURCE)
    beside = "".join(
        f"; those of {each.place}, {counted(len(each.begins), 'iteration')}, are a kind of their own" for each in others
    )
    choices = [f"{each.line} ({len(each.begins) + each.thinned:,})" for each in lines.loops if each is not loop]
    choice = f"; --step-line chooses another: {', '.join(choices[:_MOST_NAMED])}" if choices and of_cell else ""
    decoded.notes.info(_NOTED, f"the loop of {loop.place}, {counted(len(loop.begins), 'iteration')}{beside}{choice}")


def _weights(tables: Mapping[str, pd.DataFrame], lines: Lines) -> Int64:
    """Return the launches in each row of ``statements``: of kernels, else operators, else its time."""
    statements = lines.statements
    starts = statements["start_ns"].to_numpy(np.int64)
    kernels, operators = tables.get("kernels"), tables.get("operators")
    if kernels is not None and len(kernels):
        times = launch_times(tables, kernels)
    elif operators is not None and len(operators):
        times = operators["start_ns"].to_numpy(np.int64)
    else:
        return np.where(statements["line"] > 0, statements["duration_ns"].to_numpy(np.int64), 0)
    rows = np.searchsorted(starts, times, side="right") - 1
    return np.bincount(rows[rows >= 0], minlength=len(starts)).astype(np.int64)
