from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.analysis import nesting as nesting_module
from npuprof.analysis.nesting import Nesting, time_order


@pytest.fixture(params=[(64, 8), (0, 0)], ids=["columnar", "scan"], autouse=True, scope="module")
def _rounds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test holds for both ways of finding holders, and of numbering groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting_module, "_MAX_ROUNDS", request.param[0])
        patch.setattr(nesting_module, "_FEW", request.param[1])
        yield


_intervals = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 3)), max_size=40)


def _build(rows: list[tuple[int, int, int]]) -> Nesting:
    starts = np.array([start for start, _, _ in rows], np.int64)
    lengths = np.array([length for _, length, _ in rows], np.int64)
    groups = np.array([group for _, _, group in rows], np.int64)
    return Nesting.build(starts, starts + lengths, groups)


def _naive_parents(nesting: Nesting) -> list[int]:
    parents = []
    for row in range(len(nesting.starts)):
        holders = [
            other
            for other in range(row)
            if nesting.groups[other] == nesting.groups[row] and nesting.ends[other] >= nesting.ends[row]
        ]
        parents.append(holders[-1] if holders else -1)
    return parents


@settings(deadline=None)
@given(_intervals)
def test_parents_are_those_of_a_scan_by_hand(rows: list[tuple[int, int, int]]) -> None:
    nesting = _build(rows)
    assert nesting.parents.tolist() == _naive_parents(nesting)


@settings(deadline=None)
@given(_intervals)
def test_depth_is_one_more_than_the_parents(rows: list[tuple[int, int, int]]) -> None:
    nesting = _build(rows)
    depths = nesting.depths()
    for depth, parent in zip(depths.tolist(), nesting.parents.tolist(), strict=True):
        assert depth == (depths[parent] + 1 if parent >= 0 else 0)


@settings(deadline=None)
@given(_intervals, st.lists(st.tuples(st.integers(-1, 62), st.integers(0, 4)), max_size=30))
def test_innermost_is_the_latest_holder(rows: list[tuple[int, int, int]], points: list[tuple[int, int]]) -> None:
    nesting = _build(rows)
    labels = [rows[row][2] for row in nesting.order.tolist()]
    times = np.array([time for time, _ in points], np.int64)
    found = nesting.innermost(times, np.array([group for _, group in points], np.int64))
    for (time, group), position in zip(points, found.tolist(), strict=True):
        holders = [
            row for row in range(len(rows)) if labels[row] == group and nesting.starts[row] < time <= nesting.ends[row]
        ]
        assert position == (holders[-1] if holders else -1)


@settings(deadline=None)
@given(_intervals, st.sets(st.integers(0, 39)))
def test_nearest_is_the_first_wanted_on_the_way_up(rows: list[tuple[int, int, int]], chosen: set[int]) -> None:
    nesting = _build(rows)
    wanted = np.array([row in chosen for row in range(len(rows))], bool)
    for row, found in enumerate(nesting.nearest(wanted).tolist()):
        while row >= 0 and not wanted[row]:
            row = int(nesting.parents[row])
        assert found == row


def test_stamps_far_apart_in_many_groups_do_not_overflow() -> None:
    # GIVEN times whose span, times the number of groups, exceeds 63 bits
    starts = np.array([0, 1 << 62, 5], np.int64)
    nesting = Nesting.build(starts, starts + 10, np.array([0, 1, 2]))
    # THEN points still find the interval of their own group
    found = nesting.innermost(np.array([5, (1 << 62) + 5, 7, 7]), np.array([0, 1, 2, 9]))
    assert nesting.order[found[:3]].tolist() == [0, 1, 2]
    assert found[3] == -1


def test_many_groups_are_looked_up_too() -> None:
    groups = np.arange(1000) * 3
    nesting = Nesting.build(np.zeros(1000, np.int64), np.full(1000, 9), groups)
    found = nesting.innermost(np.array([5, 5, 5]), np.array([0, 2997, 4]))
    assert nesting.order[found[:2]].tolist() == [0, 999]
    assert found[2] == -1


def test_nothing_holds_a_point_where_there_is_no_interval() -> None:
    none = np.empty(0, np.int64)
    assert Nesting.build(none, none).innermost(np.array([1, 2])).tolist() == [-1, -1]


def test_a_caller_comes_before_what_it_called() -> None:
    starts, ends = np.array([5, 5, 1]), np.array([6, 9, 2])
    assert time_order(starts, ends).tolist() == [2, 1, 0]


def test_a_deep_chain_then_a_wide_row_is_quick() -> None:
    # GIVEN ten thousand nested calls, and as many siblings that end after all of them
    depth = 10_000
    starts = np.concatenate((np.arange(depth), 2 * depth + 2 * np.arange(depth)))
    ends = np.concatenate((2 * depth - np.arange(depth), 2 * depth + 2 * np.arange(depth) + 1))
    nesting = Nesting.build(starts, ends)
    assert (nesting.parents[:depth] == np.arange(-1, depth - 1)).all()
    assert (nesting.parents[depth:] == -1).all()
    assert (nesting.depths() == np.concatenate((np.arange(depth), np.zeros(depth)))).all()
    wanted = np.arange(2 * depth) == 0
    assert (nesting.nearest(wanted) == np.repeat([0, -1], depth)).all()
    found = nesting.innermost(np.full(depth, 2 * depth))
    assert (found == 0).all()
