"""NumPy's functions on arrays of the simulated device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from npuprof.simulator.catalogue import generic
from npuprof.simulator.npu import operators, products
from npuprof.simulator.npu.einsum import einsum
from npuprof.simulator.npu.launches import launch_on, read_back
from npuprof.simulator.npu.operands import Operands, run, target_of, unsupported, wrapped
from npuprof.simulator.npu.operators import FUNCTIONS, Rule, kernel
from npuprof.simulator.npu.storage import DeviceArray

_COUNT = kernel("count_nonzero")
_BOOL_BYTES = 1
_COUNT_BYTES = 8


def apply(
    like: DeviceArray,
    function: Callable[..., Any],
    types: Iterable[type],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Compute a function of NumPy, as ``__array_function__`` is asked to.

    Returns
    -------
    object
        What NumPy gives, with arrays of the device for arrays; ``NotImplemented`` for types not known here.

    Raises
    ------
    TypeError
        If no operator computes it: it is never computed by the host in secret.
    """
    if not all(kind is np.ndarray or kind is np.memmap or issubclass(kind, DeviceArray) for kind in types):
        return NotImplemented
    if (handler := _HANDLERS.get(function)) is not None:
        return handler(like, *args, **kwargs)
    if (rule := FUNCTIONS.get(function)) is not None:
        return run(rule, like, function, args, kwargs)
    operands = Operands(like._device_id)
    if function in operators.DESCRIPTIONS or function in operators.VIEWS:
        arguments = [operands.take(value) for value in args]
        result = function(*arguments, **{name: operands.take(value) for name, value in kwargs.items()})
        return result if function in operators.DESCRIPTIONS else _viewed(like, result, operands)
    raise unsupported(_name(function))


def _viewed(like: DeviceArray, result: Any, operands: Operands) -> Any:
    """Return the views; one that NumPy could not give without a copy costs the device a copy too."""
    for each in result if isinstance(result, (list, tuple)) else [result]:
        if not any(np.may_share_memory(each, values) for values in operands.values):
            operands.upload()
            launch_on(kernel("copy"), operands.values, [np.asarray(each)], like._device_id)
    return wrapped(like, result, operands)


def _name(function: Callable[..., Any]) -> str:
    """Name a function as users write it."""
    module = function.__module__.replace("numpy", "np", 1).replace(".lib.", ".").split("._")[0]
    return f"{module}.{function.__name__}"


def _where(like: DeviceArray, condition: Any, *choices: Any) -> Any:
    if not choices:
        return np.nonzero(condition)
    return run(Rule(kernel("where")), like, np.where, (condition, *choices), {})


def _empty_like(like: DeviceArray, prototype: Any, **how: Any) -> Any:
    return like._make(np.empty_like(Operands(like._device_id).take(prototype), **how), like._device_id)


def _copyto(like: DeviceArray, dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    operands = Operands(like._device_id)
    target, source, mask = target_of(dst, like._device_id), operands.take_operand(src), operands.take(where)
    np.copyto(target, source, casting=casting, where=mask)
    if isinstance(dst, DeviceArray):
        operands.upload()
        launch_on(kernel("copy" if operands.values else "full"), operands.values, [target], like._device_id)
    else:
        read_back(target.nbytes, like._device_id)


def _compared(function: Callable[..., bool], first: str) -> Callable[..., bool]:
    """Make the handler of a comparison of whole arrays, whose answer the host waits for."""
    comparison = generic(first)

    def compare(like: DeviceArray, a: Any, b: Any, *args: Any, **kwargs: Any) -> bool:
        """Launch the comparison and its reduction, and look at the answer."""
        operands = Operands(like._device_id)
        left, right = operands.take_operand(a), operands.take_operand(b)
        answer = function(left, right, *args, **kwargs)
        operands.upload()
        if np.shape(left) == np.shape(right) or function is np.allclose:
            equal = np.empty(np.broadcast_shapes(np.shape(left), np.shape(right)), np.bool_)
            launch_on(comparison, operands.values, [equal], like._device_id)
            launch_on(kernel("all"), [equal], [np.empty((), np.bool_)], like._device_id)
            read_back(_BOOL_BYTES, like._device_id)
        return bool(answer)

    return compare


def _count_nonzero(like: DeviceArray, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    if axis is not None or keepdims:
        return run(Rule(_COUNT), like, np.count_nonzero, (a,), {"axis": axis, "keepdims": keepdims})
    operands = Operands(like._device_id)
    count = int(np.count_nonzero(operands.take(a)))
    launch_on(_COUNT, operands.values, [np.empty((), np.int64)], like._device_id)
    read_back(_COUNT_BYTES, like._device_id)
    return count


def _linalg(names: Iterable[str], handler: Callable[..., Any]) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the handlers of what newer NumPy repeats in ``np.linalg``."""
    return {getattr(np.linalg, name): handler for name in names if hasattr(np.linalg, name)}


def _matmul(_: DeviceArray, x1: Any, x2: Any) -> Any:
    return np.matmul(x1, x2)


_HANDLERS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    **_linalg(["matmul"], _matmul),
    **_linalg(["tensordot"], products.tensordot),
    np.dot: products.dot,
    np.inner: products.inner,
    np.vdot: products.vdot,
    np.tensordot: products.tensordot,
    np.einsum: einsum,
    np.where: _where,
    np.empty_like: _empty_like,
    np.copyto: _copyto,
    np.allclose: _compared(np.allclose, "IsClose"),
    np.array_equal: _compared(np.array_equal, "Equal"),
    np.count_nonzero: _count_nonzero,
}
