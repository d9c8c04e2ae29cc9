"""NumPy's front and torch's lower the same operator to the same kernel."""

from __future__ import annotations

import numpy as np
import pytest

from npuprof.simulator import catalogue, npu
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


def test_every_operator_has_one_place() -> None:
    # A name in two lists of the catalogue would silently be the later one.
    assert len(list(catalogue._kernels())) == len(catalogue.KERNELS)
