from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.timeline.bars import Bars, reduced
from tests import factories

gaps_and_durations = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=80)


@settings(deadline=None)
@given(st.lists(gaps_and_durations, min_size=1, max_size=4), st.integers(4, 60))
def test_merging_keeps_counts_busy_time_and_order(lanes: list[list[tuple[int, int]]], most: int) -> None:
    bars = _bars(lanes)

    few = reduced(bars, most)

    assert len(few) <= max(most, len(lanes))
    for lane in range(len(lanes)):
        before, after = bars.lane == lane, few.lane == lane
        assert few.busy_ns[after].sum() == bars.busy_ns[before].sum()
        assert few.count[after].sum() == bars.count[before].sum()
        assert (few.start_ns[after][1:] >= few.end_ns[after][:-1]).all()
        assert few.start_ns[after].min() == bars.start_ns[before].min()
        assert few.end_ns[after].max() == bars.end_ns[before].max()
    assert (np.diff(few.lane) >= 0).all()
    assert (few.end_ns - few.start_ns >= few.busy_ns).all()
    assert (few.longest_ns == bars.longest_ns[few.row]).all()
    single = few.count == 1
    assert (few.start_ns[single] == bars.start_ns[few.row[single]]).all()
    assert (few.busy_ns[single] == few.longest_ns[single]).all()


def test_few_slices_stay_as_they_are() -> None:
    bars = _bars([[(1, 5)] * 50])

    assert reduced(bars, 50) is bars


def test_long_slices_survive_among_a_million_short_ones() -> None:
    duration = np.full(1_000_000, 100, np.int64)
    duration[[1_000, 500_000]] = 5_000_000
    start = factories.START_NS + np.concatenate([[0], np.cumsum(duration + 10)[:-1]])
    bars = Bars.of_slices(np.zeros(1_000_000, np.int64), start, duration, np.arange(1_000_000))

    few = reduced(bars, 2_000)

    assert 500 <= len(few) <= 2_000
    alone = few.count == 1
    assert few.row[alone & (few.longest_ns == 5_000_000)].tolist() == [1_000, 500_000]
    assert few.busy_ns.sum() == duration.sum()


def test_a_bar_of_several_names_the_first_of_its_longest() -> None:
    few = reduced(_bars([[(0, 1), (0, 7), (0, 7), (0, 2)], [(0, 1)]]), 2)

    assert few.row.tolist() == [1, 4]
    assert few.count.tolist() == [4, 1]


def test_fewer_bars_than_lanes_is_an_error() -> None:
    with pytest.raises(ValueError, match="every lane needs one"):
        reduced(_bars([[(0, 1)]] * 3), 2)


def _bars(lanes: list[list[tuple[int, int]]]) -> Bars:
    parts, first = [], 0
    for lane, rows in enumerate(lanes):
        gap, duration = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
        start = factories.START_NS + np.cumsum(gap) + np.concatenate([[0], np.cumsum(duration)[:-1]])
        row = np.arange(first, first + len(rows))
        parts.append(Bars.of_slices(np.full(len(rows), lane), start, duration, row))
        first += len(rows)
    return Bars.joined(parts)
