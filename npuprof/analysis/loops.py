"""Steps of a cell that loops: which of its loops is the step, which others are of another kind, and iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.intervals import Spans
from npuprof.arrays import Bools, Int64

_MOST = 0.9  # of the launches of the loop around it
_HALF = 0.5
_LEAST_SHARE = 0.1
_LEAST_OF_OTHER = 0.01
_LEAST_ITERATIONS = 3


@dataclass(frozen=True)
class Loop:
    """A loop of the profiled cell, as it ran."""

    number: int  # its number among the cell's statements; a loop within has a greater one
    line: int  # its line in the cell
    outer: int  # the number of the innermost loop around it, -1 for none
    # Whether its own body makes the update of a training step: 2 if it calls a method `step`, 1 for `backward` and
    # `zero_grad` alone, otherwise 0.
    update: int
    # begins, ends: the first row of `statements` in each iteration, and the first row after it; the number of rows if
    # nothing follows.
    begins: Int64
    ends: Int64
    place: str  # its line, and the cell where several have loops: `line 3 of cell [2]`
    thinned: int = 0  # how many iterations were only counted: such a loop makes no steps


def step_loop(loops: Sequence[Loop], weights: Int64) -> Loop | None:
    """Return the loop whose iterations are the steps; None if there is none.

    Of loops within each other that hold nearly all launches, it is the innermost that makes the update of a training
    step, else the outermost with at least three iterations. Of loops after each other it is the one with an update,
    or with the most launches.
    """
    total = int(weights.sum())
    chosen: list[tuple[bool, int, Loop]] = []
    for outermost in loops:
        if outermost.outer >= 0:
            continue
        nest = [outermost, *_inside(loops, outermost)]
        held = {loop.number: _held(loop, weights) for loop in nest}
        if (loop := _of_nest(nest, held)) is not None:
            chosen.append((loop.update > 0, held[loop.number], loop))
    if not chosen:
        return None
    updates, launches, loop = max(chosen, key=lambda each: each[:2])
    return loop if launches and launches >= total * (_LEAST_SHARE if updates else _HALF) else None


def other_loops(step: Loop, loops: Sequence[Loop], weights: Int64) -> list[Loop]:
    """Return the loops beside that of the steps whose iterations are steps of another kind, such as an evaluation.

    Each has at least 1 % of all launches; of loops within each other it is the one that :func:`step_loop` would choose.
    """
    numbered = {loop.number: loop for loop in loops}
    around, outer = {-1}, step.outer
    while outer >= 0:
        around.add(outer)
        outer = numbered[outer].outer if outer in numbered else -1
    others = []
    for beside in loops:
        if beside.outer in around and beside.number not in around and beside is not step:
            nest = [beside, *_inside(loops, beside)]
            held = {loop.number: _held(loop, weights) for loop in nest}
            loop = _of_nest(nest, held)
            if loop is not None and held[loop.number] >= max(1, _LEAST_OF_OTHER * int(weights.sum())):
                others.append(loop)
    return others


def _inside(loops: Sequence[Loop], outer: Loop) -> list[Loop]:
    within = [loop for loop in loops if loop.outer == outer.number]
    return within + [inner for loop in within for inner in _inside(loops, loop)]


def _held(loop: Loop, weights: Int64) -> int:
    before = np.concatenate(([0], np.cumsum(weights)))
    return int((before[loop.ends] - before[loop.begins]).sum())


def _of_nest(nest: Sequence[Loop], held: Mapping[int, int]) -> Loop | None:
    most = held[nest[0].number]
    # An evaluation between two epochs may launch a part of it all.
    nearly_all = [loop for loop in nest if held[loop.number] >= most * (_HALF if loop.update else _MOST)]
    timed = [loop for loop in nearly_all if not loop.thinned]
    updating = [loop for loop in timed if loop.update and len(loop.begins) > 1]
    if updating:
        return max(updating, key=lambda loop: (loop.update, loop.number))
    return next((loop for loop in timed if len(loop.begins) >= _LEAST_ITERATIONS), None)


def iterations_of(loop: Loop, loops: Sequence[Loop], statements: pd.DataFrame) -> tuple[Int64, Int64, Int64]:
    """Return start and end of each iteration of a loop, and the iteration of the loop around it, -1 without one."""
    starts = statements["start_ns"].to_numpy(np.int64)
    last = starts[-1:] + statements["duration_ns"].to_numpy(np.int64)[-1:]
    outer = next((each for each in loops if each.number == loop.outer), None)
    outside = np.full(len(loop.begins), -1, np.int64)
    if outer is not None:
        outside = np.searchsorted(outer.begins, loop.begins, side="right") - 1
    return starts[loop.begins], np.concatenate((starts, last))[loop.ends], outside


def steps_of(
    loop: Loop,
    loops: Sequence[Loop],
    statements: pd.DataFrame,
    others: Sequence[Loop] = (),
    cells: Spans | None = None,
) -> pd.DataFrame:
    """Return the table ``steps`` of the iterations of a loop, and of other loops as steps of another kind.

    Steps are numbered in order of time, whatever their kind; from one of `cells`, given by their begins and ends, to
    the next a number is left out, since the last step of a cell does not last until the next cell. The table has the
    columns ``kind``, such as ``loop of line 3``, ``outer_iteration``: the iteration of the loop around it, such as the
    epoch, counted from 0, and with `others` ``counted``: whether figures per step are of its kind.
    """
    kinds = [loop, *others]
    parts = [iterations_of(each, loops, statements) for each in kinds]
    starts, ends, outside = (np.concatenate([part[at] for part in parts]) for at in range(3))
    kind = np.repeat(np.arange(len(kinds)), [len(part[0]) for part in parts])
    order = np.argsort(starts, kind="stable")
    starts, ends, outside, kind = (column[order] for column in (starts, ends, outside, kind))
    columns = {
        "step": np.arange(len(starts)) + _cells_before(starts, cells),
        "start_ns": starts,
        "duration_ns": ends - starts,
        "kind": schema.categorical(kind, [f"loop of {each.place}" for each in kinds]),
        "outer_iteration": pd.arrays.IntegerArray(np.maximum(outside, 0), outside < 0),
    }
    return schema.build("steps", columns | ({"counted": kind == 0} if others else {}))


def _cells_before(starts: Int64, cells: Spans | None) -> Int64:
    """Return how many other cells have steps before each step."""
    if cells is None or not len(starts):
        return np.zeros(len(starts), np.int64)
    cell = np.searchsorted(cells[0], starts, side="right")
    return np.concatenate(([0], np.cumsum(np.diff(cell) != 0)))


def iterations(loops: Sequence[Loop], statements: pd.DataFrame) -> pd.DataFrame:
    """Return the table ``iterations`` of all loops, in order of time."""
    parts = [iterations_of(loop, loops, statements) for loop in loops]
    counts = [len(starts) for starts, _, _ in parts]
    starts, ends, outside = (np.concatenate([np.zeros(0, np.int64), *(part[at] for part in parts)]) for at in range(3))
    frame = schema.build(
        "iterations",
        {
            "start_ns": starts,
            "duration_ns": ends - starts,
            "loop": np.repeat([loop.line for loop in loops], counts).astype(np.int64),
            "iteration": np.concatenate([np.zeros(0, np.int64), *(np.arange(count) for count in counts)]),
            "outer_iteration": pd.arrays.IntegerArray(np.maximum(outside, 0), outside < 0),
        },
    )
    return schema.sort_by_time(frame)


def holds_steps(iterations: pd.DataFrame, steps: pd.DataFrame) -> Bools:
    """Return which rows of ``iterations`` are of a loop around that of the steps, such as epochs.

    Each such loop has an iteration that holds a whole step, and is longer.
    """
    order = np.argsort(steps["start_ns"].to_numpy(np.int64), kind="stable")
    begins, durations = (steps[name].to_numpy(np.int64)[order] for name in ("start_ns", "duration_ns"))
    starts, lengths = (iterations[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
    first = np.searchsorted(begins, starts, side="left")
    begin, duration = np.append(begins, np.iinfo(np.int64).max)[first], np.append(durations, 0)[first]
    holds = (begin < starts + lengths) & (begin - starts <= lengths - duration) & (duration < lengths)
    loops = iterations["loop"].to_numpy(np.int64)
    return np.isin(loops, loops[holds])
