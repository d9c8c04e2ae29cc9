"""The values that ranks exchange: NumPy arrays, arrays of the simulated NPU, and tensors of torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from npuprof.simulator.npu.storage import DeviceArray, wrap
from npuprof.simulator.tensors import Tensor

ReduceOperator: TypeAlias = Literal["sum", "prod", "max", "min"]

_NUMPY: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
)
_TORCH: Mapping[str, str] = MappingProxyType({"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"})


def describe(value: Any) -> Tensor:
    """Describe an array or tensor.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if _is_tensor(value):
        return Tensor(tuple(value.shape), str(value.dtype).rpartition(".")[2])
    values = _values(value)
    return Tensor(values.shape, values.dtype.name)


def snapshot(value: Any) -> Any:
    """Copy the values, as plain NumPy array or tensor, so that their owner may change them."""
    with _unseen(value):
        return value.detach().clone() if _is_tensor(value) else _values(value).copy()


def reduced(values: Sequence[Any], operator: ReduceOperator) -> Any:
    """Put values together one by one, in their order, so that every rank gets the same bits.

    Raises
    ------
    ValueError
        If there is no such operator.
    """
    if operator not in _NUMPY:
        raise ValueError(f"ranks cannot reduce with {operator!r}: choose from {', '.join(_NUMPY)}")
    first = values[0]
    if _is_tensor(first):
        function = getattr(sys.modules["torch"], _TORCH[operator])
        with _unseen(first):
            return reduce(function, values)
    return reduce(_NUMPY[operator], values)


def part(value: Any, number: int, count: int) -> Any:
    """Return one of `count` equal parts along the first axis, as plain values of its own.

    Raises
    ------
    ValueError
        If the axis cannot be divided evenly.
    """
    shape = tuple(value.shape)
    if not shape or shape[0] % count:
        raise ValueError(f"an array of shape {shape} has no {count} equal parts along its first axis")
    length = shape[0] // count
    with _unseen(value):
        return snapshot(value[number * length : (number + 1) * length])


def store(target: Any, values: Any) -> None:
    """Replace the values of an array or tensor of the same shape by plain ones."""
    if _is_tensor(target):
        with _unseen(target), sys.modules["torch"].no_grad():
            target.copy_(values)
    else:
        np.copyto(_values(target), values)


def like(pattern: Any, values: Any) -> Any:
    """Return plain values as what the caller works with: an array of the NPU where the pattern is one."""
    return wrap(pattern, values) if isinstance(pattern, DeviceArray) else values


def _values(value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    plain = value._values if isinstance(value, DeviceArray) else value
    if not isinstance(plain, np.ndarray):
        raise TypeError(
            f"ranks exchange NumPy arrays, arrays of the simulated NPU and tensors, not {type(value).__name__}"
        )
    return plain


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _unseen(value: Any) -> AbstractContextManager[Any]:
    """Keep what is done with tensors from the simulated device: the collective is what it runs."""
    if not _is_tensor(value):
        return nullcontext()
    manager: AbstractContextManager[Any] = sys.modules["torch.utils._python_dispatch"]._disable_current_modes()
    return manager
