"""NumPy's functions: values, operators, and what has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.simulator import npu
from npuprof.simulator.npu import NpuArray
from tests.simulator.npu.conftest import Witness
from tests.simulator.npu.strategies import FLOATS, Values, arrays, assert_same

SAME: list[tuple[Callable[[Any], Any], list[str]]] = [
    (lambda x: np.sum(x), ["ReduceSum"]),
    (lambda x: x.sum(axis=0, keepdims=True), ["ReduceSum"]),
    (lambda x: np.mean(x, axis=(0, 1)), ["ReduceMean"]),
    (lambda x: x.mean(axis=-1, dtype=np.float64), ["Cast", "ReduceMean"]),
    (lambda x: x.max(axis=1), ["ReduceMax"]),
    (lambda x: x.min(), ["ReduceMin"]),
    (lambda x: np.prod(x, axis=0), ["ReduceProd"]),
    (lambda x: (x > 0).any(axis=1), ["Greater", "ReduceAny"]),
    (lambda x: np.all(x > -9), ["Greater", "ReduceAll"]),
    (lambda x: (x > 0).sum(), ["Greater", "Cast", "ReduceSum"]),
    (lambda x: x.argmax(axis=0), ["ArgMaxV2"]),
    (lambda x: x.argmin(), ["ArgMin"]),
    (lambda x: np.cumsum(x, axis=1), ["Cumsum"]),
    (lambda x: x.cumprod(axis=0), ["Cumprod"]),
    (lambda x: x.var(axis=1, ddof=1), ["ReduceVar"]),
    (lambda x: x.std(), ["ReduceStdV2Update"]),
    (lambda x: np.linalg.norm(x, axis=1), ["LpNormV2"]),
    (lambda x: x.T, ["Transpose"]),
    (lambda x: x.transpose(1, 0), ["Transpose"]),
    (lambda x: x.swapaxes(0, 1), ["Transpose"]),
    (lambda x: np.moveaxis(x, 0, 1), ["Transpose"]),
    (lambda x: np.concatenate([x, x], axis=1), ["ConcatD"]),
    (lambda x: np.stack((x, x)), ["Pack"]),
    (lambda x: np.vstack([x, x]), ["ConcatD"]),
    (lambda x: np.split(x, 4), ["SplitV"]),
    (lambda x: np.where(x > 0, x, 0), ["Greater", "SelectV2"]),
    (lambda x: np.clip(x, -1, 1), ["ClipByValueV2"]),
    (lambda x: x.clip(0, None), ["ClipByValueV2"]),
    (lambda x: x.round(1), ["Round"]),
    (lambda x: np.sort(x, axis=0), ["Sort"]),
    (lambda x: np.tile(x, (2, 1)), ["Tile"]),
    (lambda x: x.repeat(2, axis=0), ["RepeatInterleave"]),
    (lambda x: np.roll(x, 3), ["Roll"]),
    (lambda x: np.flip(x, 1), ["ReverseV2"]),
    (lambda x: np.pad(x, 1), ["PadV3"]),
    (lambda x: x.take([2, 0], axis=0), ["GatherV2"]),
    (lambda x: np.tril(x), ["Tril"]),
    (lambda x: np.diagonal(x), ["DiagPart"]),
    (lambda x: np.outer(x[0], x[1]), ["StridedSlice", "StridedSlice", "Mul"]),
    (lambda x: np.diff(x, axis=0), ["Sub"]),
    (lambda x: x.copy(), ["TensorMove"]),
    (lambda x: np.zeros_like(x), ["ZerosLike"]),
    (lambda x: np.ones_like(x, dtype=np.int32), ["OnesLike"]),
    (lambda x: np.full_like(x, 3), ["Fill"]),
    (lambda x: np.broadcast_to(x, (2, 8, 16)), ["BroadcastTo"]),
    (lambda x: np.nan_to_num(x), ["NanToNum"]),
    (lambda x: np.count_nonzero(x > 0, axis=0), ["Greater", "CountNonzero"]),
    (lambda x: np.nonzero(x > 0), ["Greater", "NonZero"]),
    (lambda x: np.where(x > 0), ["Greater", "NonZero"]),
    (lambda x: np.unique(x), ["UniqueWithCountsAndSorting"]),
    (lambda x: x.reshape(4, -1), []),
    (lambda x: x.reshape((16, 8)), []),
    (lambda x: x.ravel(), []),
    (lambda x: np.expand_dims(x, 1), []),
    (lambda x: x[:, None].squeeze(1), []),
    (lambda x: x.T.reshape(-1), ["Transpose", "TensorMove"]),
    (lambda x: x.flatten(), ["TensorMove"]),
    (lambda x: x.real, []),
]


@pytest.mark.parametrize(("expression", "types"), SAME)
def test_functions_match_numpy(seen: Witness, host: Values, expression: Callable[[Any], Any], types: list[str]) -> None:
    x = npu.array(host)
    found = expression(x)
    assert seen.types == types
    assert_same(found, expression(host), roundings=8)


@pytest.mark.slow
@settings(deadline=None)
@given(
    function=st.sampled_from([np.sum, np.mean, np.max, np.min, np.prod, np.any, np.all, np.argmax, np.std, np.var]),
    values=arrays(min_side=1, min_dims=1),
    data=st.data(),
)
def test_reductions_give_what_numpy_gives(function: Any, values: Values, data: st.DataObject) -> None:
    axis = data.draw(st.one_of(st.none(), st.integers(-values.ndim, values.ndim - 1)))
    keepdims = data.draw(st.booleans())
    with np.errstate(all="ignore"):
        expected = function(values, axis=axis, keepdims=keepdims)
        assert_same(function(npu.array(values), axis=axis, keepdims=keepdims), expected, roundings=8)


@pytest.mark.slow
@settings(deadline=None)
@given(values=arrays(shape=(3, 4)), others=arrays(shape=(3, 4)), axis=st.sampled_from([0, 1]))
def test_joins_of_two_types_give_what_numpy_gives(values: Values, others: Values, axis: int) -> None:
    found = np.concatenate([npu.array(values), others], axis=axis)
    assert_same(found, np.concatenate([values, others], axis=axis))


@pytest.mark.slow
@settings(deadline=None)
@given(values=arrays(kinds=FLOATS, min_side=1, min_dims=2))
def test_reductions_of_a_transposed_view_add_in_numpys_order(values: Values) -> None:
    assert_same(npu.array(values).T.sum(), values.T.sum(), roundings=8)


def test_a_reduction_reads_its_operand_and_computes_each_element_once(seen: Witness, host: Values) -> None:
    npu.array(host).sum(axis=1)
    operator = seen.launches[-1].operator
    assert (operator.flops, operator.read_bytes, operator.written_bytes) == (128, 512, 32)


def test_gathers_read_what_they_give_and_their_indices(seen: Witness) -> None:
    npu.zeros((1000, 8)).take(np.array([1, 2, 3]), axis=0)
    operator = seen.launches[-1].operator
    assert (operator.read_bytes, operator.written_bytes) == (3 * 8 * 4 + 3 * 8, 3 * 8 * 4)


def test_out_is_given_back(host: Values) -> None:
    x, target = npu.array(host), npu.zeros(16)
    assert np.sum(x, axis=0, out=target) is target  # type: ignore[call-overload]  # by protocol
    assert_same(target, host.sum(axis=0), roundings=8)
    with pytest.raises(TypeError, match="out must be an array"):
        np.sum(x, axis=0, out=[0] * 16)  # type: ignore[call-overload]  # by protocol


def test_views_share_memory_as_numpys_do(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    allocated = len(seen.memory)
    x.reshape(-1)[0:16] = 0
    x.T[:, 1] = 1
    assert len(seen.memory) == allocated
    host[0], host[1] = 0, 1
    assert_same(x, host)


def test_a_shape_known_only_from_values_makes_the_host_wait(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    seen.clear()
    np.nonzero(x)
    assert seen.calls == ["aclrtSynchronizeStream"]
    assert seen.copies == [("device_to_host", 8)]


def test_comparisons_of_whole_arrays_are_answered_on_the_host(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    assert np.array_equal(x, host) is True
    assert seen.types == ["Equal", "ReduceAll"]
    assert np.allclose(x, host + 1) is False
    assert seen.types == ["IsClose", "ReduceAll"]
    assert np.array_equal(x, host[0]) is False
    assert seen.types == []
    assert np.count_nonzero(x) == np.count_nonzero(host)


def test_copyto_copies_in_every_direction(seen: Witness, host: Values) -> None:
    x = npu.zeros(host.shape)
    seen.clear()
    np.copyto(x, host)  # type: ignore[arg-type]  # by protocol
    assert seen.copies == [("host_to_device", host.nbytes)]
    assert_same(x, host)
    target = np.zeros_like(host)
    seen.clear()
    np.copyto(target, x)
    assert seen.copies == [("device_to_host", host.nbytes)]
    np.testing.assert_array_equal(target, host)


def test_descriptions_need_no_device(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    seen.clear()
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((8, 16), 2, 128)
    assert np.result_type(x, np.float64) == np.float64
    assert not np.iscomplexobj(x)
    assert (seen.launches, seen.copies, seen.calls) == ([], [], [])


def test_empty_like_computes_nothing(seen: Witness, host: Values) -> None:
    made: Any = np.empty_like(npu.array(host), dtype=np.int8)
    assert isinstance(made, NpuArray)
    assert (made.shape, made.dtype.name, seen.types) == ((8, 16), "int8", [])


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (np.linalg.inv, "np.linalg.inv"),
        (np.linalg.eigh, "np.linalg.eigh"),
        (np.fft.fft, "np.fft.fft"),
        (np.median, "np.median"),
        (np.array_repr, "np.array_repr"),
    ],
)
def test_missing_operator_says_what_to_do(seen: Witness, host: Values, function: Any, name: str) -> None:
    x = npu.array(host)
    seen.clear()
    with pytest.raises(TypeError) as raised:
        function(x)
    assert str(raised.value).startswith(f"{name} has no operator on the simulated NPU")
    assert "x.to_host()" in str(raised.value)
    assert (seen.launches, seen.copies, seen.calls) == ([], [], [])


def test_arrays_whose_meaning_is_more_than_values_are_refused(host: Values) -> None:
    with pytest.raises(TypeError):
        np.concatenate([npu.array(host), np.ma.masked_array(host, host > 0)])
