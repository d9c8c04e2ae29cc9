"""Compositions that models are made of, written as ordinary NumPy: values, and the operators they launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npuprof.simulator import npu
from tests.simulator.npu.conftest import Witness
from tests.simulator.npu.strategies import Values, assert_same


def softmax(x: Any) -> Any:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def layer_norm(x: Any, scale: Any, offset: Any) -> Any:
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(np.square(centred), axis=-1, keepdims=True) + 1e-5) * scale + offset


def attention(query: Any, key: Any, value: Any) -> Any:
    scores = query @ np.swapaxes(key, -1, -2) * query.shape[-1] ** -0.5
    return softmax(scores) @ value


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def cross_entropy(logits: Any, labels: Values) -> Any:
    picked = softmax(logits)[np.arange(len(labels)), labels]
    return -np.mean(np.log(picked))


def _values(*shape: int) -> Values:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


SOFTMAX = ["ReduceMax", "Sub", "Exp", "ReduceSum", "RealDiv"]


@pytest.mark.parametrize(
    ("program", "operands", "types"),
    [
        (softmax, [_values(8, 16)], SOFTMAX),
        (
            layer_norm,
            [_values(8, 16), _values(16), _values(16)],
            ["ReduceMean", "Sub", "Square", "ReduceMean", "Add", "Sqrt", "RealDiv", "Mul", "Add"],
        ),
        (
            attention,
            [_values(2, 4, 8, 16)] * 3,
            ["Transpose", "BatchMatMulV2", "Mul", *SOFTMAX, "BatchMatMulV2"],
        ),
        (gelu, [_values(8, 16)], ["Mul", "Pows", "Mul", "Add", "Mul", "Tanh", "Add", "Mul"]),
    ],
)
def test_compositions_match_numpy(seen: Witness, program: Any, operands: list[Values], types: list[str]) -> None:
    found = program(*map(npu.array, operands))
    assert seen.types == types
    assert_same(found, program(*operands), roundings=16)


def test_a_loss_stays_on_the_device_until_it_is_looked_at(seen: Witness) -> None:
    logits, labels = _values(8, 10), np.arange(8)
    x = npu.array(logits)
    seen.clear()
    loss = cross_entropy(x, labels)
    assert seen.calls == []
    assert_same(loss, cross_entropy(logits, labels), roundings=16)


def test_gradient_descent_finds_what_numpy_finds() -> None:
    def train(weights: Any, inputs: Any, targets: Any) -> Any:
        for _ in range(5):
            error = inputs @ weights - targets
            weights -= 0.01 * (inputs.T @ error)
        return weights

    inputs, targets = _values(32, 8), _values(32, 4)
    start = np.zeros((8, 4), np.float32)
    found = train(npu.array(start), npu.array(inputs), npu.array(targets))
    assert_same(found, train(start, inputs, targets), roundings=16)
