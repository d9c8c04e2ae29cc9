from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.timeline.lane_packing import LEFT_OVER, assign, clusters

slices = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=40).map(
    lambda rows: sorted(rows, key=lambda row: (row[0], -row[1]))
)


def test_nested_calls_get_their_depth() -> None:
    start, end = np.array([0, 1, 2, 5, 10]), np.array([10, 9, 3, 8, 12])

    assert assign(start, end, 8).tolist() == [0, 1, 2, 2, 0]


def test_slices_that_cross_lie_side_by_side() -> None:
    # The third begins after the first has ended, but while the second still runs on lane 1.
    start, end = np.array([0, 5, 12, 20]), np.array([10, 15, 18, 30])

    assert assign(start, end, 8).tolist() == [0, 1, 0, 0]


def test_slices_without_duration_are_not_drawn_over_each_other() -> None:
    start = np.array([5, 5, 5])

    assert assign(start, start, 2).tolist() == [0, 1, LEFT_OVER]


@settings(deadline=None)
@given(slices, st.integers(1, 6))
def test_no_lane_holds_two_slices_at_once(rows: list[tuple[int, int]], most: int) -> None:
    start = np.array([row[0] for row in rows], np.int64)
    end = start + np.array([row[1] for row in rows], np.int64)

    lanes = assign(start, end, most)

    length = np.maximum(end, start + 1)
    for lane in range(most):
        of_lane = np.flatnonzero(lanes == lane)
        assert (start[of_lane][1:] >= length[of_lane][:-1]).all()
    for row in np.flatnonzero(lanes == LEFT_OVER):
        running = (start <= start[row]) & (length > start[row])
        assert running.sum() > most  # itself is one of them


@settings(deadline=None)
@given(slices)
def test_clusters_part_where_nothing_runs(rows: list[tuple[int, int]]) -> None:
    start = np.array([row[0] for row in rows], np.int64)
    end = start + np.array([row[1] for row in rows], np.int64)

    found = clusters(start, end).tolist()

    expected: list[int] = []
    latest = None
    for (begin, duration), number in zip(rows, found, strict=True):
        if latest is None or begin >= latest:
            expected.append(expected[-1] + 1 if expected else 0)
        else:
            expected.append(expected[-1])
        latest = max(latest or 0, begin + duration)
        assert number == expected[-1]
