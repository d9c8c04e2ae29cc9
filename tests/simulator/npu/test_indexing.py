"""Reading and writing parts of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from npuprof.simulator import npu
from tests.simulator.npu.conftest import Witness
from tests.simulator.npu.strategies import Values, arrays, assert_same


@pytest.mark.slow
@settings(deadline=None)
@given(values=arrays(min_side=1, min_dims=1), data=st.data())
def test_basic_indices_give_what_numpy_gives(values: Values, data: st.DataObject) -> None:
    index = data.draw(hnp.basic_indices(values.shape, allow_newaxis=True))
    assert_same(npu.array(values)[index], values[index])


@pytest.mark.slow
@settings(deadline=None)
@given(values=arrays(min_side=1, min_dims=1), data=st.data())
def test_gathers_give_what_numpy_gives(values: Values, data: st.DataObject) -> None:
    index = data.draw(hnp.integer_array_indices(values.shape))
    assert_same(npu.array(values)[index], values[index])
    mask = data.draw(hnp.arrays(np.bool_, values.shape))
    assert_same(npu.array(values)[npu.array(mask)], values[mask])


@pytest.mark.slow
@settings(deadline=None)
@given(values=arrays(min_side=1, min_dims=1, kinds=(np.float32, np.int32)), data=st.data())
def test_assignments_do_what_numpys_do(values: Values, data: st.DataObject) -> None:
    index = data.draw(st.one_of(hnp.basic_indices(values.shape), hnp.integer_array_indices(values.shape)))
    value = data.draw(st.one_of(st.integers(0, 9), st.just(np.asarray(values[index]) + 1)))
    array, expected = npu.array(values), values.copy()
    array[index] = npu.array(value) if isinstance(value, np.ndarray) else value
    expected[index] = value
    assert_same(array, expected)


@pytest.mark.parametrize(
    ("index", "types"),
    [
        (np.s_[2:4], ["StridedSlice"]),
        (np.s_[0], ["StridedSlice"]),
        (np.s_[0, 0], ["StridedSlice"]),
        (np.s_[::-1], ["StridedSlice"]),
        (np.s_[...], []),
        (np.s_[:, None], []),
        ([1, 2], ["Index"]),
        ((np.array([1, 2]), slice(0, 4)), ["Index"]),
    ],
)
def test_reading_a_part_launches_a_slice(seen: Witness, host: Values, index: Any, types: list[str]) -> None:
    found = npu.array(host)[index]
    assert seen.types == types
    assert_same(found, host[index])


def test_a_slice_moves_what_it_gives(seen: Witness, host: Values) -> None:
    npu.array(host)[2:4]
    operator = seen.launches[-1].operator
    assert (operator.read_bytes, operator.written_bytes) == (2 * 16 * 4, 2 * 16 * 4)


def test_a_mask_makes_the_host_wait_for_the_count(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    seen.clear()
    x[x > 0]
    assert seen.calls == ["aclrtSynchronizeStream"]
    assert seen.types == ["Greater", "NonZero", "Index"]


def test_assignments_launch_a_fill_a_copy_or_a_scatter(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    x[0] = 1
    x[x > 9] = 0
    x[[1, 2]] = 0
    x[[1, 2]] = x[0:2]
    assert seen.types == ["Fill", "Greater", "MaskedFill", "IndexPutV2", "StridedSlice", "IndexPutV2"]
    x[1] = x[0]
    assert seen.types == ["StridedSlice", "ViewCopy"]
    x[0] = host[0]
    assert seen.copies == [("host_to_device", 64)]
    seen.clear()
    x[0] = npu.ones(16, np.float16)
    assert seen.types == ["OnesLike", "Cast", "ViewCopy"]


def test_an_operator_in_place_on_a_part_is_written_once(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    x[2:4] += 1
    assert seen.types == ["StridedSlice", "Add"]
    host[2:4] += 1
    assert_same(x, host)


def test_a_wrong_index_is_numpys_error_and_launches_nothing(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    with pytest.raises(IndexError, match="out of bounds"):
        x[99]
    with pytest.raises(ValueError, match="broadcast"):
        x[0] = np.ones(3)
    assert seen.types == []
