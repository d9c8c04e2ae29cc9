from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.sources.raw.join_keys.batches import Flips, batch_ids
from npuprof.sources.raw.join_keys.joins import latest, match, pair


def _array(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


def test_starts_and_ends_pair_in_order() -> None:
    # GIVEN two runs of one key that overlap
    starts, ends = pair(_array([1, 1, 2]), _array([10, 11, 5]), _array([1, 2, 1]), _array([20, 6, 21]))
    assert sorted(zip(starts.tolist(), ends.tolist(), strict=True)) == [(0, 0), (1, 2), (2, 1)]


def test_a_start_without_an_end_gives_way_to_the_next_start() -> None:
    starts, ends = pair(_array([1, 1]), _array([10, 20]), _array([1]), _array([25]))
    assert starts.tolist() == [1]
    assert ends.tolist() == [0]


def test_a_cut_beginning_does_not_shift_the_pairs() -> None:
    # GIVEN as many ends as starts, but the first start and the last end were lost
    starts, ends = pair(_array([1, 1]), _array([20, 30]), _array([1, 1]), _array([15, 25]))
    assert starts.tolist() == [0]
    assert ends.tolist() == [1]


def test_a_task_without_a_tick_is_a_pair() -> None:
    starts, ends = pair(_array([1, 1]), _array([10, 20]), _array([1]), _array([20]))
    assert starts.tolist() == [1]
    assert ends.tolist() == [0]


_rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=30)


@pytest.mark.slow
@settings(deadline=None)
@given(_rows, _rows)
def test_no_pair_ends_before_it_starts_or_is_used_twice(
    starts: list[tuple[int, int]], ends: list[tuple[int, int]]
) -> None:
    start_keys, start_times = _array([key for key, _ in starts]), _array([time for _, time in starts])
    end_keys, end_times = _array([key for key, _ in ends]), _array([time for _, time in ends])
    opened, closed = pair(start_keys, start_times, end_keys, end_times)
    assert len(set(opened.tolist())) == len(opened)
    assert len(set(closed.tolist())) == len(closed)
    assert (start_keys[opened] == end_keys[closed]).all()
    assert (start_times[opened] <= end_times[closed]).all()


@pytest.mark.slow
@settings(deadline=None)
@given(_rows, _rows)
def test_latest_is_the_last_one_by_hand(rows: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    keys, times = _array([key for key, _ in rows]), _array([time for _, time in rows])
    other_keys, other_times = _array([key for key, _ in others]), _array([time for _, time in others])
    found = latest(keys, times, other_keys, other_times)
    for (key, time), row in zip(rows, found.tolist(), strict=True):
        earlier = [moment for other, moment in others if other == key and moment <= time]
        assert (row == -1) == (not earlier)
        if earlier:
            assert others[row] == (key, max(earlier))


def test_equally_frequent_keys_match_in_order_even_against_the_clock() -> None:
    # GIVEN a device clock a little behind the host's
    found = match(_array([7, 7]), _array([99, 199]), _array([7, 7]), _array([100, 200]))
    assert found.tolist() == [0, 1]


def test_a_key_that_lost_records_matches_by_time() -> None:
    found = match(_array([7, 8]), _array([250, 5]), _array([7, 7, 9]), _array([100, 200, 1]))
    assert found.tolist() == [1, -1]


def _wrapping_stream(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Flips]:
    number = np.arange(count)
    wraps = np.arange(1, count // 65536 + 1) * 65536
    stamps = number * 10
    return stamps, number % 65536, Flips(np.zeros(len(wraps), np.int64), wraps * 10 - 5, np.arange(1, len(wraps) + 1))


def test_many_tasks_have_three_batches() -> None:
    stamps, ids, flips = _wrapping_stream(140_000)
    batch = batch_ids(np.zeros(140_000, np.int64), stamps, ids, flips)
    assert (batch == np.arange(140_000) // 65536).all()


def test_wrapped_tasks_keep_their_batch() -> None:
    # GIVEN threads that launch at once: around the wrap, stamps and ids are not in one order
    stamps, ids, flips = _wrapping_stream(140_000)
    rng = np.random.default_rng(7)
    jitter = np.where(np.abs(np.arange(140_000) % 65536 - 32768) > 32500, rng.integers(-300, 300, 140_000), 0)
    order = np.argsort(stamps + jitter, kind="stable")
    batch = batch_ids(np.zeros(140_000, np.int64), (stamps + jitter)[order], ids[order], flips)
    assert (batch == order // 65536).all()


def test_reused_stream_id_is_another_batch() -> None:
    flips = Flips(_array([4, 4]), _array([10, 20]), _array([1, 0xFFFF]))
    batch = batch_ids(_array([4, 4, 4, 5]), _array([5, 15, 25, 25]), _array([0, 1, 2, 3]), flips)
    assert batch.tolist() == [0, 1, 2, 0]
