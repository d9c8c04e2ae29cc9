"""CANN's fused operators: one kernel for the work of several NumPy functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from npuprof.simulator.catalogue import FUSED_OPTIMIZERS
from npuprof.simulator.npu.calls import called
from npuprof.simulator.npu.operands import check_device, launch_on
from npuprof.simulator.npu.operators import kernel
from npuprof.simulator.npu.streams import DeviceArray, wrap

_Array = TypeVar("_Array", bound=DeviceArray)

_ROOT = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_ADAM_W = FUSED_OPTIMIZERS["_fused_adamw"]


@called
def gelu(x: _Array) -> _Array:
    """Compute the activation GELU with the tanh approximation, in one kernel."""
    values = x._values
    result = np.asarray(0.5 * values * (1 + _tanh(values)), values.dtype)
    launch_on(kernel("gelu"), [values], [result], x._device_id)
    return wrap(x, result)


@called
def gelu_backward(gradient: _Array, x: _Array) -> _Array:
    """Compute the gradient of :func:`gelu` at `x` in one kernel."""
    check_device(gradient, x._device_id)
    values = x._values
    tanh = _tanh(values)
    slope = 0.5 * (1 + tanh) + 0.5 * values * (1 - tanh**2) * _ROOT * (1 + 3 * _CUBIC * values**2)
    result = np.asarray(gradient._values * slope, values.dtype)
    launch_on(kernel("gelu_backward"), [gradient._values, values], [result], x._device_id)
    return wrap(x, result)


@called
def adam_w(
    weight: DeviceArray,
    gradient: DeviceArray,
    moments: Sequence[DeviceArray],
    *,
    rate: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    decay: float = 1e-2,
) -> None:
    """Update a weight and its two moments in place in one kernel, as AdamW without bias correction."""
    arrays = (weight, gradient, *moments)
    for array in arrays:
        check_device(array, weight._device_id)
    values, change, first, second = (array._values for array in arrays)
    first += (1 - betas[0]) * (change - first)
    second += (1 - betas[1]) * (change * change - second)
    values -= rate * (first / (np.sqrt(second) + eps) + decay * values)
    launch_on(_ADAM_W, [values, change, first, second], [values, first, second], weight._device_id)


def _tanh(values: np.ndarray) -> np.ndarray:
    return np.tanh(_ROOT * (values + _CUBIC * values**3))
