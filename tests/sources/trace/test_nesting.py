"""Depth by parents, the innermost slice, and rows by their start, against slow and plain versions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npuprof.sources.columns.builders import ABSENT
from npuprof.sources.trace.nesting import call_depth, innermost, starting_at


def depth_by_walking(ids: list[int], parents: list[int], row: int) -> int:
    depth, seen = 0, {row}
    while parents[row] in ids:
        row = ids.index(parents[row])
        if row in seen:
            return -1
        seen.add(row)
        depth += 1
    return depth


@given(st.lists(st.integers(0, 9), min_size=0, max_size=12))
def test_depth_follows_parents_and_never_loops(parents: list[int]) -> None:
    ids = list(range(len(parents)))
    depth, cycles = call_depth(np.array(ids, np.int64), np.array(parents, np.int64))
    slow = [depth_by_walking(ids, parents, row) for row in ids]
    assert depth.tolist() == slow
    assert cycles == slow.count(-1)


def test_depth_of_a_long_chain() -> None:
    ids = np.arange(5000)
    parents = np.where(ids, ids - 1, ABSENT)
    assert call_depth(ids, parents)[0].tolist() == ids.tolist()


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Slices that nest within a lane: each splits off a part of an earlier one."""
    slices: list[tuple[int, int, int]] = [(lane, 0, 100) for lane in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(0, 8))):
        lane, start, end = draw(st.sampled_from(slices))
        inner = draw(st.integers(start, end))
        slices.append((lane, inner, draw(st.integers(inner, end))))
    return [one for one in slices if not any(_cross(one, other) for other in slices)]


def _cross(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    return a[0] == b[0] and (a[1] < b[1] <= a[2] < b[2] or b[1] < a[1] <= b[2] < a[2])


@given(nested(), st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 105)), max_size=10))
def test_the_innermost_slice_is_the_shortest_around(
    slices: list[tuple[int, int, int]], moments: list[tuple[int, int]]
) -> None:
    lanes, starts, ends = (np.array([one[part] for one in slices], np.int64) for part in range(3))
    at_lanes, at = (np.array([one[part] for one in moments], np.int64) for part in range(2))
    found = innermost(lanes, starts, ends, at_lanes, at).tolist()
    for row, (lane, moment) in zip(found, moments, strict=True):
        around = [end - start for own, start, end in slices if own == lane and start <= moment <= end]
        assert (row >= 0) == bool(around)
        if around:
            assert slices[row][0] == lane
            assert slices[row][2] - slices[row][1] == min(around)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=6),
)
def test_rows_are_found_by_lane_and_start(rows: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    columns = [np.array([one[part] for one in some], np.int64) for some in (rows, wanted) for part in range(2)]
    found = starting_at(*columns)
    assert found.tolist() == [rows.index(one) if one in rows else -1 for one in wanted]
