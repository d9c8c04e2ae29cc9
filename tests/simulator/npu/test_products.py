"""Matrix products: values, operators, lengths and operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.simulator import npu
from tests.simulator.npu.conftest import Witness
from tests.simulator.npu.strategies import FLOATS, INTEGERS, Values, arrays, assert_same

SHAPES = [
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((4, 1, 2, 3), (5, 3, 2)),
    ((3,), (5, 3, 4)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 2)),
]


@pytest.mark.slow
@settings(deadline=None)
@given(shapes=st.sampled_from(SHAPES), data=st.data())
def test_matmul_gives_what_numpy_gives(shapes: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject) -> None:
    kinds = (*FLOATS, *INTEGERS)
    first, second = (data.draw(arrays(shape, kinds)) for shape in shapes)
    assert_same(npu.array(first) @ npu.array(second), first @ second, roundings=8)
    assert_same(first @ npu.array(second), first @ second, roundings=8)


@pytest.mark.slow
@settings(deadline=None)
@given(shapes=st.sampled_from([pair for pair in SHAPES if len(pair[1]) < 3]), data=st.data())
def test_dot_gives_what_numpy_gives(shapes: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject) -> None:
    first, second = (data.draw(arrays(shape, FLOATS)) for shape in shapes)
    assert_same(npu.array(first).dot(npu.array(second)), np.asarray(first.dot(second)), roundings=8)


@pytest.mark.parametrize(
    ("first", "second", "op_type", "core", "shapes", "flops"),
    [
        ((64, 32), (32, 16), "MatMulV3", "AI_CORE", ((64, 32), (32, 16), (64, 16)), 2 * 64 * 32 * 16),
        ((4, 64, 32), (32, 16), "MatMulV3", "AI_CORE", ((256, 32), (32, 16), (256, 16)), 2 * 256 * 32 * 16),
        ((1, 32), (32, 16), "MatMulV2", "AI_CORE", ((1, 32), (32, 16), (1, 16)), 2 * 32 * 16),
        (
            (4, 8, 32),
            (4, 32, 16),
            "BatchMatMulV2",
            "AI_CORE",
            ((4, 8, 32), (4, 32, 16), (4, 8, 16)),
            2 * 4 * 8 * 32 * 16,
        ),
        ((8, 32), (4, 32, 16), "BatchMatMulV2", "AI_CORE", ((1, 8, 32), (4, 32, 16), (4, 8, 16)), 2 * 4 * 8 * 32 * 16),
        ((32,), (32,), "Dot", "AI_VECTOR_CORE", ((32,), (32,), ()), 2 * 32),
    ],
)
def test_a_product_launches_its_operator_with_its_true_work(
    seen: Witness, first: Any, second: Any, op_type: str, core: str, shapes: Any, flops: int
) -> None:
    result = npu.zeros(first, np.float16) @ npu.zeros(second, np.float16)
    operator = seen.launches[-1].operator
    assert (operator.op_type, operator.core, operator.flops) == (op_type, core, flops)
    assert tuple(each.shape for each in (*operator.inputs, *operator.outputs)) == shapes
    assert result.size * 2 == operator.written_bytes


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.complex64])
def test_unknown_cube_types_run_on_vector_cores(seen: Witness, dtype: Any) -> None:
    npu.ones((4, 4), dtype) @ npu.ones((4, 4), dtype)
    operator = seen.launches[-1].operator
    assert (operator.op_type, operator.core) == ("MatMul", "AI_VECTOR_CORE")


def test_operands_of_other_types_are_cast_first(seen: Witness) -> None:
    npu.ones((4, 4), np.float16) @ npu.ones((4, 4), np.float32)
    assert seen.types == ["OnesLike", "OnesLike", "Cast", "MatMulV3"]


def test_out_receives_the_product(seen: Witness) -> None:
    x, target = npu.ones((4, 4)), npu.zeros((4, 4))
    assert np.matmul(x, x, out=target) is target  # type: ignore[call-overload]  # by protocol
    assert_same(target, np.full((4, 4), 4, np.float32))


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        (lambda x, y: np.inner(x, y), 2 * 6 * 4 * 5),
        (lambda x, y: np.tensordot(x, y, axes=([1], [1])), 2 * 6 * 4 * 5),
        (lambda x, y: np.tensordot(x, y.T, axes=1), 2 * 6 * 4 * 5),
        (lambda x, y: np.vdot(x[:5], y[:5]), 2 * 25),
        (lambda x, y: np.dot(x, np.stack([y.T, y.T])), 2 * 6 * 5 * 2 * 4),
    ],
)
def test_functions_of_products_give_what_numpy_gives(seen: Witness, function: Any, flops: int) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((rows, 5)).astype(np.float32) for rows in (6, 4))
    if flops == 2 * 25:
        y = rng.standard_normal((5, 5)).astype(np.float32)
    found = function(npu.array(x), npu.array(y))
    assert seen.launches[-1].operator.flops == flops
    assert_same(found, function(x, y), roundings=8)


def test_a_product_with_a_scalar_is_a_multiplication(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    assert_same(np.dot(x, 2), host * 2)
    assert_same(np.inner(2, x), host * 2)
    assert [launch.operator.op_type for launch in seen.launches] == ["Mul", "Mul"]


@pytest.mark.skipif(not hasattr(np, "vecmat"), reason="NumPy has these from 2.2")
def test_products_of_vectors_give_what_numpy_gives(seen: Witness) -> None:
    a, v = np.random.default_rng(1).standard_normal((2, 3, 3)).astype(np.float32), np.ones((2, 3), np.float32)
    for function, operands in ((np.vecdot, (v, v)), (np.matvec, (a, v)), (np.vecmat, (v, a))):
        found = function(*map(npu.array, operands))  # type: ignore[call-overload]  # by protocol
        assert_same(found, function(*operands), roundings=8)
    assert [launch.operator.flops for launch in seen.launches] == [2 * 2 * 3, 2 * 2 * 9, 2 * 2 * 9]


def test_axes_of_matmul_are_refused(host: Values) -> None:
    x = npu.array(host)
    with pytest.raises(TypeError, match=r"np\.matmul has no operator"):
        np.matmul(x, x, axes=[(0, 1), (1, 0), (0, 1)])
