"""NumPy's ufuncs and their methods: values, operators, casts, ``out`` and ``where``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from npuprof.simulator import npu
from tests.simulator.npu.conftest import Witness
from tests.simulator.npu.strategies import FLOATS, Values, arrays, assert_same, dtypes, elements

UNARY = [np.exp, np.log, np.tanh, np.sqrt, np.negative, np.absolute, np.square, np.sign, np.isnan, np.cbrt, np.modf]
BINARY = [
    *(np.add, np.multiply, np.maximum, np.minimum, np.true_divide, np.floor_divide, np.remainder, np.divmod),
    *(np.greater, np.less_equal, np.equal, np.logical_and, np.hypot, np.power, np.arctan2),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@st.composite
def broadcastable(draw: st.DrawFn) -> list[Values]:
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=1, max_side=4)).input_shapes
    return [draw(arrays(shape)) for shape in shapes]


@pytest.mark.slow
@settings(deadline=None)
@given(ufunc=st.sampled_from(UNARY), values=arrays())
def test_unary_ufuncs_match_numpy(ufunc: np.ufunc, values: Values) -> None:
    try:
        expected = ufunc(values)
    except TypeError:
        with pytest.raises(TypeError):
            ufunc(npu.array(values))
        return
    assert_same(ufunc(npu.array(values)), expected, roundings=4)


@pytest.mark.slow
@settings(deadline=None)
@given(ufunc=st.sampled_from(BINARY), values=broadcastable(), mixed=st.sampled_from(["both", "left", "right"]))
def test_binary_ufuncs_match_numpy(ufunc: np.ufunc, values: list[Values], mixed: str) -> None:
    left = npu.array(values[0]) if mixed != "right" else values[0]
    right = npu.array(values[1]) if mixed != "left" else values[1]
    assert_same(ufunc(left, right), ufunc(*values), roundings=4)


@pytest.mark.slow
@settings(deadline=None)
@given(values=arrays(), scalar=st.one_of(st.integers(0, 5), st.booleans(), st.sampled_from([0.5, 2.0, -1.0])))
def test_operators_with_scalars_give_what_numpy_gives(values: Values, scalar: float) -> None:
    array = npu.array(values)
    assert_same(array + scalar, values + scalar)
    assert_same(scalar * array, scalar * values)
    assert_same(array > scalar, values > scalar)
    assert_same(array / 4, values / 4)


@pytest.mark.slow
@settings(deadline=None)
@given(values=arrays(kinds=FLOATS), exponent=st.sampled_from([0, 1, 2, 3, -1, 0.5, 2.0, 1.5]))
def test_powers_give_what_numpy_gives(values: Values, exponent: float) -> None:
    assert_same(npu.array(values) ** exponent, values**exponent, roundings=4)


@pytest.mark.slow
@settings(deadline=None)
@given(
    ufunc=st.sampled_from([np.add, np.multiply, np.maximum, np.logical_or]),
    values=arrays(min_side=1, min_dims=1),
    keepdims=st.booleans(),
    data=st.data(),
)
def test_reductions_by_a_ufunc_give_what_numpy_gives(
    ufunc: np.ufunc, values: Values, keepdims: bool, data: st.DataObject
) -> None:
    axis = data.draw(st.one_of(st.none(), st.integers(-values.ndim, values.ndim - 1)))
    found = ufunc.reduce(npu.array(values), axis=axis, keepdims=keepdims)
    assert_same(found, ufunc.reduce(values, axis=axis, keepdims=keepdims), roundings=4)


@pytest.mark.slow
@settings(deadline=None)
@given(values=arrays(min_dims=1), others=arrays(min_dims=1, kinds=(np.float32,)))
def test_accumulate_and_outer_give_what_numpy_gives(values: Values, others: Values) -> None:
    assert_same(np.add.accumulate(npu.array(values)), np.add.accumulate(values), roundings=4)
    assert_same(np.multiply.outer(npu.array(values), others), np.multiply.outer(values, others))


@pytest.mark.slow
@settings(deadline=None)
@given(dtype=dtypes(*FLOATS), indices=st.lists(st.integers(0, 3), min_size=1, max_size=6), data=st.data())
def test_at_adds_repeatedly_in_place(dtype: np.dtype[Any], indices: list[int], data: st.DataObject) -> None:
    updates = data.draw(hnp.arrays(dtype, len(indices), elements=elements(dtype)))
    expected = np.zeros(4, dtype)
    np.add.at(expected, indices, updates)
    found = npu.zeros(4, dtype)
    np.add.at(found, indices, npu.array(updates))
    assert_same(found, expected)


@pytest.mark.parametrize(
    ("expression", "op_type", "api"),
    [
        (lambda x: x + x, "Add", "aclnnAdd"),
        (lambda x: x - 1, "Sub", "aclnnSubs"),
        (lambda x: x * 2, "Mul", "aclnnMuls"),
        (lambda x: x / x, "RealDiv", "aclnnDiv"),
        (lambda x: -x, "Neg", "aclnnNeg"),
        (lambda x: abs(x), "Abs", "aclnnAbs"),
        (lambda x: x**2, "Square", "aclnnSquare"),
        (lambda x: x**3, "Pows", "aclnnPowTensorScalar"),
        (lambda x: x**x, "Pow", "aclnnPowTensorTensor"),
        (lambda x: x > 0, "Greater", "aclnnGtScalar"),
        (lambda x: x == x, "Equal", "aclnnEqTensor"),
        (lambda x: np.maximum(x, 0), "Maximum", "aclnnMaximum"),
        (lambda x: np.tanh(x), "Tanh", "aclnnTanh"),
        (lambda x: np.float_power(x, x), "FloatPower", "aclnnFloatPower"),
        (lambda x: np.add.reduce(x), "ReduceSum", "aclnnReduceSum"),
        (lambda x: np.logaddexp.reduce(x), "ReduceLogaddexp", "aclnnReduceLogaddexp"),
        (lambda x: np.multiply.accumulate(x), "Cumprod", "aclnnCumprod"),
    ],
)
def test_an_expression_launches_its_operator_on_the_vector_cores(
    seen: Witness, host: Values, expression: Any, op_type: str, api: str
) -> None:
    x = npu.array(host)
    expression(x)
    operator = seen.launches[-1].operator
    assert (operator.op_type, operator.api, operator.core) == (op_type, api, "AI_VECTOR_CORE")
    assert operator.name == f"{api}_{op_type}AiCore_{op_type}"


def test_elementwise_operator_moves_operands_once(seen: Witness, host: Values) -> None:
    npu.array(host) + npu.array(host[0])
    operator = seen.launches[-1].operator
    assert operator.flops == 8 * 16
    assert (operator.read_bytes, operator.written_bytes) == (4 * (8 * 16 + 16), 4 * 8 * 16)


def test_operands_of_other_types_are_cast_first(seen: Witness, host: Values) -> None:
    half = npu.array(host.astype(np.float16))
    half + npu.array(host)
    first, second = seen.launches
    assert (first.operator.op_type, first.types) == ("Cast", (["float16"], ["float32"]))
    assert (second.operator.op_type, second.types) == ("Add", (["float32", "float32"], ["float32"]))


def test_results_are_cast_to_the_type_of_out(seen: Witness, host: Values) -> None:
    half = npu.array(host.astype(np.float16))
    expected = host.astype(np.float16)
    expected += host
    half += npu.array(host)
    assert [launch.types for launch in seen.launches] == [
        (["float16"], ["float32"]),
        (["float32", "float32"], ["float32"]),
        (["float32"], ["float16"]),
    ]
    assert_same(half, expected)


def test_in_place_operators_write_to_the_array_itself(seen: Witness, host: Values) -> None:
    x = kept = npu.array(host)
    allocated = len(seen.memory)
    x += 1
    x *= x
    assert x is kept
    assert [launch.operator.api for launch in seen.launches] == ["aclnnInplaceAdds", "aclnnInplaceMul"]
    assert len(seen.memory) == allocated
    assert_same(x, (host + 1) * (host + 1))


def test_a_host_operand_is_copied_to_the_device_first(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    seen.clear()
    assert_same(host[0] * x, host[0] * host)
    assert seen.copies[0] == ("host_to_device", 16 * 4)


def test_a_scalar_travels_with_the_launch(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    seen.clear()
    np.float32(3) * x
    assert not seen.copies


def test_out_on_the_host_is_copied_and_waited_for(seen: Witness, host: Values) -> None:
    target = np.zeros_like(host)
    result = np.add(npu.array(host), 1, out=target)
    assert result is target
    np.testing.assert_array_equal(target, host + 1)
    assert seen.copies[-1] == ("device_to_host", target.nbytes)
    assert seen.calls == ["aclrtSynchronizeStream"]


def test_where_selects_after_computing(seen: Witness, host: Values) -> None:
    expected = host.copy()
    np.negative(host, out=expected, where=host > 0)
    x = npu.array(host)
    y = npu.array(host)
    np.negative(x, out=y, where=x > 0)  # type: ignore[call-overload]  # by protocol
    assert seen.types == ["Greater", "Neg", "SelectV2"]
    assert_same(y, expected)


def test_several_results_come_from_one_launch(seen: Witness, host: Values) -> None:
    quotient, rest = divmod(npu.array(host), 0.5)
    assert seen.types == ["Divmod"]
    assert_same((quotient, rest), divmod(host, np.float32(0.5)))


def test_an_error_of_numpy_launches_nothing(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    seen.clear()
    with pytest.raises(ValueError, match="broadcast"):
        x + np.ones(5)
    assert not seen.launches
    assert not seen.copies


def test_methods_without_an_operator_say_what_to_do(host: Values) -> None:
    x = npu.array(host)
    with pytest.raises(TypeError, match=r"np\.add\.reduceat has no operator .* x\.to_host\(\)"):
        np.add.reduceat(x, [0, 1])
    with pytest.raises(TypeError, match=r"np\.hypot\.at has no operator"):
        np.hypot.at(x, [0], 1.0)


def test_arrays_whose_meaning_is_more_than_values_are_refused(host: Values) -> None:
    with pytest.raises(TypeError):
        npu.array(host) + np.ma.masked_array(host, host > 0)


def test_arrays_of_two_devices_are_refused(host: Values) -> None:
    with pytest.raises(ValueError, match="devices 0 and 1"):
        npu.array(host) + npu.array(host, device=1)
    with pytest.raises(ValueError, match="devices 0 and 1"):
        np.add(host, npu.array(host), out=npu.array(host, device=1))  # type: ignore[call-overload]  # by protocol


def test_a_result_that_devices_cannot_hold_launches_nothing(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    with pytest.raises(TypeError, match="an NPU has no data type"):
        np.add(x, 1, dtype=np.longdouble)
    assert seen.types == []
