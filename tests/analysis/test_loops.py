"""Which loop of a cell is the step, and its iterations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.analysis.loops import Loop, holds_steps, iterations, other_loops, step_loop, steps_of
from npuprof.arrays import Int64


def _loop(
    number: int, iterations: list[tuple[int, int]], *, outer: int = -1, update: int = 0, thinned: int = 0
) -> Loop:
    begins, ends = (np.array(column, np.int64) for column in zip(*iterations, strict=True))
    return Loop(number, number + 2, outer, update, begins, ends, f"line {number + 2}", thinned)


def _ranges(first: int, length: int, count: int) -> list[tuple[int, int]]:
    return [(first + length * at, first + length * (at + 1)) for at in range(count)]


def _weights(count: int, **by_row: int) -> Int64:
    weights = np.ones(count, np.int64)
    for row, value in by_row.items():
        weights[int(row[1:])] = value
    return weights


_EPOCHS = _loop(0, _ranges(0, 40, 3))
_TRAIN = _loop(1, [each for epoch in range(3) for each in _ranges(40 * epoch + 2, 2, 15)], outer=0)
_EVALUATE = _loop(4, [each for epoch in range(3) for each in _ranges(40 * epoch + 33, 2, 3)], outer=0)


@pytest.mark.parametrize(
    ("loops", "weights", "line"),
    [
        ([_loop(0, _ranges(0, 4, 5))], _weights(20), 2),
        # Epochs without an update in sight: the outermost with three iterations.
        ([_EPOCHS, _TRAIN, _EVALUATE], _weights(120), 2),
        # The loop that makes the update, though another launches a part of the work.
        (
            [_EPOCHS, _loop(1, list(zip(_TRAIN.begins, _TRAIN.ends, strict=True)), outer=0, update=2), _EVALUATE],
            _weights(120),
            3,
        ),
        # Micro-batches call backward; the step is that of the optimizer.
        ([_loop(0, _ranges(0, 10, 4), update=2), _loop(1, _ranges(0, 2, 20), outer=0, update=1)], _weights(40), 2),
        # A scheduler steps once an epoch, too.
        ([_loop(0, _ranges(0, 10, 4), update=2), _loop(1, _ranges(0, 2, 20), outer=0, update=2)], _weights(40), 3),
        # Two epochs of nearly all launches in the inner loop.
        ([_loop(0, _ranges(0, 20, 2)), _loop(1, _ranges(0, 2, 20), outer=0)], _weights(40), 3),
        # Of two loops after each other, that with an update, or that with more launches.
        ([_loop(0, _ranges(0, 4, 5), update=2), _loop(3, _ranges(20, 4, 10))], _weights(60), 2),
        ([_loop(0, _ranges(0, 4, 5)), _loop(3, _ranges(20, 4, 10))], _weights(60), 5),
        # Not a loop that is a small part of the cell, one that launches nothing, or one that is too short.
        ([_loop(0, _ranges(0, 1, 5))], _weights(60), None),
        ([_loop(0, _ranges(0, 4, 5))], np.zeros(20, np.int64), None),
        ([_loop(0, _ranges(0, 10, 2))], _weights(20), None),
        # Some iterations of a thinned loop are unknown.
        ([_loop(0, _ranges(0, 4, 5), thinned=7)], _weights(20), None),
        ([], _weights(20), None),
    ],
)
def test_the_step_is_the_loop_that_a_reader_would_name(loops: list[Loop], weights: Int64, line: int | None) -> None:
    chosen = step_loop(loops, weights)
    assert (chosen.line if chosen else None) == line


def _statements(count: int) -> pd.DataFrame:
    return tables.build(
        "statements",
        {
            "start_ns": np.arange(count, dtype=np.int64) * 10,
            "duration_ns": np.full(count, 10, np.int64),
            "file": pd.Categorical(["<cell [1]>"] * count),
            "line": np.ones(count, np.int64),
            "last_line": np.ones(count, np.int64),
            "thread_id": np.ones(count, np.int64),
        },
    )


def test_iterations_know_their_outer_one() -> None:
    loops = [_loop(0, _ranges(0, 5, 2)), _loop(1, [(1, 3), (3, 5), (6, 8), (8, 10)], outer=0)]
    frame = iterations(loops, _statements(10))
    tables.check("iterations", frame)
    inner = frame[frame["loop"] == 3]
    assert inner["start_ns"].tolist() == [10, 30, 60, 80]
    assert inner["duration_ns"].tolist() == [20, 20, 20, 20]
    assert inner["outer_iteration"].tolist() == [0, 0, 1, 1]
    steps = steps_of(loops[1], loops, _statements(10))
    assert steps["step"].tolist() == [0, 1, 2, 3]
    assert steps["outer_iteration"].tolist() == [0, 0, 1, 1]
    assert set(steps["kind"]) == {"loop of line 3"}
    assert steps_of(loops[0], loops, _statements(10))["outer_iteration"].isna().all()


def test_a_cell_without_loops_has_no_iterations() -> None:
    assert not len(iterations([], _statements(3)))
    assert not len(iterations([], _statements(0)))


def test_a_loop_beside_the_steps_is_a_kind_of_its_own() -> None:
    loops = [_EPOCHS, _TRAIN, _EVALUATE]
    assert other_loops(_TRAIN, loops, _weights(120)) == [_EVALUATE]
    assert other_loops(_EVALUATE, loops, _weights(120)) == [_TRAIN]
    # Not the loops around or within it, and none that launches nothing.
    assert other_loops(_EPOCHS, loops, _weights(120)) == []
    quiet = np.ones(120, np.int64)
    for begin, end in zip(_EVALUATE.begins, _EVALUATE.ends, strict=True):
        quiet[begin:end] = 0
    assert other_loops(_TRAIN, loops, quiet) == []


def test_steps_of_all_kinds_are_numbered_in_order_of_time() -> None:
    loops = [_EPOCHS, _TRAIN, _EVALUATE]
    statements = _statements(120)
    steps = steps_of(_TRAIN, loops, statements, [_EVALUATE])
    assert steps["step"].tolist() == list(range(54))
    assert steps["start_ns"].is_monotonic_increasing
    assert steps["counted"].tolist() == ([True] * 15 + [False] * 3) * 3
    assert set(steps["kind"][~steps["counted"]]) == {"loop of line 6"}
    assert steps["outer_iteration"].tolist() == [0] * 18 + [1] * 18 + [2] * 18
    every = iterations(loops, statements)
    assert set(every["loop"][holds_steps(every, steps)]) == {2}
    assert not holds_steps(every, steps.iloc[:0]).any()
