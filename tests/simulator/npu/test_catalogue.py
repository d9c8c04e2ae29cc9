"""NumPy's front and torch's lower the same operator to the same kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npuprof.simulator import catalogue, npu
from npuprof.simulator.cost_model import Tensor
from npuprof.simulator.npu import operators
from npuprof.simulator.torch_front.lowering import Call, lower
from tests.simulator.npu.conftest import Witness

_OF_INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift")


@pytest.mark.parametrize("name", operators.UFUNCS)
def test_a_ufunc_and_its_operator_of_torch_become_the_same_kernel(name: str, seen: Witness) -> None:
    ufunc = getattr(np, name)
    operand = npu.ones((4, 3), np.int32 if name in _OF_INTEGERS else np.float32)
    seen.clear()
    with np.errstate(all="ignore"):
        ufunc(*[operand] * ufunc.nin)
    (numpys,) = (launch.operator for launch in seen.launches)
    lowered = lower(Call(operators.UFUNCS[name], "Tensor", numpys.inputs, numpys.outputs))
    assert lowered.known
    (torchs,) = lowered.launches
    assert (numpys.op_type, numpys.name, numpys.api) == (torchs.kernel.op_type, torchs.kernel.node, torchs.kernel.api)
    assert (numpys.core, numpys.flops, numpys.read_bytes) == (torchs.kernel.core, torchs.flops, torchs.read_bytes)


@pytest.mark.parametrize(
    ("compute", "operator"),
    [
        (lambda x: x.var(), "var"),
        (lambda x: x.std(), "std"),
        (lambda x: np.sort(x), "sort"),
        (lambda x: np.argsort(x), "argsort"),
        (lambda x: x.take([2, 0], axis=0), "index_select"),
        (lambda x: np.take_along_axis(x, npu.array([[0, 1, 0]] * 4), 1), "gather"),  # type: ignore[arg-type]  # by protocol
        (lambda x: np.diagonal(x), "diagonal_copy"),
        (lambda x: np.nonzero(x), "nonzero"),
        (lambda x: np.where(x, x, x), "where"),
        (lambda x: x[[1, 2]], "index"),
        (lambda _: npu.arange(12), "arange"),
        (lambda _: npu.default_rng(0).standard_normal((4, 3)), "normal"),
        (lambda _: npu.default_rng(0).random((4, 3)), "uniform"),
        (lambda _: npu.default_rng(0).integers(0, 9, (4, 3)), "randint"),
        (lambda x: np.unique(x), "_unique2"),
    ],
)
def test_both_fronts_have_one_cost_of_an_operator(compute: Callable[[Any], Any], operator: str, seen: Witness) -> None:
    operand = npu.ones((4, 3))
    seen.clear()
    compute(operand)
    numpys = seen.launches[-1].operator
    (torchs,) = lower(Call(operator, "", numpys.inputs, numpys.outputs)).launches
    assert (numpys.op_type, numpys.name) == (torchs.kernel.op_type, torchs.kernel.node)
    assert (numpys.flops, numpys.read_bytes) == (torchs.flops, torchs.read_bytes)


def test_gather_costs_its_moved_bytes() -> None:
    indices, result = Tensor((2,), "int64"), Tensor((2, 8), "float32")
    for operator in ("embedding", "index_select", "gather", "take"):
        costs = {
            (launch.flops, launch.read_bytes)
            for rows in (10, 1_000_000)
            for launch in lower(Call(operator, "", (Tensor((rows, 8), "float32"), indices), (result,))).launches
        }
        assert costs == {(0, indices.size_bytes + result.size_bytes)}


def test_every_operator_has_one_place() -> None:
    # A name in two lists of the catalogue would silently be the later one.
    assert len(list(catalogue._kernels())) == len(catalogue.KERNELS)
