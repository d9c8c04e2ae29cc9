"""Fused operators: their values are those of NumPy's steps, and each is one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from npuprof.simulator import Simulator, npu


def _gelu(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    result: npt.NDArray[np.float64] = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return result


def test_gelu_and_its_gradient() -> None:
    x = np.linspace(-4, 4, 33)
    assert npu.gelu(npu.array(x)).to_host() == pytest.approx(_gelu(x))
    slope = (_gelu(x + 1e-6) - _gelu(x - 1e-6)) / 2e-6
    gradient = npu.gelu_backward(npu.full(x.shape, 3.0, np.float64), npu.array(x)).to_host()
    assert gradient == pytest.approx(3 * slope, abs=1e-6)


def test_adam_w_changes_weight_and_moments_in_place() -> None:
    weight, gradient = npu.array([1.0, -2.0]), npu.array([0.5, 0.25])
    first, second = npu.zeros(2, np.float64), npu.zeros(2, np.float64)
    npu.adam_w(weight, gradient, (first, second), rate=0.1, betas=(0.9, 0.99), eps=0.0, decay=0.5)
    assert first.to_host() == pytest.approx([0.05, 0.025])
    assert second.to_host() == pytest.approx([0.0025, 0.000625])
    assert weight.to_host() == pytest.approx([1 - 0.1 * (1 + 0.5), -2 - 0.1 * (1 - 1)])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: npu.gelu(x),
        lambda x: npu.gelu_backward(x, x),
        lambda x: npu.adam_w(x, x, (x, x)),
    ],
    ids=["gelu", "gelu_backward", "adam_w"],
)
def test_each_is_one_kernel(call: Any, machine: Simulator) -> None:
    x = npu.ones((4, 4))
    before = machine.device(0).default_stream.next_task_id
    call(x)
    assert machine.device(0).default_stream.next_task_id == before + 1
