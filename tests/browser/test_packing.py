from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.browser.packing import pack, pack_floats
from tests.browser.unpacking import unpack

_INT64 = st.integers(-(2**63), 2**63 - 1)
_NEAR = st.integers(-(2**20), 2**20)


@given(st.lists(st.one_of(_NEAR, st.integers(-(2**52), 2**52), _INT64), max_size=60))
def test_numbers_come_back_or_are_refused_as_a_whole(values: list[int]) -> None:
    column = pack(np.array(values, np.int64))
    if column is None:
        low, high = min(values), max(values)
        assert max(abs(low), abs(high), high - low) >= 2**53
    else:
        assert unpack(column).tolist() == values


@given(st.integers(0, 2**40), st.lists(st.integers(0, 3_000), min_size=1, max_size=200))
def test_moments_come_back_from_differences(first: int, steps: list[int]) -> None:
    moments = first + np.cumsum(np.array(steps, np.int64))
    column = pack(moments)
    assert column is not None
    assert unpack(column).tolist() == moments.tolist()


def test_moments_take_as_many_bytes_as_their_differences_need() -> None:
    steps = np.random.default_rng(1).integers(0, 256, 10_000)
    column = pack(1_763_600_000_000_000_123 // 1_000 + np.cumsum(steps))
    assert column is not None
    assert (column.is_delta, column.width) == (True, 2)
    assert len(column.data) < 12_500
    constant = pack(np.full(10_000, 7))
    assert constant is not None
    assert (constant.width, constant.data) == (0, b"")


def test_floats_keep_seven_digits_and_absence() -> None:
    values = np.array([0.1, -3.25e9, np.nan, np.inf, 0.0])
    bits = unpack(pack_floats(values)).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(bits, values.astype(np.float32))


@pytest.mark.parametrize("count", [0, 1])
def test_none_and_one_are_columns_too(count: int) -> None:
    column = pack(np.arange(count))
    assert column is not None
    assert unpack(column).tolist() == list(range(count))
