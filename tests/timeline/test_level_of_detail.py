from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.timeline.layers import Layer
from npuprof.timeline.level_of_detail import MOST_BARS, WindowIndex
from tests import factories

_EPOCH = factories.START_NS


def _index(*tracks: list[tuple[int, int]], most_lanes: int = 3, most_tracks: int = 4) -> WindowIndex:
    """An index of layers with one track each, of (start, duration); slices are numbered through."""
    rows, number = [], 0
    for track in tracks:
        frame = pd.DataFrame(track, columns=["start_ns", "duration_ns"], dtype=np.int64)
        frame["start_ns"] += _EPOCH
        numbers = np.arange(number, number + len(frame))
        rows.append(Layer("slices", "api", (frame,), numbers, most_tracks=most_tracks, most_lanes=most_lanes))
        number += len(frame)
    return WindowIndex(rows)


_TRACK = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 300)), min_size=1, max_size=150)
_TRACKS = st.lists(_TRACK, min_size=1, max_size=3)


@pytest.mark.slow
@given(_TRACKS, st.integers(-100, 6_000), st.integers(0, 6_000), st.integers(24, 400))
def test_every_slice_of_the_window_is_in_exactly_one_bar(
    tracks: list[list[tuple[int, int]]], start: int, length: int, most: int
) -> None:
    # So many lanes that nothing is folded: then bars stand for the slices that touch the window and no others.
    for track in tracks:
        index = _index(track, most_lanes=150)
        most_here = max(most, 2 * len(index.lanes))
        bars = index.within(_EPOCH + start, _EPOCH + start + length, most=most_here)

        touching = [(s, d) for s, d in track if s <= start + length and s + d >= start]
        assert int(bars.count.sum()) == len(touching)
        assert int(bars.busy_ns.sum()) == sum(d for _, d in touching)
        assert len(bars) <= most_here
        for s, d in touching:
            holding = (bars.start_ns <= _EPOCH + s) & (bars.end_ns >= _EPOCH + s + d)
            assert holding.any()
        same_lane = bars.lane[1:] == bars.lane[:-1]
        assert (bars.start_ns[1:][same_lane] >= bars.end_ns[:-1][same_lane]).all()
        for at in range(len(bars)):
            s, d = track[int(bars.row[at])]
            assert d == bars.longest_ns[at]
            assert bars.start_ns[at] <= _EPOCH + s
            assert _EPOCH + s + d <= bars.end_ns[at]


@pytest.mark.slow
@given(_TRACKS)
def test_the_whole_run_balances_whatever_is_folded(tracks: list[list[tuple[int, int]]]) -> None:
    index = _index(*tracks)
    whole = index.span

    assert whole is not None
    bars = index.within(*whole, most=200)
    assert int(bars.count.sum()) == index.slices == sum(map(len, tracks))
    assert int(bars.busy_ns.sum()) == sum(d for track in tracks for _, d in track)


def test_long_slice_among_short_ones_has_a_bar() -> None:
    short = [(10 * i, 5) for i in range(5_000)]
    index = _index([*short[:2_500], (25_000, 9_000), *[(s + 10_000, d) for s, d in short[2_500:]]])

    bars = index.within(_EPOCH, _EPOCH + 60_000, most=100)

    assert len(bars) <= 100
    alone = bars.count == 1
    assert bars.longest_ns[alone].tolist() == [9_000]
    assert int(bars.count.sum()) == 5_001


@pytest.mark.slow
def test_zooming_in_shows_slices_one_by_one() -> None:
    index = _index([(10 * i, 5) for i in range(100_000)])

    bars = index.within(_EPOCH + 500_003, _EPOCH + 500_103)

    assert (bars.count == 1).all()
    assert bars.row.tolist() == list(range(50_000, 50_011))


@pytest.mark.slow
def test_bars_keep_their_places_when_the_window_moves() -> None:
    index = _index([(10 * i, 5) for i in range(100_000)])

    here = index.within(_EPOCH + 100_000, _EPOCH + 300_000, pixels=500)
    there = index.within(_EPOCH + 100_777, _EPOCH + 300_777, pixels=500)

    assert len(set(here.start_ns.tolist()) & set(there.start_ns.tolist())) >= len(there) - 8


def test_slices_are_found_and_followed_on_their_lane() -> None:
    index = _index([(0, 100), (10, 20), (40, 20)], [(5, 5)])

    inner = index.element_of(1)

    assert index.lanes[index.lane_of(inner)].place == 1
    assert index.slice_at(index.beside(inner, 1)) == 2
    assert index.beside(index.beside(inner, 1), 1) == index.beside(inner, 1)
    assert index.element_of(4) == -1
    assert index.holding([0], _EPOCH + 50, _EPOCH + 60) == index.element_of(0)
    assert index.holding([2], _EPOCH + 50, _EPOCH + 60) == -1


@pytest.mark.slow
def test_a_hundred_thousand_slices_fit_any_window() -> None:
    rng = np.random.default_rng(6)
    start = np.sort(rng.integers(0, 10**9, 100_000))
    index = _index(list(zip(start.tolist(), rng.integers(0, 10**6, 100_000).tolist(), strict=True)))

    for zoom in range(25):
        bars = index.within(_EPOCH + 10**8, _EPOCH + 10**8 + (10**9 >> zoom))
        assert len(bars) <= MOST_BARS


def test_a_run_without_slices_has_no_bars() -> None:
    index = WindowIndex([])

    assert index.span is None
    assert len(index.within(0, 10)) == 0


def test_an_impossible_window_is_refused() -> None:
    index = _index([(0, 1)])

    with pytest.raises(ValueError, match="before it starts"):
        index.within(10, 0)
    with pytest.raises(ValueError, match="too few"):
        index.within(0, 10, most=0)


def test_enlarged_picture_keeps_slices_while_they_fit() -> None:
    index = _index([(0, 1), (2, 1), (1_000_000_000, 5)])

    assert len(index.within(_EPOCH, _EPOCH + 2_000_000_000, pixels=100)) == 2
    assert len(index.within(_EPOCH, _EPOCH + 2_000_000_000, pixels=None)) == 3
    assert len(index.within(_EPOCH, _EPOCH + 2_000_000_000, pixels=None, most=2)) == 2
